"""scan and exact: every paper of the true K is nominated, whatever the input and the cut."""

import math
import os
import threading
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from threadpoolctl import (  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs]
    threadpool_info,
)

from hindsight_kernels import Matches, exact, match, scan
from test_kernels_match import unit

F32 = NDArray[np.float32]


def everything(queries: F32, papers: F32, impact: F32, k: int, theta: float) -> Matches:
    rows = np.tile(np.arange(len(papers), dtype=np.int32), (len(queries), 1))
    return match(queries, papers, impact, rows, k, theta, threads=1)


def assert_same(found: Matches, right: Matches) -> None:
    for name, one, other in zip(Matches._fields, found, right, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


ODD = [
    "none", "zero", "nan", "inf", "copies", "equal", "coarse", "close", "long", "near mean",
    "dead query",
]  # fmt: skip


def arrays(seed: int, n: int, n_papers: int, d: int, odd: str) -> tuple[F32, F32, F32]:
    """Queries, papers and impact; unit vectors but for what is odd about them."""
    rng = np.random.default_rng(seed)
    papers, queries = unit(rng, n_papers, d), unit(rng, n, d)
    some = rng.random(n_papers) < 0.3
    if odd in ("zero", "nan", "inf"):
        papers[some] = {"zero": 0.0, "nan": math.nan, "inf": -math.inf}[odd]
    elif odd == "equal" and n_papers:
        papers[:] = papers[0]
    elif odd == "copies" and n_papers:
        papers[some] = papers[0]
    elif odd == "coarse":
        papers, queries = np.sign(papers), np.sign(queries)
    elif odd == "close" and n_papers:  # nearer to each other than float32 can tell
        papers = papers[0] + np.float32(1e-7) * rng.standard_normal((n_papers, d), np.float32)
    elif odd == "long":  # not unit: bounds measure norms
        papers *= rng.choice(np.array([0.01, 1, 300], np.float32), (n_papers, 1))
    elif odd == "near mean":  # as encoders' vectors lie
        for rows in (papers, queries):
            rows *= np.float32(0.05)
            rows += 1
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    elif odd == "dead query" and n:
        queries[0, 0] = rng.choice([math.nan, math.inf])
    impact = rng.choice(np.array([-1, 0, 0.5, 1], np.float32), n_papers)
    return queries, papers, impact


@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 9),
    n_papers=st.integers(0, 400),
    d=st.sampled_from([1, 3, 32, 50]),
    k=st.sampled_from([1, 2, 7, 20, 64, 500]),
    block=st.sampled_from([1, 7, 63, 64, 65, 200, 4096]),
    threads=st.integers(1, 4),
    odd=st.sampled_from(ODD),
)
def test_scan_nominates_all_that_count(
    seed: int, n: int, n_papers: int, d: int, k: int, block: int, threads: int, odd: str
) -> None:
    queries, papers, impact = arrays(seed, n, n_papers, d, odd)
    candidates = scan(queries, papers, impact, k, threads=threads, block=block)
    assert candidates.dtype == np.int32 and candidates.shape[0] == n
    found = match(queries, papers, impact, candidates, k, 0.3, threads=threads)
    right = everything(queries, papers, impact, k, 0.3)
    assert_same(found, right)
    assert_same(exact(queries, papers, impact, k, 0.3, threads=threads), right)


@pytest.mark.parametrize("d", [50, 768])
@pytest.mark.parametrize("apart", [1e-7, 1e-6])
def test_papers_nearer_to_each_other_than_float32_can_tell(d: int, apart: float) -> None:
    rng = np.random.default_rng(7)
    noise = rng.standard_normal((3000, d), np.float32)
    papers = np.repeat(unit(rng, 1, d), 3000, axis=0)
    papers += np.float32(apart) * noise
    papers[70::71] = papers[-1] = 0  # the bound goes by the longest paper, not by the last
    queries = papers[1:6].copy()
    queries += unit(rng, 5, d) / 10
    impact = np.ones(3000, np.float32)
    right = everything(queries, papers, impact, 20, 0.3)
    for block in (71, 3000):
        candidates = scan(queries, papers, impact, 20, threads=1, block=block)
        assert_same(match(queries, papers, impact, candidates, 20, 0.3, threads=1), right)


