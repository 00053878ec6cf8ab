"""A model folder appears whole and proven in its place, or not at all."""

import contextlib
import errno
import fcntl
import glob
import os
import shutil
from collections.abc import Generator
from pathlib import Path

from hindsight_models.card import CARD_FILE, Card
from hindsight_models.errors import ModelError, TakenError

OF_THE_DISK = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EIO,
)
"""What the file system answers when it refuses to write."""

_LOCK = ".lock"


@contextlib.contextmanager
def placing(target: Path) -> Generator[Path]:
    """Give an empty folder beside `target`, ours alone, for `move_into_place`.

    A second process waits for the first. What a killed one left is wiped; afterwards the folder
    is gone, moved or not.

    Raises
    ------
    OSError
        The file system refuses to write.
    """
    partial = target.with_name(f".{target.name}.partial")
    lock = _lock(partial)
    try:
        replaced = target.parent.glob(f".{glob.escape(target.name)}.old-*")
        for leftover in (*partial.iterdir(), *replaced):
            if leftover.name != _LOCK:
                _remove(leftover)
        yield partial
    finally:
        if is_at(lock, partial / _LOCK):
            shutil.rmtree(partial, ignore_errors=True)
        os.close(lock)


def move_into_place(partial: Path, target: Path) -> None:
    """Flush a finished folder to disk and rename it to `target`, in place of a model there.

    Raises
    ------
    TakenError
        What is at `target` is no model of ours, or holds more than one: it would be lost.
    OSError
        The file system refuses to write.
    """
    check_replaceable(target)
    for path in (*partial.iterdir(), partial):
        _sync(path)
    old = target.with_name(f".{target.name}.old-{os.getpid()}")
    if target.exists():
        target.rename(old)
    partial.rename(target)
    (target / _LOCK).unlink(missing_ok=True)
    _sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def check_replaceable(target: Path) -> None:
    """Check that a model may take the place of what is at `target`.

    Raises
    ------
    TakenError
        It is no model of ours, or holds what belongs to none.
    """
    if not os.path.lexists(target) or (target.is_dir() and not any(target.iterdir())):
        return
    if not (target / CARD_FILE).is_file():
        raise TakenError(f"{target} is no model of ours; move it out of the way")
    foreign = sorted(path.name for path in target.iterdir() if not _belongs(path, target))
    if foreign:
        raise TakenError(
            f"{target} also holds {', '.join(foreign[:5])}, which does not belong to the model "
            "and would be lost; move it away first"
        )


def _belongs(path: Path, model: Path) -> bool:
    """Whether a file is one of a model folder; where its card is damaged, whether it may be."""
    try:
        known = {*Card.read(model).files, CARD_FILE, _LOCK}
    except ModelError:
        return path.suffix in (".json", ".onnx", ".safetensors") or path.name == _LOCK
    return path.name in known


def _lock(partial: Path) -> int:
    """Return the locked descriptor of a file in the folder, so that it moves along with it."""
    while True:
        partial.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # moved away meanwhile
            lock = os.open(partial / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if is_at(lock, partial / _LOCK):
                    return lock
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
