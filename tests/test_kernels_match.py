"""match: against its slow twin on an edge grid, and what it refuses."""

import math
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import reference
from hindsight_kernels import Matches, match

F32 = NDArray[np.float32]


def unit(rng: np.random.Generator, n: int, d: int) -> F32:
    rows = rng.standard_normal((n, d)).astype(np.float32)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
    return rows


def assert_equal(found: Matches, right: list[tuple[list[int], list[float], int, float, int, float]],
                 k: int) -> None:  # fmt: skip
    assert found.rows.shape == found.similarities.shape == (len(right), k)
    for i, (rows, similarities, n_matches, score, best_row, best_similarity) in enumerate(right):
        pad = k - len(rows)
        assert found.rows[i].tolist() == rows + [-1] * pad
        assert found.similarities[i].tolist() == similarities + [-math.inf] * pad
        assert found.n_matches[i] == n_matches
        assert found.scores[i] == score
        assert found.best_rows[i] == best_row
        assert found.best_similarities[i] == best_similarity
    assert found.rows.dtype == found.n_matches.dtype == found.best_rows.dtype == np.int32
    assert found.similarities.dtype == found.scores.dtype == np.float32


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 4),
    n_papers=st.integers(0, 30),
    d=st.sampled_from([1, 2, 31, 32, 33, 70]),
    n_candidates=st.integers(0, 40),
    k=st.integers(1, 40),
    threads=st.integers(1, 4),
    odd=st.sampled_from(["none", "zero", "nan", "inf", "copies", "coarse"]),
)
def test_match_is_its_twin(
    seed: int, n: int, n_papers: int, d: int, n_candidates: int, k: int, threads: int, odd: str
) -> None:
    rng = np.random.default_rng(seed)
    papers, queries = unit(rng, n_papers, d), unit(rng, n, d)
    if odd == "coarse":  # exact ties in similarity and impact
        papers, queries = np.sign(papers), np.sign(queries)
    some = rng.random(n_papers) < 0.4
    if odd == "copies" and n_papers:
        papers[some] = papers[0]
    elif odd in ("zero", "nan", "inf"):
        papers[some] = {"zero": 0.0, "nan": math.nan, "inf": math.inf}[odd]
    impact = rng.choice(np.array([-1, 0, 0.25, 1], np.float32), n_papers)
    candidates = rng.integers(-1, n_papers, (n, n_candidates)).astype(np.int32)
    theta = float(np.float32(0.5) if odd == "coarse" else rng.uniform(-0.5, 0.8))
    found = match(queries, papers, impact, candidates, k, theta, threads=threads)
    right = reference.match(queries, papers, impact, candidates.tolist(), k, theta)
    assert_equal(found, right, k)


def test_similarity_is_the_rounded_sum() -> None:
    rng = np.random.default_rng(5)
    papers, queries = unit(rng, 300, 768), unit(rng, 3, 768)
    rows = np.tile(np.arange(300, dtype=np.int32), (3, 1))
    found = match(queries, papers, np.ones(300, np.float32), rows, 300, 0.0, threads=1)
    for query, near, similarities in zip(queries, found.rows, found.similarities, strict=True):
        for row, s in zip(near, similarities, strict=True):
            products = query.astype(np.float64) * papers[row].astype(np.float64)
            assert s == np.float32(math.fsum(products.tolist()))


def test_theta_equal_to_a_similarity_is_a_match() -> None:
    rng = np.random.default_rng(3)
    papers, query = unit(rng, 50, 20), unit(rng, 1, 20)
    rows = np.arange(50, dtype=np.int32)[None]
    impact = np.ones(50, np.float32)
    first = match(query, papers, impact, rows, 20, -1, threads=1)
    for j in range(20):
        theta = float(first.similarities[0, j])
        again = match(query, papers, impact, rows, 20, theta, threads=1)
        assert again.n_matches[0] == j + 1


def test_theta_is_rounded_to_float32() -> None:
    papers = np.array([[0.96, 0.28]], np.float32)
    query = np.array([[1, 0]], np.float32)
    found = match(
        query, papers, np.ones(1, np.float32), np.zeros((1, 1), np.int32), 1, 0.96, threads=1
    )
    assert float(papers[0, 0]) < 0.96 and found.n_matches[0] == 1


