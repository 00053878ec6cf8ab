"""Which venue names the table does not know, how often they come, and what they are nearest to."""

import difflib
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers import venues
from hindsight_fast.papers.venue_table import Table, fold

CLASSES: Final = ("top", "known", "preprint", "side_event", "undecided", "unmatched", "none")
"""What a name may be, in this order: a top venue, another of the table, a preprint server, a
workshop or the like, a submission without success so far, a name that the table lacks, nothing."""

_NEAR: Final = 0.75  # share of letters in common, in order; below, a name is no hint
_SHORT: Final = 8  # letters; of short names nearly all must agree
_LOOKED_AT: Final = 8


class Checked(NamedTuple):
    """What the names of some records are.

    Attributes
    ----------
    counts : dict of str to int
        Records by class, in the order of `CLASSES`.
    unmatched : polars.DataFrame
        Columns ``venue`` (as written), ``n`` (records) and ``nearest`` (name in the table, null
        where none is near): the most frequent first.
    n_unmatched : int
        How many different names are unmatched.
    """

    counts: dict[str, int]
    unmatched: pl.DataFrame
    n_unmatched: int


def check(columns: Iterable[pl.Series], table: Table, most: int) -> Checked:
    """Check the venues of records.

    Parameters
    ----------
    columns : iterable of polars.Series of String
        Names as written or resolved, of some records each.
    table : Table
    most : int
        List so many unmatched names.
    """
    tally = Counter[str | None]()
    for column in columns:
        tally.update(dict(column.value_counts().iter_rows()))
    names = pl.DataFrame(
        {"venue": list(tally), "n": list(tally.values())},
        schema={"venue": pl.String, "n": pl.Int64},
    )
    names = names.with_columns(class_of(names["venue"], table))
    by_class = dict(names.group_by("class").agg(pl.col("n").sum()).iter_rows())
    unmatched = names.filter(pl.col("class") == "unmatched").sort(
        "n", "venue", descending=[True, False]
    )
    shown = unmatched.select("venue", "n").head(most)
    nearest = Nearest(table)
    found = pl.Series("nearest", [nearest.to(name) for name in shown["venue"]], dtype=pl.String)
    counts = {name: int(by_class.get(name, 0)) for name in CLASSES}
    return Checked(counts, shown.with_columns(found), unmatched.height)


def class_of(names: pl.Series, table: Table) -> pl.Series:
    """Tell the class (`CLASSES`) of each name, as written or resolved."""
    resolved = venues.resolve(names, table)
    classes = pl.repeat("unmatched", len(names), dtype=pl.String, eager=True)
    for name, holds in (
        ("undecided", venues.is_undecided(resolved, table)),
        ("side_event", venues.is_side_event(resolved, table)),
        ("preprint", venues.is_preprint(resolved, table)),
        ("known", venues.is_known(resolved, table)),
        ("top", venues.is_top(resolved, table)),
        ("none", resolved.is_null()),
    ):
        classes = classes.set(holds, name)
    return classes.alias("class")


class Nearest:
    """Finds the venue that a name probably means: one whose alias it contains, or is most like."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._aliases = list(table.names)
        self._short = {name for name in table.names.values() if sum(map(str.isupper, name)) > 1}
        pairs = [_pairs(alias) for alias in self._aliases]
        self._row = {pair: row for row, pair in enumerate(sorted(set[str]().union(*pairs)))}
        self._has = np.zeros((len(self._row), len(pairs)), dtype=np.float32)
        for column, those in enumerate(pairs):
            self._has[[self._row[pair] for pair in those], column] = 1
        self._sizes = np.array([len(those) for those in pairs], dtype=np.float32)

    def to(self, name: str) -> str | None:
        """Name in the table; None where none is near."""
        words = self._table.words(fold(name))
        contained = self._contained(words) or self._short_name_in(name)
        if contained is not None:
            return contained
        own = " ".join(words)
        likeness = {column: _likeness(own, self._aliases[column]) for column in self._first(own)}
        best = max(likeness, key=lambda column: (likeness[column], -column), default=None)
        if best is None or likeness[best] < _NEAR:
            return None
        return self._table.names[self._aliases[best]]

    def _contained(self, words: list[str]) -> str | None:
        """The longest alias of several words that is part of a name."""
        spans = (
            (end - start, start)
            for start in range(len(words))
            for end in range(start + 2, len(words) + 1)
        )
        for length, start in sorted(spans, key=lambda span: (-span[0], span[1])):
            venue = self._table.names.get(" ".join(words[start : start + length]))
            if venue is not None:
                return venue
        return None

    def _short_name_in(self, name: str) -> str | None:
        """The first acronym of a venue in a name, as it is usually written."""
        return next((word for word in re.findall("[A-Za-z]+", name) if word in self._short), None)

    def _first(self, own: str) -> list[int]:
        """The aliases that share most pairs of letters (Dice's coefficient)."""
        pairs = _pairs(own)
        rows = [self._row[pair] for pair in pairs if pair in self._row]
        dice: NDArray[np.float32] = 2 * self._has[rows].sum(axis=0) / (self._sizes + len(pairs))
        return [int(column) for column in np.argsort(-dice, kind="stable")[:_LOOKED_AT]]


def _pairs(text: str) -> set[str]:
    return {text[place : place + 2] for place in range(len(text) - 1)} or {text}


def _likeness(one: str, other: str) -> float:
    if min(len(one), len(other)) < _SHORT and abs(len(one) - len(other)) > 1:
        return 0.0
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
