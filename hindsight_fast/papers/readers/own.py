"""Papers in our own columns (or others named by a mapping), in any form that `tables` reads."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from hindsight_fast.errors import DataError
from hindsight_fast.papers.readers import columns, lines, looks, tables, typed
from hindsight_fast.papers.readers._batch import Batch, Given, Reader
from hindsight_fast.papers.readers.lines import Bad, is_list, is_object
from hindsight_fast.papers.text import without_surrogates

_NO_TEXT = (pl.Struct, pl.List, pl.Array, pl.Object)
_WANTED = typed.Wanted(dict[str, Any], "own", whole=lines.listed)


def sniff(path: Path, head: bytes) -> bool:
    """Any table will do: what it lacks is said when its columns are known."""
    return tables.form(path, head) is not None


def read(path: Path, head: bytes, given: Given) -> Iterator[Batch]:
    """Read papers from a table.

    Parameters
    ----------
    path : pathlib.Path
    head : bytes
        First bytes, decompressed.
    given : Given
        A column that its mapping does not name, or whose name the file lacks, is looked for under
        our own name.

    Yields
    ------
    Batch
    """
    form = tables.form(path, head) or "csv"
    if form == "parquet":
        line = 1
        for frame in tables.frames(path, given.limit):
            yield _from_frame(path, frame, line, given.mapping)
            line += frame.height
    elif form == "csv":
        for batch in tables.batches(islice(lines.records(path, form), given.limit)):
            yield _from_records(_sorted(batch), given.mapping)
    else:
        first = next(looks.outlines(head), None)
        same = looks.odd_keys(first.record) if first else None
        for some in typed.read(path, form, _WANTED, given.limit):
            yield _from_records(_without_odd(some, same), given.mapping)


def _sorted(batch: list[lines.Record]) -> typed.Some[dict[str, Any]]:
    """Good and bad records of a batch."""
    some = typed.Some[dict[str, Any]]([], [], [])
    for line, _, content in batch:
        if isinstance(content, Bad):
            some.bad.append((line, content.reason, without_surrogates(content.record)))
        else:
            some.numbers.append(line)
            some.records.append(dict(content))
    return some


def _without_odd(some: typed.Some[dict[str, Any]], same: str | None) -> typed.Some[dict[str, Any]]:
    """Records but for those of another format than `same`, that of the file's first one."""
    odd = {keys: looks.odd_keys(set(keys)) for keys in {*map(tuple, some.records)}}
    if not set(odd.values()) - {None, same}:
        return some
    kept = typed.Some[dict[str, Any]]([], [], list(some.bad))
    for line, record in zip(some.numbers, some.records, strict=True):
        name = odd[tuple(record)]
        if name in (None, same):
            kept.numbers.append(line)
            kept.records.append(record)
        else:
            kept.bad.append((line, f"looks like {name}", columns.shown(record)))
    return kept


def _from_records(some: typed.Some[dict[str, Any]], mapping: Mapping[str, str]) -> Batch:
    records = some.records
    seen = frozenset(name for keys in {*map(tuple, records)} for name in keys)
    raw = columns.Columns(some.numbers, some.bad, lambda row: columns.shown(records[row]))
    for ours in columns.NAMES:
        name = _name(ours, mapping, seen)
        if name is None:
            continue
        values = [record.get(name) for record in records]
        if ours == "authors":
            raw.given(
                ours, columns.split_names(pl.Series(ours, map(_names, values), dtype=pl.String))
            )
        else:
            raw.texts(ours, values)
    return raw.batch(seen)


def _name(ours: str, mapping: Mapping[str, str], seen: frozenset[str]) -> str | None:
    """The file's name of our column, or None."""
    return next((name for name in (mapping.get(ours, ours), ours) if name in seen), None)


def _names(value: Any) -> str | None:
    """Authors as one text: a list of names or of ``{"name": ...}``, or a text already."""
    if is_list(value):
        each = [item.get("name") if is_object(item) else item for item in value]
        value = [name for name in each if isinstance(name, str)]
    return columns.as_text(value) if isinstance(value, list | str) else None


def _from_frame(path: Path, frame: pl.DataFrame, line: int, mapping: Mapping[str, str]) -> Batch:
    seen = frozenset(frame.columns)
    raw = columns.Columns(range(line, line + frame.height), [], lambda row: "")
    for ours in columns.NAMES:
        name = _name(ours, mapping, seen)
        if name is None:
            continue
        try:
            text = _column_text(frame[name], ours)
        except TypeError:
            raise DataError(f"{path}: column {name!r} is {frame[name].dtype}, not text") from None
        raw.given(ours, columns.split_names(text.alias(ours)) if ours == "authors" else text)
    return raw.batch(seen)


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
