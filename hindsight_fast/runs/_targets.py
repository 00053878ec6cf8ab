"""Where the tables of a run go: a file each, or a folder of shards each."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hindsight_fast.errors import UsageError
from hindsight_fast.runs._manifest import hashed, manifest_beside, read_manifest
from hindsight_fast.storage import existing, other_than, refuse_inside, storage_errors

KINDS: Final = {"scores": "scores", "matches": "matches"}
"""Kinds of artefact of tables that are folders."""

ENDINGS: Final = (".parquet", ".csv", ".jsonl")

Targets = Mapping[str, Path]
"""The tables to write, by what they are: "scores", "matches"."""

State = Mapping[Path, tuple[int, int, int] | None]
"""What differs where a file was changed or replaced, of some paths; None where nothing is."""


def check_targets(ideas: Path, out: Path, matches: Path | None) -> dict[str, Path]:
    """The tables to write by what they are, if they can be written at all.

    Raises
    ------
    UsageError
        An ending that no writer knows, a folder of something else, the ideas themselves, one file
        for both, or a place inside an artefact or inside each other.
    ArtefactError
        A folder of this kind is there and its manifest can't be read.
    StorageError
        No folder can be there, or this user has no right to write there.
    """
    targets = {"scores": out} | ({} if matches is None else {"matches": matches})
    for what, target in targets.items():
        if target.resolve() == ideas.resolve():
            raise UsageError(f"{target} is the file of ideas itself")
        if in_shards(target):
            existing(target, KINDS[what], "", overwrite=True)
        elif target.suffix not in ENDINGS:
            raise UsageError(
                f"{target}: a table ends in {', '.join(ENDINGS)}; without an ending it is a folder"
            )
        elif target.is_dir():
            raise UsageError(f"{target} is a folder; a file was expected for the {what}")
    places = {Path(os.path.realpath(target)) for target in targets.values()}
    if len(places) < len(targets):
        raise UsageError("--out and --matches name the same file")
    if any(place in other.parents for place in places for other in places):
        raise UsageError("--out and --matches must lie apart, not one inside the other")
    if len({in_shards(target) for target in targets.values()}) > 1:
        raise UsageError(
            "--out and --matches must both be files, or both folders (names without an ending)"
        )
    for target in targets.values():
        _refuse_unwritable(target)
    return targets


def _refuse_unwritable(target: Path) -> None:
    """Say now what would else be told once all ideas are scored."""
    with storage_errors(f"write {target}"):
        place = Path(os.path.realpath(target))
        refuse_inside(place, "file")
        parent = next(one for one in place.parents if os.path.lexists(one))
        if not parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(parent))
        if not os.access(parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(parent))


def in_shards(target: Path) -> bool:
    """Whether a table is to be a folder of parquet files."""
    return not target.suffix


def done_already(
    targets: Targets, mark: str, made_from: Mapping[str, Any], *, overwrite: bool
) -> Mapping[str, Any] | None:
    """The manifest of a run that made just these tables, whole; None: there is work to do.

    Raises
    ------
    UsageError
        Something else is there, and isn't to be replaced.
    ArtefactError
        A folder of shards is there and damaged, and isn't to be replaced.
    """
    if in_shards(targets["scores"]):
        there = [
            existing(target, KINDS[name], mark, overwrite=overwrite, made_from=made_from)
            for name, target in targets.items()
        ]
        return None if None in there or there[0] is None else there[0].body
    beside = manifest_beside(targets["scores"])
    found = [path for path in (*targets.values(), beside) if path.exists()]
    if not found:
        return None
    manifest = read_manifest(beside)
    if manifest.get("fingerprint") != mark:
        if overwrite:
            return None
        raise UsageError(
            f"{found[0]} exists and was made from other ideas or settings"
            f"{other_than(made_from, manifest)}; "
            "give --overwrite to replace it, or choose another --out"
        )
    for name, target in targets.items():
        facts = manifest["files"].get(name, {})
        if not target.exists() or hashed(target)["blake2b"] != facts.get("blake2b"):
            return None
    return manifest


def state_of(path: Path) -> tuple[int, int, int] | None:
    """What differs where a file was changed or replaced; None where it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def states(targets: Targets) -> State:
    """What is where the tables and the manifest go."""
    beside = manifest_beside(targets["scores"])
    return {path: state_of(path) for path in (*targets.values(), beside)}


def refuse_changed(before: State) -> None:
    """Leave alone what somebody else wrote while the ideas were scored.

    Raises
    ------
    UsageError
        It is no longer as it was.
    """
    for path, then in before.items():
        if state_of(path) != then:
            raise UsageError(
                f"{path} was written by somebody else while the ideas were scored, and is left as "
                "it is; what was scored is kept: move it away and run the same command again, or "
                "give --overwrite to replace it"
            )
