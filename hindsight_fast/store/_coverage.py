"""What the papers of a store are and have, counted; and whether that is less than it was."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindsight_fast.errors import DataError
from hindsight_fast.papers import venues
from hindsight_fast.store._read import Store

FEWEST: Final = 100  # papers: what fewer of them have says little of what a source has
_DROP: Final = (4, 5)  # of a share, below which it has dropped
_HAVE: Final = {
    "abstract": "an abstract",
    "date": "a date",
    "venue": "a venue",
    "citations": "a known number of citations",
}
_TALLIED: Final = ("status", "date_kind", "date_precision", "date_origin")


def tally(values: pl.Series) -> dict[str, int]:
    """Count the values of a column of text, nulls left out, in alphabetical order."""
    counted = values.drop_nulls().value_counts().sort(values.name)
    return dict(zip(counted[values.name].to_list(), counted["count"].to_list(), strict=True))


class Coverage:
    """Counts papers, a part after the other.

    Parameters
    ----------
    table
        Venues that are known.
    """

    def __init__(self, table: venues.Table) -> None:
        self.n = 0
        self._table = table
        self._tallies = {name: Counter[str]() for name in _TALLIED}
        self._have = Counter[str](dict.fromkeys(_HAVE, 0))
        self._known = Counter[str](citations_known=0, venue_known=0, both_known=0)

    def add(self, papers: pl.DataFrame) -> None:
        """Count more papers."""
        self.n += papers.height
        for name, counter in self._tallies.items():
            counter.update(tally(papers[name]))
        self._have.update(have(papers))
        cited = papers["citations"].is_not_null()
        venue = venues.is_known(papers["venue"], self._table)
        self._known["citations_known"] += int(cited.sum())
        self._known["venue_known"] += int(venue.sum())
        self._known["both_known"] += int((cited & venue).sum())

    @property
    def have(self) -> dict[str, int]:
        """How many papers have an abstract, a date, a venue of any name, citations."""
        return dict(self._have)

    def facts(self) -> dict[str, Any]:
        """All counts, for a manifest."""
        tallies = {name: dict(sorted(counter.items())) for name, counter in self._tallies.items()}
        undated = {"undated": self.n - self._have["date"], "have": self.have}
        return tallies | undated | self._known


def have(papers: pl.DataFrame) -> dict[str, int]:
    """How many papers have an abstract, a date, a venue of any name, citations."""
    empty = int((papers["abstract"] == "").sum())
    return {name: papers[name].count() - (empty if name == "abstract" else 0) for name in _HAVE}


def check_shares(old: Store, out: Path, n: int, now: Mapping[str, int]) -> None:
    """Refuse papers of which far fewer have something than of those of an earlier store.

    Parameters
    ----------
    old
        The earlier store.
    out, n, now
        The new one, how many its papers are, and how many of them have what (`have`).

    Raises
    ------
    DataError
        A share has dropped by more than a fifth of what it was.
    """
    if min(old.n, n) < FEWEST:
        return
    before = _have_of(old)
    fewer, whole = _DROP
    dropped = [name for name in _HAVE if whole * now[name] * old.n < fewer * before[name] * n]
    if dropped:
        told = "; ".join(
            f"{now[name] / n:.1%} ({now[name]:,} of {n:,}) have {_HAVE[name]}, where it was "
            f"{before[name] / old.n:.1%} ({before[name]:,} of {old.n:,}) in {old.path}"
            for name in dropped
        )
        raise DataError(
            f"{out}: of the papers, {told}; is a source incomplete? Give --allow-drop to build it "
            "all the same"
        )


def _have_of(store: Store) -> Mapping[str, int]:
    told: dict[str, int] | None = store.manifest.body.get("coverage", {}).get("have")
    if told is not None:
        return told
    found = Counter[str](dict.fromkeys(_HAVE, 0))  # of a store of format 1
    for papers in store.pieces(*_HAVE):
        found.update(have(papers))
    return found
