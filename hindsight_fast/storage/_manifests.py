"""What a folder says that it holds, and whether it does."""

import datetime as dt
import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from hindsight_fast.errors import ArtefactError
from hindsight_fast.storage._files import (
    full_hash,
    human_size,
    open_regular,
    sample_hash,
    storage_errors,
)

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
MANIFEST_LIMIT = 8 << 20  # bytes; ours are a few kilobytes
MAX_FILES = 1 << 14
"""Files that a manifest may name, as the shards of a table of 10^9 ideas."""

_ATTEMPTS = 20
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_HASH = re.compile(r"[0-9a-f]{64}")
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,63}")


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Size in bytes, full BLAKE2b hash, and hash of a few fixed blocks of one file."""

    size: int
    blake2b: str
    sample: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a folder holds; `body` is the part that belongs to the kind of artefact.

    `hash` is of all the rest, and so, by the hashes of the files, of the whole artefact.

    The typed getters read `body` and raise ArtefactError where it is not as it must be, so that a
    damaged or foreign manifest is a sentence and never a TypeError.
    """

    folder: Path
    kind: str
    fingerprint: str
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    files: Mapping[str, FileFacts] = field(default_factory=dict[str, FileFacts])
    hash: str = ""

    def text(self, key: str, limit: int = 4096) -> str:
        """Return the string `body[key]`, of at most `limit` characters."""
        value = self.body.get(key)
        if not isinstance(value, str) or len(value) > limit:
            self._wrong(key, "a text")
        return value

    def integer(self, key: str, low: int = 0, high: int = 2**62) -> int:
        """Return the whole number `body[key]`, between `low` and `high`."""
        value = self.body.get(key)
        if type(value) is not int or not low <= value <= high:
            self._wrong(key, f"a whole number between {low} and {high}")
        return value

    def real(self, key: str, low: float, high: float) -> float:
        """Return the number `body[key]`, between `low` and `high`."""
        value = self.body.get(key)
        if type(value) not in (int, float) or not low <= cast(float, value) <= high:
            self._wrong(key, f"a number between {low} and {high}")
        return float(cast(float, value))

    def table(self, key: str) -> dict[str, Any]:
        """Return the object `body[key]`."""
        value = self.body.get(key)
        if not isinstance(value, dict):
            self._wrong(key, "a table")
        return cast(dict[str, Any], value)

    def texts(self, key: str) -> list[str]:
        """Return the list of texts `body[key]`; an older manifest may lack it, and has none."""
        value: object = self.body.get(key, [])
        if not isinstance(value, list):
            self._wrong(key, "a list of texts")
        texts = cast("list[object]", value)
        if not all(isinstance(one, str) for one in texts):
            self._wrong(key, "a list of texts")
        return cast("list[str]", texts)

    def flag(self, key: str) -> bool:
        """Return the truth value `body[key]`."""
        value = self.body.get(key)
        if not isinstance(value, bool):
            self._wrong(key, "true or false")
        return value

    def date(self, key: str) -> dt.date:
        """Return the ISO date `body[key]`."""
        try:
            return dt.date.fromisoformat(self.text(key, 10))
        except ValueError:
            self._wrong(key, "a date")

    def file(self, name: str) -> FileFacts:
        """Return the facts of a file that must be named: others are not checked."""
        if name not in self.files:
            raise ArtefactError(f"{self.folder / MANIFEST} doesn't name {name}; make it again")
        return self.files[name]

    def _wrong(self, key: str, expected: str) -> NoReturn:
        raise ArtefactError(
            f"{self.folder / MANIFEST}: '{key}' must be {expected}; "
            "the manifest was not written by this program, or not by this version"
        )


