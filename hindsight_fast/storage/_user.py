"""The user's own folder: where models lie, and which files were already checked in full."""

import contextlib
import os
import stat
import sys
from pathlib import Path

from hindsight_fast.errors import StorageError
from hindsight_fast.storage._files import open_regular, storage_errors
from hindsight_fast.storage._manifests import FileFacts, check_file


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
    record = home() / "verified" / name
    if known.st_size == facts.size and _is_private(record.parent) and record.exists():
        return
    check_file(path, facts, full=True)
    with contextlib.suppress(OSError):  # not remembered, then: checked again next time
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_private(record.parent):
            record.touch()


def _is_private(folder: Path) -> bool:
    try:
        facts = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o22
