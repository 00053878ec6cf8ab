"""Publishing a folder that takes hours to fill, step by step: what is done survives a kill.

The hidden folder `.NAME.partial` holds files and a journal. Its first line says what the work is
made from, each further one what the maker noted after a step. A line is on the disk before the
next step; so what is noted of is never done again.
"""

import contextlib
import itertools
import os
import shutil
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from hindsight_fast.errors import ArtefactError, UsageError
from hindsight_fast.storage._files import storage_errors
from hindsight_fast.storage._journal import Journal, NewJournal, Record, records
from hindsight_fast.storage._manifests import MANIFEST
from hindsight_fast.storage._moving import JOURNAL, LOCK, lock_folder
from hindsight_fast.storage._publishing import Staging, finish, prepare
from hindsight_fast.storage._resuming import check_header, clear, nothing_begun_removed

_VERSION = 1


class Steps:
    """A folder that is being filled; `publish_stepwise` gives one.

    Attributes
    ----------
    folder : Path
        Where the files go.
    body : dict
        Facts for the manifest.
    noted : list of mappings
        What earlier processes noted, in order; lines that didn't survive are left out.
    keep : bool
        After an exception, what is done stays; else nothing does.
    anything : bool
        Something is noted; of work without that, nothing stays.
    """

    def __init__(self, staging: Staging, noted: list[Record], journal: Journal) -> None:
        self.folder, self.body, self.noted = staging.folder, staging.body, noted
        self.keep, self.anything = True, bool(noted)
        self._journal = journal

    def note(self, record: Record) -> None:
        """Note a step, of JSON values; it outlives a power cut.

        Raises
        ------
        StorageError
            The file system refuses.
        """
        self._journal.add(record)
        self._journal.sync()
        self.anything = True


@contextlib.contextmanager
def publish_stepwise(
    path: Path,
    kind: str,
    fingerprint: str,
    made_from: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> Generator[Steps]:
    """Fill a folder step by step, going on where an earlier process stopped.

    On leaving the body of the `with` the artefact appears at its place whole, as with `publish`;
    after an exception what is done stays in the hidden folder, if it is to be kept.

    Parameters
    ----------
    made_from
        All that the content depends on, by names that a person understands.
    overwrite
        Replace the artefact that is there, and discard unfinished work of something else or that
        is damaged. Where none of it was noted, that is discarded in any case.

    Raises
    ------
    UsageError
        The place is taken, or unfinished work of something else lies there.
    ArtefactError
        Unfinished work lies there and is damaged.
    StorageError
        No space, no rights, or another process is writing there.
    """
    path = prepare(path, kind, fingerprint, overwrite=overwrite)
    folder, writing = path.with_name(f".{path.name}.partial"), f"write {path}"
    with storage_errors(writing):
        (path / JOURNAL).unlink(missing_ok=True)  # left by a kill right after publishing
        descriptor = lock_folder(folder)
    try:
        staging = Staging(folder, fingerprint)
        header = {"version": _VERSION, "kind": kind, "made_from": dict(made_from)}
        with nothing_begun_removed(folder), storage_errors(writing):
            noted = _noted(folder, header, discard=overwrite)
            with contextlib.closing(NewJournal(folder / JOURNAL)) as new:
                for record in (header, *noted):
                    new.add(record)
                journal = new.done()
        work = Steps(staging, noted, journal)
        try:
            yield work
        except BaseException:
            if not work.keep or not work.anything:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            journal.close()
        with storage_errors(writing):
            finish(staging, path, kind, fingerprint, overwrite=overwrite)
    finally:
        os.close(descriptor)


def _noted(folder: Path, header: Record, *, discard: bool) -> list[Record]:
    """What was noted of the same work; of none and of other work, nothing is left there."""
    journal = folder / JOURNAL
    if os.path.lexists(journal):
        lines = itertools.islice(records(journal), 1, None)
        noted = [record for record in lines if record is not None]
        try:
            check_header(folder, header)
            (folder / MANIFEST).unlink(
                missing_ok=True
            )  # of a kill right before it was all in place
            return noted
        except ArtefactError as error:
            if not discard:
                raise ArtefactError(
                    f"the unfinished work in {folder} is damaged ({error}); "
                    "give --overwrite to discard it"
                ) from error
        except UsageError:
            if noted and not discard:
                raise
    journal.unlink(missing_ok=True)  # first: without it nothing here counts
    clear(folder, keep=(LOCK,))
    return []
