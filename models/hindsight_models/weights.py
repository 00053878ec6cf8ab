"""What a published BERT checkpoint holds: its config, and where each tensor lies in its file."""

import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from hindsight_models.errors import ModelError

_MAX_HEADER = 100_000_000  # bytes; the limit of the safetensors format itself
_MAX_LAYERS = 1000  # the largest known has 48


@dataclass(frozen=True, slots=True)
class BertConfig:
    """Sizes of a BERT encoder, or of one built like it, with BERT's names in config.json.

    Attributes
    ----------
    type_vocab_size
        Token types; 0 where the model has none (DistilBERT).
    first_position
        Row of the position table that the first token takes: 0, or, in RoBERTa, the one after the
        padding token's.
    """

    model_type: str
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float
    first_position: int = 0

    @property
    def head_size(self) -> int:
        """Columns of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def longest(self) -> int:
        """Most tokens that the positions allow."""
        return self.max_position_embeddings - self.first_position

    @classmethod
    def read(cls, path: Path) -> "BertConfig":
        """Read config.json, refusing by name what the graph doesn't build.

        Raises
        ------
        ModelError
            Not JSON, no BERT, RoBERTa or DistilBERT, or with an activation, position embedding or
            size that is not supported.
        """
        raw = read_json_object(path)
        kind = raw.get("model_type", "bert")
        if not isinstance(kind, str) or kind not in _FAMILIES:
            raise ModelError(f"{path}: model_type is {kind!r}; supported: {', '.join(_FAMILIES)}")
        for key, expected in _SUPPORTED.items():
            found = raw.get(key, expected)
            if found != expected:
                raise ModelError(f"{path}: {key} is {found!r}; only {expected!r} is supported")
        config = _FAMILIES[kind](path, raw)
        if config.num_hidden_layers > _MAX_LAYERS:
            raise ModelError(
                f"{path}: num_hidden_layers is {config.num_hidden_layers}; at most {_MAX_LAYERS} "
                "expected"
            )
        if config.hidden_size % config.num_attention_heads:
            raise ModelError(
                f"{path}: hidden_size {config.hidden_size} is no multiple of "
                f"num_attention_heads {config.num_attention_heads}"
            )
        if config.longest < 1:
            raise ModelError(
                f"{path}: max_position_embeddings {config.max_position_embeddings} leaves no "
                f"position after pad_token_id {config.first_position - 1}"
            )
        return config


_SUPPORTED: Mapping[str, object] = {
    "hidden_act": "gelu",
    "activation": "gelu",  # DistilBERT's name for it
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
_BERT = {
    name: name
    for name in (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
        "type_vocab_size",
    )
}
_DISTILBERT = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "vocab_size": "vocab_size",
    "max_position_embeddings": "max_position_embeddings",
}


def _bert(path: Path, raw: Mapping[str, Any]) -> BertConfig:
    sizes = {ours: _whole(path, raw, key) for ours, key in _BERT.items()}
    eps = raw.get("layer_norm_eps")
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 < eps < 1:
        raise ModelError(f"{path}: layer_norm_eps is {eps!r}; expected a number between 0 and 1")
    return BertConfig(raw.get("model_type", "bert"), **sizes, layer_norm_eps=eps)


def _roberta(path: Path, raw: Mapping[str, Any]) -> BertConfig:
    padding = _whole(path, raw, "pad_token_id", least=0)
    return replace(_bert(path, raw), first_position=padding + 1)


def _distilbert(path: Path, raw: Mapping[str, Any]) -> BertConfig:
    sizes = {ours: _whole(path, raw, key) for ours, key in _DISTILBERT.items()}
    # Its epsilon is not in its config.json but in its code.
    return BertConfig("distilbert", **sizes, type_vocab_size=0, layer_norm_eps=1e-12)


_FAMILIES: Mapping[str, Callable[[Path, Mapping[str, Any]], BertConfig]] = {
    "bert": _bert,
    "roberta": _roberta,
    "xlm-roberta": _roberta,
    "camembert": _roberta,
    "distilbert": _distilbert,
}


def _whole(path: Path, raw: Mapping[str, Any], key: str, least: int = 1) -> int:
    value = raw.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ModelError(f"{path}: {key} is {value!r}; expected a whole number from {least} on")
    return value


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor and its place in its file (bytes from the file's start).

    `dtype` is the name that the safetensors format has for it: F32, F16, BF16 and others.
    """

    file: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int


