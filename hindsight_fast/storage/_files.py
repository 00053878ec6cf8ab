"""Opening, hashing and flushing plain files, and what to say when the system refuses."""

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Generator
from io import BufferedReader
from pathlib import Path

from hindsight_fast.errors import ArtefactError, StorageError

SAMPLE_BLOCK = 64 << 10  # bytes of each sampled block
SAMPLE_BLOCKS = 8
_UNTOLD = "Invalid thrift: transport error"  # polars' word for it at the end of a parquet file


@contextlib.contextmanager
def storage_errors(action: str) -> Generator[None]:
    """Turn an error of the system into a StorageError: "could not {action}: no space left ...".

    Polars reports some of them as errors of its own, with the system's number in the text.
    """
    try:
        yield
    except OSError as error:
        reason = _reason(error.errno or _number_in(error), error.strerror or str(error))
        name = f" ({error.filename})" if error.filename else ""
        raise StorageError(f"could not {action}: {reason}{name}") from error
    except Exception as error:
        number = _number_in(error)
        if _UNTOLD in str(error) and not action.startswith("read"):
            raise StorageError(
                f"could not {action}: not all of it could be written; the disk is full, or a limit "
                "is in the way"
            ) from error
        if not number:
            raise
        reason = _reason(number, os.strerror(number))
        raise StorageError(f"could not {action}: {reason}") from error


def _number_in(error: Exception) -> int:
    found = re.search(r"\(os error (\d{1,4})\)", str(error))
    return int(found[1]) if found else 0


def _reason(number: int, text: str) -> str:
    if number == errno.ENOSPC:
        return f"{text}: the disk is full; free some space or choose another place"
    if number in (errno.EFBIG, errno.EDQUOT):
        return f"{text}: a limit on file sizes or a quota is in the way"
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{text}: this user has no right to do that there"
    return text


def human_size(n_bytes: int) -> str:
    value, units = float(n_bytes), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; a link, pipe or device is refused, never waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ArtefactError(f"{path} is missing; make it again") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ArtefactError(f"{path} is a symbolic link; put the file itself there") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ArtefactError(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb")


def full_hash(file: BufferedReader) -> str:
    file.seek(0)
    return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()


def sample_hash(file: BufferedReader, size: int) -> str:
    """Hash the first, the last and evenly spaced blocks between (all of a small file)."""
    state = hashlib.blake2b(digest_size=32)
    last = max(size - SAMPLE_BLOCK, 0)
    for start in sorted({last * i // (SAMPLE_BLOCKS - 1) for i in range(SAMPLE_BLOCKS)}):
        file.seek(start)
        state.update(file.read(SAMPLE_BLOCK))
    return state.hexdigest()


def write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems have no such call for folders
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
