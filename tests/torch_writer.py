"""Files as torch.save writes them, made without torch; also hostile ones, which torch never would.

A pickle is written instruction by instruction, so a test can ask for anything in it.
"""

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

KINDS = {
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "uint16": "BFloat16Storage",  # numpy has no bfloat16: the same bits
    "float64": "DoubleStorage",
    "int64": "LongStorage",
}


class Named(NamedTuple):
    """A global: module and name."""

    module: str
    name: str


class Called(NamedTuple):
    """A global called with arguments."""

    function: Named
    arguments: tuple[Any, ...]


class Stored(NamedTuple):
    """A persistent id, by which torch refers to a storage."""

    facts: tuple[Any, ...]


def pickled(value: Any) -> bytes:
    """Bytes of a whole pickle."""
    return b"\x80\x02" + _put(value) + b"."


def _put(value: Any) -> bytes:
    match value:
        case Named(module, name):
            return b"c" + f"{module}\n{name}\n".encode()
        case Called(function, arguments):
            return _put(function) + _put(arguments) + b"R"
        case Stored(facts):
            return _put(facts) + b"Q"
        case None:
            return b"N"
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            size = value.bit_length() // 8 + 1
            return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)
        case str():
            text = value.encode()
            return b"X" + struct.pack("<I", len(text)) + text
        case _:
            return _put_several(value)


def _put_several(value: Any) -> bytes:
    kind = str(type(value).__name__)
    if kind == "dict":
        return b"}(" + b"".join(_put(key) + _put(value[key]) for key in value) + b"u"
    parts = b"".join(_put(each) for each in value)
    return b"(" + parts + b"t" if kind == "tuple" else b"](" + parts + b"e"


def storage(kind: str, key: str, length: int, *rest: object) -> Stored:
    """How a pickle refers to numbers of another place."""
    return Stored(("storage", Named("torch", kind), key, "cpu", length, *rest))


def tensor(stored: object, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> Called:
    """How a pickle describes a tensor."""
    ordered = Called(Named("collections", "OrderedDict"), ())
    arguments = (stored, offset, shape, stride, False, ordered)
    return Called(Named("torch._utils", "_rebuild_tensor_v2"), arguments)


def state_of(arrays: Mapping[str, NDArray[Any]], *rest: object) -> dict[str, Called]:
    """A state_dict of whole arrays, array i in storage i."""
    state: dict[str, Called] = {}
    for i, (name, array) in enumerate(arrays.items()):
        steps = tuple(step // array.itemsize for step in np.empty(array.shape, array.dtype).strides)
        stored = storage(KINDS[str(array.dtype)], str(i), array.size, *rest)
        state[name] = tensor(stored, 0, array.shape, steps)
    return state


def write_zip(
    path: Path, value: Any, storages: Mapping[str, bytes], *, byteorder: bytes = b"little"
) -> None:
    """The format since torch 1.6."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("m/data.pkl", value if isinstance(value, bytes) else pickled(value))
        archive.writestr("m/byteorder", byteorder)
        for key, data in storages.items():
            archive.writestr(f"m/data/{key}", data)
        archive.writestr("m/version", b"3\n")


def save(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """What torch.save makes of a state_dict."""
    storages = {str(i): array.tobytes() for i, array in enumerate(arrays.values())}
    write_zip(path, state_of(arrays), storages)


def save_legacy(path: Path, arrays: Mapping[str, NDArray[Any]], *, little: bool = True) -> None:
    """The same in the format before torch 1.6."""
    facts = {"protocol_version": 1001, "little_endian": little, "type_sizes": {"int": 4}}
    keys = [str(i) for i in range(len(arrays))]
    parts = [0x1950A86A20F9469CFC6C, 1001, facts, state_of(arrays, None), keys]
    with path.open("wb") as file:
        file.write(b"".join(map(pickled, parts)))
        for array in arrays.values():
            file.write(struct.pack("<q", array.size) + array.tobytes())
