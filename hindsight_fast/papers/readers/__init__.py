"""The registry of source formats: one file each, asked in this order, our own columns last."""

from pathlib import Path
from typing import Final

from hindsight_fast.errors import DataError, UsageError
from hindsight_fast.papers.readers import (
    acl_anthology,
    arxiv_atom,
    arxiv_snapshot,
    bibtex,
    looks,
    openalex,
    own,
    paperlists,
    s2_graph,
)
from hindsight_fast.papers.readers._batch import Batch, Given, Reader

S2_BULK: Final = "s2_bulk"
"""What ``--format`` calls shards of Semantic Scholar's bulk datasets, which are read together."""

__all__ = ["READERS", "S2_BULK", "Batch", "Given", "Reader", "find"]

READERS: Final[tuple[Reader, ...]] = (
    s2_graph.READER,
    openalex.READER,
    arxiv_snapshot.READER,
    paperlists.READER,
    arxiv_atom.READER,
    acl_anthology.READER,
    bibtex.READER,
    own.READER,
)


def find(path: Path, head: bytes, format: str) -> Reader:
    """Find the reader of a file.

    Parameters
    ----------
    path : pathlib.Path
    head : bytes
        First bytes of the file, decompressed.
    format : str
        A reader's name, or ``auto``. A name is believed unless the file clearly is something else.

    Raises
    ------
    UsageError
        Where no reader has that name.
    DataError
        Where no reader knows the file, or it is something else; the message says what.
    """
    readers = {reader.name: reader for reader in READERS}
    named = readers.get(format)
    if named is None and format != "auto":
        names = ", ".join(["auto", *readers, S2_BULK])
        raise UsageError(f"no format {format!r}; there are: {names}")
    nothing = looks.binary(head)
    if nothing is not None:
        raise looks.refuse(path, nothing)
    if named is not None and named.sniff(path, head):
        return named
    for reader in READERS[:-1]:
        if reader.sniff(path, head):
            if named is None:
                return reader
            raise DataError(
                f"{path} looks like {reader.name}, not {format}: leave --format out, or name it"
            )
    what = looks.other(path, head)
    if what is not None:
        raise looks.refuse_table(path, what)
    if named is not None:
        return named
    if own.READER.sniff(path, head):
        return own.READER
    raise DataError(
        f"{path} is no table that can be read: .jsonl, .json, .csv or .parquet is expected "
        "(.gz and .zst of the text ones too)"
    )
