"""What only a real GPU can prove; benchmarks/gpu.sh runs it. Nothing is fetched."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.gpu import memory_used_mb, random_model, random_texts
from hindsight_kernels import match, scan
from hindsight_models import Card, Encoded, ModelError, Nearest, load, nearest
from hindsight_models.batches import CUDA_TOKENS
from hindsight_models.cuda import device_count, free_memory
from hindsight_models.session import CudaSession
from overflowing import overflowing_model

pytestmark = pytest.mark.gpu

TOKENS = np.array([2, 3, 17, 31, 32, 33, 64, 100, 129, 200, 256, 257, 300, 384, 400, 511, 512])
PAIRS = random_texts(TOKENS, seed=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of SPECTER2's exact shape with random weights."""
    return random_model(tmp_path_factory.mktemp("gpu") / "model")


@pytest.fixture(scope="module")
def expected(folder: Path) -> Encoded:
    """What the CPU gives in float32."""
    return load(folder, device="cpu", precision="float32").encode_counted(PAIRS)


def apart(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """The largest distance of two vectors of the same text."""
    return float(np.linalg.norm(one.astype(np.float64) - other, axis=1).max())


def test_float32_is_the_cpus(folder: Path, expected: Encoded) -> None:
    encoded = load(folder, device="cuda:0", precision="float32").encode_counted(PAIRS)
    assert np.abs(encoded.vectors - expected.vectors).max() <= 1e-4
    assert np.array_equal(encoded.n_tokens, expected.n_tokens)
    assert not encoded.retried.any()


def test_float16_is_near_in_every_length(folder: Path, expected: Encoded) -> None:
    encoder = load(folder, device="cuda:0")
    assert (encoder.precision, encoder.device) == ("float16", "cuda:0")
    encoded = encoder.encode_counted(PAIRS)
    cosines = np.einsum("nd,nd->n", encoded.vectors, expected.vectors)
    assert cosines.min() >= 0.9999, cosines
    assert np.allclose(np.linalg.norm(encoded.vectors, axis=1), 1, rtol=0, atol=1e-5)
    assert not encoded.retried.any()


def test_similarities_in_float16_are_within_2e_3(folder: Path, expected: Encoded) -> None:
    vectors = load(folder, device="cuda:0").encode(PAIRS).astype(np.float64)
    exact = expected.vectors.astype(np.float64)
    error = np.abs(exact @ exact.T - exact @ vectors.T)
    assert error[~np.eye(len(PAIRS), dtype=bool)].max() < 2e-3


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("float16", 5e-3)])
def test_alone_and_in_a_batch(folder: Path, precision: str, tolerance: float) -> None:
    encoder = load(folder, device="cuda:0", precision=precision)
    alone = np.concatenate([encoder.encode([pair]) for pair in PAIRS])
    assert apart(encoder.encode(PAIRS * 3)[: len(PAIRS)], alone) < tolerance


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_fewer_rows_after_more_through_bound_buffers(folder: Path, precision: str) -> None:
    card = Card.read(folder)
    bound, plain = (CudaSession(folder, card, 0, precision, bound=way) for way in (True, False))
    rng = np.random.default_rng(2)
    for rows in (8, 3, 8, 1, 3):
        ids = rng.integers(4, 1000, (rows, 64)).astype(np.int32)
        mask = (np.arange(64) < rng.integers(2, 65, (rows, 1))).astype(np.int32)
        found = bound.run(ids, mask)
        assert found.shape == (rows, card.dim)
        assert np.abs(found - plain.run(ids, mask)).max() < 1e-4


def test_memory_stays_flat_over_changing_lengths(folder: Path) -> None:
    encoder = load(folder, device="cuda:0")
    encoder.warm_up()
    pairs = random_texts(5 + np.arange(3000) % 507)
    first = encoder.encode(pairs)
    before = memory_used_mb()
    if before is None:
        pytest.skip("nvidia-smi is not installed")
    again = encoder.encode([*pairs, *pairs])[: len(pairs)]
    after = memory_used_mb()
    assert after is not None and after <= before + 64
    assert apart(first, again) < 1e-2


def test_memory_that_is_not_allowed_halves_the_batch(folder: Path, expected: Encoded) -> None:
    encoder = load(folder, device="cuda:0", gpu_mem=700_000_000)
    encoded = encoder.encode_counted(PAIRS * 30)
    assert encoder._runners.tokens < CUDA_TOKENS  # pyright: ignore[reportPrivateUsage]
    assert apart(encoded.vectors[: len(PAIRS)], expected.vectors) < 2e-2


def test_memory_that_holds_no_model_is_a_sentence(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"can't be loaded|does not fit|allocate"):
        load(folder, device="cuda:0", gpu_mem=50_000_000)


def test_a_row_that_overflows_float16_is_computed_in_float32(tmp_path: Path) -> None:
    folder = overflowing_model(tmp_path)
    pairs = [("a model", ""), ("the image", ""), ("we learn", "a graph")]
    encoded = load(folder, device="cuda:0").encode_counted(pairs)
    assert encoded.retried.tolist() == [False, True, False]
    assert apart(encoded.vectors, load(folder, device="cpu").encode(pairs)) < 1e-2


