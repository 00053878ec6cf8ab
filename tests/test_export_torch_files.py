"""The reader of torch's files: what it reads, and what it refuses by name."""

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hindsight_models import ModelError
from hindsight_models.reading.pickled import MAX_PICKLE
from hindsight_models.reading.tensors import open_safetensors, write_float32
from hindsight_models.reading.torch_file import open_torch
from torch_writer import (
    Called,
    Named,
    pickled,
    save,
    save_legacy,
    state_of,
    storage,
    tensor,
    write_zip,
)

NUMBERS = (np.arange(24) / 7).astype(np.float32)


def bfloat16(array: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper half of a float32's bits."""
    return (array.view(np.uint32) >> 16).astype(np.uint16)


def floats(path: Path) -> dict[str, NDArray[np.float32]]:
    """Every tensor of a file."""
    return {name: each.floats() for name, each in open_torch(path).items()}


@pytest.mark.parametrize("write", [save, save_legacy])
def test_tensors_come_back_widened_and_named(
    tmp_path: Path, write: Callable[[Path, dict[str, NDArray[Any]]], None]
) -> None:
    arrays: dict[str, NDArray[Any]] = {
        "w": NUMBERS.reshape(4, 6),
        "half": NUMBERS.astype(np.float16),
        "brain": bfloat16(NUMBERS),
        "one": np.array(3.0, np.float32),
        "none": np.zeros((0, 3), np.float32),
    }
    write(tmp_path / "m.bin", arrays)
    found = floats(tmp_path / "m.bin")
    assert list(found) == list(arrays)
    assert all(array.dtype == np.float32 for array in found.values())
    np.testing.assert_array_equal(found["w"], arrays["w"])
    np.testing.assert_array_equal(found["half"], arrays["half"].astype(np.float32))
    np.testing.assert_allclose(found["brain"], NUMBERS, rtol=2**-7)
    assert found["one"] == 3.0
    assert found["none"].shape == (0, 3)


def test_whole_numbers_are_listed_but_are_no_weights(tmp_path: Path) -> None:
    save(tmp_path / "m.bin", {"position_ids": np.arange(5)})
    assert open_torch(tmp_path / "m.bin")["position_ids"].dtype == "int64"


def test_views_share_numbers_in_their_own_order(tmp_path: Path) -> None:
    shared = storage("FloatStorage", "0", 24)
    state = {
        "transposed": tensor(shared, 0, (6, 4), (1, 6)),
        "part": tensor(shared, 5, (3, 2), (6, 2)),
        "parameter": Called(
            Named("torch._utils", "_rebuild_parameter"),
            (tensor(shared, 20, (4,), (1,)), True, Called(Named("collections", "OrderedDict"), ())),
        ),
    }
    write_zip(tmp_path / "m.bin", state, {"0": NUMBERS.tobytes()})
    found = floats(tmp_path / "m.bin")
    np.testing.assert_array_equal(found["transposed"], NUMBERS.reshape(4, 6).T)
    np.testing.assert_array_equal(
        found["part"], [[NUMBERS[5 + 6 * i + 2 * j] for j in (0, 1)] for i in range(3)]
    )
    np.testing.assert_array_equal(found["parameter"], NUMBERS[20:])


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Called(Named("posix", "system"), ("touch pwned",)), "posix.system"),
        ({"a": Called(Named("builtins", "eval"), ("1",))}, "builtins.eval"),
        ({"a": Named("torch.nn.modules.linear", "Linear")}, "torch.nn.modules.linear.Linear"),
        ({"a": Named("numpy.core.multiarray", "scalar")}, "numpy.core.multiarray.scalar"),
        ({"a": Named("torch._utils", "_rebuild_sparse_tensor")}, "_rebuild_sparse_tensor"),
        ({"a": Named("torch.storage", "_load_from_bytes")}, "torch.storage._load_from_bytes"),
        (b"\x80\x04X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93.", "os.system"),
        (b"(S'ls'\nios\nsystem\n.", "STRING"),
        (b"(ios\nsystem\n.", "os.system"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"\x80\x02ccollections\nOrderedDict\n)\x81.", "NEWOBJ"),
        (b"Pname\n.", "PERSID"),
    ],
)
def test_whatever_is_no_tensor_is_refused_by_name(tmp_path: Path, value: Any, name: str) -> None:
    for path, write in (("z.bin", write_zip), ("l.bin", write_plain)):
        write(tmp_path / path, value, {})
        with pytest.raises(ModelError, match=name.replace(".", r"\.")):
            open_torch(tmp_path / path)


