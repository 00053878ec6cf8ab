"""What a table of scores says of itself, and whether it is whole."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from hindsight_fast.errors import ArtefactError, DataError, HindsightError
from hindsight_fast.storage import kind_of, open_folder, verify_folder

_KINDS = ("scores", "matches")
_FORMAT = 2


def manifest_path(out: Path) -> Path:
    """Where the manifest of a score table is."""
    return out / "manifest.json" if out.is_dir() else manifest_beside(out)


def manifest_beside(table: Path) -> Path:
    """Where that of a table that is a file is, whatever lies at the table's place."""
    return table.with_name(f"{table.name}.manifest.json")


def is_scores(path: Path) -> bool:
    """Tell whether a path is a table, or a folder of shards of one: not a folder of another kind.

    Of a file, that may turn out otherwise.
    """
    if path.is_file():
        return True
    try:
        return kind_of(path) in _KINDS
    except HindsightError:
        return False


def describe(out: Path) -> dict[str, Any]:
    """What a score table is: its manifest, with `kind` first.

    Raises
    ------
    ArtefactError
        No manifest of a score table lies beside or in it, or a shard is missing or cut.
    """
    if out.is_dir():
        manifest = open_folder(out, kind_of(out))
        size = sum(file.size for file in manifest.files.values())
        shards = {"name": out.name, "size": size, "shards": len(manifest.files)}
        return {"kind": "score table", **manifest.body, "files": {manifest.kind: shards}}
    found = read_manifest(manifest_path(out))
    if not found:
        raise ArtefactError(
            f"{out} is no score table: {manifest_path(out)} is not its manifest, or is damaged"
        )
    if not out.is_file():
        raise ArtefactError(f"{out} is missing; run the same score again")
    size, expected = out.stat().st_size, found["files"]["scores"].get("size")
    if size != expected:
        raise ArtefactError(
            f"{out} has {size} bytes, its manifest says {expected}: the table was changed, or the "
            "run that replaced it was killed; run the same score again"
        )
    return {"kind": "score table", **found}


def verify(out: Path) -> list[str]:
    """Check every byte of a score table, and of the matches made with it.

    Of a folder of shards, the names of its own files are returned; where its matches are, older
    ones don't say, and of them the scores alone are checked.

    Raises
    ------
    ArtefactError
        A file is not the one that was written.
    """
    if out.is_dir():
        return _verify_shards(out)
    checked = list[str]()
    for name, facts in describe(out)["files"].items():
        path = out  # which may be a renamed copy, so the manifest's own word on it doesn't count
        if name != "scores":
            path = _place(out, facts) or out.with_name(Path(str(facts["name"])).name)
        if not path.is_file():
            raise ArtefactError(f"{path} is missing; run the same score again")
        if hashed(path)["blake2b"] != facts["blake2b"]:
            raise ArtefactError(f"{path} was changed; run the same score again")
        checked.append(path.name)
    return checked


def _verify_shards(out: Path) -> list[str]:
    scores = verify_folder(out, kind_of(out))
    files = scores.table("files") if scores.kind == "scores" else {}
    if (place := _place(out, files.get("matches"))) is not None:
        matches = verify_folder(place, "matches")
        if matches.fingerprint != scores.fingerprint:
            raise ArtefactError(
                f"{place} was made by another run than {out}; run the same score again"
            )
    return list(scores.files)


def place_of(target: Path, scores: Path) -> dict[str, str]:
    """What the manifest of some scores says of where a table is."""
    beside = os.path.relpath(os.path.realpath(target), Path(os.path.realpath(scores)).parent)
    return {"name": target.name, "path": beside}


def _place(scores: Path, facts: object) -> Path | None:
    """Where it is, by that; None where an older version wrote the manifest."""
    path = cast("dict[str, Any]", facts).get("path") if isinstance(facts, dict) else None
    if not isinstance(path, str) or "\0" in path:
        return None
    return Path(os.path.realpath(scores)).parent / path


def rendered(manifest: Mapping[str, Any]) -> bytes:
    """The bytes of a manifest; its last key is a hash of the rest."""
    facts = {**manifest, "format": _FORMAT}
    raw = json.dumps(facts, sort_keys=True, allow_nan=False).encode()
    facts["hash"] = hashlib.blake2b(raw, digest_size=32).hexdigest()
    return json.dumps(facts, indent=1, allow_nan=False).encode() + b"\n"


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a score table; empty where there is none that is whole."""
    try:
        raw = path.read_bytes()
        found = json.loads(raw)
        files = {
            name: (str(one["name"]), str(one["blake2b"])) for name, one in found["files"].items()
        }
        is_first_format = not found.keys() & {"format", "hash"}
        found.pop("hash", None)
        whole = is_first_format or raw == rendered(found)
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}
    return found if whole and "signature" in found and "scores" in files else {}


def hashed(path: Path) -> dict[str, Any]:
    """Size and full hash of a file.

    Raises
    ------
    DataError
        It can't be read.
    """
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()
            return {"size": file.tell(), "blake2b": digest}
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from error
