"""Work in numbered parts: those that are whole survive a kill, and are not made again.

A hidden folder holds the files of the parts and a journal. Its first line says what the work is
made from; others what was settled before the first part, and of each part what was counted at it
and the hashes of its files. Files are written before their line, so a kill between the two loses
no more than this part. Nothing rests on the order in which a disk keeps what it was sent: a file
or a line that didn't get there is seen by its hash, and its part is made again.
"""

import contextlib
import hashlib
import itertools
import os
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, cast

from hindsight_fast.errors import ArtefactError, StorageError, UsageError
from hindsight_fast.storage._files import full_hash, open_regular, storage_errors
from hindsight_fast.storage._journal import Journal, NewJournal, Record, records
from hindsight_fast.storage._moving import JOURNAL, LOCK, lock_folder
from hindsight_fast.storage._publishing import refuse_inside
from hindsight_fast.storage._resuming import check_header, clear

_VERSION = 1
_SYNC_EVERY_S = 1.0


class Parts:
    """A folder of parts, locked; `working_parts` gives one, and `begin` says what they are of.

    Attributes
    ----------
    folder : Path
    keep : bool
        Whether the folder is to stay there when the work ends early.
    whole : dict of int to mapping
        What was counted at the parts that an earlier process made; who has read it may take it out.
    settled : mapping
        What was settled before the first part; empty if nothing was.
    n_lost : int
        Parts and lines that did not survive.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self._kind = folder, kind
        self.keep = os.path.lexists(folder / JOURNAL)
        self.whole: dict[int, Mapping[str, Any]] = {}
        self.settled: Mapping[str, Any] = {}
        self.n_lost = 0
        self._lines = dict[int, Record]()
        self._journal: Journal | None = None
        self._synced = time.monotonic()

    def is_of(self, made_from: Mapping[str, Any]) -> bool:
        """Tell whether unfinished work of just this lies there, whole or not."""
        if not os.path.lexists(self.folder / JOURNAL):
            return False
        with contextlib.suppress(ArtefactError, UsageError):
            check_header(self.folder, self._header(made_from))
            return True
        return False

    def begin(self, made_from: Mapping[str, Any], *, discard: bool, settles: bool = False) -> None:
        """Find the parts that are whole, or begin anew.

        Parameters
        ----------
        made_from
            All that the parts depend on, by names that a person understands.
        discard
            Begin anew where the work that lies there was made from something else, or is damaged.
            Where no part of it was made, that happens in any case.
        settles
            Parts depend on what was settled before them: where that is lost, so are they.

        Raises
        ------
        UsageError
            Unfinished work of something else lies there.
        ArtefactError
            Unfinished work lies there and is damaged.
        StorageError
            The file system refuses.
        """
        header, journal = self._header(made_from), self.folder / JOURNAL
        with storage_errors(f"work in {self.folder}"):
            if os.path.lexists(journal) and not self._same_work(header, discard=discard):
                journal.unlink()  # first: without it nothing here counts
            if os.path.lexists(journal):
                self._read()
            if settles and not self.settled:
                self.n_lost += len(self._lines)
                self._lines, self.whole = {}, {}
            files = {self.path(n, i).name for i, line in self._lines.items() for n in line["files"]}
            clear(self.folder, keep={LOCK, JOURNAL, *files})
            with contextlib.closing(NewJournal(journal)) as new:
                new.add(header)
                if self.settled:
                    new.add({"settled": self.settled})
                for line in self._lines.values():
                    new.add(line)
                self._journal = new.done()
        self._lines = {}
        self.keep = bool(self.whole)

    def settle(self, facts: Mapping[str, Any]) -> None:
        """Note what holds for all parts, of JSON values."""
        self.settled = facts
        self._add({"settled": facts})

    def add(
        self, number: int, files: Mapping[str, bytes | memoryview], facts: Mapping[str, Any]
    ) -> None:
        """Write the files of a part, and note what was counted at it (JSON values).

        Raises
        ------
        StorageError
            The file system refuses.
        """
        hashes = dict[str, str]()
        for name, data in files.items():
            path = self.path(name, number)
            with storage_errors(f"write {path}"), path.open("wb") as file:
                file.write(data)
            hashes[name] = hashlib.blake2b(data, digest_size=32).hexdigest()
        self._add({"part": number, "files": hashes, "facts": facts})
        self.keep = True

    def path(self, name: str, number: int) -> Path:
        """Return where a file of a part is."""
        return self.folder / f"{name}-{number:09d}"

    def files(self, name: str) -> list[Path]:
        """Return the files of this name, in order of the parts."""
        with storage_errors(f"read {self.folder}"):
            return sorted(f for f in self.folder.iterdir() if f.name.startswith(f"{name}-"))

    def close(self) -> None:
        """Flush the journal to disk, and close it."""
        if self._journal is not None:
            # What ended the work is told, and what was published needs no journal.
            with contextlib.suppress(StorageError), contextlib.closing(self._journal) as journal:
                journal.sync()
            self._journal = None

    def remove(self) -> None:
        """Take the folder away; the lock goes last, or else it would seem to be another's."""
        with contextlib.suppress(OSError):
            (self.folder / JOURNAL).unlink(missing_ok=True)
            clear(self.folder, keep=(LOCK,))
            (self.folder / LOCK).unlink()
            self.folder.rmdir()

    def _header(self, made_from: Mapping[str, Any]) -> Record:
        return {"version": _VERSION, "kind": self._kind, "made_from": dict(made_from)}

    def _same_work(self, header: Record, *, discard: bool) -> bool:
        try:
            check_header(self.folder, header)
            return True
        except ArtefactError as error:
            if not discard:
                raise ArtefactError(
                    f"the unfinished work in {self.folder} is damaged ({error}); "
                    "give --overwrite to discard it"
                ) from error
        except UsageError:
            if not discard and any(line and "part" in line for line in self._after_header()):
                raise
        return False

    def _after_header(self) -> Generator[Record | None]:
        yield from itertools.islice(records(self.folder / JOURNAL), 1, None)

    def _read(self) -> None:
        """Look at every line and every file that one names."""
        lines = dict[int, Record]()
        for line in self._after_header():
            if line is None:
                self.n_lost += 1
            elif "part" in line:
                lines[line["part"]] = line
            else:
                self.settled = line["settled"]
        for number, line in sorted(lines.items()):
            if all(self._is_whole(number, name, mark) for name, mark in line["files"].items()):
                self._lines[number] = line
                self.whole[number] = cast("Mapping[str, Any]", line["facts"])
            else:
                self.n_lost += 1

    def _is_whole(self, number: int, name: str, mark: str) -> bool:
        try:
            with open_regular(self.path(name, number)) as file:
                return full_hash(file) == mark
        except ArtefactError:
            return False

    def _add(self, record: Record) -> None:
        assert self._journal is not None  # `begin` comes first
        self._journal.add(record)
        if time.monotonic() - self._synced >= _SYNC_EVERY_S:
            self._journal.sync()
            self._synced = time.monotonic()


@contextlib.contextmanager
def working_parts(path: Path, kind: str) -> Generator[Parts]:
    """Lock the hidden folder `path` of the parts of a job, which is made where it isn't there.

    It stays there, whatever ends the body of the `with`, while `Parts.keep` is true.

    Raises
    ------
    StorageError
        No space, no rights, another process is working there, or the folder was never ours.
    """
    with storage_errors(f"work in {path}"):
        path = Path(os.path.realpath(path))
        refuse_inside(path, "file")
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = lock_folder(path)
    try:
        parts = Parts(path, kind)
        try:
            yield parts
        finally:
            parts.close()
            if not parts.keep:
                parts.remove()
    finally:
        os.close(descriptor)