def write_plain(path: Path, value: Any, _: object) -> None:
    """The value where the old format has the model."""
    parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    body = value if isinstance(value, bytes) else pickled(value)
    path.write_bytes(b"".join(map(pickled, parts)) + body)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1, 2], "holds a list"),
        ({"epoch": 3}, "epoch is a int"),
        ({"state_dict": {"w": tensor(storage("FloatStorage", "0", 24), 0, (24,), (1,))}}, "dict"),
        ({3: "x"}, "str belongs"),
        ({"w": Called(Named("torch", "FloatStorage"), ())}, "FloatStorage"),
        ({"w": tensor("text", 0, (2,), (1,))}, "Storage belongs"),
        ({"w": tensor(storage("FloatStorage", "0", 24), 0, ("2",), (1,))}, "int belongs"),  # type: ignore[arg-type]
        ({"w": tensor(storage("FloatStorage", "0", 24), 0, (True,), (1,))}, "int belongs"),
    ],
)
def test_a_state_that_holds_more_than_tensors_is_refused(
    tmp_path: Path, state: Any, message: str
) -> None:
    write_zip(tmp_path / "m.bin", state, {"0": NUMBERS.tobytes()})
    with pytest.raises(ModelError, match=message):
        open_torch(tmp_path / "m.bin")


@pytest.mark.parametrize(
    ("offset", "shape", "stride"),
    [
        (0, (25,), (1,)),
        (1, (24,), (1,)),
        (-1, (4,), (1,)),
        (0, (4,), (-1,)),
        (0, (-4,), (1,)),
        (0, (4, 2), (1,)),
        (0, (2**40,), (0,)),  # grows a few bytes to terabytes
        (0, (2**32, 2**32), (1, 1)),
        (0, (2,), (2**62,)),
        (2**70, (2,), (1,)),
        (0, (1,) * 9, (1,) * 9),
    ],
)
def test_a_tensor_outside_of_its_numbers_is_refused(
    tmp_path: Path, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    state = {"w": tensor(storage("FloatStorage", "0", 24), offset, shape, stride)}
    write_zip(tmp_path / "m.bin", state, {"0": NUMBERS.tobytes()})
    with pytest.raises(ModelError, match=r"w (of|has) shape"):
        open_torch(tmp_path / "m.bin")


@pytest.mark.parametrize("key", ["1", "../0", "/etc/passwd", "0\x00"])
def test_numbers_that_are_not_in_the_file_are_refused(tmp_path: Path, key: str) -> None:
    state = {"w": tensor(storage("FloatStorage", key, 24), 0, (24,), (1,))}
    write_zip(tmp_path / "m.bin", state, {"0": NUMBERS.tobytes()})
    with pytest.raises(ModelError, match="damaged"):
        open_torch(tmp_path / "m.bin")["w"].floats()


def test_sizes_that_disagree_are_refused(tmp_path: Path) -> None:
    state = {"w": tensor(storage("FloatStorage", "0", 2**40), 0, (24,), (1,))}
    write_zip(tmp_path / "m.bin", state, {"0": NUMBERS.tobytes()})
    with pytest.raises(ModelError, match=f"96 bytes; expected {2**42}"):
        open_torch(tmp_path / "m.bin")["w"].floats()


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    save(path, {"w": NUMBERS})
    content = bytearray(path.read_bytes())
    content[content.index(NUMBERS.tobytes()) + 40] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"damaged.*CRC"):
        open_torch(path)["w"].floats()


