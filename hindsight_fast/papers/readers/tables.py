"""Tables in files, whatever their form, in bounded batches.

Nothing is inferred: a reader asks for columns by name. The content decides the form of a file,
its name only where that leaves a choice.
"""

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindsight_fast.errors import DataError
from hindsight_fast.papers.readers import streams
from hindsight_fast.papers.readers.lines import Record, is_object

_LINES_ENDINGS: Final = {".jsonl", ".ndjson"}
_JSON_ENDINGS: Final = {*_LINES_ENDINGS, ".json"}

BATCH_RECORDS: Final = 1 << 15
BATCH_BYTES: Final = 32 << 20
"""A batch ends at whichever comes first."""


def form(path: Path, head: bytes) -> str | None:
    """Tell the form of a table: ``jsonl``, ``json``, ``csv``, ``parquet`` or None.

    Parameters
    ----------
    path : pathlib.Path
    head : bytes
        First bytes, decompressed.
    """
    if head.startswith(b"PAR1"):
        return "parquet"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    named = _endings(path)
    if text.startswith((b"{", b"[")) or named & _JSON_ENDINGS:
        return json_form(path, head)  # also what is damaged from its first line on
    return "csv" if ".csv" in named or b"," in text.partition(b"\n")[0] else None


def json_form(path: Path, head: bytes) -> str:
    """Tell whether a JSON file has a value per line (``jsonl``) or is a document (``json``).

    What is one long line as far as can be seen is a document, which may be of many values too.
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    first, _, more = text.partition(b"\n")
    second = more.lstrip().partition(b"\n")[0]
    by_line = bool(_endings(path) & _LINES_ENDINGS)
    if text.startswith(b"["):
        return "jsonl" if by_line and second and _parsed(first) else "json"
    if by_line or not text.startswith(b"{"):
        return "jsonl"
    if is_object(_parsed(first)):  # whole on its line: what follows is another
        return "jsonl" if second else "json"
    if is_object(_parsed(second)):
        return "jsonl"  # damaged in its first line
    is_cut = len(head) >= streams.HEAD_BYTES
    return "json" if second or is_cut or ".json" in _endings(path) else "jsonl"


def _endings(path: Path) -> set[str]:
    return {suffix.lower() for suffix in path.suffixes[-2:]}


def _parsed(line: bytes) -> Any:
    """Value of a line of JSON, None where it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def batches(items: Iterator[Record]) -> Iterator[list[Record]]:
    """Group records into batches of at most `BATCH_RECORDS` records and about `BATCH_BYTES`."""
    batch: list[Record] = []
    size = 0
    for item in items:
        batch.append(item)
        size += item.size
        if len(batch) == BATCH_RECORDS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def frames(
    path: Path,
    limit: int | None,
    columns: Sequence[str] | None = None,
    size: int = BATCH_RECORDS,
) -> Iterator[pl.DataFrame]:
    """Read a parquet file in batches of `size` records, its columns (by default all) as they are.

    Raises
    ------
    DataError
        Where it is no whole parquet file.
    """
    rows = count(path)
    with _parquet(path) as table:
        if columns is not None:
            table = table.select(columns)
        rows = rows if limit is None else min(rows, limit)
        for start in range(0, rows, size):
            yield table.slice(start, min(size, rows - start)).collect()


def count(path: Path) -> int:
    """Tell how many rows a parquet file has.

    Raises
    ------
    DataError
        Where it is no whole parquet file.
    """
    with _parquet(path) as table:
        return int(table.select(pl.len()).collect().item())


def schema(path: Path) -> pl.Schema:
    """Tell the columns of a parquet file, and their types.

    Raises
    ------
    DataError
        Where it is no whole parquet file.
    """
    with _parquet(path) as table:
        return table.collect_schema()


@contextmanager
def _parquet(path: Path) -> Generator[pl.LazyFrame]:
    if path.stat().st_size < 12 or _tail(path) != b"PAR1":
        raise DataError(f"{path} is no whole parquet file: its end is missing")
    try:
        yield pl.scan_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).split("\n", 1)[0][:200]
        raise DataError(f"{path} is a damaged parquet file: {reason}") from error


def _tail(path: Path) -> bytes:
    with path.open("rb") as stream:
        stream.seek(-4, 2)
        return stream.read()
