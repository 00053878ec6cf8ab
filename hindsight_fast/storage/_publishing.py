"""Writing an artefact or a file so that it is there whole, or not at all."""

import contextlib
import os
import shutil
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from hindsight_fast.errors import ArtefactError, UsageError
from hindsight_fast.storage._files import (
    full_hash,
    open_regular,
    sample_hash,
    storage_errors,
    sync_folder,
    write_durably,
)
from hindsight_fast.storage._manifests import (
    MANIFEST,
    NAME,
    FileFacts,
    Manifest,
    check_file,
    differences,
    in_words,
    manifest_bytes,
    open_folder,
    read_manifest,
    verify_files,
)
from hindsight_fast.storage._moving import (
    JOURNAL,
    LOCK,
    is_open_as,
    lock_folder,
    move_into_place,
    remove,
    sweep,
    try_lock,
)
from hindsight_fast.storage._user import trust

VECTORS = "vectors"
RAW = "raw"  # answers of a service, in a collection, whose own list names them


@dataclass(slots=True)
class Staging:
    """An artefact in the making: put files into `folder` and facts into `body`.

    `fingerprint` is to be set where it was not known beforehand; without one, nothing is published.
    """

    folder: Path
    fingerprint: str | None
    body: dict[str, Any] = field(default_factory=dict[str, Any])


def existing(
    path: Path,
    kind: str,
    fingerprint: str,
    *,
    overwrite: bool = False,
    made_from: Mapping[str, Any] | None = None,
) -> Manifest | None:
    """Return the manifest of what is at `path` if it is just what is about to be built.

    None means: nothing is there (or an empty folder), or it is another or damaged and is to be
    overwritten. Before something is kept in spite of `overwrite`, all of its bytes are checked.
    With `made_from`, as its manifest has it, a refusal names what differs.

    Raises
    ------
    UsageError
        Something else is there: without `overwrite`, or not made by this program, or of another
        kind, which `overwrite` doesn't replace.
    ArtefactError
        It is what is to be built, but damaged: without `overwrite`, or in its manifest.
    """
    manifest = _manifest_at(path, kind)
    if manifest is None:
        return None
    if manifest.fingerprint != fingerprint:
        if overwrite:
            _refuse_foreign(path, manifest)
            return None
        told = other_than(made_from, manifest.body)
        raise UsageError(
            f"{path} already holds {in_words(kind)} made from other input or settings{told}; "
            "give --overwrite to replace it, or choose another name"
        )
    try:
        return verify_files(path, kind) if overwrite else open_folder(path, kind)
    except ArtefactError as error:
        if overwrite:
            _refuse_foreign(path, manifest)
            return None
        raise ArtefactError(f"{error}, with --overwrite") from error


def other_than(made_from: Mapping[str, Any] | None, body: Mapping[str, Any]) -> str:
    """In brackets, what differs from what a manifest says that it was made from; or empty."""
    old = body.get("made_from")
    if made_from is None or not isinstance(old, dict):
        return ""
    told = differences(cast("dict[str, Any]", old), made_from)
    return f" ({told})" if told else ""


def _refuse_foreign(path: Path, manifest: Manifest) -> None:
    """An artefact is replaced with all that lies in it, so nothing of others may lie there."""
    known = {*manifest.files, MANIFEST, LOCK, JOURNAL, VECTORS, RAW}
    with storage_errors(f"look at {path}"):
        foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in known)
    if foreign:
        raise UsageError(
            f"{path} also holds {', '.join(foreign[:5])}, which does not belong to it and would be "
            "lost: move that away first"
        )


def _real_path(path: Path) -> Path:
    with storage_errors(f"find {path}"):  # the working folder itself may be gone
        return Path(os.path.realpath(path))


def refuse_inside(path: Path, kind: str) -> None:
    """Only vectors live inside another artefact: anything else would go when that is replaced."""
    for parent in path.parents:
        if kind != VECTORS and (parent / MANIFEST).is_file():
            with contextlib.suppress(ArtefactError):
                inside = read_manifest(parent).kind
                raise UsageError(
                    f"{path} would lie inside {parent}, {in_words(inside)}; choose another place"
                )