def test_calls_from_several_threads_agree(folder: Path) -> None:
    encoder = load(folder, device="cuda:0")
    alone = encoder.encode(PAIRS)
    with ThreadPoolExecutor(4) as pool:
        for vectors in pool.map(encoder.encode, [PAIRS] * 8):
            assert apart(vectors, alone) < 5e-3


def test_every_gpu_takes_part(folder: Path, expected: Encoded) -> None:
    count = device_count()
    if count == 1:
        pytest.skip("one GPU only")
    encoder = load(folder, device="cuda")
    assert encoder.device == ",".join(f"cuda:{i}" for i in range(count))
    assert apart(encoder.encode(PAIRS * 20)[: len(PAIRS)], expected.vectors) < 2e-2


def test_a_gpu_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="GPUs are counted from 0"):
        load(folder, device="cuda:99")


def test_a_gpu_that_is_hidden_is_told(folder: Path) -> None:
    done = _process(folder, "cuda", CUDA_VISIBLE_DEVICES="")
    assert done.returncode != 0
    assert "CUDA_VISIBLE_DEVICES" in done.stderr


def test_two_processes_share_a_gpu(folder: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(_process, [folder] * 2, ["cuda:0"] * 2):
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip() == "cuda:0 float16 (50, 768)"


def _process(folder: Path, device: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    code = (
        "import sys; from pathlib import Path; from hindsight_models import load\n"
        "encoder = load(Path(sys.argv[1]), device=sys.argv[2])\n"
        "shape = encoder.encode([('', 'w1 w2 w3')] * 50).shape\n"
        "print(encoder.device, encoder.precision, shape)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(folder), device],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


# The exact scan -----------------------------------------------------------------------------------


def papers_near_their_mean(n: int, d: int, seed: int = 0) -> NDArray[np.float32]:
    """Unit vectors as encoders give them, every third with a copy."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d), np.float32) * np.float32(0.3) + 1
    rows[2::3] = rows[1::3][: len(rows[2::3])]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


@pytest.mark.parametrize("d", [64, 384, 768, 1024])
@pytest.mark.parametrize("n", [50, 5000, 200_000])
def test_the_scan_finds_what_the_cpu_finds(n: int, d: int) -> None:
    papers, queries = papers_near_their_mean(n, d), papers_near_their_mean(1500, d, 1)
    impact = np.where(np.arange(n) % 5 == 0, -1, 1).astype(np.float32)
    near = Nearest(papers, impact >= 0)
    assert near.n_resident == near.n_blocks
    for count, k in ((1500, 20), (1, 20), (3, 1), (200, 100)):
        some = queries[:count]
        rows, complete = near.nominate(some, k)
        assert complete.mean() > 0.99
        candidates = scan(some, papers, impact, k, threads=8)
        right, found = (
            match(some[complete], papers, impact, each[complete], k, 0.9, threads=8)
            for each in (candidates, rows)
        )
        for one, other in zip(right, found, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_scan_in_little_memory_takes_no_more() -> None:
    papers, queries = papers_near_their_mean(300_000, 768), papers_near_their_mean(64, 768, 1)
    eligible, free = np.ones(300_000, bool), free_memory(0)
    near = Nearest(papers, eligible, memory=600_000_000)
    assert near.n_resident < near.n_blocks
    found = near.nominate(queries, 20)
    assert free - free_memory(0) < 600_000_000 + (1 << 30), "an arena grows by at most 1 GiB"
    whole = Nearest(papers, eligible).nominate(queries, 20)
    for one, other in zip(whole, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_scan_with_too_little_memory_is_a_sentence() -> None:
    with pytest.raises(ModelError, match="too few to scan vectors of 768 numbers"):
        Nearest(papers_near_their_mean(5000, 768), np.ones(5000, bool), memory=1_000_000)


def test_products_that_do_not_fit_are_of_fewer_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    def tight(_n: int, _d: int, _memory: int) -> tuple[int, int, int]:
        return 16_384, 1, 8_000_000

    monkeypatch.setattr(nearest, "_plan", tight)
    papers, queries = papers_near_their_mean(20_000, 64), papers_near_their_mean(3000, 64, 1)
    near = Nearest(papers, np.ones(20_000, bool))
    rows, complete = near.nominate(queries, 5)
    assert complete.mean() > 0.99 and len(rows) == 3000
    assert near._queries < nearest.QUERIES  # pyright: ignore[reportPrivateUsage]


def test_a_scan_by_several_threads(folder: Path) -> None:
    papers, queries = papers_near_their_mean(50_000, 256), papers_near_their_mean(300, 256, 1)
    near, encoder = Nearest(papers, np.ones(50_000, bool)), load(folder, device="cuda:0")
    alone = near.nominate(queries, 20)
    with ThreadPoolExecutor(6) as pool:
        encoding = [pool.submit(encoder.encode, PAIRS) for _ in range(4)]
        for found in pool.map(near.nominate, [queries] * 8, [20] * 8):
            np.testing.assert_array_equal(found.complete, alone.complete)
            np.testing.assert_array_equal(found.rows, alone.rows)
        assert all(np.isfinite(each.result()).all() for each in encoding)


def test_a_scan_after_a_fork_is_refused() -> None:
    near = Nearest(papers_near_their_mean(500, 64), np.ones(500, bool))
    child = os.fork()
    if child == 0:
        try:
            near.nominate(papers_near_their_mean(3, 64), 5)
        except ModelError as error:
            os._exit(0 if "spawn" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