def test_more_ideas_than_a_product_takes() -> None:
    rng = np.random.default_rng(8)
    papers, queries = unit(rng, 3000, 24), unit(rng, 1100, 24)
    impact = rng.random(3000).astype(np.float32)
    for threads in (1, 2):
        found = exact(queries, papers, impact, 10, 0.4, threads=threads)
        some = np.r_[0:3, 510:515, 1097:1100]
        right = everything(queries[some], papers, impact, 10, 0.4)
        for one, other in zip(found, right, strict=True):
            np.testing.assert_array_equal(one[some], other)


def test_few_papers_are_rescored() -> None:
    rng = np.random.default_rng(4)
    papers, queries = unit(rng, 20_000, 64), unit(rng, 50, 64)
    candidates = scan(queries, papers, np.ones(20_000, np.float32), 20, threads=2)
    assert candidates.shape[1] < 30
    assert all((np.diff(row[row >= 0]) > 0).all() for row in candidates)


def test_equal_papers_stay_bounded() -> None:
    rng = np.random.default_rng(6)
    papers = np.repeat(unit(rng, 1, 16), 30_000, axis=0)
    impact = np.zeros(30_000, np.float32)
    candidates = scan(papers[:2], papers, impact, 20, threads=1)
    assert candidates.shape[1] <= 80
    found = match(papers[:2], papers, impact, candidates, 20, 0.5, threads=1)
    assert (found.rows == np.arange(20)).all()


def test_no_paper_and_no_idea() -> None:
    papers, queries = np.zeros((0, 8), np.float32), np.ones((3, 8), np.float32)
    none = exact(queries, papers, np.zeros(0, np.float32), 5, 0.5, threads=2)
    assert (none.rows == -1).all() and (none.scores == 0).all() and (none.best_rows == -1).all()
    assert exact(queries[:0], queries, np.ones(3, np.float32), 5, 0.5, threads=2).rows.shape == (
        0,
        5,
    )
    kept_out = exact(queries, queries, np.full(3, -1, np.float32), 5, 0.5, threads=2)
    assert (kept_out.rows == -1).all()


def test_norms_beyond_the_bound_are_refused() -> None:
    queries = np.ones((1, 4), np.float32)
    for size in (1e16, 1e30):
        with pytest.raises(ValueError, match="norms reach"):
            scan(queries, np.full((3, 4), size, np.float32), np.ones(3, np.float32), 1, threads=1)


def test_what_is_refused() -> None:
    papers, impact = np.ones((3, 4), np.float32), np.ones(3, np.float32)
    with pytest.raises(TypeError):
        scan(papers.astype(np.float64), papers, impact, 1, threads=1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError):
        scan(papers, papers, impact, 0, threads=1)
    with pytest.raises(ValueError):
        scan(papers, papers, impact, 1, threads=1, block=0)


def blas_threads() -> list[int]:
    pools = cast(list[dict[str, Any]], threadpool_info())
    return [int(pool["num_threads"]) for pool in pools if pool["user_api"] == "blas"]


def test_eight_threads_at_once_agree_and_give_blas_back() -> None:
    rng = np.random.default_rng(2)
    papers, queries = unit(rng, 2000, 32), unit(rng, 40, 32)
    impact = rng.random(2000).astype(np.float32)
    right = everything(queries, papers, impact, 10, 0.2)
    before, wrong = blas_threads(), list[str]()

    def work() -> None:
        for _ in range(10):
            try:
                assert_same(exact(queries, papers, impact, 10, 0.2, threads=2), right)
            except Exception as error:
                wrong.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert blas_threads() == before


def test_a_forked_child_works() -> None:
    rng = np.random.default_rng(2)
    papers, queries = unit(rng, 500, 32), unit(rng, 10, 32)
    impact = rng.random(500).astype(np.float32)
    right = exact(queries, papers, impact, 10, 0.2, threads=2)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert_same(exact(queries, papers, impact, 10, 0.2, threads=2), right)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
