"""Parquet files written a part at a time, the same bytes for the same rows."""

import queue
import threading
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Final

import polars as pl
from polars.io.plugins import register_io_source

from hindsight_fast.storage import storage_errors

ROW_GROUP: Final = 16_384  # rows that are read together when a slice of papers is


class TableWriter:
    """A parquet file in the making; its bytes do not depend on how its rows are divided.

    What is added is compressed by polars' threads while the next part is made; of parts, one waits.

    Parameters
    ----------
    path
        The file to write.
    schema
        Of each part.
    """

    def __init__(self, path: Path, schema: dict[str, pl.DataType]) -> None:
        self.path = path
        self._waiting = queue.Queue[pl.DataFrame | None](1)
        self._ended = False
        self._error: Exception | None = None
        self._rows = register_io_source(self._source, schema=schema)
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> "TableWriter":
        self._thread.start()
        return self

    def add(self, part: pl.DataFrame) -> None:
        """Add rows at the end.

        Raises
        ------
        StorageError
            No space or no rights.
        """
        self._check()
        self._waiting.put(part)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._waiting.put(None)
        self._thread.join()
        if error is None:
            self._check()

    def _check(self) -> None:
        with storage_errors(f"write {self.path}"):
            if self._error is not None:
                raise self._error

    def _write(self) -> None:
        try:
            self._rows.sink_parquet(
                self.path,
                compression="zstd",
                compression_level=1,  # 3 takes twice as long, for an eighth less
                statistics=False,
                row_group_size=ROW_GROUP,
                engine="streaming",
            )
        except Exception as error:
            self._error = error
        for _ in self._parts():  # after an error, so that nobody waits
            pass

    def _source(self, *_: object) -> Generator[pl.DataFrame]:
        """What polars calls for rows; it might ask for some of them only, and never does here."""
        return self._parts()

    def _parts(self) -> Generator[pl.DataFrame]:
        while not self._ended:
            part = self._waiting.get()
            if part is None:
                self._ended = True
            else:
                yield part


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write all rows at once.

    Raises
    ------
    StorageError
        No space or no rights.
    """
    with TableWriter(path, dict(frame.schema)) as table:
        table.add(frame)
