"""What a reader is, and what it gives."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import polars as pl

from hindsight_fast.papers import venues
from hindsight_fast.papers.venues import Table


class Batch(NamedTuple):
    """Some records of a file, in order.

    Attributes
    ----------
    records : polars.DataFrame
        Columns of `records.RAW_SCHEMA`: text, and the line that each record starts on.
    rejects : polars.DataFrame
        Columns of `schema.REJECT_SCHEMA` but for ``file``: records that could not be read.
    columns : frozenset of str
        Names of the file's columns seen in this batch; none where they are not the user's to name.
    malformed : mapping of str to int
        Per column of ours, how many values were no such value; they count as unknown.
    """

    records: pl.DataFrame
    rejects: pl.DataFrame
    columns: frozenset[str]
    malformed: Mapping[str, int] = MappingProxyType({})


class Given(NamedTuple):
    """What a user says of how to read.

    Attributes
    ----------
    mapping : mapping of str to str
        Our column to the file's.
    limit : int or None
        Only so many records of a file.
    venues : Table or None
        Venues that free words are compared with; by default those that ship.
    """

    mapping: Mapping[str, str] = MappingProxyType({})
    limit: int | None = None
    venues: Table | None = None

    @property
    def table(self) -> Table:
        """The venues to compare with."""
        return self.venues or venues.table()


class Reader(NamedTuple):
    """A source format.

    Attributes
    ----------
    name : str
        What ``--format`` calls it.
    sniff : callable
        ``sniff(path, head)`` tells from a file's name and first bytes (decompressed) whether it
        is of this format.
    read : callable
        ``read(path, head, given)`` yields batches, of at most `given.limit` records together.
    """

    name: str
    sniff: Callable[[Path, bytes], bool]
    read: Callable[[Path, bytes, Given], Iterator[Batch]]
