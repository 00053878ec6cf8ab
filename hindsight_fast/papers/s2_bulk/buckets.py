"""Tables larger than memory, split by a key so that a bucket of each fits: half of a Grace join."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.storage import storage_errors

BUCKET_BYTES: Final = 128 << 20
"""Of the sources' text, decompressed: what of it is joined in memory at a time."""

_MOST = 4096
_HELD_BYTES = 64 << 20
_EXPANDS = 5  # text of papers in gzip or zstd
_SIZE = 8
_MARK_BITS = 29  # above the largest corpus id, so that no two papers share a bit


def bucket_count(paths: Iterable[Path], bucket_bytes: int = BUCKET_BYTES) -> int:
    """Tell into how many buckets the content of files is split."""
    size = 0
    for path in paths:
        with path.open("rb") as stream:
            packed = stream.read(2) in (b"\x1f\x8b", b"\x28\xb5")
        size += path.stat().st_size * (_EXPANDS if packed else 1)
    return min(1 + size // bucket_bytes, _MOST)


class Buckets:
    """A table on disk, in buckets by a whole number of each row.

    Parameters
    ----------
    folder : pathlib.Path
        Where its files go, which nobody else uses.
    n : int
        How many buckets.
    schema : dict
        Columns and types of the table.
    key : str, default "corpusid"
        Column of Int64. Rows of one key are in one bucket (that of its rest, divided by `n`),
        those without any in the first.

    Raises
    ------
    StorageError
        No space or no rights there.
    """

    def __init__(
        self, folder: Path, n: int, schema: dict[str, pl.DataType], key: str = "corpusid"
    ) -> None:
        self._folder = folder
        self._n = n
        self._key = key
        self._schema = schema
        self._held: list[pl.DataFrame] = []
        self._size = 0
        with storage_errors(f"make {folder}"):
            folder.mkdir(parents=True)

    def add(self, rows: pl.DataFrame) -> None:
        """Add rows; their order within a bucket stays."""
        self._held.append(rows.select(list(self._schema)))
        self._size += int(rows.estimated_size())
        if self._size > _HELD_BYTES:
            self._flush()

    def _flush(self) -> None:
        rows = pl.concat(self._held, rechunk=True)
        self._held, self._size = [], 0
        bucket = (rows[self._key].fill_null(0) % self._n).alias("bucket")
        for (number,), part in (
            rows.with_columns(bucket)
            .partition_by("bucket", as_dict=True, include_key=False, maintain_order=True)
            .items()
        ):
            piece = io.BytesIO()
            part.write_ipc(piece, compression="lz4")
            with storage_errors(f"write {self._folder}"), self._path(number).open("ab") as file:
                file.write(piece.tell().to_bytes(_SIZE, "little"))
                file.write(piece.getbuffer())

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.pieces"

    def read(self, number: int, columns: list[str] | None = None) -> pl.DataFrame:
        """Read a bucket, or some columns of it."""
        if self._held:
            self._flush()
        names = list(self._schema) if columns is None else columns
        pieces = [pl.DataFrame(schema={name: self._schema[name] for name in names})]
        path = self._path(number)
        if path.exists():
            with storage_errors(f"read {path}"), path.open("rb") as file:
                while size := file.read(_SIZE):
                    piece = file.read(int.from_bytes(size, "little"))
                    pieces.append(pl.read_ipc(piece, columns=names).select(names))
        return pl.concat(pieces, rechunk=True)

    def take(self, number: int) -> pl.DataFrame:
        """Read a bucket and free its space."""
        rows = self.read(number)
        self._path(number).unlink(missing_ok=True)
        return rows


class Marks:
    """A set of keys in 64 MB: what is in it is always found; two keys may rarely share a mark."""

    def __init__(self) -> None:
        self._bits = np.zeros(1 << (_MARK_BITS - 3), dtype=np.uint8)

    def add(self, keys: pl.Series) -> None:
        """Add keys (Int64, nulls left out)."""
        places = self._places(keys.drop_nulls())
        np.bitwise_or.at(self._bits, places >> 3, np.uint8(1) << (places & 7).astype(np.uint8))

    def found(self, keys: pl.Series) -> pl.Series:
        """Tell which keys may be in the set; False for null."""
        places = self._places(keys.fill_null(0))
        bits = self._bits[places >> 3] >> (places & 7).astype(np.uint8)
        return pl.Series("found", (bits & 1).astype(np.bool_)) & keys.is_not_null()

    @staticmethod
    def _places(keys: pl.Series) -> NDArray[np.int64]:
        return keys.to_numpy() & ((1 << _MARK_BITS) - 1)
