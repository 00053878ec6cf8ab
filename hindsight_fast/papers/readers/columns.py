"""Lists of values to raw columns of papers."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from hindsight_fast.papers.readers._batch import Batch
from hindsight_fast.papers.readers.lines import is_list
from hindsight_fast.papers.records import RAW_SCHEMA
from hindsight_fast.papers.schema import REJECT_SCHEMA
from hindsight_fast.papers.text import without_surrogates

NAMES = tuple(name for name in RAW_SCHEMA if name != "line")
"""Columns that a reader may fill."""

BAD_SCHEMA = {name: dtype for name, dtype in REJECT_SCHEMA.items() if name != "file"}

Bads = list[tuple[int, str, str]]
"""Records that can't be used: line, reason, how it begins."""

_NONE = type(None)
_SPLIT = r"\s*;\s*|\s+and\s+"
_BETWEEN = "\x1f"  # no name holds it


class Columns:
    """Raw columns of some records, added one by one; those left out are null.

    Parameters
    ----------
    numbers : sequence of int
        Line of each record.
    bad : list of (int, str, str)
        Records that could not be read.
    shown : callable
        ``shown(row)`` tells how a record begins, should one of its values be no text.
    """

    def __init__(self, numbers: Sequence[int], bad: Bads, shown: Callable[[int], str]) -> None:
        self._n = len(numbers)
        self._columns = {"line": pl.Series("line", numbers, dtype=pl.Int64)}
        self._bad = bad
        self._shown = shown
        self._refused: dict[int, str] = {}

    def texts(self, name: str, values: Sequence[Any]) -> pl.Series:
        """Add text, numbers or lists of them; an object makes its record a reject."""
        self._columns[name] = self._texts(name, values).alias(name)
        return self._columns[name]

    def _texts(self, name: str, values: Sequence[Any]) -> pl.Series:
        try:
            return pl.Series(values, dtype=pl.String)  # the usual: text and nulls
        except (TypeError, UnicodeEncodeError):
            pass
        try:
            if set(map(type, values)) <= {int, _NONE}:
                return pl.Series(values, dtype=pl.Int64).cast(pl.String)
        except (OverflowError, TypeError):
            pass
        texts: list[str | None] = []
        for row, value in enumerate(values):
            try:
                texts.append(as_text(value))
            except TypeError:
                texts.append(None)
                self._refused.setdefault(row, f"{name} is no text but an object")
        return pl.Series(texts, dtype=pl.String)

    def joined(self, name: str, values: Iterable[Iterable[Any] | None]) -> None:
        """Add lists of words, separated by semicolons."""
        self.texts(name, [_joined(words, "; ") for words in values])

    def authors(self, values: Iterable[Iterable[Any] | None]) -> None:
        """Add lists of names; what is no text in them is left out."""
        joined = [_joined(names, _BETWEEN) for names in values]
        self.given("authors", self._texts("authors", joined).str.split(_BETWEEN))

    def given(self, name: str, column: pl.Series) -> None:
        """Add a column as it is."""
        self._columns[name] = column.alias(name)

    def cited(
        self,
        source: str,
        counts: Sequence[Any],
        as_of: Sequence[Any] | None = None,
        dated: Sequence[Any] | None = None,
    ) -> None:
        """Add citations, and who counted them, when, and by year, where they are known."""
        known = self.texts("citations", counts).is_not_null()
        self.given("citations_source", self.where(known, source))
        if as_of is not None:
            days = self.texts("citations_as_of", as_of)
            self.given("citations_as_of", days.set(~known, None))
        if dated is not None:
            self.texts("citations_dated", dated)

    def all_are(self, **values: str) -> None:
        """Add columns that are the same for all records."""
        for name, value in values.items():
            self.given(name, pl.repeat(value, self._n, dtype=pl.String, eager=True))

    def where(self, mask: pl.Series, value: str) -> pl.Series:
        """A column that is `value` where `mask` is true, else null."""
        return pl.repeat(value, self._n, dtype=pl.String, eager=True).set(~mask, None)

    def batch(self, seen: frozenset[str], malformed: Mapping[str, int] | None = None) -> Batch:
        """The columns as a batch; `seen` are names of the file's columns that are the user's."""
        missing = [
            pl.repeat(None, self._n, dtype=dtype, eager=True).alias(name)
            for name, dtype in RAW_SCHEMA.items()
            if name not in self._columns
        ]
        records = pl.DataFrame([*self._columns.values(), *missing]).select([*RAW_SCHEMA])
        bad = list(self._bad)
        if self._refused:
            lines: list[int] = self._columns["line"].to_list()
            bad += [
                (lines[row], why, without_surrogates(self._shown(row)))
                for row, why in self._refused.items()
            ]
            rows = pl.int_range(self._n, eager=True)
            records = records.filter(~rows.is_in(list(self._refused)))
        rejects = pl.DataFrame(bad, schema=BAD_SCHEMA, orient="row")
        return Batch(records, rejects, seen, malformed or {})


def _joined(words: Iterable[Any] | None, between: str) -> str | None:
    if not words:
        return None
    words = list(words)
    try:
        return between.join(words)
    except TypeError:
        return between.join(word for word in words if isinstance(word, str)) or None


def split_names(texts: pl.Series) -> pl.Series:
    """Split names at semicolons and "and"; at commas where both sides are full names."""
    text = pl.col(texts.name)
    names = r"^[^\s,;]+(?:\s+[^\s,;]+)+"
    by_commas = text.str.contains(rf"{names}(?:\s*,\s*[^\s,;]+(?:\s+[^\s,;]+)+)+$")
    separated = pl.when(by_commas).then(text.str.replace_all(",", ";")).otherwise(text)
    return (
        texts.to_frame()
        .select(separated.str.replace_all(_SPLIT, ";").str.split(";").alias(texts.name))
        .to_series()
    )


def as_text(value: Any) -> str | None:
    """Text of a scalar or of a list of scalars; TypeError for anything deeper."""
    if is_list(value):
        return "; ".join(text for text in map(_scalar, value) if text)
    return _scalar(value)


def _scalar(value: Any) -> str | None:
    match value:
        case None:
            return None
        case str():
            return without_surrogates(value)
        case bool():
            return str(value).lower()
        case float():
            return str(int(value)) if math.isfinite(value) and value.is_integer() else str(value)
        case int():
            return str(value)
        case _:
            raise TypeError


def shown(content: Mapping[str, Any]) -> str:
    """How an object begins: its texts."""
    texts = (f"{name}={value[:80]}" for name, value in content.items() if isinstance(value, str))
    return without_surrogates(" ".join(texts))[:200]
