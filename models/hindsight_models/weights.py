"""What a published BERT checkpoint holds: its config, and where each tensor lies in its file."""

import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hindsight_models.errors import ModelError

_MAX_HEADER = 100_000_000  # bytes; the limit of the safetensors format itself


@dataclass(frozen=True, slots=True)
class BertConfig:
    """Sizes of a BERT encoder, with the names of Hugging Face's config.json."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float

    @property
    def head_size(self) -> int:
        """Columns of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def read(cls, path: Path) -> "BertConfig":
        """Read config.json, refusing by name what the graph doesn't build.

        Raises
        ------
        ModelError
            Not JSON, not BERT, or with an activation, position embedding or size that is not
            supported.
        """
        raw = read_json_object(path)
        for key, expected in _SUPPORTED.items():
            found = raw.get(key, expected)
            if found != expected:
                raise ModelError(f"{path}: {key} is {found!r}; only {expected!r} is supported")
        numbers: dict[str, Any] = {}
        for key in cls.__annotations__:
            value = raw.get(key)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ModelError(f"{path}: {key} is {value!r}; expected a positive number")
            if key != "layer_norm_eps" and not isinstance(value, int):
                raise ModelError(f"{path}: {key} is {value!r}; expected a whole number")
            numbers[key] = value
        config = cls(**numbers)
        if config.hidden_size % config.num_attention_heads:
            raise ModelError(
                f"{path}: hidden_size {config.hidden_size} is no multiple of "
                f"num_attention_heads {config.num_attention_heads}"
            )
        return config


_SUPPORTED: Mapping[str, object] = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One float32 tensor and its place in its file (bytes from the file's start)."""

    file: str
    shape: tuple[int, ...]
    offset: int
    length: int


class Checkpoint(Mapping[str, StoredTensor]):
    """Tensors of one safetensors file by name, a leading ``bert.`` taken off.

    Only the header is read; the graph refers to the numbers where they are.

    Raises
    ------
    ModelError
        Not a safetensors file, or one that is cut.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._raw = _read_header(path)
        self._names = {name.removeprefix("bert."): name for name in self._raw}
        self._start = 8 + _header_length(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> StoredTensor:
        entry = self._raw[self._names[name]]
        try:
            dtype, (begin, end) = entry["dtype"], entry["data_offsets"]
            shape = tuple(int(n) for n in entry["shape"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{self.path}: the entry of {name} can't be read") from error
        if dtype != "F32":
            raise ModelError(f"{self.path}: {name} is {dtype}; only float32 (F32) is supported")
        size = self.path.stat().st_size
        if not 0 <= begin <= end or self._start + end > size or end - begin != _bytes(shape):
            raise ModelError(f"{self.path} is damaged or cut: {name} lies outside of it")
        return StoredTensor(self.path.name, shape, self._start + begin, end - begin)

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


def _bytes(shape: tuple[int, ...]) -> int:
    count = 4
    for n in shape:
        count *= n
    return count


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
    except ValueError as error:
        raise ModelError(f"{path} is not a safetensors file: its header is not JSON") from error
    if not isinstance(header, dict):
        raise ModelError(f"{path} is not a safetensors file: its header is not an object")
    entries = cast(dict[str, Any], header)
    entries.pop("__metadata__", None)
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
