"""Papers nominated by products and TopK: the same graph on the CPU, and CUDA by its stand-in."""

import ctypes
import os
import signal
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cuda_stand_in import StandIn, install
from hindsight_kernels import match, scan
from hindsight_kernels.scan import _error_bound as bound_of_the_scan  # pyright: ignore[reportPrivateUsage]
from hindsight_models import ModelError, Nearest, RequestError, cuda, nearest, products
from hindsight_models.session import ArraySession
from test_kernels_match import unit
from test_kernels_scan import F32, ODD, arrays, assert_same, everything


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """One GPU."""
    return install(monkeypatch)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "BLOCK", 256)
    monkeypatch.setattr(nearest, "_LEAST_BLOCK", 16)


def nominated(near: Nearest, queries: F32, papers: F32, impact: F32, k: int) -> NDArray[np.int32]:
    """As the engine has it: what is not certain goes to the CPU's scan."""
    rows, complete = near.nominate(queries, k)
    assert rows.dtype == np.int32 and len(rows) == len(complete) == len(queries)
    others = scan(queries[~complete], papers, impact, k, threads=1)
    whole = np.full((len(queries), max(rows.shape[1], others.shape[1])), -1, np.int32)
    whole[complete, : rows.shape[1]] = rows[complete]
    whole[~complete, : others.shape[1]] = others
    return whole


def assert_exact(near: Nearest, queries: F32, papers: F32, impact: F32, k: int) -> None:
    candidates = nominated(near, queries, papers, impact, k)
    found = match(queries, papers, impact, candidates, k, 0.3, threads=1)
    assert_same(found, everything(queries, papers, impact, k, 0.3))


# What is nominated -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 9),
    n_papers=st.integers(0, 400),
    d=st.sampled_from([1, 3, 32, 50]),
    k=st.sampled_from([1, 2, 7, 20, 64, 500]),
    block=st.sampled_from([1, 7, 63, 64, 65, 200, 4096]),
    at_once=st.integers(1, 9),
    held=st.sampled_from([1, 150, 1 << 24]),
    odd=st.sampled_from(ODD),
)
def test_all_that_count_are_nominated(
    seed: int, n: int, n_papers: int, d: int, k: int, block: int, at_once: int, held: int, odd: str
) -> None:
    queries, papers, impact = arrays(seed, n, n_papers, d, odd)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "BLOCK", block)
        patch.setattr(nearest, "QUERIES", at_once)
        patch.setattr(nearest, "_HELD", held)
        assert_exact(Nearest(papers, impact >= 0, "cpu"), queries, papers, impact, k)


def near_mean(rng: np.random.Generator, n: int, d: int) -> F32:
    """Unit vectors as encoders give them: none is far from any other."""
    rows = unit(rng, n, d) * np.float32(0.3) + np.float32(d**-0.5)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


@pytest.mark.parametrize("d", [64, 768])
def test_vectors_as_they_are_leave_nothing_to_the_cpu(
    d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "BLOCK", 1500)
    rng = np.random.default_rng(1)
    papers, queries = near_mean(rng, 5000, d), near_mean(rng, 40, d)
    impact = rng.choice(np.array([-1, 0, 1], np.float32), 5000)
    near = Nearest(papers, impact >= 0, "cpu")
    assert near.n_blocks == 3
    rows, complete = near.nominate(queries, 20)
    assert complete.all() and rows.shape[1] < 40
    assert all((np.diff(row[row >= 0]) > 0).all() for row in rows)
    assert_exact(near, queries, papers, impact, 20)


def test_the_bound_is_the_scans() -> None:
    for d in (1, 32, 768, 4096):
        assert products.error_bound(d) == bound_of_the_scan(d)


@pytest.mark.parametrize(("copies", "certain"), [(60, True), (400, True), (900, False)])
def test_copies_are_asked_for_until_there_are_too_many(copies: int, certain: bool) -> None:
    rng = np.random.default_rng(2)
    papers, queries = unit(rng, 3000, 32), unit(rng, 3, 32)
    papers[1000 : 1000 + copies] = queries[1]
    near = Nearest(papers, np.ones(3000, bool), "cpu")
    rows, complete = near.nominate(queries, 20)
    assert complete.tolist() == [True, certain, True]
    assert not certain or (rows[1] >= 0).sum() == copies
    assert_exact(near, queries, papers, np.ones(3000, np.float32), 20)


