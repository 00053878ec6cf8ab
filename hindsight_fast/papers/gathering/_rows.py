"""Rows on disk, numbered through all files, of which any can be read again."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.storage import storage_errors

_OTHER_BYTES: Final = 400

TEXT_BYTES: Final = (
    pl.sum_horizontal(pl.col("title", "abstract", "tldr").str.len_bytes().fill_null(0))
    .cast(pl.Int64)
    .add(_OTHER_BYTES)
    .alias("bytes")
)
"""About how many bytes a paper has in memory."""


class RowFile(NamedTuple):
    """A file of rows.

    Attributes
    ----------
    path : pathlib.Path
    start, stop : int
        Its rows are those from `start` to `stop` - 1 of all.
    """

    path: Path
    start: int
    stop: int


class Rows:
    """A table on disk, in files that are written once each.

    Parameters
    ----------
    folder : pathlib.Path
        Where its files go, which nobody else uses; it is made.
    schema : dict
        Columns and types. A file may lack some: null there.
    batch : int
        Rows that are read together at least.

    Attributes
    ----------
    files : list of RowFile
    n : int
        Rows so far.

    Raises
    ------
    StorageError
        No space or no rights there.
    """

    def __init__(self, folder: Path, schema: dict[str, pl.DataType], batch: int) -> None:
        self._folder = folder
        self._schema = schema
        self._batch = batch
        self.files: list[RowFile] = []
        self.n = 0
        with storage_errors(f"make {folder}"):
            folder.mkdir()

    def add(self, rows: pl.DataFrame) -> RowFile:
        """Write rows as one file, after all others."""
        path = self._folder / f"{len(self.files)}.arrow"
        with storage_errors(f"write {path}"):
            rows.write_ipc(path, record_batch_size=self._batch)
        file = RowFile(path, self.n, self.n + rows.height)
        self.files.append(file)
        self.n = file.stop
        return file

    def scan(self, file: RowFile, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """Read columns (by default all) of one file."""
        table = pl.scan_ipc(file.path)
        there = table.collect_schema()
        names = list(self._schema) if columns is None else columns
        return table.select(
            pl.col(name) if name in there else pl.lit(None, self._schema[name]).alias(name)
            for name in names
        )

    def read(
        self, file: RowFile, columns: Sequence[str], start: int = 0, n: int | None = None
    ) -> pl.DataFrame:
        """Read `n` rows of a file (by default all), from its row `start` on."""
        with storage_errors(f"read {file.path}"):
            return self.scan(file, columns).slice(start, n).collect()

    def pick(
        self, rows: NDArray[np.int64], columns: Sequence[str]
    ) -> Iterator[tuple[NDArray[np.int64], pl.DataFrame]]:
        """Read rows by their numbers, which ascend: those of a file, then those of the next."""
        bounds = np.searchsorted(rows, [*(file.start for file in self.files), self.n])
        files = list(self.files)  # more may come meanwhile
        for file, first, last in zip(files, bounds[:-1], bounds[1:], strict=True):
            if first < last:
                found = rows[first:last]
                at = pl.Series(found - file.start)
                yield found, self.read(file, columns).select(pl.all().gather(at))

    def fetch(self, rows: NDArray[np.int64], columns: Sequence[str]) -> pl.DataFrame:
        """Read rows by their numbers, in the order asked for."""
        unique, places = np.unique(rows, return_inverse=True)
        nothing = pl.DataFrame(schema={name: self._schema[name] for name in columns})
        found = pl.concat([nothing, *(frame for _, frame in self.pick(unique, columns))])
        return found.select(pl.all().gather(pl.Series(places)))
