"""Plain .npy files as mapped arrays. Nothing is ever pickled or unpickled."""

import io
import math
import os
import shutil
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hindsight_fast.errors import ArtefactError, StorageError
from hindsight_fast.storage._files import human_size, open_regular, storage_errors


def create_array(path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Create a plain .npy file and return it as a writable mapped array of zeros.

    All of its space is taken at once, so that a full disk is an error here and not a bus error
    when a page is first touched.

    Raises
    ------
    StorageError
        The space is not there; nothing is left of the file.
    """
    kind = np.dtype(dtype)
    start = reserve_array(path, kind, shape)
    if not math.prod(shape):
        return np.zeros(shape, kind)
    with storage_errors(f"create {path}"):
        return np.memmap(path, kind, "r+", start, shape).view(np.ndarray)


def reserve_array(path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> int:
    """Like `create_array`, without mapping it; returns where in the file the values begin."""
    kind = np.dtype(dtype)
    header = npy_header(kind, shape)
    total = len(header) + kind.itemsize * math.prod(shape)
    with storage_errors(f"create {path}"):
        free = shutil.disk_usage(path.parent).free
        if total > free:
            raise StorageError(
                f"could not create {path}: disk full: "
                f"need {human_size(total)}, have {human_size(free)}"
            )
        try:
            with path.open("wb") as file:
                file.write(header)
                file.flush()
                _reserve(file, total)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    return len(header)


def _reserve(file: BufferedWriter, total: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, total)
        return
    file.seek(0, os.SEEK_END)
    block = bytes(1 << 20)
    while (missing := total - file.tell()) > 0:
        file.write(block[:missing])


class ArrayWriter:
    """A plain .npy file of one dimension that grows at its end; whole once it is closed.

    Raises
    ------
    StorageError
        No space, no rights.
    """

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self.path, self.dtype, self.n = path, np.dtype(dtype), 0
        with storage_errors(f"write {path}"):
            self._file = path.open("wb")
            self._file.write(npy_header(self.dtype, (0,)))

    def append(self, values: NDArray[Any]) -> None:
        """Add values of this type at the end."""
        with storage_errors(f"write {self.path}"):
            self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.n += len(values)

    def close(self) -> None:
        """Write how many there are, which takes as many bytes whatever the number."""
        with storage_errors(f"write {self.path}"), self._file:
            self._file.seek(0)
            self._file.write(npy_header(self.dtype, (self.n,)))


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    if dtype.hasobject:
        raise TypeError("arrays of objects are never stored")
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": dtype.str, "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()


def map_array(path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Map a plain .npy file of just this type and shape, read-only.

    Raises
    ------
    ArtefactError
        The file is missing, cut, longer than its array, pickled, in Fortran order, or holds
        another type or shape. Nothing is ever unpickled.
    StorageError
        The file system refuses to read it.
    """
    kind = np.dtype(dtype)
    with storage_errors(f"read {path}"), open_regular(path) as file:
        header = npy_header(kind, shape)
        if file.read(len(header)) != header:
            _describe_wrong_array(file, path, kind, shape)
        size, expected = os.fstat(file.fileno()).st_size, math.prod(shape) * kind.itemsize
        if size != len(header) + expected:
            raise ArtefactError(
                f"{path} has {size} bytes where an array of shape {shape} has "
                f"{len(header) + expected}: it was cut, or something was added"
            )
        if not expected:
            array = np.zeros(shape, kind)
            array.flags.writeable = False
            return array
        return np.memmap(file, kind, "r", len(header), shape).view(np.ndarray)


def _describe_wrong_array(
    file: BufferedReader, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> NoReturn:
    """Say what the header holds instead; numpy reads it without evaluating anything."""
    file.seek(0)
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("another version of the format")
        found, fortran, kind = np.lib.format.read_array_header_1_0(file)
    except Exception as error:  # numpy looks at it with Python's own tokenizer
        raise ArtefactError(f"{path} is not a plain .npy array: {str(error)[:200]}") from None
    order = " in Fortran order" if fortran else ""
    raise ArtefactError(
        f"{path} holds an array of {kind} of shape {found}{order}; {dtype} of {shape} was expected"
    )