@pytest.mark.parametrize("size", [1e16, 1e30])
def test_norms_beyond_the_bound_are_left_to_the_scan_that_refuses_them(size: float) -> None:
    papers, queries = np.full((3, 4), size, np.float32), np.ones((1, 4), np.float32)
    near = Nearest(papers, np.ones(3, bool), "cpu")
    assert not near.nominate(queries, 1).complete.any()


def test_papers_are_read_where_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "BLOCK", 1024)
    rng = np.random.default_rng(3)
    np.save(tmp_path / "papers.npy", unit(rng, 30_000, 128))
    papers = np.load(tmp_path / "papers.npy", mmap_mode="r")
    impact = np.where(np.arange(30_000) % 3 == 0, -1, 1).astype(np.float32)
    queries = unit(rng, 5, 128)
    tracemalloc.start()
    near = Nearest(papers, impact >= 0, "cpu")
    rows, complete = near.nominate(queries, 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert complete.all() and peak < papers.nbytes / 2
    right = scan(queries, papers, impact, 20, threads=1)
    found = (match(queries, papers, impact, each, 20, 0.3, threads=1) for each in (rows, right))
    assert_same(next(found), next(found))


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "auto"])
def test_a_device_that_makes_no_sense_is_refused(device: str) -> None:
    with pytest.raises(RequestError, match="expected cpu, cuda or cuda:N"):
        Nearest(np.ones((3, 4), np.float32), np.ones(3, bool), device)


# CUDA --------------------------------------------------------------------------------------------


def made(n: int = 2000, d: int = 16) -> tuple[F32, F32, F32]:
    rng = np.random.default_rng(4)
    impact = rng.choice(np.array([-1, 0.5], np.float32), n)
    return unit(rng, 30, d), unit(rng, n, d), impact


