"""Papers in our own columns (or others named by a mapping), in any form that `tables` reads."""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

import polars as pl

from hindsight_fast.papers.readers import tables
from hindsight_fast.papers.readers._batch import Batch, Reader
from hindsight_fast.papers.records import RAW_SCHEMA
from hindsight_fast.papers.schema import REJECT_SCHEMA
from hindsight_fast.papers.text import without_surrogates

_COLUMNS = tuple(name for name in RAW_SCHEMA if name != "line")
_SPLIT = r"\s*;\s*|\s+and\s+"


def sniff(path: Path, head: bytes) -> bool:
    """Any table will do: what it lacks is said when its columns are known."""
    return tables.form(path, head) is not None


def read(path: Path, head: bytes, mapping: Mapping[str, str], limit: int | None) -> Iterator[Batch]:
    """Read papers from a table.

    Parameters
    ----------
    path : pathlib.Path
    head : bytes
        First bytes, decompressed.
    mapping : mapping of str to str
        Our column to the file's; a column that it does not name, or whose name the file lacks,
        is looked for under our own name.
    limit : int or None
        Read at most so many records.

    Yields
    ------
    Batch
    """
    shape = tables.form(path, head) or "csv"
    if shape == "parquet":
        line = 1
        for frame in tables.frames(path, limit):
            yield _from_frame(frame, line, mapping)
            line += frame.height
        return
    for batch in tables.batches(islice(tables.records(path, shape), limit)):
        yield _from_records(batch, str(path), mapping)


def _from_records(batch: list[tables.Record], file: str, mapping: Mapping[str, str]) -> Batch:
    good: list[Mapping[str, Any]] = []
    lines: list[int] = []
    bad: list[tuple[str, int, str, str]] = []
    for line, _, content in batch:
        if isinstance(content, tables.Bad):
            bad.append((file, line, content.reason, without_surrogates(content.record)))
        else:
            good.append(content)
            lines.append(line)
    seen = frozenset(name for keys in {tuple(content) for content in good} for name in keys)
    columns = [pl.Series("line", lines, dtype=pl.Int64)]
    for ours in _COLUMNS:
        name = _name(ours, mapping, seen)
        values = [content.get(name) for content in good] if name else [None] * len(good)
        columns.append(_authors(values) if ours == "authors" else _text(ours, values))
    rejects = pl.DataFrame(bad, schema=REJECT_SCHEMA, orient="row")
    return Batch(pl.DataFrame(columns), rejects, seen)


def _name(ours: str, mapping: Mapping[str, str], seen: frozenset[str]) -> str | None:
    """The file's name of our column, or None."""
    return next((name for name in (mapping.get(ours, ours), ours) if name in seen), None)


def _text(ours: str, values: list[Any]) -> pl.Series:
    try:
        return pl.Series(ours, values, dtype=pl.String)  # the usual: text and nulls
    except (TypeError, UnicodeEncodeError):
        return pl.Series(ours, [_as_text(value) for value in values], dtype=pl.String)


def _as_text(value: Any) -> str | None:
    """Text of a scalar, or of a list of scalars; an object is no text."""
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
        case list():
            parts = [_as_text(part) for part in cast(list[Any], value)]
            return "; ".join(part for part in parts if part)
        case _:
            return None


def _authors(values: list[Any]) -> pl.Series:
    """Lists of names, of ``{"name": ...}``, or one text of names."""
    texts: list[str | None] = []
    for value in values:
        if isinstance(value, list):
            names = [
                cast(dict[str, Any], each).get("name") if isinstance(each, dict) else each
                for each in cast(list[Any], value)
            ]
            texts.append(_as_text(names))
        else:
            texts.append(_as_text(value))
    return _split(pl.Series("authors", texts, dtype=pl.String))


def _split(texts: pl.Series) -> pl.Series:
    """Split names at semicolons and "and"; at commas where both sides are full names."""
    text = pl.col("authors")
    names = r"^[^\s,;]+(?:\s+[^\s,;]+)+"
    by_commas = text.str.contains(rf"{names}(?:\s*,\s*[^\s,;]+(?:\s+[^\s,;]+)+)+$")
    separated = pl.when(by_commas).then(text.str.replace_all(",", ";")).otherwise(text)
    return (
        texts.to_frame()
        .select(separated.str.replace_all(_SPLIT, ";").str.split(";").alias("authors"))
        .to_series()
    )


def _from_frame(frame: pl.DataFrame, line: int, mapping: Mapping[str, str]) -> Batch:
    seen = frozenset(frame.columns)
    columns = [pl.Series("line", range(line, line + frame.height), dtype=pl.Int64)]
    for ours in _COLUMNS:
        name = _name(ours, mapping, seen)
        series = frame[name] if name else pl.Series([None] * frame.height, dtype=pl.String)
        text = _column_text(series, ours == "authors").alias(ours)
        columns.append(_split(text) if ours == "authors" else text)
    return Batch(pl.DataFrame(columns), pl.DataFrame(schema=REJECT_SCHEMA), seen)


def _column_text(series: pl.Series, names: bool) -> pl.Series:
    """Text of a typed column, by the rule of `_as_text`."""
    dtype = series.dtype
    if isinstance(dtype, pl.List | pl.Array):
        lists = series.cast(pl.List(dtype.inner))
        inner = dtype.inner
        if names and isinstance(inner, pl.Struct) and "name" in [f.name for f in inner.fields]:
            lists = lists.list.eval(pl.element().struct.field("name"))
            inner = pl.String()
        if isinstance(inner, pl.Struct | pl.List | pl.Array | pl.Object | pl.Binary):
            return pl.Series([None] * series.len(), dtype=pl.String)
        return lists.cast(pl.List(pl.String)).list.drop_nulls().list.join("; ")
    if isinstance(dtype, pl.Struct | pl.Object):
        return pl.Series([None] * series.len(), dtype=pl.String)
    if dtype.is_float():
        whole = (series == series.floor()) & (series.abs() < 2**53)
        whole = whole.fill_null(False)
        as_whole = series.set(~whole, None).cast(pl.Int64).cast(pl.String)
        return as_whole.zip_with(whole, series.cast(pl.String))
    return series.cast(pl.String, strict=False)


READER = Reader("own", sniff, read)
