"""Publishing an array that takes days to fill: what is done survives a kill, and is gone on with.

The hidden folder `.NAME.partial` holds the array and a journal. Its first line says what the work
is made from, each further one which rows are complete, what was counted at them, and the hash of
their bytes. Rows go to the array first; so a kill between the two loses no more than these rows.
Nothing rests on the order in which a disk keeps what it was sent: after a power cut, rows or lines
that didn't get there are seen by their hashes, and are made again.
"""

import base64
import contextlib
import itertools
import os
import shutil
import time
import zlib
from collections.abc import Callable, Collection, Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.errors import ArtefactError, StorageError, UsageError
from hindsight_fast.storage._files import storage_errors
from hindsight_fast.storage._journal import Journal, NewJournal, Record, records
from hindsight_fast.storage._manifests import differences
from hindsight_fast.storage._moving import JOURNAL, LOCK, lock_folder, remove
from hindsight_fast.storage._publishing import Staging, finish, link_file, prepare
from hindsight_fast.storage._rows import RowFile

_VERSION = 1
_SYNC_EVERY_S = 1.0  # on a fast device a flush for each piece would cost more than the piece
_BLOCK = 65_536  # rows of a piece looked at together


class Piece(NamedTuple):
    """Rows that are complete together.

    Attributes
    ----------
    name
        What they are, for the one who made them.
    low
        The first of the rows.
    mask : ndarray of shape (span,), bool
        Which of the rows from `low` on.
    counts
        What was counted at them.
    """

    name: str
    low: int
    mask: NDArray[np.bool_]
    counts: Mapping[str, int]

    def blocks(self) -> Generator[NDArray[np.int64]]:
        """The rows, ascending, some at a time."""
        for start in range(0, len(self.mask), _BLOCK):
            yield np.flatnonzero(self.mask[start : start + _BLOCK]) + (self.low + start)


