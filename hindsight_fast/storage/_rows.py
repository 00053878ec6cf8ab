"""Rows of an array file, read and written in place.

Nothing is mapped: the pages of a mapping count as memory of the process, and a disk that fails
under one is a signal and no error.
"""

import hashlib
import os
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hindsight_fast.errors import ArtefactError
from hindsight_fast.storage._arrays import map_array, npy_header, reserve_array
from hindsight_fast.storage._files import storage_errors

_AT_ONCE = 4 << 20  # bytes read at a time

sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter


class RowFile:
    """A plain .npy file of two dimensions; rows are given in ascending order.

    Raises
    ------
    ArtefactError
        The file is missing, or holds another array.
    StorageError
        The file system refuses.
    """

    def __init__(
        self, path: Path, dtype: DTypeLike, shape: tuple[int, int], *, writable: bool = False
    ) -> None:
        map_array(path, dtype, shape)  # a look at its type and size
        self.path, self.dtype, self.shape = path, np.dtype(dtype), shape
        self._start = len(npy_header(self.dtype, shape))
        self._width = shape[1] * self.dtype.itemsize
        mode = os.O_RDWR if writable else os.O_RDONLY
        with storage_errors(f"open {path}"):
            self._file = os.open(path, mode | os.O_CLOEXEC | os.O_NOFOLLOW)

    @classmethod
    def create(cls, path: Path, dtype: DTypeLike, shape: tuple[int, int]) -> "RowFile":
        """Make a file of zeros, with all of its space taken."""
        reserve_array(path, dtype, shape)
        return cls(path, dtype, shape, writable=True)

    def write(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Put `values`, of shape (len(rows), columns), into these rows."""
        values = np.ascontiguousarray(values, self.dtype)
        with storage_errors(f"write {self.path}"):
            for start, stop in _runs(rows):
                raw = values[start:stop].reshape(-1).view(np.uint8).data
                at = self._start + int(rows[start]) * self._width
                while raw:
                    written = os.pwrite(self._file, raw, at)
                    raw, at = raw[written:], at + written

    def read(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return these rows, of shape (len(rows), columns)."""
        raw = b"".join(self._pieces(rows))
        return np.frombuffer(raw, self.dtype).reshape(len(rows), self.shape[1])

    def digest(self, blocks: Iterable[NDArray[np.int64]]) -> str:
        """Hash the bytes of rows that come in blocks, 32 hexadecimal digits."""
        state = hashlib.blake2b(digest_size=16)
        for rows in blocks:
            for piece in self._pieces(rows):
                state.update(piece)
        return state.hexdigest()

    def _pieces(self, rows: NDArray[np.int64]) -> Generator[bytes]:
        step = max(_AT_ONCE // max(self._width, 1), 1)
        for start, stop in _runs(rows):
            for first in range(start, stop, step):
                size = (min(first + step, stop) - first) * self._width
                at = self._start + int(rows[first]) * self._width
                with storage_errors(f"read {self.path}"):
                    piece = os.pread(self._file, size, at)
                if len(piece) < size:
                    raise ArtefactError(f"{self.path} was cut while it was in use")
                yield piece

    def sync(self) -> None:
        """Flush what was written to disk."""
        with storage_errors(f"write {self.path}"):
            sync_data(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _runs(rows: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Places [start, stop) in `rows` between which they follow one another."""
    if not rows.size:
        return []
    breaks = (np.flatnonzero(np.diff(rows) != 1) + 1).tolist()
    return list(zip([0, *breaks], [*breaks, len(rows)], strict=True))
