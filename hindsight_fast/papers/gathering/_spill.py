"""Cleaned records to disk, with their keys."""

from collections.abc import Callable, Iterator

import polars as pl

from hindsight_fast.papers.gathering._keys import Keys
from hindsight_fast.papers.gathering._limits import Limits
from hindsight_fast.papers.gathering._order import ordering
from hindsight_fast.papers.gathering._papers import OF_WITNESS, Papers
from hindsight_fast.papers.merging import prepared
from hindsight_fast.papers.schema import Role
from hindsight_fast.papers.venues import Table


def spill(
    records: Iterator[pl.DataFrame], papers: Papers, keys: Keys, table: Table, limits: Limits
) -> int:
    """Write records to disk.

    Parameters
    ----------
    records : iterator of polars.DataFrame
        Columns of `PAPER_SCHEMA` and ``role``; ids may be null.
    papers : Papers
    keys : Keys
        Both get the same rows.
    table : Table
    limits : Limits

    Returns
    -------
    int
        How many records, witnesses left out, had no id.
    """

    def write_records(rows: pl.DataFrame, their_keys: pl.DataFrame) -> None:
        order = rows.select(ordering()).to_series()
        papers.add(rows[order])
        keys.add(their_keys[order])

    def write_witnesses(rows: pl.DataFrame, their_keys: pl.DataFrame) -> None:
        papers.add_witnesses(rows)
        keys.add(their_keys)

    n_made = 0
    held = {True: _Held(write_records, limits), False: _Held(write_witnesses, limits)}
    for frame in records:
        frame, made = prepared(frame)
        n_made += made
        their_keys = keys.of(frame, table)
        is_record = frame["role"] <= Role.OLD
        if is_record.all():
            held[True].add(frame, their_keys)
        else:
            held[True].add(frame.filter(is_record), their_keys.filter(is_record))
            witnesses = frame.filter(~is_record).select(OF_WITNESS)
            held[False].add(witnesses, their_keys.filter(~is_record))
    for each in held.values():
        each.flush()
    return n_made


class _Held:
    """Rows that wait until they are enough for a file."""

    def __init__(self, write: Callable[[pl.DataFrame, pl.DataFrame], None], limits: Limits) -> None:
        self._write = write
        self._limits = limits
        self._rows: list[pl.DataFrame] = []
        self._keys: list[pl.DataFrame] = []
        self._n = self._bytes = 0

    def add(self, rows: pl.DataFrame, keys: pl.DataFrame) -> None:
        self._rows.append(rows)
        self._keys.append(keys)
        self._n += rows.height
        self._bytes += int(keys["bytes"].sum())
        if self._n >= self._limits.file_rows or self._bytes >= self._limits.file_bytes:
            self.flush()

    def flush(self) -> None:
        if self._n:
            rows = pl.concat(self._rows, rechunk=True)  # which are put in order far sooner
            self._write(rows, pl.concat(self._keys, rechunk=True))
        self._rows.clear()
        self._keys.clear()
        self._n = self._bytes = 0