def test_nan_never_matches() -> None:
    papers = np.array([[math.nan, 0], [0.95, 0.3]], np.float32)
    query = np.array([[1, 0]], np.float32)
    impact = np.array([1.0, 0.3], np.float32)
    rows = np.array([[0, 1]], np.int32)
    assert match(query, papers, impact, rows, 2, 0.9, threads=1).scores[0] == np.float32(0.3)
    none = match(query, papers, impact, rows[:, :1], 2, 0.9, threads=1)
    assert none.scores[0] == 0 and none.best_rows[0] == -1 and none.rows[0, 0] == -1


def test_padding_never_names_the_last_paper() -> None:
    papers = np.array([[1, 0], [0.99, 0.1]], np.float32)
    rows = np.array([[0, -1, -1]], np.int32)
    impact = np.array([0.1, 0.9], np.float32)
    found = match(papers[:1], papers, impact, rows, 3, 0.5, threads=1)
    assert found.scores[0] == np.float32(0.1) and found.n_matches[0] == 1


def test_read_only_mapped_papers_and_queries_in_any_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    papers, queries = unit(rng, 40, 12), unit(rng, 5, 12)
    np.save(tmp_path / "papers.npy", papers)
    mapped: F32 = np.load(tmp_path / "papers.npy", mmap_mode="r")
    impact = rng.random(40).astype(np.float32)
    rows = np.tile(np.arange(40, dtype=np.int32), (5, 1))
    right = match(queries, papers, impact, rows, 7, 0.1, threads=1)
    strided = np.repeat(impact, 2)[::2]
    found = match(np.asfortranarray(queries), mapped, strided, rows[:, ::-1], 7, 0.1, threads=2)
    for one, other in zip(found, right, strict=True):
        np.testing.assert_array_equal(one, other)


def test_eight_threads_at_once_agree() -> None:
    rng = np.random.default_rng(2)
    papers, queries = unit(rng, 500, 48), unit(rng, 130, 48)
    impact = rng.random(500).astype(np.float32)
    rows = rng.integers(0, 500, (130, 60)).astype(np.int32)
    right = match(queries, papers, impact, rows, 20, 0.2, threads=1)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            found = match(queries, papers, impact, rows, 20, 0.2, threads=2)
            if any((a != b).any() for a, b in zip(found, right, strict=True)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_refused() -> None:
    rng = np.random.default_rng(0)
    papers, query = unit(rng, 6, 4), unit(rng, 1, 4)
    impact, rows = np.ones(6, np.float32), np.zeros((1, 2), np.int32)
    with pytest.raises(TypeError, match="queries is float64, expected float32"):
        match(query.astype(np.float64), papers, impact, rows, 2, 0.5, threads=1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="candidates is int64"):
        match(query, papers, impact, rows.astype(np.int64), 2, 0.5, threads=1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="not C-contiguous"):
        match(query, np.asfortranarray(papers), impact, rows, 2, 0.5, threads=1)
    with pytest.raises(ValueError, match="4 dimensions, papers have 3"):
        match(query, papers[:, :3].copy(), impact, rows, 2, 0.5, threads=1)
    with pytest.raises(ValueError, match="impact is of 5 papers"):
        match(query, papers, impact[:5], rows, 2, 0.5, threads=1)
    with pytest.raises(ValueError, match=r"outside -1\.\.5"):
        match(query, papers, impact, rows + 6, 2, 0.5, threads=1)
    with pytest.raises(ValueError, match="candidates are for 1 ideas, queries are 0"):
        match(query[:0], papers, impact, rows, 2, 0.5, threads=1)
    with pytest.raises(ValueError, match="expected 2 dimensions"):
        match(query[0], papers, impact, rows, 2, 0.5, threads=1)
    for k, theta, threads in ((0, 0.5, 1), (2, math.nan, 1), (2, 0.5, 0)):
        with pytest.raises(ValueError):
            match(query, papers, impact, rows, k, theta, threads=threads)


def test_threads_are_clamped() -> None:
    from hindsight_kernels._threads import clamp_threads

    assert clamp_threads(512) == len(os.sched_getaffinity(0))
