"""A file of lines to which is only ever added, each with a checksum of its own.

A line is 32 hexadecimal digits, a space, and JSON. One that was torn by a kill, or lost by a power
cut, does not have its checksum; every other is as good as it was.
"""

import hashlib
import json
import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from hindsight_fast.storage._files import open_regular, storage_errors, sync_folder

Record = Mapping[str, Any]


class Journal:
    """The end of a journal, where lines are added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with storage_errors(f"open {path}"):
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)

    def add(self, record: Record) -> None:
        """Add a line; it outlives this process, and once synced a power cut."""
        raw = memoryview(_line(record))
        with storage_errors(f"write {self.path}"):
            while raw:
                raw = raw[os.write(self._file, raw) :]

    def sync(self) -> None:
        """Flush the lines to disk."""
        with storage_errors(f"write {self.path}"):
            os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class NewJournal:
    """A journal that takes the place of one at `path`, or of none, when it is `done`."""

    def __init__(self, path: Path) -> None:
        self.path, self._beside = path, path.with_name(f"{path.name}.new")
        self._file = self._beside.open("wb")

    def add(self, record: Record) -> None:
        """Add a line."""
        self._file.write(_line(record))

    def done(self) -> Journal:
        """Flush it to disk and put it there, in one step."""
        with storage_errors(f"write {self.path}"):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._beside.replace(self.path)
            sync_folder(self.path.parent)
        return Journal(self.path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def records(path: Path) -> Generator[Record | None]:
    """Read a journal; None for each line that is damaged."""
    with storage_errors(f"read {path}"), open_regular(path) as file:
        for line in file:
            yield _parse(line)


def _line(record: Record) -> bytes:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    return _checksum(text) + b" " + text + b"\n"


def _parse(line: bytes) -> Record | None:
    stated, _, text = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or stated != _checksum(text):
        return None
    return json.loads(text)  # type: ignore[no-any-return]


def _checksum(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).hexdigest().encode()
