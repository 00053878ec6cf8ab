"""Papers in our own columns (or others named by a mapping), in any form that `tables` reads."""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from hindsight_fast.errors import DataError
from hindsight_fast.papers.readers import lines, tables
from hindsight_fast.papers.readers._batch import Batch, Reader
from hindsight_fast.papers.readers.lines import is_list, is_object
from hindsight_fast.papers.records import RAW_SCHEMA
from hindsight_fast.papers.schema import REJECT_SCHEMA
from hindsight_fast.papers.text import without_surrogates

_COLUMNS = tuple(name for name in RAW_SCHEMA if name != "line")
_REJECTS = {name: dtype for name, dtype in REJECT_SCHEMA.items() if name != "file"}
_NO_TEXT = (pl.Struct, pl.List, pl.Array, pl.Object)
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
    form = tables.form(path, head) or "csv"
    if form == "parquet":
        line = 1
        for frame in tables.frames(path, limit):
            yield _from_frame(path, frame, line, mapping)
            line += frame.height
        return
    for batch in tables.batches(islice(lines.records(path, form), limit)):
        yield _from_records(batch, mapping)


def _from_records(batch: list[lines.Record], mapping: Mapping[str, str]) -> Batch:
    good: list[Mapping[str, Any]] = []
    numbers: list[int] = []
    bad: list[tuple[int, str, str]] = []
    for line, _, content in batch:
        if isinstance(content, lines.Bad):
            bad.append((line, content.reason, without_surrogates(content.record)))
        else:
            good.append(content)
            numbers.append(line)
    seen = frozenset(name for keys in {tuple(content) for content in good} for name in keys)
    columns = [pl.Series("line", numbers, dtype=pl.Int64)]
    objects: dict[int, str] = {}
    for ours in _COLUMNS:
        name = _name(ours, mapping, seen)
        values = [content.get(name) for content in good] if name else [None] * len(good)
        if ours == "authors":
            columns.append(_split(pl.Series(ours, map(_names, values), dtype=pl.String)))
        else:
            columns.append(_text(ours, values, objects))
    for row, ours in objects.items():
        bad.append((numbers[row], f"{ours} is no text but an object", _shown(good[row])))
    records = pl.DataFrame(columns)
    if objects:
        records = records.with_row_index("row").filter(~pl.col("row").is_in(list(objects)))
    rejects = pl.DataFrame(bad, schema=_REJECTS, orient="row")
    return Batch(records.select("line", *_COLUMNS), rejects, seen)


def _shown(content: Mapping[str, Any]) -> str:
    texts = (f"{name}={value[:80]}" for name, value in content.items() if isinstance(value, str))
    return without_surrogates(" ".join(texts))[:200]


def _name(ours: str, mapping: Mapping[str, str], seen: frozenset[str]) -> str | None:
    """The file's name of our column, or None."""
    return next((name for name in (mapping.get(ours, ours), ours) if name in seen), None)


def _text(ours: str, values: list[Any], objects: dict[int, str]) -> pl.Series:
    """Text of a column's values; rows that hold an object are noted in `objects`."""
    try:
        return pl.Series(ours, values, dtype=pl.String)  # the usual: text and nulls
    except (TypeError, UnicodeEncodeError):
        pass
    texts: list[str | None] = []
    for row, value in enumerate(values):
        try:
            texts.append(_as_text(value))
        except TypeError:
            texts.append(None)
            objects.setdefault(row, ours)
    return pl.Series(ours, texts, dtype=pl.String)


def _as_text(value: Any) -> str | None:
    """Text of a scalar or of a list of scalars; TypeError for anything deeper."""
    if is_list(value):
        return "; ".join(text for item in value if (text := _scalar(item)))
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


def _names(value: Any) -> str | None:
    """Authors as one text: a list of names or of ``{"name": ...}``, or a text already."""
    if is_list(value):
        each = [item.get("name") if is_object(item) else item for item in value]
        value = [name for name in each if isinstance(name, str)]
    return _as_text(value) if isinstance(value, list | str) else None


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


def _from_frame(path: Path, frame: pl.DataFrame, line: int, mapping: Mapping[str, str]) -> Batch:
    seen = frozenset(frame.columns)
    columns = [pl.Series("line", range(line, line + frame.height), dtype=pl.Int64)]
    for ours in _COLUMNS:
        name = _name(ours, mapping, seen)
        series = frame[name] if name else pl.Series([None] * frame.height, dtype=pl.String)
        try:
            text = _column_text(series, ours).alias(ours)
        except TypeError:
            raise DataError(f"{path}: column {name!r} is {series.dtype}, not text") from None
        columns.append(_split(text) if ours == "authors" else text)
    return Batch(pl.DataFrame(columns), pl.DataFrame(schema=_REJECTS), seen)


def _column_text(series: pl.Series, ours: str) -> pl.Series:
    """Text of a typed column, by the rules for single values; TypeError where it can't be."""
    dtype = series.dtype
    if isinstance(dtype, pl.List | pl.Array):
        inner = dtype.inner
        lists = series.cast(pl.List(inner))
        if ours == "authors" and isinstance(inner, pl.Struct):
            if "name" in [field.name for field in inner.fields]:
                lists = lists.list.eval(pl.element().struct.field("name"))
        elif isinstance(inner, _NO_TEXT):
            raise TypeError
        return lists.cast(pl.List(pl.String)).list.drop_nulls().list.join("; ")
    if isinstance(dtype, _NO_TEXT):
        raise TypeError
    if dtype.is_float():
        whole = ((series == series.floor()) & (series.abs() < 2**53)).fill_null(False)
        as_whole = series.set(~whole, None).cast(pl.Int64).cast(pl.String)
        return as_whole.zip_with(whole, series.cast(pl.String))
    return series.cast(pl.String, strict=False)


READER = Reader("own", sniff, read)
