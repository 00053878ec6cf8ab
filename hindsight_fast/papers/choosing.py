"""Choosing papers: conditions in SQL over the columns of a paper, and topics by name.

A condition is what SQL's WHERE takes, over `PAPER_SCHEMA`: ``year >= 2023 and venue in ('ICLR',
'ICML')``, ``kind = 'survey'``, ``field ilike '%computer%'``, ``date >= date '2023-06-01'``. As in
SQL, a condition on something unknown does not hold, nor does its negation; say ``language is null
or language = 'en'`` where the unknown is wanted too.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from hindsight_fast.errors import UsageError
from hindsight_fast.papers.schema import PAPER_SCHEMA

FROM_TEXT: Final = frozenset(
    (
        *("abstract", "language", "license", "status", "tldr", "topics"),
        *("citations_as_of", "citations_dated", "doi", "arxiv_id"),
        *("date", "date_precision", "date_kind", "date_origin"),  # an arXiv id refines a bare year
    )
)
"""Columns that depend on more than a record's short facts: known only once texts are joined."""

_WORDS = frozenset(
    ["and", "or", "not", "in", "like", "ilike", "between", "when", "then", "else", "case"]
)
_FUNCTIONS = frozenset(
    [
        "array_contains",
        "array_length",
        "cast",
        "coalesce",
        "extract",
        "ifnull",
        "left",
        "length",
        "lower",
        "nullif",
        "regexp_like",
        "right",
        "starts_with",
        "ends_with",
        "strpos",
        "substr",
        "trim",
        "upper",
    ]
)
"""All of them look at one row at a time; SQL has others that don't (``max``, ``rank``)."""

_QUOTED = re.compile(r"'(?:[^']|'')*'")
_CALLED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\"?\s*\(")
_SELECT = re.compile(r"\b(?:select|over)\b", re.IGNORECASE)

_ROWS = pl.DataFrame(schema=PAPER_SCHEMA)


@dataclass(frozen=True, slots=True)
class Where:
    """Conditions that must all hold, and topics of which one must.

    Attributes
    ----------
    conditions
        As given.
    topics
        Names; empty: any paper will do.

    Raises
    ------
    UsageError
        A condition is no SQL, names a column that papers lack, or is not about one row at a time.
    """

    conditions: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    _parsed: tuple[pl.Expr, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_parsed", tuple(map(_parse, self.conditions)))

    def __bool__(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.conditions or self.topics)

    @property
    def columns(self) -> list[str]:
        """Columns that the conditions look at, in the order of `PAPER_SCHEMA`."""
        named = {name for parsed in self._parsed for name in parsed.meta.root_names()}
        if self.topics:
            named.add("topics")
        return [name for name in PAPER_SCHEMA if name in named]

    def early(self) -> "Where":
        """Return those conditions that can be decided before texts are joined."""
        known = [
            condition
            for condition, parsed in zip(self.conditions, self._parsed, strict=True)
            if not FROM_TEXT.intersection(parsed.meta.root_names())
        ]
        return Where(tuple(known))

    def mask(self, papers: pl.DataFrame) -> pl.Series:
        """Tell which papers are chosen.

        Parameters
        ----------
        papers
            n rows with (at least) `columns`, typed as in `PAPER_SCHEMA`.

        Returns
        -------
        polars.Series of Boolean
            n values, none null.

        Raises
        ------
        UsageError
            A condition can't be worked out on these values (a text that should be a number).
        """
        chosen = pl.repeat(True, papers.height, dtype=pl.Boolean, eager=True)
        for condition, parsed in zip(self.conditions, self._parsed, strict=True):
            chosen &= _holds(condition, parsed, papers)
        if self.topics:
            one_of = pl.col("topics").list.set_intersection(list(self.topics)).list.len() > 0
            chosen &= papers.select(one_of.fill_null(False)).to_series()
        return chosen.alias("chosen")


def _parse(condition: str) -> pl.Expr:
    """Parse one condition and try it on no rows."""
    bare = _QUOTED.sub(" ", condition)
    called = {name.lower() for name in _CALLED.findall(bare)} - _WORDS - _FUNCTIONS
    if called or _SELECT.search(bare):
        raise UsageError(
            f"--where {condition!r}: {min(called, default='select or over')} can't be used, only "
            f"what looks at one paper at a time: {', '.join(sorted(_FUNCTIONS))}"
        )
    try:
        parsed = pl.sql_expr(condition)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError) as error:
        raise UsageError(f"--where {condition!r} is no SQL condition: {_first(error)}") from None
    unknown = [name for name in parsed.meta.root_names() if name not in PAPER_SCHEMA]
    if unknown:
        close = difflib.get_close_matches(unknown[0].lower(), PAPER_SCHEMA, 1)
        hint = f"; did you mean {close[0]}?" if close else "."
        raise UsageError(
            f"--where {condition!r}: papers have no column {unknown[0]!r}{hint} Texts stand in "
            f"single quotes; columns are: {', '.join(PAPER_SCHEMA)}"
        )
    found = _tried(condition, parsed, _ROWS).dtype
    if found != pl.Boolean:
        raise UsageError(f"--where {condition!r} is a {found}, no condition that holds or not")
    return parsed


def _holds(condition: str, parsed: pl.Expr, papers: pl.DataFrame) -> pl.Series:
    found = _tried(condition, parsed, papers)
    if len(found) == 1 and papers.height != 1:  # a condition that looks at no column
        found = found.new_from_index(0, papers.height)
    return found.fill_null(False)


def _tried(condition: str, parsed: pl.Expr, papers: pl.DataFrame) -> pl.Series:
    try:
        return papers.select(parsed.alias("chosen")).to_series()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise UsageError(
            f"--where {condition!r} can't be worked out: {_first(error)} (dates are written "
            "date '2023-06-01', texts in single quotes, a topic array_contains(topics, 'NAME'))"
        ) from None


def _first(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:200]


def check_topics(wanted: Sequence[str], known: Sequence[str]) -> None:
    """Check that topics are known by these names.

    Raises
    ------
    UsageError
        One is not.
    """
    for name in wanted:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            there = ", ".join(known) or "none (see build --topics)"
            raise UsageError(f"no topic {name!r}{hint} Known to the papers are: {there}")