def test_compressed_and_repeated_entries_are_refused(tmp_path: Path) -> None:
    bomb, twice = tmp_path / "bomb.bin", tmp_path / "twice.bin"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/data.pkl", pickled({}))
        archive.writestr("m/data/0", bytes(10_000_000))
    with zipfile.ZipFile(twice, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("m/data.pkl", pickled({}))
        archive.writestr("m/data.pkl", pickled([]))
    for path in (bomb, twice):
        with pytest.raises(ModelError, match="compressed or repeated"):
            open_torch(path)


def test_a_pickle_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_zip(tmp_path / "z.bin", b"\x80\x02" + b"]" * (MAX_PICKLE + 1) + b".", {})
    monkeypatch.setattr("hindsight_models.reading.pickled.MAX_PICKLE", 1000)
    write_plain(tmp_path / "l.bin", b"\x80\x02" + b"]" * 1001 + b".", None)
    for name in ("z.bin", "l.bin"):
        with pytest.raises(ModelError, match="longer than"):
            open_torch(tmp_path / name)


@pytest.mark.parametrize("length", [2**33, 2**50, 2**62])
def test_text_longer_than_the_file_is_refused(tmp_path: Path, length: int) -> None:
    text = b"\x80\x04\x8d" + struct.pack("<Q", length) + b"short."
    write_zip(tmp_path / "z.bin", text, {})
    write_plain(tmp_path / "l.bin", text, None)
    for name in ("z.bin", "l.bin"):
        with pytest.raises(ModelError, match="damaged"):
            open_torch(tmp_path / name)


def test_another_byte_order_is_refused(tmp_path: Path) -> None:
    write_zip(tmp_path / "z.bin", state_of({"w": NUMBERS}), {"0": b""}, byteorder=b"big")
    save_legacy(tmp_path / "l.bin", {"w": NUMBERS}, little=False)
    for name in ("z.bin", "l.bin"):
        with pytest.raises(ModelError, match="big-endian"):
            open_torch(tmp_path / name)


def test_a_cut_old_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    save_legacy(path, {"w": NUMBERS})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelError, match="cut"):
        floats(path)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"\x80\x02.", b"{}", bytes(100)]
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.bin").write_bytes(content)
    with pytest.raises(ModelError, match=r"is not a file of torch\.save"):
        open_torch(tmp_path / "m.bin")
    with pytest.raises(ModelError, match="can't be read"):
        open_torch(tmp_path / "absent.bin")


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 10_000), at=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_damaged_bytes_raise_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, cut: int, at: int, flip: int
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    for write in (save, save_legacy):
        write(folder / "m.bin", {"w": NUMBERS, "b": NUMBERS[:3]})
        content = bytearray((folder / "m.bin").read_bytes())
        content[at % len(content)] ^= flip
        (folder / "m.bin").write_bytes(content[: cut % (2 * len(content))])
        try:
            found = floats(folder / "m.bin")
        except ModelError:
            continue
        assert all(array.nbytes <= NUMBERS.nbytes for array in found.values())


def test_written_weights_are_float32_and_finite(tmp_path: Path) -> None:
    save(tmp_path / "m.bin", {"w": NUMBERS.reshape(4, 6), "h": NUMBERS.astype(np.float16)})
    write_float32(tmp_path / "m.safetensors", open_torch(tmp_path / "m.bin"))
    found = open_safetensors(tmp_path / "m.safetensors")
    assert {name: each.dtype for name, each in found.items()} == {"w": "float32", "h": "float32"}
    np.testing.assert_array_equal(found["w"].floats(), NUMBERS.reshape(4, 6))
    (length,) = struct.unpack("<Q", (tmp_path / "m.safetensors").read_bytes()[:8])
    assert length % 8 == 0
    save(tmp_path / "m.bin", {"w": np.array([1.0, np.nan], np.float32)})
    with pytest.raises(ModelError, match="w holds NaN"):
        write_float32(tmp_path / "m.safetensors", open_torch(tmp_path / "m.bin"))