class Unfinished:
    """An array that is being filled; `publish_resumable` gives one.

    Attributes
    ----------
    body : dict
        Facts for the manifest.
    n_lost : int
        Pieces that an earlier process had completed and that did not survive.
    """

    def __init__(self, staging: Staging, rows: RowFile, journal: Journal, n_lost: int = 0) -> None:
        self.body, self.n_lost = staging.body, n_lost
        self._rows, self._journal = rows, journal
        self._synced = time.monotonic()

    def write(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Put values into ascending rows; they count once a piece with them is added.

        Raises
        ------
        StorageError
            The file system refuses.
        """
        self._rows.write(rows, values)

    def read(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values of ascending rows.

        Raises
        ------
        ArtefactError
            The file was cut.
        StorageError
            The file system refuses.
        """
        return self._rows.read(rows)

    def add(self, piece: Piece) -> None:
        """Note that the rows of a piece are complete.

        Raises
        ------
        StorageError
            The file system refuses.
        """
        self._journal.add(_to_record(piece, self._rows))
        if time.monotonic() - self._synced >= _SYNC_EVERY_S:
            self.sync()

    def sync(self) -> None:
        """Flush all to disk.

        Raises
        ------
        StorageError
            The file system refuses.
        """
        self._rows.sync()
        self._journal.sync()
        self._synced = time.monotonic()

    def close(self) -> None:
        """Close the files."""
        self._rows.close()
        self._journal.close()


class Target(NamedTuple):
    """What is to be published: a folder of one .npy file, `array`, of this type and shape."""

    path: Path
    kind: str
    array: str
    dtype: type[np.generic]
    shape: tuple[int, int]


@contextlib.contextmanager
def publish_resumable(
    target: Target,
    fingerprint: str,
    made_from: Mapping[str, Any],
    restore: Callable[[Piece], None],
    *,
    overwrite: bool = False,
    discard: bool = False,
) -> Generator[Unfinished]:
    """Fill the array of an artefact, going on where an earlier process stopped.

    On leaving the body of the `with` the artefact appears at its place whole, as with `publish`;
    after an exception what is done stays in the hidden folder.

    Parameters
    ----------
    made_from
        All that the values depend on, by names that a person understands.
    restore
        Called with each piece that is complete already.
    overwrite
        Replace the artefact that is there.
    discard
        Begin anew where unfinished work was made from something else, or is damaged. Where none
        of it is complete, that happens in any case.

    Raises
    ------
    UsageError
        The place is taken, or unfinished work of something else lies there.
    ArtefactError
        Unfinished work lies there and is damaged.
    StorageError
        No space, no rights, or another process is writing there.
    """
    path = prepare(target.path, target.kind, fingerprint, overwrite=overwrite)
    folder, writing = path.with_name(f".{path.name}.partial"), f"write {path}"
    with storage_errors(writing):
        (path / JOURNAL).unlink(missing_ok=True)  # left by a kill right after publishing
        descriptor = lock_folder(folder)
    try:
        staging = Staging(folder, fingerprint)
        with nothing_begun_removed(folder):
            work = _continue(staging, target, made_from, restore, discard=discard)
        try:
            yield work
        except BaseException:
            with contextlib.suppress(StorageError):  # what went wrong first is told
                work.sync()
            raise
        finally:
            work.close()
        with storage_errors(writing):
            finish(staging, path, target.kind, fingerprint, overwrite=overwrite)
    finally:
        os.close(descriptor)


def _continue(
    staging: Staging,
    target: Target,
    made_from: Mapping[str, Any],
    restore: Callable[[Piece], None],
    *,
    discard: bool,
) -> Unfinished:
    folder = staging.folder
    header = {"version": _VERSION, "kind": target.kind, "made_from": dict(made_from)}
    array, journal = folder / target.array, folder / JOURNAL
    if os.path.lexists(journal):
        try:
            check_header(folder, header)
            rows = RowFile(array, target.dtype, target.shape, writable=True)
            return _restored(staging, rows, header, restore)
        except ArtefactError as error:
            if not discard:
                raise ArtefactError(
                    f"the unfinished work in {folder} is damaged ({error}); "
                    "give --overwrite to discard it"
                ) from error
        except UsageError:
            nothing_done = not any(itertools.islice(records(journal), 1, None))
            if not discard and not nothing_done:
                raise
    with storage_errors(f"write {folder}"):
        journal.unlink(missing_ok=True)  # first: without it nothing here counts
        clear(folder, keep=(LOCK,))
        rows = RowFile.create(array, target.dtype, target.shape)
        rows.sync()  # a journal without its array would be damage
        with contextlib.closing(NewJournal(journal)) as new:
            new.add(header)
            return Unfinished(staging, rows, new.done())


@contextlib.contextmanager
def nothing_begun_removed(folder: Path) -> Generator[None]:
    """Where work in a folder can't even begin, nothing is left of it."""
    try:
        yield
    except BaseException:
        if not os.path.lexists(folder / JOURNAL):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def clear(folder: Path, keep: Collection[str]) -> None:
    """Remove all that is in `folder` but for the names to keep."""
    for leftover in folder.iterdir():
        if leftover.name not in keep:
            remove(leftover)


def check_header(folder: Path, expected: Record) -> None:
    """Refuse the work in `folder` whose journal doesn't begin with the header that is expected."""
    found = next(records(folder / JOURNAL), None)
    if found is None:
        raise ArtefactError("its journal doesn't begin as it must")
    if found.get("version") != _VERSION or found.get("kind") != expected["kind"]:
        raise UsageError(
            f"the unfinished work in {folder} is of another version of this program; go on with "
            "that, or give --overwrite to discard it"
        )
    if told := differences(found["made_from"], expected["made_from"]):
        raise UsageError(
            f"the unfinished work in {folder} was made from something else ({told}); ask for the "
            "same as before to go on with it, or give --overwrite to discard it"
        )


def unfinished(folder: Path) -> list[Path]:
    """Return the hidden folders of unfinished work in `folder`."""
    return sorted(journal.parent for journal in folder.glob(f".*.partial/{JOURNAL}"))


def refuse_running(folder: Path) -> None:
    """Refuse to go on while a process fills an array in `folder`: its work would be lost.

    Raises
    ------
    StorageError
        One does, or the file system refuses.
    """
    with storage_errors(f"look at {folder}"):
        for partial in unfinished(folder):
            os.close(lock_folder(partial))


def link_unfinished(source: Path, target: Path) -> None:
    """Make unfinished work in the hidden folder `source` that of `target` too: of the same files.

    A process that goes on with it meanwhile does so in both.

    Raises
    ------
    StorageError
        No space or no rights.
    """
    with storage_errors(f"write {target}"):
        target.mkdir(parents=True)
        for file in source.iterdir():
            link_file(file, target / file.name)


def _restored(
    staging: Staging, rows: RowFile, header: Record, restore: Callable[[Piece], None]
) -> Unfinished:
    """Read the journal, and write it anew without the lines and pieces that didn't survive."""
    journal, lost = staging.folder / JOURNAL, 0
    with storage_errors(f"write {journal}"):
        clear(staging.folder, keep=(LOCK, JOURNAL, rows.path.name))
        with contextlib.closing(NewJournal(journal)) as new:
            new.add(header)
            for record in itertools.islice(records(journal), 1, None):
                piece = None if record is None else _from_record(record)
                if record is None or piece is None or rows.digest(piece.blocks()) != record["hash"]:
                    lost += 1
                    continue
                restore(piece)
                new.add(record)
            return Unfinished(staging, rows, new.done(), lost)


def _to_record(piece: Piece, rows: RowFile) -> Record:
    packed = zlib.compress(np.packbits(piece.mask).tobytes(), 1)
    return {
        "name": piece.name,
        "low": piece.low,
        "span": len(piece.mask),
        "mask": base64.b85encode(packed).decode(),
        "counts": dict(piece.counts),
        "hash": rows.digest(piece.blocks()),
    }


def _from_record(record: Record) -> Piece:
    packed = np.frombuffer(zlib.decompress(base64.b85decode(record["mask"])), np.uint8)
    mask = np.unpackbits(packed, count=record["span"]).view(np.bool_)
    return Piece(record["name"], record["low"], mask, record["counts"])