def _manifest_at(path: Path, kind: str) -> Manifest | None:
    """The manifest of what may be replaced by an artefact of this kind; None: the place is free.

    Raises
    ------
    UsageError, ArtefactError
        What is there is not ours, of another kind, or its manifest can't be read.
    """
    with storage_errors(f"look at {path}"):
        if not os.path.lexists(path):
            return None
        if path.is_dir() and not any(path.iterdir()):
            return None
        if not path.is_dir() or not os.path.lexists(path / MANIFEST):
            raise UsageError(
                f"{path} exists and was not made by this program; choose another name, or remove it"
            )
    try:
        manifest = read_manifest(path)
    except ArtefactError as error:
        raise ArtefactError(f"{error}; remove {path} yourself if it may go") from error
    if manifest.kind != kind:
        raise UsageError(
            f"{path} is {in_words(manifest.kind)} and can't be replaced by {in_words(kind)}"
        )
    return manifest


@contextlib.contextmanager
def publish(
    path: Path, kind: str, fingerprint: str | None, *, overwrite: bool = False
) -> Generator[Staging]:
    """Write an artefact so that it appears at `path` whole, or not at all.

    A fingerprint that is known only once all is written (None) is set by the body of the `with`,
    which leaves it out where `existing` finds just this artefact at `path`.

    The body of the `with` fills `Staging.folder`; on leaving it, the files are hashed and flushed
    to disk and the folder is renamed to `path`. Folders inside are artefacts of their own (see
    `link_artefact`). After an exception nothing is left; one of the body is passed on as it is.

    Raises
    ------
    UsageError
        `path` is taken; call `existing` first to reuse what is there. With `overwrite`, only what
        is not ours or of another kind is in the way.
    StorageError
        No space, no rights, or another process is writing there.
    """
    path, writing = prepare(path, kind, fingerprint, overwrite=overwrite), f"write {path}"
    with _locked_folder(path.with_name(f".{path.name}.partial"), writing) as partial:
        staging = Staging(partial, fingerprint)
        yield staging
        with storage_errors(writing):
            if staging.fingerprint is None:
                shutil.rmtree(partial)
            else:
                finish(staging, path, kind, staging.fingerprint, overwrite=overwrite)


def prepare(path: Path, kind: str, fingerprint: str | None, *, overwrite: bool) -> Path:
    """Return the real path, after a look at whether an artefact may be put there."""
    path = _real_path(path)
    if not path.name:
        raise UsageError(f"{path} can't be the name of {in_words(kind)}")
    refuse_inside(path, kind)
    _check_free(path, kind, fingerprint, overwrite=overwrite)
    with storage_errors(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path)
    return path


def finish(staging: Staging, path: Path, kind: str, fingerprint: str, *, overwrite: bool) -> None:
    """Make what was staged an artefact, at `path`, which this user then made and trusts."""
    made = _seal(staging, kind, fingerprint)
    _check_free(path, kind, fingerprint, overwrite=overwrite)
    move_into_place(staging.folder, path)
    trust(made)
    for name in (JOURNAL, LOCK):
        (path / name).unlink(missing_ok=True)
    sync_folder(path.parent)
    sweep(path)


def _check_free(path: Path, kind: str, fingerprint: str | None, *, overwrite: bool) -> None:
    if overwrite or fingerprint is None:
        if (there := _manifest_at(path, kind)) is not None and overwrite:
            _refuse_foreign(path, there)
    elif existing(path, kind, fingerprint) is not None:
        raise UsageError(f"{path} already holds just this; nothing is to be built")


def _seal(staging: Staging, kind: str, fingerprint: str) -> str:
    """Flush the files to disk, and write the manifest that names them; returns its hash."""
    plain = [f for f in sorted(staging.folder.iterdir()) if f.is_symlink() or not f.is_dir()]
    files = {f.name: _settle(f) for f in plain if f.name not in (LOCK, JOURNAL)}
    raw = manifest_bytes(kind, fingerprint, staging.body, files)
    write_durably(staging.folder / MANIFEST, raw)
    sync_folder(staging.folder)
    return read_manifest(staging.folder).hash