def manifest_bytes(kind: str, fingerprint: str, body: Mapping[str, Any], files: object) -> bytes:
    content = {
        "body": dict(body),
        "files": files,
        "fingerprint": fingerprint,
        "format_version": FORMAT_VERSION,
        "kind": kind,
    }
    plain = json.loads(_canonical(content))
    plain["hash"] = hashlib.blake2b(_canonical(plain), digest_size=32).hexdigest()
    return json.dumps(plain, indent=1, sort_keys=True).encode() + b"\n"


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of `folder` itself, but not the files that it names.

    Raises
    ------
    ArtefactError
        No such folder, no manifest, or one that is damaged or of another format.
    StorageError
        The file system refuses to read it.
    """
    path = folder / MANIFEST
    with storage_errors(f"read {path}"):
        if not folder.exists():
            raise ArtefactError(f"there is no folder {folder}")
        if not folder.is_dir():
            raise ArtefactError(f"{folder} is a file; a folder made by this program was expected")
        if not os.path.lexists(path):
            raise ArtefactError(f"{folder} has no {MANIFEST}, so it is no store and no pool")
        with open_regular(path) as file:
            raw = file.read(MANIFEST_LIMIT + 1)
    try:
        return _parse_manifest(folder, raw)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArtefactError(f"{path} is damaged: {str(error)[:200]}") from error


def _parse_manifest(folder: Path, raw: bytes) -> Manifest:
    if len(raw) > MANIFEST_LIMIT:
        raise ValueError(f"it is larger than {human_size(MANIFEST_LIMIT)}")
    content = json.loads(raw, parse_constant=_no_constant, object_pairs_hook=_unrepeated)
    if not isinstance(content, dict):
        raise TypeError("it is not a JSON object")
    content = cast(dict[str, Any], content)
    if b"\\ud" in raw.lower():  # half of a character can't be printed or written
        json.dumps(content, ensure_ascii=False).encode()
    own_hash = content.pop("hash", None)
    version = content.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        raise ValueError(f"format version {version} is newer than {FORMAT_VERSION}; upgrade")
    if hashlib.blake2b(_canonical(content), digest_size=32).hexdigest() != own_hash:
        raise ValueError("its content does not have the hash that it states")
    kind, mark = content["kind"], content["fingerprint"]
    body, files = content["body"], content["files"]
    if version != FORMAT_VERSION or not isinstance(kind, str) or not _WORD.fullmatch(kind):
        raise ValueError("no known kind or format version")
    if not isinstance(mark, str) or len(mark) > 128:
        raise ValueError("the fingerprint is not a short text")
    if not isinstance(body, dict) or not isinstance(files, dict) or len(files) > MAX_FILES:  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError("'body' or 'files' is not as it must be")
    facts = {name: _file_facts(name, f) for name, f in cast(dict[str, Any], files).items()}
    return Manifest(folder, kind, mark, cast(dict[str, Any], body), facts, str(own_hash))


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _file_facts(name: str, value: Any) -> FileFacts:
    if not NAME.fullmatch(name) or name == MANIFEST:
        raise ValueError(f"{name[:80]!r} is not a plain file name")
    if not isinstance(value, dict):
        raise TypeError(f"no facts about {name}")
    facts = cast(dict[str, Any], value)
    size, full, sample = facts["size"], facts["blake2b"], facts["sample"]
    if type(size) is not int or not 0 <= size < 2**62:
        raise ValueError(f"the size of {name} is not a size")
    if not all(isinstance(h, str) and _HASH.fullmatch(h) for h in (full, sample)):
        raise ValueError(f"the hashes of {name} are not hashes")
    return FileFacts(size, full, sample)


def in_words(kind: str) -> str:
    """The kind with its article: "a pool", but "vectors"."""
    return kind if kind.endswith("s") else f"a {kind}"


def kind_of(folder: Path) -> str:
    """Return what `folder` is (`store`, `vectors`, `pool`, ...), from its manifest."""
    return read_manifest(folder).kind


def open_folder(folder: Path, kind: str) -> Manifest:
    """Check that `folder` is a whole artefact of this kind, without reading all of it.

    Checked are the manifest, and of each file the size and the hash of a few fixed blocks.

    Raises
    ------
    ArtefactError
        It is missing, of another kind, cut, or changed.
    """
    manifest = _of_kind(folder, kind)
    for name, facts in manifest.files.items():
        check_file(folder / name, facts, full=False)
    return manifest


def open_with(folder: Path, kind: str, read: Callable[[Manifest], T]) -> T:
    """Open an artefact with `read`, all of it from before a replacement or all from after.

    Another process may put a new artefact in the place of this one between two of its files; then
    it is opened again.

    Raises
    ------
    ArtefactError
        As `open_folder` and `read` do.
    """
    for _ in range(_ATTEMPTS):
        before = read_manifest(folder)
        try:
            opened = read(open_folder(folder, kind))
        except ArtefactError:
            if read_manifest(folder) == before:
                raise
            continue
        if read_manifest(folder) == before:
            return opened
    raise ArtefactError(f"{folder} is being replaced again and again; try once more")


def verify_folder(folder: Path, kind: str, *, beside: Collection[str] = ()) -> Manifest:
    """Like `open_folder`, with all bytes of each file, and of the manifest.

    Parameters
    ----------
    beside
        Names of folders that belong to the artefact and have lists of their own.

    Raises
    ------
    ArtefactError
        It is missing, of another kind, or changed, or something lies there that doesn't belong to
        it; hidden files may.
    """
    manifest = verify_files(folder, kind)
    path, files = folder / MANIFEST, {n: asdict(facts) for n, facts in manifest.files.items()}
    with storage_errors(f"read {folder}"):
        with open_regular(path) as file:
            raw = file.read(MANIFEST_LIMIT + 1)
        if raw != manifest_bytes(kind, manifest.fingerprint, manifest.body, files):
            raise ArtefactError(f"{path} is not as it was written; make it again")
        known = {*manifest.files, MANIFEST, *beside}
        here = sorted(entry.name for entry in folder.iterdir())
        foreign = [name for name in here if name not in known and name[0] != "."]
    if foreign:
        raise ArtefactError(
            f"{folder} also holds {', '.join(foreign[:5])}, which does not belong to it"
        )
    return manifest


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What an artefact was made from, and what another is, where they differ; else empty."""
    names = [name for name in {**new, **old} if old.get(name) != new.get(name)]
    return "; ".join(f"{n}: {_shown(old.get(n))}, now {_shown(new.get(n))}" for n in names)


def _shown(value: object) -> str:
    text = "none" if value in (None, []) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def verify_files(folder: Path, kind: str) -> Manifest:
    """Like `open_folder`, with the full hash of each file."""
    manifest = _of_kind(folder, kind)
    for name, facts in manifest.files.items():
        check_file(folder / name, facts, full=True)
    return manifest


def _of_kind(folder: Path, kind: str) -> Manifest:
    manifest = read_manifest(folder)
    if manifest.kind != kind:
        raise ArtefactError(f"{folder} is {in_words(manifest.kind)}, not {in_words(kind)}")
    return manifest


def check_file(path: Path, facts: FileFacts, *, full: bool) -> None:
    """Check that a file is the one that a manifest names: its size, and all bytes or a sample.

    Raises
    ------
    ArtefactError
        It is missing, or another.
    """
    with storage_errors(f"read {path}"), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != facts.size:
            raise ArtefactError(
                f"{path} has {size} bytes, its manifest says {facts.size}: "
                "it was cut or replaced; make it again"
            )
        found = full_hash(file) if full else sample_hash(file, size)
    if found != (facts.blake2b if full else facts.sample):
        raise ArtefactError(f"{path} is not the file that its manifest names; make it again")
