"""Folders and files under a lock, and moving a folder to where another one is."""

import contextlib
import ctypes
import fcntl
import glob
import os
import shutil
import sys
import time
from pathlib import Path

from hindsight_fast.errors import StorageError
from hindsight_fast.storage._files import storage_errors
from hindsight_fast.storage._manifests import MANIFEST

LOCK = ".lock"
JOURNAL = ".journal"  # of work that can be continued; both are no part of the artefact


def lock_folder(folder: Path) -> int:
    """Return the locked descriptor of `folder`, which is made where it isn't there.

    Raises
    ------
    StorageError
        Another process holds it, it has neither lock nor manifest, so it was never ours, or it is
        another user's, who could change what is in it at any time.
    """
    descriptor = -1
    while descriptor < 0:
        names = {entry.name for entry in folder.iterdir()} if folder.exists() else set[str]()
        if names and not names & {LOCK, MANIFEST}:
            raise StorageError(f"{folder} is in the way and not ours; remove it")
        # What is new is ours, whatever a server says of its owner.
        if os.path.lexists(folder) and folder.lstat().st_uid != os.geteuid():
            raise StorageError(f"{folder} is in the way and another user's; remove it")
        folder.mkdir(exist_ok=True)
        descriptor = try_lock(folder / LOCK)
    return descriptor


def try_lock(path: Path) -> int:
    """Return a locked descriptor of the file, or -1 if it was moved away meanwhile.

    Raises
    ------
    StorageError
        Another process holds the lock.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except FileNotFoundError:
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        name = path.parent if path.name == LOCK else path
        raise StorageError(f"another process is writing {name} at this moment") from None
    except BaseException:
        os.close(descriptor)
        raise
    if not is_open_as(descriptor, path):
        os.close(descriptor)
        return -1
    return descriptor


def is_open_as(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def move_into_place(partial: Path, path: Path) -> None:
    if not path.is_dir() or not any(path.iterdir()):
        partial.rename(path)
        return
    old = _beside(path)
    if _exchange(partial, path):
        partial.rename(old)
    else:
        path.rename(old)
        partial.rename(path)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.old-{os.getpid()}-{time.monotonic_ns()}")


def remove_artefact(path: Path) -> None:
    """Take an artefact away, in one step for those who look for it; who has mapped it keeps it.

    Raises
    ------
    StorageError
        No rights.
    """
    with storage_errors(f"remove {path}"):
        path.rename(_beside(path))
        sweep(path)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step, so that no reader finds nothing; False where unsupported."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    at_cwd, exchange = -100, 2
    done = renameat2(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange)
    return int(done) == 0


def sweep(path: Path) -> None:
    """Remove what `path` was replaced from, now or by a process that was killed at it."""
    for old in path.parent.glob(f".{glob.escape(path.name)}.old-*"):
        with contextlib.suppress(OSError):  # no folder, or another process is at it
            entries = sorted(old.iterdir(), key=lambda entry: entry.name == MANIFEST)
            if entries and entries[-1].name != MANIFEST:
                continue  # not ours: the manifest goes last
            for entry in entries:
                remove(entry)
            old.rmdir()
