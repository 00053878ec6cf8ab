"""The registry of source formats: one file each, asked in this order, our own columns last."""

from pathlib import Path
from typing import Final

from hindsight_fast.errors import DataError, UsageError
from hindsight_fast.papers.readers import own
from hindsight_fast.papers.readers._batch import Batch, Reader

__all__ = ["READERS", "Batch", "Reader", "find"]

READERS: Final[tuple[Reader, ...]] = (own.READER,)


def find(path: Path, head: bytes, format: str) -> Reader:
    """Find the reader of a file.

    Parameters
    ----------
    path : pathlib.Path
    head : bytes
        First bytes of the file, decompressed.
    format : str
        A reader's name, or ``auto``.

    Raises
    ------
    UsageError
        Where no reader has that name.
    DataError
        Where no reader knows the file.
    """
    names = ", ".join(["auto", *(reader.name for reader in READERS)])
    for reader in READERS:
        if format == reader.name or (format == "auto" and reader.sniff(path, head)):
            return reader
    if format != "auto":
        raise UsageError(f"no format {format!r}; there are: {names}")
    raise DataError(
        f"{path} is no table that can be read: .jsonl, .json, .csv or .parquet is expected "
        "(.gz and .zst of the text ones too)"
    )