def test_blocks_stay_on_the_gpu(world: StandIn, small_blocks: None) -> None:
    queries, papers, impact = made()
    near = Nearest(papers, impact >= 0)
    assert near.device == "cuda:0"
    assert near.n_resident == near.n_blocks == -(-int((impact >= 0).sum()) // 256)
    assert_exact(near, queries, papers, impact, 20)
    (options,) = world.options
    assert options["use_tf32"] == "0" and options["device_id"] == "0"
    assert int(options["gpu_mem_limit"]) < 1 << 33, "half of what is free, less the blocks"


def test_what_does_not_fit_in_the_memory_asked_for_comes_and_goes(
    world: StandIn, small_blocks: None
) -> None:
    queries, papers, impact = made()
    memory = 4096 * 4 * 16 + 256 * (4 * 16 + 6 * 1024) + 2 * 256 * 4 * 16
    near = Nearest(papers, impact >= 0, "cuda:0", memory)
    assert (near.n_blocks, near.n_resident) == (4, 2)
    placed = 4096 * 4 * 16 + 3 * 256 * 4 * 16
    assert int(world.options[0]["gpu_mem_limit"]) + placed == memory
    assert_exact(near, queries, papers, impact, 20)
    assert_exact(near, queries, papers, impact, 64)


def test_little_memory_makes_blocks_small_and_too_little_is_told(
    world: StandIn, small_blocks: None
) -> None:
    queries, papers, impact = made()
    near = Nearest(papers, impact >= 0, memory=461_000)
    assert (near.n_blocks, near.n_resident) == (-(-int((impact >= 0).sum()) // 32), 0)
    assert_exact(near, queries, papers, impact, 5)
    with pytest.raises(ModelError, match=r"190,000 bytes of the GPU's memory are too few"):
        Nearest(papers, impact >= 0, memory=190_000)


def test_memory_that_is_taken_by_others_leaves_fewer_blocks(
    world: StandIn, small_blocks: None
) -> None:
    queries, papers, impact = made(8000)
    world.max_placed = 10 * 256 * 4 * 16
    near = Nearest(papers, impact >= 0)
    assert near.n_resident == 6 < near.n_blocks, "others come and go, and ideas take room too"
    assert_exact(near, queries, papers, impact, 20)
    world.max_placed = 256 * 4 * 16 + queries.nbytes
    assert_exact(near, queries, papers, impact, 20)
    assert near.n_resident == 0
    world.max_placed = 100
    with pytest.raises(ModelError, match="could not be placed"):
        near.nominate(queries, 20)


def test_a_gpu_with_less_memory_than_it_said_gets_smaller_blocks(
    world: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "_LEAST_BLOCK", 64)
    queries, papers, impact = made(20_000)
    world.max_placed = 200_000
    near = Nearest(papers, impact >= 0)
    assert near.n_blocks > 1
    assert_exact(near, queries, papers, impact, 5)
    world.max_placed = 1000
    with pytest.raises(ModelError, match="too few"):
        Nearest(papers, impact >= 0)


def test_products_that_do_not_fit_are_of_fewer_queries(world: StandIn, small_blocks: None) -> None:
    queries, papers, impact = made()
    near = Nearest(papers, impact >= 0)
    world.max_products = 256 * 5
    assert_exact(near, queries, papers, impact, 20)
    world.max_products = 255
    with pytest.raises(ModelError, match="the graph failed on"):
        near.nominate(queries, 20)


def test_the_largest_run_comes_first(world: StandIn, small_blocks: None) -> None:
    queries, papers, impact = made()
    near = Nearest(papers, impact >= 0)
    opening = len(world.products)
    assert world.products[-1] == 1024 * 256
    for count in (3, 30, 7):
        near.nominate(queries[:count], 20)
    assert max(world.products[opening:]) == 30 * 256


def test_a_device_that_rounds_is_refused(world: StandIn) -> None:
    queries, papers, impact = made()
    near = Nearest(papers, impact >= 0)
    world.tf32 = True
    with pytest.raises(ModelError, match="computes other products than the CPU"):
        Nearest(papers, impact >= 0)
    world.tf32, world.shift = False, 0.01
    with pytest.raises(ModelError, match="computes other products than the CPU"):
        near.nominate(queries, 20)


@pytest.mark.parametrize("fault", ["forgets", "repeats", "invents", "nothing"])
def test_a_device_that_names_others_than_the_largest_is_refused(fault: str) -> None:
    class Device(ArraySession):
        def run(self, placed: dict[str, Any], given: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
            wanted = given["count"] + 1
            values, places = super().run(placed, {**given, "count": wanted})
            if fault == "forgets":
                return [values[:, 1:], places[:, 1:]]
            if fault == "repeats":
                values[:, 1], places[:, 1] = values[:, 0], places[:, 0]
            if fault == "invents":
                places[:, 3] = 1 << 40
            return [values[:, :-1], places[:, :-1]]

    device = Device(products.graph(), None)
    if fault == "nothing":
        products.prove(device, 32, "cuda:0")
    else:
        with pytest.raises(ModelError, match="cuda:0 computes other products"):
            products.prove(device, 32, "cuda:0")


@pytest.mark.parametrize("d", [1, 3, 48, 768, 4096])
def test_rounding_is_seen_in_every_dimension(world: StandIn, d: int) -> None:
    papers = np.ones((3, d), np.float32)
    Nearest(papers, np.ones(3, bool))
    world.tf32 = True
    with pytest.raises(ModelError, match="as if float32 were not float32"):
        Nearest(papers, np.ones(3, bool))


def test_a_silent_fallback_is_an_error(world: StandIn) -> None:
    world.falls_back = True
    with pytest.raises(ModelError, match="onnxruntime could not use GPU 0"):
        Nearest(np.ones((3, 4), np.float32), np.ones(3, bool))


def test_a_gpu_that_is_not_there_is_refused(world: StandIn) -> None:
    with pytest.raises(ModelError, match="no cuda:3: GPUs are counted from 0, and here are 1"):
        Nearest(np.ones((3, 4), np.float32), np.ones(3, bool), "cuda:3")


def test_a_forked_child_is_refused_in_words(world: StandIn) -> None:
    queries, papers, impact = made()
    near = Nearest(papers, impact >= 0)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            near.nominate(queries, 5)
        except ModelError as error:
            os._exit(0 if "spawn" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Driver:
    """What is called of libcuda for a GPU's memory, with a given answer."""

    def __init__(self, code: int) -> None:
        self._code = code
        self.released = 0

    def __call__(self, _name: str) -> "Driver":
        return self

    def __getattr__(self, name: str) -> Any:
        def works(*_given: object) -> int:
            return 0

        return works

    def cuMemGetInfo_v2(self, free: Any, _total: Any) -> int:
        ctypes.cast(free, ctypes.POINTER(ctypes.c_size_t)).contents.value = 5_000_000_000
        return self._code

    def cuDevicePrimaryCtxRelease_v2(self, _device: Any) -> int:
        self.released += 1
        return 0


def test_free_memory_is_the_drivers_word(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(0)
    monkeypatch.setattr(ctypes, "CDLL", driver)
    assert cuda.free_memory(0) == 5_000_000_000
    monkeypatch.setattr(ctypes, "CDLL", failing := Driver(201))
    with pytest.raises(ModelError, match="does not tell the memory of GPU 1"):
        cuda.free_memory(1)
    assert driver.released == failing.released == 1
