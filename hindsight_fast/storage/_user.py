"""The user's own folder: where models lie, what was checked in full, and whom the user trusts."""

import contextlib
import fcntl
import os
import stat
import sys
from collections.abc import Generator
from pathlib import Path

from hindsight_fast.errors import StorageError
from hindsight_fast.storage._files import open_regular, storage_errors
from hindsight_fast.storage._manifests import FileFacts, check_file
from hindsight_fast.storage._moving import LOCK

_VERIFIED, _TRUSTED = "verified", "trusted"


def home() -> Path:
    """Return where this user's models and records are: $HINDSIGHT_HOME, or the data folder."""
    if chosen := os.environ.get("HINDSIGHT_HOME"):
        return Path(chosen).expanduser()
    try:
        base = Path.home()
    except RuntimeError:
        raise StorageError("this user has no home folder; set HINDSIGHT_HOME") from None
    if sys.platform == "darwin":
        return base / "Library" / "Application Support" / "hindsight-fast"
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data.startswith("/") else base / ".local/share") / "hindsight-fast"


def full_hash_once(path: Path, facts: FileFacts) -> None:
    """Check all bytes of a file, unless this user has done so since it last changed.

    The record is an empty file in a private folder of `home()`, named after the hash, the file's
    device, inode, size and times; one that another user could have put there is not believed.

    Raises
    ------
    ArtefactError
        The file is not the one that was published.
    """
    with storage_errors(f"read {path}"), open_regular(path) as file:
        known = os.fstat(file.fileno())
    times = f"{known.st_mtime_ns}-{known.st_ctime_ns}"
    name = f"{facts.blake2b}-{known.st_dev}-{known.st_ino}-{known.st_size}-{times}"
    if known.st_size == facts.size and _is_noted(_VERIFIED, name):
        return
    check_file(path, facts, full=True)
    _note(_VERIFIED, name)  # where it can't be, it is checked again next time


def trust(mark: str) -> bool:
    """Remember that this user made an artefact, or trusts who did; tells whether it could be.

    The record is an empty file in a private folder of `home()`, named after the manifest's own
    hash (`Manifest.hash`); so it holds for just these files, wherever they lie.
    """
    return _note(_TRUSTED, mark)


def is_trusted(mark: str) -> bool:
    """Tell whether this user published the artefact whose manifest has this hash, or trusts it."""
    return _is_noted(_TRUSTED, mark)


@contextlib.contextmanager
def private_folder(name: str) -> Generator[Path]:
    """Give a folder of `home()` that nobody else can write; processes use it one after another.

    Raises
    ------
    StorageError
        It can't be made, or others can write there.
    """
    folder = home() / name
    with storage_errors(f"keep anything in {folder}"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(folder):
            raise StorageError(f"{folder} belongs to somebody else, or others may write there")
        turn = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with storage_errors(f"lock {folder}"):
            fcntl.flock(turn, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(turn)


def private_path(name: str) -> Path | None:
    """Return the folder of `private_folder` if it is there, to look into it."""
    try:
        folder = home() / name
    except StorageError:  # no home, so nothing there
        return None
    return folder if _is_private(folder) else None


def _is_noted(kind: str, name: str) -> bool:
    folder = private_path(kind)
    return folder is not None and (folder / name).exists()


def _note(kind: str, name: str) -> bool:
    with contextlib.suppress(OSError, StorageError):
        folder = home() / kind
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_private(folder):
            (folder / name).touch()
            return True
    return False


def _is_private(folder: Path) -> bool:
    try:
        facts = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o22
