"""grid: against its slow twin on an edge grid, against match, and what it refuses."""

import math
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import reference
from hindsight_fast.impact import paper_impact
from hindsight_kernels import grid, match


def lists(
    rng: np.random.Generator, n: int, m: int
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
    """Similarities best first, with ties and idle places, and the parts of impact."""
    coarse = rng.integers(-3, 12, (n, m)) / 10
    similarities = -np.sort(-coarse.astype(np.float32), axis=1)
    similarities[np.arange(m) >= rng.integers(0, m + 1, n)[:, None]] = -math.inf
    v: NDArray[np.float64] = rng.integers(0, 2, (n, m)).astype(np.float64)
    c = rng.random((n, m))
    c[np.isneginf(similarities)] = math.nan
    return similarities, c, v


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 9),
    m=st.integers(0, 12),
    thetas=st.lists(st.sampled_from([-1.0, 0.0, 0.3, 0.3000001, 0.96, 1.0, 1.1]), max_size=4),
    threads=st.integers(1, 4),
)
def test_grid_is_its_twin(seed: int, n: int, m: int, thetas: list[float], threads: int) -> None:
    rng = np.random.default_rng(seed)
    near = lists(rng, n, m)
    ks = np.flatnonzero(rng.random(m) < 0.5) + 1
    weights = np.array([0, 0.2, 0.6, 1.0, rng.random()])
    found = grid(*near, np.array(thetas, np.float32), ks, weights, threads=threads)
    assert found.scores.shape == (len(thetas), len(ks), 5)
    right = reference.grid(*near, thetas, ks.tolist(), weights.tolist())
    for (a, b, d), (score, matches, matched) in right.items():
        assert found.scores[a, b, d] == score
        assert found.matches[a, b] == matches and found.matched[a] == matched


def test_at_the_recipes_weight_it_adds_up_the_scores_of_match() -> None:
    rng = np.random.default_rng(7)
    papers, queries = (rng.standard_normal((n, 24)).astype(np.float32) for n in (300, 90))
    for rows in (papers, queries):
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    citations, top = rng.integers(0, 28_829, 300), rng.random(300) < 0.3
    impact = paper_impact(citations, top, np.ones(300, bool))
    c = (citations - citations.min()) / (citations.max() - citations.min())
    candidates = np.tile(np.arange(300, dtype=np.int32), (90, 1))
    near = match(queries, papers, impact, candidates, 50, 0, threads=2)
    thetas = [float(near.similarities[3, 4]), 0.45, 0.999]  # a similarity itself is a match
    found = grid(
        near.similarities,
        c[near.rows],
        top[near.rows].astype(np.float64),
        np.array(thetas, np.float32),
        np.array([1, 20, 50]),
        np.array([0.0, 0.6]),
        threads=2,
    )
    for a, theta in enumerate(thetas):
        for b, k in enumerate((1, 20, 50)):
            one = match(queries, papers, impact, candidates, k, theta, threads=1)
            assert found.scores[a, b, 1] == sum(one.scores.astype(float).tolist())
            assert found.matches[a, b] == one.n_matches.sum()
            assert found.matched[a] == (one.n_matches > 0).sum()
    assert 0 < found.matched[0] < 90 and found.matched[2] == 0


def test_any_number_of_threads_gives_the_same_sums() -> None:
    near = lists(np.random.default_rng(1), 3000, 20)
    thetas = np.linspace(-1, 1, 40, dtype=np.float32)
    ks, weights = np.array([1, 7, 20]), np.linspace(0, 1, 6)
    right = grid(*near, thetas, ks, weights, threads=1)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            found = grid(*near, thetas, ks, weights, threads=4)
            if any((one != other).any() for one, other in zip(found, right, strict=True)):
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.parametrize(
    ("place", "value", "error", "words"),
    [
        (0, np.zeros((2, 3)), TypeError, "similarities is float64"),
        (1, np.zeros((2, 4)), ValueError, "the same"),
        (2, np.zeros(3), ValueError, "expected 2 dimensions"),
        (3, np.array([math.nan], np.float32), ValueError, "theta is NaN"),
        (4, np.array([0, 1]), ValueError, "from 1 to 3"),
        (4, np.array([2, 2]), ValueError, "ascending"),
        (4, np.array([4]), ValueError, "from 1 to 3"),
        (5, np.zeros(1, np.float32), TypeError, "weights is float32"),
    ],
)
def test_what_is_refused(place: int, value: Any, error: type[Exception], words: str) -> None:
    arrays: list[Any] = [
        np.zeros((2, 3), np.float32), np.zeros((2, 3)), np.zeros((2, 3)),
        np.zeros(1, np.float32), np.array([1, 3]), np.array([0.6]),
    ]  # fmt: skip
    grid(*arrays, threads=1)
    arrays[place] = value
    with pytest.raises(error, match=words):
        grid(*arrays, threads=1)
    with pytest.raises(ValueError, match="threads is 0"):
        grid(*arrays, threads=0)
