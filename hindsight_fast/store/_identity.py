"""What makes two stores the same: hashes that depend on values alone, not on versions."""

import hashlib
from collections.abc import Sequence

import numpy as np
import polars as pl

_CONTENT = ("id", "title", "abstract")
_FACTS = (
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
_CHUNK = 65_536  # rows of text joined at a time


def content_id(papers: pl.DataFrame, text_version: int) -> str:
    """Return the hash of the ordered ids and texts, 32 hexadecimal digits."""
    return columns_hash(papers, _CONTENT, f"text {text_version}")


def facts_id(papers: pl.DataFrame) -> str:
    """Return the hash of all that impact and windows depend on, 32 hexadecimal digits."""
    return columns_hash(papers, _FACTS, "facts")


def columns_hash(frame: pl.DataFrame, columns: Sequence[str], salt: str) -> str:
    """Hash columns of text, dates, numbers, or lists of text; null differs from every value."""
    state = hashlib.blake2b(salt.encode(), digest_size=16)
    for name in columns:
        column = frame[name]
        if isinstance(column.dtype, pl.List):
            state.update(column.list.len().cast(pl.Int64).fill_null(-1).to_numpy().tobytes())
            column = column.list.join("\x1f")
        state.update(np.packbits(column.is_null().to_numpy()).tobytes())
        if column.dtype != pl.String:
            state.update(column.cast(pl.Int64).fill_null(0).to_numpy().tobytes())
            continue
        state.update(column.str.len_bytes().cast(pl.Int64).fill_null(0).to_numpy().tobytes())
        for start in range(0, len(column), _CHUNK):
            state.update("".join(column[start : start + _CHUNK].drop_nulls()).encode())
    return state.hexdigest()
