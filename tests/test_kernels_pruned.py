"""pruned_scan: every paper of the true K is nominated, whatever the axes, the input and the cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hindsight_kernels import Multiply, Projected, match, project, pruned_scan, scan
from hindsight_models import IntegerProducts
from test_kernels_match import unit
from test_kernels_scan import ODD, arrays, assert_same, everything

F32 = NDArray[np.float32]


def projected(
    papers: F32, n_axes: int, rng: np.random.Generator, *, apart: float = 0.0
) -> Projected:
    """Along principal axes, or along others, or along some that are no axes at all."""
    n, d = papers.shape
    finite = papers[np.isfinite(papers).all(axis=1)].astype(np.float64)
    mean = finite.mean(axis=0) if len(finite) else np.zeros(d)
    y = finite - mean
    axes = np.linalg.eigh(y.T @ y)[1][:, ::-1][:, :n_axes]
    axes = axes + apart * rng.standard_normal(axes.shape)
    return project(
        papers,
        mean.astype(np.float32),
        np.ascontiguousarray(axes, np.float32),
        np.empty((n, n_axes), np.uint8),
        np.empty((n, 5), np.float32),
    )


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 9),
    n_papers=st.integers(0, 400),
    d=st.sampled_from([1, 3, 32, 50]),
    part=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    k=st.sampled_from([1, 2, 7, 20, 64, 500]),
    block=st.sampled_from([1, 7, 63, 64, 65, 200, 4096]),
    threads=st.integers(1, 4),
    apart=st.sampled_from([0.0, 0.0, 1e-3, 0.3]),
    odd=st.sampled_from(ODD),
    multiply=st.sampled_from([None, IntegerProducts()]),
)
def test_all_that_count_are_nominated(
    seed: int, n: int, n_papers: int, d: int, part: float, k: int, block: int, threads: int,
    apart: float, odd: str, multiply: Multiply | None,
) -> None:  # fmt: skip
    queries, papers, impact = arrays(seed, n, n_papers, d, odd)
    rng = np.random.default_rng(seed)
    near = projected(papers, round(part * d), rng, apart=apart)
    found = pruned_scan(
        queries, papers, impact, near, k, threads=threads, block=block, multiply=multiply
    )
    assert_same(
        match(queries, papers, impact, found, k, 0.5, threads=1),
        everything(queries, papers, impact, k, 0.5),
    )


def test_few_papers_are_rescored() -> None:
    """Vectors whose variance lies along a tenth of the axes, all near one mean."""
    rng = np.random.default_rng(1)
    basis = rng.standard_normal((20, 200)) / 20
    rows = 1 + rng.standard_normal((6_000, 20)) @ basis + 1e-3 * rng.standard_normal((6_000, 200))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    papers, queries = rows[100:].astype(np.float32), rows[:100].astype(np.float32)
    impact = np.ones(len(papers), np.float32)
    found = pruned_scan(queries, papers, impact, projected(papers, 24, rng), 20, threads=2)
    assert (found >= 0).sum(axis=1).mean() < 150  # of 5,900
    plain = scan(queries, papers, impact, 20, threads=2)
    assert_same(
        match(queries, papers, impact, found, 20, 0.5, threads=1),
        match(queries, papers, impact, plain, 20, 0.5, threads=1),
    )


def test_more_ideas_than_a_product_takes() -> None:
    rng = np.random.default_rng(2)
    papers, queries = unit(rng, 300, 16), unit(rng, 1100, 16)
    impact = np.ones(300, np.float32)
    found = pruned_scan(queries, papers, impact, projected(papers, 8, rng), 5, threads=2, block=64)
    assert_same(
        match(queries, papers, impact, found, 5, 0.5, threads=1),
        everything(queries, papers, impact, 5, 0.5),
    )


def test_what_is_refused() -> None:
    rng = np.random.default_rng(3)
    papers = unit(rng, 10, 8)
    impact, near = np.ones(10, np.float32), projected(papers, 4, rng)

    def refused(**other: object) -> str:
        given = {"queries": papers, "papers": papers, "impact": impact, "projected": near, "k": 3}
        with pytest.raises((TypeError, ValueError)) as error:
            pruned_scan(**(given | {"threads": 1} | other))  # type: ignore[arg-type]
        return str(error.value)

    assert "at least 1" in refused(k=0)
    assert "at least 1" in refused(threads=0)
    assert "projections" in refused(papers=papers[:9], impact=impact[:9])
    assert "uint8" in refused(projected=near._replace(codes=np.zeros((10, 4), np.float32)))
    assert "not near 1" in refused(queries=papers * np.float32(1e16))
    with pytest.raises(ValueError, match="not near 1"):
        projected(papers * np.float32(1e6), 4, rng)


def test_numbers_that_overflow_are_refused() -> None:
    rng = np.random.default_rng(4)
    papers = (np.array([[-1e20], [9e19]])).astype(np.float32)
    with pytest.raises(ValueError, match="far from unit"):
        project(
            papers,
            np.array([1e20], np.float32),
            np.empty((1, 0), np.float32),
            np.empty((2, 0), np.uint8),
            np.empty((2, 5), np.float32),
        )
    papers = np.array([[1e-31], [-1e-31]], np.float32)
    long = project(
        papers,
        np.zeros(1, np.float32),
        np.array([[100]], np.float32),
        np.empty((2, 1), np.uint8),
        np.empty((2, 5), np.float32),
    )
    with pytest.raises(ValueError, match="beyond float32"):  # a step of it, though it is finite
        pruned_scan(
            np.array([[3e38]], np.float32), papers, np.ones(2, np.float32), long, 1, threads=1
        )
    papers = unit(rng, 40, 8)
    near = projected(papers, 4, rng)
    with pytest.raises(ValueError, match="are no numbers"):
        odd = near._replace(axes=np.full_like(near.axes, np.nan))
        pruned_scan(papers, papers, np.ones(40, np.float32), odd, 3, threads=1)
    far = near._replace(mean=near.mean + np.float32(1e16))
    with pytest.raises(ValueError, match="not near 1"):
        pruned_scan(papers, papers, np.ones(40, np.float32), far, 3, threads=1)
