"""Published vectors in parquet: a column of ids, one of vectors, and best one of model names."""

from collections.abc import Generator
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import DataError
from hindsight_fast.papers.readers import tables
from hindsight_fast.published._papers import ID_SCHEMA
from hindsight_fast.published._records import Batch, Refusals, Wanted, join
from hindsight_fast.published._vectors import Refuse, read_lists, read_texts

_NAMES: Final = {
    "corpus_id": ("corpus_id", "corpusid"),
    "doi": ("doi",),
    "arxiv_id": ("arxiv_id", "arxiv"),
    "id": ("id", "paper_id", "paperid"),
    "vector": ("vector", "embedding"),
    "model": ("model",),
}
_AT_ONCE = 16_384  # records


def batches(path: Path, wanted: Wanted) -> Generator[Batch]:
    """Read the records of a file; polars does so with threads of its own.

    Raises
    ------
    DataError
        The file is damaged, lacks a column, or a vector is of another model.
    StorageError
        It can't be read.
    """
    columns = _columns(path)
    number = 1
    for frame in tables.frames(path, None, list(columns.values()), _AT_ONCE):
        frame = frame.select(pl.col(theirs).alias(ours) for ours, theirs in columns.items())
        yield _batch(frame, number, path, wanted)
        number += frame.height


def _columns(path: Path) -> dict[str, str]:
    """Our names to the file's."""
    schema = tables.schema(path)
    theirs = {name.lower(): name for name in schema}
    found = {
        ours: theirs[name] for ours, names in _NAMES.items() for name in names if name in theirs
    }
    if "vector" not in found or not found.keys() & ID_SCHEMA.keys():
        raise DataError(
            f"{path} has the columns {', '.join(schema)[:200]}; expected are vector, and corpus_id,"
            " doi, arxiv_id or id"
        )
    kind = schema[found["vector"]]
    inner = kind.inner if isinstance(kind, pl.List | pl.Array) else pl.Float32()
    if not (kind == pl.String or (isinstance(kind, pl.List | pl.Array) and inner.is_numeric())):
        raise DataError(
            f"{path}: the column {found['vector']!r} holds {kind}; expected are lists of numbers, "
            "or such lists as text"
        )
    return found


def _batch(frame: pl.DataFrame, number: int, path: Path, wanted: Wanted) -> Batch:
    refused = Refusals()
    names = pl.repeat(None, frame.height, dtype=pl.String, eager=True)
    if "model" in frame.columns:
        names = frame["model"]
    for name in names.unique().drop_nulls():
        at = number + int((names == name).arg_max() or 0)
        wanted.check_model(name, f"{path}, record {at}")
    ids = frame.select(_id_column(frame, name) for name in ID_SCHEMA)
    numbers = np.arange(number, number + frame.height)
    without_id = ids.select(pl.all_horizontal(pl.all().is_null())).to_series()
    without_vector = frame["vector"].is_null() & ~without_id
    for reason, bad in (("no_id", without_id), ("no_vector", without_vector)):
        for at in numbers[bad.to_numpy()]:
            refused.add(int(at), reason)
    kept = ~(without_id | without_vector)
    vectors, numbers = frame["vector"].filter(kept), numbers[kept.to_numpy()]

    def read(found: NDArray[np.int64], refuse: Refuse) -> NDArray[np.floating]:
        chosen = vectors.gather(found)
        from_column = _from_text if chosen.dtype == pl.String else _from_lists
        return from_column(chosen, wanted.dim, refuse)

    n_unnamed = names.null_count()
    return join(ids.filter(kept), numbers, n_unnamed, refused, wanted, read)


def _id_column(frame: pl.DataFrame, name: str) -> pl.Expr:
    if name not in frame.columns:
        return pl.lit(None, ID_SCHEMA[name]).alias(name)
    text = pl.col(name).cast(pl.String).str.strip_chars()
    if name == "corpus_id":
        digits = text.str.to_lowercase().str.extract(r"^(?:corpusid:\s*)?(\d{1,18})(?:\.0)?$", 1)
        return digits.cast(pl.Int64)
    return pl.when(text != "").then(text)


def _from_lists(lists: pl.Series, dim: int, refuse: Refuse) -> NDArray[np.floating]:
    if isinstance(lists.dtype, pl.Array):
        lists = lists.arr.to_list()
    right = read_lists(lists.list.len().to_numpy().astype(np.int64), dim, refuse)
    flat = lists.filter(pl.Series(right)).explode()
    if flat.dtype != pl.Float32:
        flat = flat.cast(pl.Float64)
    numbers: NDArray[np.floating] = flat.fill_null(float("nan")).to_numpy()
    values: NDArray[np.floating] = np.full((len(lists), dim), np.nan, numbers.dtype)
    values[right] = numbers.reshape(-1, dim)
    return values


def _from_text(texts: pl.Series, dim: int, refuse: Refuse) -> NDArray[np.float32]:
    stripped = [text.strip() for text in texts]
    inner = [text[1:-1] if text[:1] + text[-1:] == "[]" else "" for text in stripped]
    pieces = [text.encode() for text in inner]
    stops = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]])
    return read_texts(b"".join(pieces), starts, stops, dim, stripped.__getitem__, refuse)
