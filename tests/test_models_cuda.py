"""CUDA through a stand-in: shapes, buffers, memory that runs out, bad rows, several GPUs."""

import ctypes
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cuda_stand_in import NO_MEMORY, StandIn, install
from hindsight_fast.encoders import gpus, load_encoder, precisions
from hindsight_fast.errors import EncoderError
from hindsight_models import Encoder, ModelError, cuda, load
from hindsight_models.batches import cuda_shapes, padding_share, plan_cuda
from hindsight_models.card import HALF_FILE, Card
from hindsight_models.engines import open_sessions
from hindsight_models.errors import OutOfMemoryError
from hindsight_models.session import CudaSession
from tiny_model import tiny_model, vocabulary

Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that takes 512 tokens."""
    return tiny_model(tmp_path_factory.mktemp("cuda") / "tiny", layers=1, max_tokens=512)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """One GPU."""
    return install(monkeypatch)


def texts(lengths: list[int]) -> Pairs:
    """Pairs with these numbers of tokens, [CLS] and [SEP] included."""
    rng = np.random.default_rng(0)
    words = ["the", "model", "graph", "a", "of"]
    return [("", " ".join(rng.choice(words, n - 2).tolist())) for n in lengths]


MIXED = texts([5, 40, 41, 300, 17, 511, 64, 65, 2, 90])


# What is taken, and what is refused --------------------------------------------------------------


@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:0"])
def test_float16_is_what_cuda_computes_with(folder: Path, world: StandIn, device: str) -> None:
    encoder = load(folder, device=device)
    assert (encoder.device, encoder.precision, encoder.device_note) == ("cuda:0", "float16", "")
    vectors, expected = encoder.encode(MIXED), load(folder, device="cpu").encode(MIXED)
    assert 1e-6 < np.abs(vectors - expected).max() < 2e-3
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, rtol=0, atol=1e-6)
    assert {options["use_tf32"] for options in world.options} == {"0"}


def test_float32_on_cuda_by_name(folder: Path, world: StandIn) -> None:
    encoder = load(folder, device="cuda", precision="float32", gpu_mem=2_000_000_000)
    assert encoder.precision == "float32"
    assert np.abs(encoder.encode(MIXED) - load(folder, device="cpu").encode(MIXED)).max() < 1e-6
    assert world.options[0]["gpu_mem_limit"] == "2000000000"


def test_a_silent_fallback_is_an_error_that_names_the_library(
    folder: Path, world: StandIn, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    world.falls_back = True

    def missing(major: str) -> str:
        return f"libcublasLt.so.{major}: cannot open shared object file: No such file or directory"

    monkeypatch.setattr(cuda, "missing_library", missing)
    with pytest.raises(ModelError, match=r"CUDA was asked for, but.*libcublasLt\.so\.13.*pip"):
        load(folder, device="cuda")
    encoder = load(folder, device="auto")
    assert (encoder.device, encoder.precision) == ("cpu", "float32")
    assert "libcublasLt.so.13" in encoder.device_note
    with pytest.raises(ModelError, match=r"float16 needs CUDA, but.*libcublasLt"):
        load(folder, device="auto", precision="float16")
    assert capfd.readouterr() == ("", "")


def test_the_providers_own_library_tells_where_ours_find_nothing(
    folder: Path, world: StandIn
) -> None:
    world.falls_back = True
    with pytest.raises(ModelError, match=r"libonnxruntime_providers_cuda\.so"):
        load(folder, device="cuda:0")


def test_no_driver_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_DRIVER", "libno-such-driver.so.1")
    with pytest.raises(ModelError, match=r"but there is no NVIDIA driver here \(libno-such-driver"):
        load(folder, device="cuda")
    assert "no NVIDIA driver" in load(folder).device_note


def test_a_session_that_can_not_be_made_leaves_auto_on_the_cpu(
    folder: Path, world: StandIn
) -> None:
    world.refuses = True
    encoder = load(folder)
    assert encoder.device == "cpu"
    assert "CUDA failure 35" in encoder.device_note
    assert np.array_equal(encoder.encode(MIXED), load(folder, device="cpu").encode(MIXED))


class Driver:
    """What is called of libcuda, with given answers."""

    def __init__(self, init: int, count: int) -> None:
        self._init, self._count = init, count

    def __call__(self, _name: str) -> "Driver":
        return self

    def cuInit(self, _flags: int) -> int:
        return self._init

    def cuDeviceGetCount(self, count: Any) -> int:
        ctypes.cast(count, ctypes.POINTER(ctypes.c_int)).contents.value = self._count
        return 0

    def cuGetErrorName(self, _code: int, name: Any) -> int:
        place = ctypes.cast(name, ctypes.POINTER(ctypes.c_char_p))
        place.contents.value = b"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
        return 0


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        (Driver(0, 0), "shows this process no GPU"),
        (Driver(100, 0), "CUDA_VISIBLE_DEVICES may hide them"),
        (Driver(803, 0), "does not work: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    ],
)
def test_what_the_driver_says_is_told(
    monkeypatch: pytest.MonkeyPatch, driver: Driver, message: str
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", driver)
    with pytest.raises(ModelError, match=message):
        cuda.device_count()


def test_gpus_are_counted_by_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", Driver(0, 4))
    assert cuda.device_count() == 4


def test_the_first_library_that_is_missing_is_named() -> None:
    assert "libcudart.so.99" in (cuda.missing_library("99") or "")
    assert cuda.why_not_loaded("libc.so.6") is None


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        (NO_MEMORY, OutOfMemoryError),
        (
            "Available memory of 1048576 is smaller than requested bytes of 8388608",
            OutOfMemoryError,
        ),
        ("CUDA failure 2: out of memory ; GPU=0 ; expr=cudaMalloc(&p, size)", OutOfMemoryError),
        ("CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0", OutOfMemoryError),
        ("CUDNN_STATUS_ALLOC_FAILED", OutOfMemoryError),
        ("CUDA failure 700: an illegal memory access was encountered", ModelError),
        ("CUDA failure 201: invalid device context", ModelError),
    ],
)
def test_memory_that_runs_out_is_known_by_its_words(
    folder: Path, world: StandIn, says: str, kind: type[ModelError]
) -> None:
    session = CudaSession(folder, Card.read(folder), 0, "float32")
    world.max_tokens, world.says = 100, says
    with pytest.raises(ModelError) as caught:
        session.run(np.ones((8, 32), np.int32), np.ones((8, 32), np.int32))
    assert type(caught.value) is kind


def test_a_gpu_that_is_not_there_is_refused(folder: Path, world: StandIn) -> None:
    with pytest.raises(ModelError, match="no cuda:1: GPUs are counted from 0, and here are 1"):
        load(folder, device="cuda:1")


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_precisions_of_the_cpu_are_refused_on_cuda(
    folder: Path, world: StandIn, precision: str
) -> None:
    with pytest.raises(ModelError, match=f"{precision} is for the CPU"):
        load(folder, device="cuda", precision=precision)


def test_a_folder_without_the_half_graph_is_told(tmp_path: Path, world: StandIn) -> None:
    folder = tiny_model(tmp_path, layers=1)
    card = Card.read(folder)
    files = {name: digest for name, digest in card.files.items() if name != HALF_FILE}
    object.__setattr__(card, "files", files)
    (folder / HALF_FILE).unlink()
    (folder / "card.json").write_text(card.to_json(), encoding="utf-8")
    with pytest.raises(ModelError, match=f"without {HALF_FILE}; fetch or export it again"):
        load(folder, device="cuda", precision="float16")
    encoder = load(folder, device="cuda")
    assert encoder.precision == "float32"
    assert HALF_FILE in encoder.device_note


def test_a_gpu_that_computes_wrongly_is_refused(folder: Path, world: StandIn) -> None:
    world.shift = 0.02
    with pytest.raises(ModelError, match="computes other vectors than the CPU in float16"):
        load(folder, device="cuda")


# Shapes and buffers ------------------------------------------------------------------------------


def test_no_more_than_twelve_shapes_reach_the_gpu(folder: Path, world: StandIn) -> None:
    lengths = [5 + i % 507 for i in range(10_000)]
    assert len({(b.rows, b.length) for b in plan_cuda(lengths, 512)}) <= 12
    encoder = small(load(folder, device="cuda"), 4096)
    world.shapes.clear()
    encoder.encode(texts(lengths[:250]))
    assert {(rows, length) for _, _, rows, length in world.shapes} <= set(cuda_shapes(512, 4096))
    assert len(cuda_shapes(512, 4096)) == 12


def test_padding_of_abstracts_is_counted() -> None:
    lengths = [150 + i % 150 for i in range(4096)]
    assert padding_share(plan_cuda(lengths, 512), lengths) < 0.15
    assert padding_share([], []) == 0.0


def test_fewer_rows_after_more_come_back_as_unbound_runs_give_them(
    folder: Path, world: StandIn
) -> None:
    card = Card.read(folder)
    bound, plain = (CudaSession(folder, card, 0, "float32", bound=way) for way in (True, False))
    rng = np.random.default_rng(1)
    kept: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
    for rows in (8, 3, 8, 1, 3):
        ids = rng.integers(5, 60, (rows, 32)).astype(np.int32)
        mask = (np.arange(32) < rng.integers(2, 33, (rows, 1))).astype(np.int32)
        kept.append((bound.run(ids, mask), plain.run(ids, mask)))
        assert kept[-1][0].shape == (rows, card.dim)
    for found, expected in kept:  # only now: a later run must not have changed an earlier result
        assert np.abs(found - expected).max() < 1e-6


def test_bound_buffers_that_give_something_else_are_refused(folder: Path, world: StandIn) -> None:
    session = CudaSession(folder, Card.read(folder), 0, "float32")
    world.stale = True
    ones = np.ones((2, 8), np.int32)
    with pytest.raises(ModelError, match="bound buffers gave other vectors than a plain run"):
        session.run(ones, ones)


def test_warm_up_computes_every_shape_on_every_gpu(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = install(monkeypatch, gpus=2)
    encoder = small(load(folder, device="cuda"), 2048)
    world.shapes.clear()
    encoder.warm_up()
    for number in (0, 1):
        seen = {(rows, length) for at, _, rows, length in world.shapes if at == number}
        assert seen == set(cuda_shapes(512, 2048))


# Memory that runs out ----------------------------------------------------------------------------


def test_the_batch_is_halved_until_it_fits(folder: Path, world: StandIn) -> None:
    encoder = small(load(folder, device="cuda"), 4096)
    world.max_tokens = 600
    pairs = texts([5 + (37 * i) % 507 for i in range(100)])
    encoded = encoder.encode_counted(pairs)
    expected = load(folder, device="cpu").encode_counted(pairs)
    assert np.abs(encoded.vectors - expected.vectors).max() < 2e-3
    assert np.array_equal(encoded.n_tokens, expected.n_tokens)
    assert encoder._runners.tokens == 512  # pyright: ignore[reportPrivateUsage]
    world.shapes.clear()
    encoder.encode(pairs)
    assert all(rows * length <= 600 for _, _, rows, length in world.shapes)


def test_one_text_that_does_not_fit_is_a_sentence(folder: Path, world: StandIn) -> None:
    encoder = small(load(folder, device="cuda"), 4096)
    world.max_tokens = 400
    with pytest.raises(ModelError, match=r"one text of 512 tokens does not fit.*cuda:0.*--gpu-mem"):
        encoder.encode(texts([500] * 5))
    assert len(encoder.encode(texts([200] * 5))) == 5


# Bad rows ----------------------------------------------------------------------------------------


def test_a_row_that_is_nan_in_float16_is_computed_in_float32(folder: Path, world: StandIn) -> None:
    encoder = small(load(folder, device="cuda"), 2048)
    world.poison = vocabulary().index("image")
    pairs = [*MIXED[:4], ("image", "a"), *MIXED[4:], ("the", "image of a graph")]
    encoded = encoder.encode_counted(pairs)
    assert np.flatnonzero(encoded.retried).tolist() == [4, 11]
    expected = load(folder, device="cpu").encode(pairs)
    assert np.abs(encoded.vectors[encoded.retried] - expected[encoded.retried]).max() < 1e-6
    in_float32 = [shape[2:] for shape in world.shapes if shape[1] == "float32"]
    assert in_float32[-2:] == [(1, 64)] * 2, "one text at a time, in a length that comes again"


def test_memory_that_is_limited_is_not_taken_twice_for_such_a_row(
    folder: Path, world: StandIn
) -> None:
    encoder = load(folder, device="cuda", gpu_mem=2_000_000_000)
    world.poison = vocabulary().index("image")
    encoded = encoder.encode_counted([("image", "a"), ("the", "graph")])
    assert encoded.retried.tolist() == [True, False]
    assert np.array_equal(
        encoded.vectors[0], load(folder, device="cpu").encode([("image", "a")])[0]
    )
    assert len(world.options) == 1


# Several at once ---------------------------------------------------------------------------------


def test_several_gpus_share_the_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = install(monkeypatch, gpus=3)
    encoder = small(load(folder, device="cuda"), 1024)
    assert encoder.device == "cuda:0,cuda:1,cuda:2"
    assert encoder.threads == 6
    world.shapes.clear()
    pairs = texts([5 + (37 * i) % 507 for i in range(120)])
    vectors = encoder.encode(pairs)
    assert {number for number, *_ in world.shapes} == {0, 1, 2}
    assert np.abs(vectors - load(folder, device="cpu").encode(pairs)).max() < 2e-3
    assert load(folder, device="cuda:2").device == "cuda:2"


def test_calls_from_several_threads_agree_on_a_gpu(folder: Path, world: StandIn) -> None:
    encoder = small(load(folder, device="cuda"), 1024)
    expected = encoder.encode(MIXED)
    with ThreadPoolExecutor(4) as pool:
        for vectors in pool.map(encoder.encode, [MIXED] * 8):
            assert np.array_equal(vectors, expected)


def test_chunks_come_back_as_they_went_in(folder: Path, world: StandIn) -> None:
    encoder = small(load(folder, device="cuda"), 2048)
    sizes = [3, 0, 7, 1, *[2] * 20]
    pairs = texts([5 + i % 50 for i in range(sum(sizes))])
    stops = np.cumsum(sizes).tolist()
    chunks = [pairs[stop - size : stop] for size, stop in zip(sizes, stops, strict=True)]
    parts = list(encoder.encode_chunks(iter(chunks)))
    assert encoder.chunk_size > load(folder, device="cpu").chunk_size
    assert [len(part.vectors) for part in parts] == sizes
    joined = np.concatenate([part.vectors for part in parts])
    assert np.abs(joined - load(folder, device="cpu").encode(pairs)).max() < 2e-3


def test_a_forked_child_is_refused_in_words(folder: Path, world: StandIn) -> None:
    encoder = load(folder, device="cuda")
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            encoder.encode(MIXED)
        except ModelError as error:
            os._exit(0 if "spawn" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_tokens_are_the_same_one_by_one_and_in_parallel(folder: Path, world: StandIn) -> None:
    odd = [("", ""), ("\ud800", "b"), ("🦜", "漢字\0"), ("[SEP]", "[PAD]"), ("", "model " * 900)]
    pairs = [*MIXED, *odd]
    on_gpu, on_cpu = load(folder, device="cuda"), load(folder, device="cpu")
    assert np.array_equal(on_gpu.count_tokens(pairs), on_cpu.count_tokens(pairs))
    tokenizer = on_cpu._tokenizer  # pyright: ignore[reportPrivateUsage]
    for one, other in zip(tokenizer.many(pairs), tokenizer.many(pairs, parallel=True), strict=True):
        assert np.array_equal(one.ids, other.ids)
        assert one.truncated == other.truncated


def test_the_program_tells_what_it_runs_on(folder: Path, world: StandIn) -> None:
    encoder = load_encoder(folder)
    encoder.warm_up()
    assert encoder.in_words() == "tiny on cuda:0 in float16"
    assert gpus() == "1, as cuda:0"
    assert precisions()["float16"] is None
    world.falls_back = True
    assert load_encoder(folder).in_words().startswith("tiny on cpu in float32; not on CUDA: ")
    with pytest.raises(EncoderError, match="CUDA was asked for") as caught:
        load_encoder(folder, device="cuda")
    assert caught.value.exit_code == 4


def test_sessions_may_be_had_alone(folder: Path, world: StandIn) -> None:
    opened = open_sessions(folder, Card.read(folder), "cuda:0", "float16")
    assert [(each.device, each.precision) for each in opened.sessions] == [("cuda:0", "float16")]


def small(encoder: Encoder, tokens: int) -> Encoder:
    """The encoder with batches that suit a test."""
    encoder._runners.tokens = tokens  # pyright: ignore[reportPrivateUsage]
    return encoder