class Checkpoint(Mapping[str, StoredTensor]):
    """float32 tensors of one safetensors file by name, ``bert.`` or ``roberta.`` taken off.

    Only the header is read; the graph refers to the numbers where they are.

    Raises
    ------
    ModelError
        Not a safetensors file, one that is cut, or one with two tensors of one name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tensors: dict[str, StoredTensor] = {}
        for name, stored in read_entries(path).items():
            plain = name.removeprefix("bert.").removeprefix("roberta.")
            if plain in self._tensors:
                raise ModelError(f"{path}: two tensors are called {plain}")
            self._tensors[plain] = stored

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __getitem__(self, name: str) -> StoredTensor:
        stored = self._tensors[name]
        if stored.dtype != "F32":
            raise ModelError(
                f"{self.path}: {name} is {stored.dtype}; only float32 (F32) is supported"
            )
        return stored

    def adapter_key(self, layer: int, part: str) -> str:
        """Full name of an adapter's tensor in a layer; the adapter's own name may be any.

        `part` is ``adapter_down.0.weight``, ``adapter_up.bias`` and so on.
        """
        pattern = re.compile(
            rf"encoder\.layer\.{layer}\.output\.adapters\.[^.]+\.{re.escape(part)}"
        )
        found = [name for name in self if pattern.fullmatch(name)]
        if len(found) != 1:
            raise ModelError(
                f"{self.path}: {len(found)} tensors match {part} of layer {layer}; expected one"
            )
        return found[0]


_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "I8": 1, "U8": 1}


def read_entries(path: Path) -> dict[str, StoredTensor]:
    """Every tensor of a safetensors file by its name there.

    As the format demands, each byte after the header belongs to exactly one of them.

    Raises
    ------
    ModelError
        Not a safetensors file, one that is cut, or one whose tensors overlap or leave gaps.
    """
    raw, start = _read_header(path), 8 + _header_length(path)
    size = path.stat().st_size
    entries = {name: _entry(path, name, entry, start, size) for name, entry in raw.items()}
    reached = start
    for name, stored in sorted(entries.items(), key=lambda one: (one[1].offset, one[1].length)):
        if stored.offset != reached:
            raise ModelError(f"{path} is damaged: {name} doesn't begin where another ends")
        reached += stored.length
    if reached != size:
        raise ModelError(f"{path} is damaged: {size - reached} bytes at its end are of no tensor")
    return entries


def _entry(path: Path, name: str, entry: Any, start: int, size: int) -> StoredTensor:
    try:
        dtype, (begin, end) = str(entry["dtype"]), entry["data_offsets"]
        shape = tuple(entry["shape"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: the entry of {name} can't be read") from error
    if any(type(n) is not int for n in (begin, end, *shape)):
        raise ModelError(f"{path}: shape and offsets of {name} are not all whole numbers")
    inside = 0 <= begin <= end and start + end <= size and min(shape, default=0) >= 0
    if not inside or (dtype in _BYTES and end - begin != math.prod(shape) * _BYTES[dtype]):
        raise ModelError(f"{path} is damaged or cut: {name} lies outside of it")
    return StoredTensor(path.name, dtype, shape, start + begin, end - begin)


def _header_length(path: Path) -> int:
    with path.open("rb") as file:
        head = file.read(8)
    if len(head) < 8:
        raise ModelError(f"{path} is not a safetensors file: it is shorter than 8 bytes")
    return int(struct.unpack("<Q", head)[0])


def _read_header(path: Path) -> dict[str, Any]:
    try:
        length = _header_length(path)
        if not 2 <= length <= min(_MAX_HEADER, path.stat().st_size - 8):
            raise ModelError(f"{path} is not a safetensors file, or cut: wrong header length")
        with path.open("rb") as file:
            file.seek(8)
            header = json.loads(file.read(length))
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not a safetensors file: its header is not JSON") from error
    if not isinstance(header, dict):
        raise ModelError(f"{path} is not a safetensors file: its header is not an object")
    entries = cast(dict[str, Any], header)
    told: Any = entries.pop("__metadata__", {})
    if not isinstance(told, dict) or any(
        not isinstance(value, str) for value in cast(dict[str, Any], told).values()
    ):
        raise ModelError(f"{path} is not a safetensors file: its metadata is no text by name")
    return entries


def read_json_object(path: Path, limit: int = 10_000_000) -> dict[str, Any]:
    """Read a small JSON object from a file.

    Raises
    ------
    ModelError
        Missing, larger than `limit` bytes, or not a JSON object.
    """
    try:
        if path.stat().st_size > limit:
            raise ModelError(f"{path} has {path.stat().st_size} bytes; at most {limit} expected")
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds no JSON object")
    return cast(dict[str, Any], value)
