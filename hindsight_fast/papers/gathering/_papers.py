"""All records on disk, and the papers that take their places."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers.gathering._order import Order
from hindsight_fast.papers.gathering._rows import RowFile, Rows
from hindsight_fast.papers.merging import NAMED
from hindsight_fast.papers.schema import PAPER_SCHEMA, WITNESS_FACTS

_SCHEMA: Final[dict[str, pl.DataType]] = PAPER_SCHEMA | {"role": pl.UInt8()} | NAMED
OF_WITNESS: Final = (*(name for name in PAPER_SCHEMA if name in WITNESS_FACTS), "role")
"""Columns that are needed of a witness."""

RowNumbers = NDArray[np.int64]


class Papers:
    """Rows on disk, numbered through, of which those alive are the papers.

    First come the records, file by file; then papers that take the places of others: one made of
    several records, or one that got another id.

    Parameters
    ----------
    work : pathlib.Path
        A folder that is not there yet.
    batch_rows : int
        Rows of a file that are read together at least.
    """

    def __init__(self, work: Path, batch_rows: int) -> None:
        self._rows = Rows(work, _SCHEMA, batch_rows)
        self._order = Order(self._rows, batch_rows)
        self._alive = np.zeros(0, dtype=np.bool_)
        self._moves: list[RowNumbers] = []

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which rows are papers, one value per row."""
        return self._alive[: self._rows.n]

    def add(self, papers: pl.DataFrame) -> None:
        """Write records as rows that are alive.

        Parameters
        ----------
        papers : polars.DataFrame
            At least one, in `_order.ordering`: columns of `PAPER_SCHEMA` and ``role``.
        """
        self._mark(self._order.add(papers), True)

    def add_witnesses(self, records: pl.DataFrame) -> None:
        """Write witnesses, or what is needed of them, as rows that are not alive."""
        self._mark(self._rows.add(records), False)

    def replace(self, rows: RowNumbers, by: pl.DataFrame) -> None:
        """Write papers that take the places of rows.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64
        by : polars.DataFrame
            The n papers, in the order of `rows`, which is `_order.ordering`.
        """
        file = self._order.add(by)
        self._mark(file, True)
        self._alive[rows] = False
        self._moves.append(np.stack([rows, np.arange(file.start, file.stop)]))

    def _mark(self, file: RowFile, alive: bool) -> None:
        if file.stop > len(self._alive):
            more = np.zeros(max(file.stop, 2 * len(self._alive)), dtype=np.bool_)
            more[: len(self._alive)] = self._alive
            self._alive = more
        self._alive[file.start : file.stop] = alive

    def kill(self, rows: RowNumbers) -> None:
        """Note that rows are papers no longer."""
        self._alive[rows] = False

    def places(self, rows: RowNumbers) -> RowNumbers:
        """Find the rows that papers have now, by those that they had; -1 where they are none."""
        moved = np.concatenate([np.zeros((2, 0), dtype=np.int64), *self._moves], axis=1)
        old, new = moved[:, moved[0].argsort()]
        for _ in range(2):  # once when merged, once when named
            at = np.searchsorted(old, rows)
            found = np.append(old, -1)[at] == rows
            rows = np.where(found, np.append(new, -1)[at], rows)
        return np.where(self.alive[rows], rows, -1)

    def pick(
        self, rows: RowNumbers, columns: Sequence[str]
    ) -> Iterator[tuple[RowNumbers, pl.DataFrame]]:
        """Read rows by their numbers, which ascend: those of a file, then those of the next."""
        return self._rows.pick(rows, columns)

    def fetch(self, rows: RowNumbers, columns: Sequence[str]) -> pl.DataFrame:
        """Read rows by their numbers, in the order asked for."""
        return self._rows.fetch(rows, columns)

    def narrow(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Read columns of all papers, in no particular order; at least one frame."""
        yield pl.DataFrame(schema={name: _SCHEMA[name] for name in columns})
        for file in self._order.files:
            alive = self.alive[file.start : file.stop]
            yield self._rows.read(file, columns).filter(pl.Series(alive))

    def parts(self, part_bytes: int) -> Generator[pl.DataFrame]:
        """Read all papers in their final order, about so many bytes at a time."""
        return self._order.parts(self.alive, list(PAPER_SCHEMA), part_bytes)
