"""Manifests as a hostile author would write them: of anything, and yet with right hashes."""

import hashlib
import json
from pathlib import Path
from typing import Any

from hindsight_fast.storage import sample_hash


def sealed(content: dict[str, Any]) -> bytes:
    """A manifest of these keys with its own hash."""
    plain = {name: value for name, value in content.items() if name != "hash"}
    raw = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
    return json.dumps(plain | {"hash": _hash(raw)}).encode()


def forge(path: Path, **changes: object) -> None:
    """Change parts of the manifest of a folder."""
    content = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_bytes(sealed(content | changes))


def settle(path: Path) -> None:
    """Make the manifest of a folder one of the files that are there now."""
    names = json.loads((path / "manifest.json").read_text())["files"]
    forge(path, files={name: facts(path / name) for name in names})


def facts(path: Path) -> dict[str, Any]:
    """What a manifest says of a file."""
    raw = path.read_bytes()
    with path.open("rb") as file:
        sample = sample_hash(file, len(raw))
    return {"size": len(raw), "blake2b": _hash(raw), "sample": sample}


def _hash(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=32).hexdigest()
