"""Tensors of the files that torch.save writes (pytorch_model.bin), without torch.

Two formats (torch/serialization.py): since torch 1.6 a zip archive with ``data.pkl`` and, for each
storage, ``data/KEY``, uncompressed; before it, pickles one after another, then the storages.
"""

import math
import struct
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hindsight_models.errors import ModelError
from hindsight_models.reading.pickled import MAX_PICKLE, Storage, View, read_pickle
from hindsight_models.reading.tensors import Tensor, as_array

_MAX_DIMENSIONS = 8
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_Read = Callable[[Storage], bytes]

# What zipfile, pickletools and numpy raise on files that are none of torch's.
_DAMAGE = (
    zipfile.BadZipFile,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,  # a length that no memory holds
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)


def open_torch(path: Path) -> dict[str, Tensor]:
    """Tensors of a file that torch.save wrote, by name; numbers are read when asked for.

    Raises
    ------
    ModelError
        Not such a file, damaged, or with anything in it but tensors by name; an object that is no
        tensor is named.
    """
    try:
        with path.open("rb") as file:
            is_zip = file.read(4) == b"PK\x03\x04"
        views, read = _open_zip(path) if is_zip else _open_legacy(path)
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error.strerror or error}") from error
    except _DAMAGE as error:
        raise ModelError(f"{path} is not a file of torch.save, or damaged: {error}") from error
    return {name: _tensor(path, name, view, read) for name, view in views.items()}


def _open_zip(path: Path) -> tuple[Mapping[str, View], _Read]:
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        sizes = {entry.filename: entry.file_size for entry in entries}
        # torch neither compresses nor repeats; so nothing can grow beyond the file's own size.
        if len(sizes) != len(entries) or any(e.compress_size != e.file_size for e in entries):
            raise ModelError(f"{path} has compressed or repeated entries; torch.save writes none")
        pickles = [name for name in sizes if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise ModelError(f"{path} has {len(pickles)} entries called data.pkl; expected one")
        top = pickles[0].removesuffix("data.pkl")
        if sizes.get(f"{top}byteorder", 0) > len("little") or sizes[pickles[0]] > MAX_PICKLE:
            raise ModelError(f"{path}: its list of tensors is longer than {MAX_PICKLE} bytes")
        little = f"{top}byteorder" not in sizes or archive.read(f"{top}byteorder") == b"little"
        _check_order(path, little=little)
        views = _views(path, read_pickle(BytesIO(archive.read(pickles[0])), path))

    def read(storage: Storage) -> bytes:
        name, expected = f"{top}data/{storage.key}", storage.length * storage.size
        if sizes.get(name) != expected:
            raise ValueError(f"{name} has {sizes.get(name, 'no')} bytes; expected {expected}")
        with zipfile.ZipFile(path) as archive:
            return archive.read(name)  # checks the entry's checksum too

    return views, read


def _open_legacy(path: Path) -> tuple[Mapping[str, View], _Read]:
    with path.open("rb") as file:
        if read_pickle(file, path) != _MAGIC or read_pickle(file, path) != _PROTOCOL:
            raise ValueError("it starts as no such file does")
        facts = read_pickle(file, path)
        order = cast(dict[str, object], facts).get("little_endian")
        _check_order(path, little=order is True)
        views = _views(path, read_pickle(file, path))
        storages = {view.storage.key: view.storage for view in views.values()}
        places: dict[str, int] = {}
        for key in cast(list[str], read_pickle(file, path)):
            (count,) = struct.unpack("<q", file.read(8))
            if count != storages[key].length:
                raise ValueError(f"storage {key} has {count} numbers, not {storages[key].length}")
            places[key] = file.tell()
            file.seek(count * storages[key].size, 1)

    def read(storage: Storage) -> bytes:
        size = storage.length * storage.size
        if places[storage.key] + size > path.stat().st_size:
            raise ValueError(f"storage {storage.key} is cut")
        with path.open("rb") as file:
            file.seek(places[storage.key])
            return file.read(size)

    return views, read


def _check_order(path: Path, *, little: bool) -> None:
    if not little:
        raise ModelError(
            f"{path} is of a big-endian machine; load it with torch there, and save it as "
            "safetensors"
        )


def _views(path: Path, value: object) -> Mapping[str, View]:
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds a {type(value).__name__}; expected tensors by name")
    for name, each in cast(dict[str, object], value).items():
        if not isinstance(each, View):
            raise ModelError(
                f"{path}: {name} is a {type(each).__name__}, which is no tensor; save the model's "
                "state_dict() alone"
            )
    return cast(dict[str, View], value)


def _tensor(path: Path, name: str, view: View, read: _Read) -> Tensor:
    storage, offset, shape, stride = view
    numbers = (offset, storage.length, *shape, *stride)
    if len(shape) != len(stride) or len(shape) > _MAX_DIMENSIONS or min(numbers) < 0:
        raise ModelError(f"{path}: {name} has shape {shape} and stride {stride}, which is none")
    count = math.prod(shape)
    last = offset + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
    # With more numbers than its storage it would repeat some, which no weights do.
    if count > storage.length or (count and last >= storage.length):
        raise ModelError(f"{path}: {name} of shape {shape} reaches beyond its numbers")
    return Tensor(storage.dtype, shape, partial(_load, path, view, read))


def _load(path: Path, view: View, read: _Read) -> NDArray[Any]:
    try:
        row = as_array(read(view.storage), view.storage.dtype)[view.offset :]
        steps = tuple(step * row.itemsize for step in view.stride)
        return np.lib.stride_tricks.as_strided(row, view.shape, steps, writeable=False)
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error.strerror or error}") from error
    except _DAMAGE as error:
        raise ModelError(f"{path} is damaged: {error}") from error
