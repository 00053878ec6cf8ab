"""What a model folder holds and how its vectors are made: card.json."""

import hashlib
import json
import math
import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from hindsight_models.errors import ModelError
from hindsight_models.weights import read_json_object

FORMAT_VERSION = 1
CARD_FILE, GRAPH_FILE = "card.json", "model.onnx"
FUSED_FILE, HALF_FILE = "model.fused.onnx", "model.half.onnx"
TOKENIZER_FILE, CONFIG_FILE, WEIGHTS_FILE = "tokenizer.json", "config.json", "model.safetensors"
ADAPTER_FILE = "adapter.safetensors"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Golden:
    """A text and the vector that an independent computation gave it."""

    head: str
    body: str
    vector: tuple[float, ...]

    def to_dict(self) -> dict[str, str]:
        """For JSON; the vector as base64 of little-endian float32."""
        packed = b64encode(struct.pack(f"<{len(self.vector)}f", *self.vector)).decode()
        return {"head": self.head, "body": self.body, "vector": packed}

    @classmethod
    def from_dict(cls, raw: Mapping[str, str]) -> "Golden":
        """Back from JSON; ValueError, TypeError or KeyError for what is none."""
        packed = b64decode(raw["vector"], validate=True)
        if len(packed) % 4:
            raise ValueError("a golden vector is cut")
        vector = struct.unpack(f"<{len(packed) // 4}f", packed)
        return cls(str(raw["head"]), str(raw["body"]), vector)


@dataclass(frozen=True, slots=True)
class Card:
    """Facts of one encoder.

    Attributes
    ----------
    name
        Lower-case letters, digits, ``._-``.
    dim
        Columns of a vector.
    pooling
        "cls" (first token's row) or "mean" (over tokens).
    separator
        Stands between head and body; left out where either is blank.
    max_tokens
        Longest input, special tokens included.
    theta, theta_note
        Recommended threshold of similarity, and in one sentence how it was chosen.
    files
        SHA-256 of every file in the folder but the card.
    sources
        Where the weights came from, by role.
    adapter
        Name of the adapter that the graph applies, or None.
    published_as
        Model names under which others publish vectors of this encoder.
    golden
        Texts with known vectors, to prove the folder on this machine.
    """

    name: str
    dim: int
    pooling: Literal["cls", "mean"]
    separator: str
    max_tokens: int
    theta: float
    theta_note: str
    files: Mapping[str, str]
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    adapter: str | None = None
    precision: Literal["float32"] = "float32"
    published_as: tuple[str, ...] = ()
    golden: tuple[Golden, ...] = ()

    def __post_init__(self) -> None:
        _check(bool(_NAME.fullmatch(self.name)), "name", self.name, "lower-case letters, digits")
        _check(self.dim > 0, "dim", self.dim, "a positive number")
        _check(self.pooling in ("cls", "mean"), "pooling", self.pooling, "cls or mean")
        _check(self.max_tokens > 2, "max_tokens", self.max_tokens, "more than 2")
        _check(-1.0 <= self.theta <= 1.0, "theta", self.theta, "a number from -1 to 1")
        _check(self.precision == "float32", "precision", self.precision, "float32")
        for name, digest in self.files.items():
            plain = PurePosixPath(name).name == name and name not in ("", ".", "..")
            _check(plain and "\\" not in name, "file name", name, "a plain file name")
            _check(bool(_SHA256.fullmatch(digest)), f"hash of {name}", digest, "64 hex digits")
        for name in (GRAPH_FILE, TOKENIZER_FILE):
            _check(name in self.files, "files", sorted(self.files), f"{name} among them")
        for golden in self.golden:
            sized = len(golden.vector) == self.dim and all(map(math.isfinite, golden.vector))
            _check(sized, "golden vector", golden.head, f"{self.dim} finite numbers")

    def fingerprint(self) -> str:
        """Digest of everything that changes a vector: files, text rule, pooling, precision."""
        facts = {
            "dim": self.dim,
            "pooling": self.pooling,
            "separator": self.separator,
            "max_tokens": self.max_tokens,
            "adapter": self.adapter,
            "precision": self.precision,
            # Other graphs compute the same thing, and may be rewritten without new vectors.
            "files": {
                name: self.files[name]
                for name in sorted(self.files)
                if name == GRAPH_FILE or not name.endswith(".onnx")
            },
        }
        text = json.dumps(facts, sort_keys=True, ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def to_json(self) -> str:
        """The text of card.json, which ends with a hash of the rest."""
        facts = {"format_version": FORMAT_VERSION, **asdict(self)}
        facts["golden"] = [golden.to_dict() for golden in self.golden]
        raw = json.dumps(facts, sort_keys=True).encode()
        facts["hash"] = hashlib.blake2b(raw, digest_size=16).hexdigest()
        return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, folder: Path) -> "Card":
        """Read and validate a folder's card.

        Raises
        ------
        ModelError
            Missing, not a card, of another format version, or with a value out of range.
        """
        path = folder / CARD_FILE
        raw = read_json_object(path)
        raw.pop("hash", None)  # `check_text` looks at it; a card may be edited by hand
        version = raw.pop("format_version", None)
        if version != FORMAT_VERSION:
            raise ModelError(f"{path}: format_version {version!r}; expected {FORMAT_VERSION}")
        try:
            return cls(**_typed(raw))
        except (KeyError, TypeError, ValueError, ModelError) as error:
            raise ModelError(f"{path}: {error}") from error


def check_text(folder: Path, card: Card) -> None:
    """Check that the card of a folder is as it was written, where it holds a hash of itself.

    Raises
    ------
    ModelError
        It was changed.
    """
    path = folder / CARD_FILE
    if "hash" in read_json_object(path) and path.read_bytes() != card.to_json().encode():
        raise ModelError(f"{path} is not as it was written; fetch or export the model again")


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "name": str,
    "dim": int,
    "pooling": str,
    "separator": str,
    "max_tokens": int,
    "theta": (int, float),
    "theta_note": str,
    "files": dict,
    "sources": dict,
    "adapter": (str, type(None)),
    "precision": str,
    "published_as": list,
    "golden": list,
}


def _typed(raw: dict[str, Any]) -> dict[str, Any]:
    for key, value in raw.items():
        if key not in _KINDS:
            raise ModelError(f"unknown key {key!r}")
        if not isinstance(value, _KINDS[key]) or isinstance(value, bool):
            raise ModelError(f"{key} is {value!r}; expected {_KINDS[key]}")
    for key in ("files", "sources"):
        pairs = cast(dict[object, object], raw.get(key, {}))
        if not all(isinstance(v, str) for v in pairs.values()):
            raise ModelError(f"{key} must map names to text")
    names: list[object] = raw.get("published_as", [])
    if not all(isinstance(name, str) for name in names):
        raise ModelError(f"published_as is {names!r}; expected names")
    golden = tuple(Golden.from_dict(g) for g in raw.get("golden", []))
    return {**raw, "published_as": tuple(names), "golden": golden}


def _check(right: bool, what: str, found: object, expected: str) -> None:
    if not right:
        raise ModelError(f"{what} is {found!r}; expected {expected}")
