"""What makes two stores the same: hashes that depend on values alone, not on versions."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers.utf8 import text_bytes

CONTENT: Final = ("id", "title", "abstract")
_FIRST_FACTS: Final = (
    "id",
    "date",
    "date_precision",
    "date_kind",
    "venue",
    "citations",
    "citations_source",
    "citations_as_of",
    "status",
)
FACTS: Final = (
    *_FIRST_FACTS,
    "date_origin",
    "revised",
    "year",
    "citations_dated",
    "field",
    "kind",
    "language",
    "topics",
)
"""What windows and impact look at, and most conditions."""

FIRST_TEXT_VERSION: Final = 1
"""Stores with texts of this version have hashes that took in one column after the other, of fewer
facts; they keep them."""


class ColumnsHash:
    """The hash of columns of text, dates, numbers, or lists of text, that come part by part.

    It does not depend on how rows are divided; null differs from every value.

    Parameters
    ----------
    columns
        Names, in an order that matters.
    salt
        What the hash is of.
    """

    def __init__(self, columns: Sequence[str], salt: str) -> None:
        self._salt = salt
        self._states = {
            name: [hashlib.blake2b(digest_size=16) for _ in range(4)] for name in columns
        }

    def add(self, part: pl.DataFrame) -> None:
        """Take in more rows."""
        for name, states in self._states.items():
            for state, values in zip(states, _values(part[name]), strict=False):
                state.update(values.data)

    def hexdigest(self) -> str:
        """Return the hash of all rows so far, 32 hexadecimal digits."""
        whole = hashlib.blake2b(self._salt.encode(), digest_size=16)
        for states in self._states.values():
            for state in states:
                whole.update(state.digest())
        return whole.hexdigest()


def columns_hash(papers: pl.DataFrame, columns: Sequence[str], salt: str) -> str:
    """Hash columns of a table that is there as a whole (`ColumnsHash`)."""
    state = ColumnsHash(columns, salt)
    state.add(papers)
    return state.hexdigest()


def _values(column: pl.Series) -> list[NDArray[np.generic]]:
    """What a column holds, as arrays of bytes and whole numbers; each grows row by row."""
    parts = list[NDArray[np.generic]]()
    if isinstance(column.dtype, pl.List):
        parts.append(column.list.len().cast(pl.Int64).fill_null(-1).to_numpy())
        column = column.explode(empty_as_null=False, keep_nulls=False)
    if column.dtype == pl.String:
        lengths = column.str.len_bytes().cast(pl.Int64).fill_null(-1)
        return [*parts, lengths.to_numpy(), text_bytes(column)]
    return [column.is_null().to_numpy(), column.cast(pl.Int64).fill_null(0).to_numpy()]


def content_hash(text_version: int) -> ColumnsHash:
    """Hash of the ordered ids and texts: a store's `content_id`."""
    return ColumnsHash(CONTENT, f"text {text_version}")


def facts_hash() -> ColumnsHash:
    """Hash of all that impact and windows depend on: a store's `facts_id`."""
    return ColumnsHash(FACTS, "facts")


def first_content_id(column: Callable[[str], pl.Series]) -> str:
    """Return the `content_id` of a store of the first version, given its columns."""
    return _first_hash(column, CONTENT, f"text {FIRST_TEXT_VERSION}")


def first_facts_id(column: Callable[[str], pl.Series]) -> str:
    """Return the `facts_id` of a store of the first version, given its columns."""
    return _first_hash(column, _FIRST_FACTS, "facts")


def _first_hash(column: Callable[[str], pl.Series], names: Sequence[str], salt: str) -> str:
    state = hashlib.blake2b(salt.encode(), digest_size=16)
    for name in names:
        values = column(name)
        state.update(np.packbits(values.is_null().to_numpy()).data)
        numbers = values.str.len_bytes() if values.dtype == pl.String else values
        state.update(numbers.cast(pl.Int64).fill_null(0).to_numpy().data)
        if values.dtype == pl.String:
            state.update(text_bytes(values).data)
    return state.hexdigest()
