"""Opening, hashing and flushing plain files, and what to say when the system refuses."""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Generator
from io import BufferedReader
from pathlib import Path

from hindsight_fast.errors import ArtefactError, StorageError

SAMPLE_BLOCK = 64 << 10  # bytes of each sampled block
SAMPLE_BLOCKS = 8


@contextlib.contextmanager
def storage_errors(action: str) -> Generator[None]:
    """Turn an OSError inside into a StorageError: "could not {action}: no space left ..."."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"could not {action}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    text = error.strerror or str(error) or type(error).__name__
    if error.errno == errno.ENOSPC or "os error 28" in text:
        return f"the disk is full ({text}); free some space or choose another place"
    if error.errno in (errno.EFBIG, errno.EDQUOT):
        return f"{text}: a limit on file sizes or a quota is in the way"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{text}: this user has no right to do that there"
    return text + (f" ({error.filename})" if error.filename else "")


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
        raise ArtefactError(f"{path} is missing; build it again") from None
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