def link_artefact(source: Path, target: Path) -> None:
    """Make a second artefact of the same files; they are copied where links can't be had.

    Parameters
    ----------
    source
        A whole artefact.
    target
        A folder that doesn't exist.

    Raises
    ------
    StorageError
        No space or no rights.
    """
    with storage_errors(f"write {target}"):
        target.mkdir(parents=True)
        for name in (*read_manifest(source).files, MANIFEST):
            link_file(source / name, target / name)
        sync_folder(target)
        sync_folder(target.parent)


def link_file(source: Path, target: Path) -> None:
    """Give a file a second name; it is copied where links can't be had."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)
        with open_regular(target) as file:
            os.fsync(file.fileno())


def link_known(source: Path, target: Path, facts: FileFacts) -> None:
    """Like `link_file`, and check all bytes: `source` may be replaced at any time.

    Raises
    ------
    ArtefactError
        It is not the file that a manifest named; there is no `target` then.
    StorageError
        No space or no rights.
    """
    with storage_errors(f"write {target}"):
        link_file(source, target)
        try:
            check_file(target, facts, full=True)
        except ArtefactError as error:
            target.unlink()
            raise ArtefactError(
                f"{source} is not the file that the manifest beside it named a moment ago; it was "
                "changed or replaced meanwhile, so nothing is taken over from it"
            ) from error


@contextlib.contextmanager
def working_folder(path: Path) -> Generator[Path]:
    """Give an empty folder at `path` for the parts of a job; it is gone afterwards.

    What a killed process left there is wiped first; a folder of others is refused.

    Raises
    ------
    StorageError
        No space, no rights, or another process is working there.
    """
    path = _real_path(path)
    refuse_inside(path, "file")
    with storage_errors(f"work in {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _locked_folder(path, f"work in {path}") as folder:
        yield folder
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked_folder(folder: Path, action: str) -> Generator[Path]:
    """Make `folder` empty and ours alone; after an exception it is gone.

    The lock is a file inside, so that it moves along when the folder is renamed, and ends with
    this process at the latest.
    """
    with storage_errors(action):
        descriptor = lock_folder(folder)
    try:
        with storage_errors(action):
            for leftover in folder.iterdir():
                if leftover.name != LOCK:
                    remove(leftover)
        yield folder
    except BaseException:
        if is_open_as(descriptor, folder / LOCK):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(descriptor)


def _settle(path: Path) -> dict[str, Any]:
    """Flush a finished file to disk and return its facts."""
    if not NAME.fullmatch(path.name):
        raise ValueError(f"{path.name!r} is no name for a file of an artefact")
    with open_regular(path) as file:
        os.fsync(file.fileno())
        size = os.fstat(file.fileno()).st_size
        return {"blake2b": full_hash(file), "sample": sample_hash(file, size), "size": size}


@contextlib.contextmanager
def publish_file(path: Path) -> Generator[Path]:
    """Write a single file so that it appears at `path` whole, or not at all.

    Yields a path beside it to write to. What was at `path` stays until the new file takes its
    place in one step. An exception of the body is passed on as it is.

    Raises
    ------
    StorageError
        No space, no rights, or another process is writing there.
    """
    path = _real_path(path)
    writing = f"write {path}"
    refuse_inside(path, "file")
    partial = path.with_name(f".{path.name}.partial")
    descriptor = -1
    with storage_errors(writing):
        path.parent.mkdir(parents=True, exist_ok=True)
        while descriptor < 0:
            descriptor = try_lock(partial)
    try:
        with storage_errors(writing):
            os.ftruncate(descriptor, 0)
        yield partial
        with storage_errors(writing):
            with open_regular(partial) as file:
                os.fsync(file.fileno())
            partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    with storage_errors(writing):
        sync_folder(path.parent)
