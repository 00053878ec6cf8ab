"""What makes two stores the same: hashes that depend on values alone, not on versions.

A hash takes in one column after the other, so that a table may be read from its file, a piece of a
column at a time.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import HindsightError

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
_MORE_FACTS = (
    "date_origin",
    "revised",
    "year",
    "citations_dated",
    "field",
    "kind",
    "language",
    "topics",
)
"""What conditions and variants of impact look at as well. Stores of format 1, whose papers don't
tell of how many records they are, keep the hash that they have."""

HASHED = (*_CONTENT, *_FACTS)
"""The columns that the identities hold in every store."""

_CHUNK = 65_536  # rows of text hashed at a time

Pieces = Callable[[str], Iterator[pl.Series]]
"""Gives a column piece by piece, each but the last of a multiple of 8 rows; more than once."""


def content_id(papers: pl.DataFrame | Pieces, text_version: int) -> str:
    """Return the hash of the ordered ids and texts, 32 hexadecimal digits."""
    return columns_hash(papers, _CONTENT, f"text {text_version}")


def facts_id(papers: pl.DataFrame | Pieces) -> str:
    """Return the hash of all that impact and windows depend on, 32 hexadecimal digits."""
    counted = any(piece.count() for piece in _pieces(papers)("n_records"))
    return columns_hash(papers, _FACTS + _MORE_FACTS if counted else _FACTS, "facts")


def columns_hash(papers: pl.DataFrame | Pieces, columns: Sequence[str], salt: str) -> str:
    """Hash columns of text, dates, numbers, or lists of text; null differs from every value."""
    state = hashlib.blake2b(salt.encode(), digest_size=16)
    pieces = _pieces(papers)
    for name in columns:
        for part in zip(*map(_outline, pieces(name)), strict=True):
            for raw in part:
                state.update(raw.data)
        for piece in pieces(name):
            for start in range(0, len(piece), _CHUNK):
                state.update(text_bytes(_flat(piece[start : start + _CHUNK])).data)
    return state.hexdigest()


def _pieces(papers: pl.DataFrame | Pieces) -> Pieces:
    return (lambda name: iter([papers[name]])) if isinstance(papers, pl.DataFrame) else papers


def _outline(piece: pl.Series) -> list[NDArray[np.generic]]:
    """What is hashed of a column before its texts, each over all pieces."""
    parts = list[NDArray[np.generic]]()
    if isinstance(piece.dtype, pl.List):
        parts.append(piece.list.len().cast(pl.Int64).fill_null(-1).to_numpy())
        piece = _flat(piece)
    parts.append(np.packbits(piece.is_null().to_numpy()))
    numbers = piece.str.len_bytes() if piece.dtype == pl.String else piece
    return [*parts, numbers.cast(pl.Int64).fill_null(0).to_numpy()]


def _flat(piece: pl.Series) -> pl.Series:
    return piece.list.join("\x1f") if isinstance(piece.dtype, pl.List) else piece


def text_bytes(texts: pl.Series) -> NDArray[np.uint8]:
    """Return all texts, one after the other, as UTF-8; none of what is no text."""
    if texts.dtype != pl.String:
        return np.zeros(0, np.uint8)
    # The way by Python's strings takes twenty times as long.
    lists = texts.drop_nulls().cast(pl.Binary).cast(pl.List(pl.UInt8))
    raw = lists.explode(empty_as_null=False).to_numpy()
    if len(raw) != texts.str.len_bytes().sum():
        raise HindsightError("internal error: polars gives texts as other bytes")
    return raw
