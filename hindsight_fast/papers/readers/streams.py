"""Bytes of a file, decompressed on the way, and what its first bytes say that it is."""

import io
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, cast

import numpy as np
import zstandard
from isal import igzip, isal_zlib

from hindsight_fast.errors import DataError, StorageError

HEAD_BYTES: Final = 1 << 16
"""How much of a file's beginning a reader may look at to recognise it."""

LONGEST_LINE: Final = 64 << 20
"""Bytes; a longer line is a reject, so that memory stays bounded."""

_LINE_FEED = ord("\n")
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 10
"""Compressed bytes at a time: 4 of them may stand for a block of 128 KiB, so 32 MiB at most."""

_BUFFER = 1 << 18
_BLOCK = 1 << 20
"""Bytes of lines that are looked at together."""

# Several times as fast as the standard library's; its types say less than they know.
_igzip: Any = igzip
_DAMAGED: Final[tuple[type[Exception], ...]] = (
    EOFError,
    _igzip.BadGzipFile,
    cast("type[Exception]", isal_zlib.error),
    zstandard.ZstdError,
)


class _ZstdFile(io.RawIOBase):
    """Decompressed bytes of a .zst file; a cut one is an error, not an early end."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._decoder = zstandard.ZstdDecompressor().decompressobj()
        self._fed = False
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview[int]", /) -> int:  # type: ignore[override]
        while not self._ready:
            piece = self._raw.read(_PIECE)
            if not piece:
                if self._fed and not self._decoder.eof:
                    raise EOFError("the compressed stream ends in the middle")
                return 0
            self._ready = memoryview(self._decode(piece))
        n = min(len(buffer), len(self._ready))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n

    def _decode(self, piece: bytes) -> bytes:
        out: list[bytes] = []
        while piece:
            if self._decoder.eof:  # frames may follow each other
                self._decoder, self._fed = zstandard.ZstdDecompressor().decompressobj(), False
            out.append(self._decoder.decompress(piece))
            self._fed, piece = True, self._decoder.unused_data if self._decoder.eof else b""
        return b"".join(out)


@contextmanager
def open_bytes(path: Path) -> Generator[IO[bytes]]:
    """Open a plain, .gz or .zst file by its content.

    Raises
    ------
    DataError
        Where the file is missing, a folder, or its compressed data damaged or cut short; also
        while it is being read.
    StorageError
        Where the system does not let it be read.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file: name the files in it")
    if path.exists() and not path.is_file():  # papers are read from the beginning, more than once
        raise DataError(f"{path} is a pipe or a device: save it as a file, or pipe it in as -")
    try:
        with path.open("rb", buffering=_BUFFER) as raw:
            head = raw.read(4)
            raw.seek(0)
            if head[:2] == _GZIP:
                with _igzip.open(raw) as unpacked, io.BufferedReader(unpacked, _BUFFER) as stream:
                    yield stream
            elif head == _ZSTD:
                yield cast("IO[bytes]", io.BufferedReader(_ZstdFile(raw), _BUFFER))
            else:
                yield raw
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except _DAMAGED as error:
        raise DataError(
            f"{path}: the compressed data is damaged or cut short ({error}); "
            "copy or download the file again"
        ) from error
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror or error}") from error


def head(path: Path) -> bytes:
    """First `HEAD_BYTES` bytes of a file, decompressed.

    Raises
    ------
    DataError
        As `open_bytes`; also for an empty file and for text that is not UTF-8 but UTF-16.
    """
    with open_bytes(path) as stream:
        start = stream.read(HEAD_BYTES)
    if not start:
        raise DataError(f"{path} is empty")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path} is UTF-16 text; UTF-8 is expected (iconv -f UTF-16 -t UTF-8)")
    return start


def lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines without their ends; None for one longer than `LONGEST_LINE`.

    Only a line feed (with a carriage return before it) ends a line. A byte order mark at the
    start is dropped.
    """
    read = partial(stream.readline, LONGEST_LINE)
    number = 1
    line = read().removeprefix(b"\xef\xbb\xbf")
    while line:
        if line.endswith(b"\n"):
            yield number, line[:-2] if line.endswith(b"\r\n") else line[:-1]
        elif len(line) < LONGEST_LINE:
            yield number, line.removesuffix(b"\r")
        else:
            while line and not line.endswith(b"\n"):
                line = read()
            yield number, None
        number += 1
        line = read()


def blocks(stream: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """The same lines, many at a time: the number of the first, and all of them with their ends.

    None stands for one line that is too long.
    """
    number, piece = 1, min(_BLOCK, LONGEST_LINE)
    block = stream.read(piece).removeprefix(b"\xef\xbb\xbf")
    while block:
        if not block.endswith(b"\n"):
            block += stream.readline(LONGEST_LINE)
        last = block.rfind(b"\n", 0, -1) + 1
        if len(block) - last - block.endswith(b"\n") < LONGEST_LINE:
            yield number, block
            number += _n_lines(block)
        else:
            if last:
                yield number, block[:last]
                number += _n_lines(block[:last])
            while block and not block.endswith(b"\n"):
                block = stream.readline(LONGEST_LINE)
            yield number, None
            number += 1
        block = stream.read(piece)


def _n_lines(block: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == _LINE_FEED))  # count() is slow


def split(number: int, block: bytes) -> Iterator[tuple[int, bytes]]:
    """The numbered lines of a block, without their ends."""
    for line in block.removesuffix(b"\n").split(b"\n"):
        yield number, line.removesuffix(b"\r")
        number += 1
