"""Tensors of published files, of whichever format, and how they become float32 safetensors."""

import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight_models.errors import ModelError
from hindsight_models.weights import StoredTensor, read_entries

_OF_SAFETENSORS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_RAW = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that is read when it is asked for.

    Attributes
    ----------
    dtype
        ``float32``, ``float16``, ``bfloat16``, or another, which is no weight of ours.
    shape
        Its dimensions.
    load
        Gives its numbers, of `shape`; bfloat16 as the uint16 of the same bits.
    """

    dtype: str
    shape: tuple[int, ...]
    load: Callable[[], NDArray[Any]]

    def floats(self) -> NDArray[np.float32]:
        """The numbers as float32; float16 and bfloat16 widen without loss.

        Raises
        ------
        ModelError
            The file is damaged or can't be read.
        """
        if self.dtype == "bfloat16":
            return (self.load().astype(np.uint32) << 16).view(np.float32)
        return self.load().astype(np.float32, copy=False)


def open_safetensors(path: Path) -> dict[str, Tensor]:
    """Tensors of a safetensors file by name.

    Raises
    ------
    ModelError
        Not a safetensors file, or one that is cut.
    """

    def tensor(stored: StoredTensor) -> Tensor:
        dtype = _OF_SAFETENSORS.get(stored.dtype, stored.dtype)

        def load() -> NDArray[Any]:
            kind = np.dtype(_RAW[dtype])
            count = stored.length // kind.itemsize
            return np.fromfile(path, kind, count, offset=stored.offset).reshape(stored.shape)

        return Tensor(dtype, stored.shape, load)

    return {name: tensor(stored) for name, stored in read_entries(path).items()}


def as_array(data: bytes, dtype: str) -> NDArray[Any]:
    """Little-endian bytes as the numbers that a `Tensor` of that dtype loads, one-dimensional."""
    return np.frombuffer(data, np.dtype(_RAW[dtype]))


def check_tensors(
    tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]], path: Path
) -> None:
    """Check that every tensor of `shapes` is there, of that shape, and made of floats.

    Raises
    ------
    ModelError
        Names the first that is not; `path` is the file to blame.
    """
    for name, shape in shapes.items():
        if name not in tensors:
            raise ModelError(
                f"{path}: no tensor {name}; is it of the model that config.json tells?"
            )
        found = tensors[name]
        if found.shape != shape:
            raise ModelError(f"{path}: {name} has shape {found.shape}; the config says {shape}")
        if found.dtype not in _RAW:
            raise ModelError(f"{path}: {name} is {found.dtype}; expected {', '.join(_RAW)}")


def write_float32(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file of float32, one tensor in memory at a time.

    Raises
    ------
    ModelError
        A tensor can't be read, or holds NaN or infinity.
    """
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + 4 * math.prod(tensor.shape)
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # numbers start at a multiple of 8 bytes
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, tensor in tensors.items():
            file.write(np.ascontiguousarray(_finite(name, tensor), "<f4").data)


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Check that no number of these tensors is NaN or infinity.

    Raises
    ------
    ModelError
        One is, or can't be read.
    """
    for name, tensor in tensors.items():
        _finite(name, tensor)


def _finite(name: str, tensor: Tensor) -> NDArray[np.float32]:
    numbers = tensor.floats()
    if not np.isfinite(numbers).all():
        raise ModelError(f"{name} holds NaN or infinity: the published file is damaged")
    return numbers
