"""Nominate every paper that could be among an idea's K nearest, by products of small integers.

Encoders' vectors share a large mean m, and what remains is short. Let V be (d, a) with nearly
orthonormal columns. For a paper x and a query q, in exact arithmetic,

    x - m = V t + e,    q - m = V w + f,    t, w: near V'(x - m), V'(q - m), whole numbers times a
                                                  scale of each paper or query,
    q.x = w.t + m.(x - m) + q.m + [f.e + w.(V'e) + (V'f).t + w.(V'V - I)t].

By Cauchy and Schwarz the bracket is at most |f||e| + |w||V'e| + (|V'f| + g|w|)|t|, g the Frobenius
norm of V'V - I; |e|, |V'e| and |t| are measured for each paper, |f|, |w| and |V'f| for each query.
The product of whole numbers is exact. So

    p = w.t + |f||e| + |w||V'e| + (|V'f| + g|w|)|t| + m.(x - m),

in float32, bounds the similarity that `match` finds:

    similarity <= p + q.m + eps,

where eps is what rounding adds to p and to the similarity (as in `scan`). The most promising papers
are rescored on the way; one whose bound is below the K-th largest similarity of these can't be
among the K nearest, and all others are nominated.

Bytes are multiplied several times as fast as float32, and read in a quarter of the time. What it
costs is some papers more to rescore.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_kernels._jit import (
    F32_2D,
    F32_2D_IN,
    F32_IN,
    I32,
    I32_2D,
    I32_2D_IN,
    I32_IN,
    I64,
    I64_IN,
    helper,
    kernel,
)
from hindsight_kernels._threads import clamp_threads, run_all, single_threaded_blas
from hindsight_kernels.match import check_vectors, match
from hindsight_kernels.projected import ZERO, Projected, above, checked, norms, quantised, rounding

BLOCK = 1024
"""Papers per matrix product."""
_IDEAS = 1024
_BUFFERED = 1 << 22  # candidates that one thread may hold
_GROWTH = 3.0  # lower bounds are raised whenever so many times as many papers were seen
_CHUNK = 64  # products compared at once before any is looked at
_STEPS = 64  # of a query's numbers: 255 * 64 * 2 still fits the int16 that AVX2 adds pairs in
_ROUNDINGS = 16  # more than p takes, conversion included
_LONGEST = 1e15  # product of norms, as in `scan`
_U, _U64 = 2.0**-24, 2.0**-53


Multiply = Callable[[NDArray[np.uint8], NDArray[np.int8]], NDArray[np.int32]]
"""Exact products of (m, a) and (a, n): (m, n). Called from several threads at once."""


class _Ideas(NamedTuple):
    """A few ideas: the right side of products, terms of p, q.m and eps."""

    columns: NDArray[np.int8]
    zero: NDArray[np.int32]
    scale: NDArray[np.float32]
    outside: NDArray[np.float32]
    """|f|."""
    inside: NDArray[np.float32]
    """|w|."""
    across: NDArray[np.float32]
    """|V'f| + g|w|."""
    shift: NDArray[np.float64]
    errors: NDArray[np.float64]


class _Part(NamedTuple):
    """What one thread nominates for a few ideas: upper bounds less q.m, rows, how many, lower."""

    values: NDArray[np.float32]
    rows: NDArray[np.int32]
    counts: NDArray[np.int32]
    lower: NDArray[np.float64]


def pruned_scan(
    queries: NDArray[np.float32],
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    projected: Projected,
    k: int,
    *,
    threads: int,
    block: int = BLOCK,
    multiply: Multiply | None = None,
) -> NDArray[np.int32]:
    """Candidates among which `match` finds each idea's exact k nearest eligible papers.

    Parameters
    ----------
    queries, papers, impact
        As in `match`.
    projected : Projected
        The papers, by `project`.
    k : int
        How many nearest papers must be among the candidates.
    threads : int
        Most threads to use; clamped to the usable processors. BLAS runs on one in each.
    block : int
        Papers per matrix product; changes speed and memory, never what `match` finds.
    multiply
        What multiplies bytes exactly, and fast; by default float32 products, which are as exact.

    Returns
    -------
    ndarray of shape (n, c), int32
        Rows of papers, padded with -1. Which come along that are not needed depends on block and
        threads.

    Raises
    ------
    TypeError, ValueError
        As in `match`; also where shapes of `projected` don't agree, or a query's norm times a
        paper's may exceed 1e15.

    Notes
    -----
    Memory per thread: 1,024 x block products and more than twice as many candidates; fewer ideas
    at once where k is large.
    """
    threads = clamp_threads(threads)
    queries, papers, impact = check_vectors(queries, papers, impact)
    projected = checked(projected, papers)
    if k < 1 or block < 1:
        raise ValueError(f"k is {k} and block is {block}; both must be at least 1")
    n, n_papers = len(queries), len(papers)
    if n == 0 or n_papers == 0:
        return np.full((n, 0), -1, np.int32)
    k = min(k, n_papers)
    n_parts = min(threads, -(-n_papers // block))
    edges = [n_papers * part // n_parts for part in range(n_parts + 1)]

    product = multiply or by_blas
    at_once = max(1, min(_IDEAS, _BUFFERED // (2 * block + 8 * k)))
    found: list[NDArray[np.int32]] = []
    with single_threaded_blas():
        for start in range(0, n, at_once):
            some = queries[start : start + at_once]
            ideas = _prepared(some, projected)

            lower = np.full(len(some), -np.inf)

            def work(
                span: tuple[int, int],
                some: NDArray[np.float32] = some,
                ideas: _Ideas = ideas,
                lower: NDArray[np.float64] = lower,
            ) -> _Part:
                return _nominate(
                    some, ideas, papers, impact, projected, k, lower, *span, block, product
                )

            found.append(_merged(run_all(work, list(pairwise(edges)), threads)))
    candidates = np.full((n, max(rows.shape[1] for rows in found)), -1, np.int32)
    for start, rows in zip(range(0, n, at_once), found, strict=True):
        candidates[start : start + len(rows), : rows.shape[1]] = rows
    return candidates


def by_blas(rows: NDArray[np.uint8], columns: NDArray[np.int8]) -> NDArray[np.int32]:
    """Multiply in float32 or float64, whichever holds every sum exactly."""
    kind = np.float32 if rows.shape[1] * ZERO * _STEPS < 2**24 else np.float64
    centred = np.subtract(rows, ZERO, dtype=kind)
    found: NDArray[np.int32] = (centred @ columns.astype(kind)).astype(np.int32)
    found += ZERO * columns.sum(axis=0, dtype=np.int32)
    return found


def _prepared(queries: NDArray[np.float32], projected: Projected) -> _Ideas:
    limits = projected.limits
    m, v = projected.mean.astype(np.float64), projected.axes.astype(np.float64)
    d, u = len(v), rounding(*v.shape)
    with np.errstate(all="ignore"):  # NaN and inf have no products, and are nominated nothing
        q = queries.astype(np.float64)
        q[~np.isfinite(q).all(axis=1)] = np.nan
        z = q - m
        steps, scale = quantised(z @ v, _STEPS)
        w = scale[:, None].astype(np.float64) * steps
        f = z - w @ v.T
        size = norms(z)
        outside, inside = above(norms(f), size, u), above(norms(w), size, u)
        across = above(norms(f @ v) + limits.slack * inside, size, u)
        known = np.isfinite(size)
        for bound in (scale, outside, inside, across):
            if not np.isfinite(bound[known]).all():
                raise ValueError("a query along the axes is beyond float32, not near 1")
        whole = np.nan_to_num(steps).astype(np.int8)
        o, i, c = (one.astype(np.float64) for one in (outside, inside, across))
        of_papers = limits.length * (1 + limits.slack) + limits.outside + norms(m[None])[0]
        of_queries = norms(q)
        longest = np.nan_to_num(of_queries).max() + norms(m[None])[0]
        if not longest * of_papers <= _LONGEST:
            raise ValueError(f"norms reach {of_papers:.3g} and {longest:.3g}, not near 1")
        magnitude = (i + c) * limits.length + i * limits.inside + o * limits.outside + limits.offset
        errors = (
            _gamma(_ROUNDINGS, _U) * magnitude
            + _U * limits.offset
            + u * size * limits.length
            + (_U + 4 * _gamma(d, _U64)) * of_queries * of_papers
        ) * (1 + 1e-6) + (d + _ROUNDINGS) * 2.0**-125
        columns = np.ascontiguousarray(whole.T)
        return _Ideas(
            columns,
            ZERO * columns.sum(axis=0, dtype=np.int32),
            scale,
            outside,
            inside,
            across,
            q @ m,
            errors,
        )


def _nominate(
    queries: NDArray[np.float32],
    ideas: _Ideas,
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    projected: Projected,
    k: int,
    lower: NDArray[np.float64],
    low: int,
    high: int,
    block: int,
    multiply: Multiply,
) -> _Part:
    """Candidates of a few ideas among papers low..high-1, in the calling thread.

    What one thread learns of the K-th largest similarity, `lower`, helps the others. Should two
    write at once, one of two right bounds is left.
    """
    n = len(queries)
    capacity = 2 * block + 8 * k
    values = np.empty((n, capacity), np.float32)
    rows = np.empty((n, capacity), np.int32)
    part = _Part(values, rows, np.zeros(n, np.int32), lower)
    seen, due = 0, 0.0
    for start in range(low, high, block):
        here = projected.codes[start : min(start + block, high)]
        products = multiply(here, ideas.columns)
        _collect(
            products,
            ideas.zero,
            ideas.scale,
            ideas.outside,
            ideas.inside,
            ideas.across,
            projected.bounds,
            impact,
            start,
            _just_below(part.lower),
            values,
            rows,
            part.counts,
        )
        seen += len(here)
        # The more papers were seen, the less is to be won by looking at the best of them again;
        # meanwhile only ideas whose room is short are looked at.
        at_least = capacity - block
        if seen >= due or start + block >= high:
            due, at_least = seen * _GROWTH, 2 * k
        if len(many := np.flatnonzero(part.counts > at_least)):
            _raise_bounds(many, queries, papers, impact, ideas, k, part)
        if len(full := np.flatnonzero(part.counts > capacity - block)):
            _settle(full, queries, papers, impact, ideas, k, part)
    return part


def _raise_bounds(
    ideas: NDArray[np.int64],
    queries: NDArray[np.float32],
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    of: _Ideas,
    k: int,
    part: _Part,
) -> None:
    """Rescore the most promising candidates of some ideas, and drop all that fall below.

    All of them have more than twice k candidates.
    """
    there = _there(part.counts[ideas])
    width = there.shape[1]
    values = np.where(there, part.values[ideas, :width], -np.inf)
    first = np.argpartition(values, -2 * k, axis=1)[:, -2 * k :]
    some = np.take_along_axis(part.rows[ideas, :width], first, axis=1)
    best = match(queries[ideas], papers, impact, some, k, -np.inf, threads=1)
    _tighten(ideas, best.similarities, of, part)
    _drop(ideas, _just_below(part.lower), part.values, part.rows, part.counts)


def _there(counts: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which places of some ideas' buffers hold a candidate, as wide as the longest."""
    there: NDArray[np.bool_] = np.arange(int(counts.max())) < counts[:, None]
    return there


def _tighten(
    ideas: NDArray[np.int64], similarities: NDArray[np.float32], of: _Ideas, part: _Part
) -> None:
    """Raise lower bounds to what it takes to be as near as the k-th of some papers."""
    least = similarities[:, -1] - of.shift[ideas] - of.errors[ideas]
    part.lower[ideas] = np.maximum(part.lower[ideas], least)


def _settle(
    ideas: NDArray[np.int64],
    queries: NDArray[np.float32],
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    of: _Ideas,
    k: int,
    part: _Part,
) -> None:
    """Keep the exact best k of some ideas' candidates, and raise lower bounds by them.

    Later papers have higher rows, so one of equal similarity is never needed instead.
    """
    there = _there(part.counts[ideas])
    candidates = np.where(there, part.rows[ideas, : there.shape[1]], -1).astype(np.int32)
    best = match(queries[ideas], papers, impact, candidates, k, -np.inf, threads=1)
    known = best.similarities - of.shift[ideas, None]
    part.rows[ideas, :k] = best.rows
    part.values[ideas, :k] = np.nextafter(known.astype(np.float32), np.float32(np.inf))
    part.counts[ideas] = (best.rows >= 0).sum(axis=1)
    _tighten(ideas, best.similarities, of, part)


def _merged(parts: list[_Part]) -> NDArray[np.int32]:
    """Candidates of a few ideas over all parts; (n, c), padded."""
    least = _just_below(np.max([part.lower for part in parts], axis=0))
    every = np.arange(len(least))
    for part in parts:
        _drop(every, least, part.values, part.rows, part.counts)
    total = sum((part.counts for part in parts), np.zeros_like(parts[0].counts))
    rows = np.full((len(least), int(total.max())), -1, np.int32)
    filled = np.zeros_like(total)
    for part in parts:
        _append(part.rows, part.counts, rows, filled)
    return rows


def _gamma(n: int, u: float) -> float:
    return n * u / (1 - n * u)


def _just_below(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """float32 and no larger than the values, so that rounding loses no candidate."""
    return np.nextafter(values.astype(np.float32), np.float32(-np.inf))


@helper
def _bound(product: Any, zero: Any, terms: Any, paper: Any) -> Any:
    """p of an idea and a paper."""
    whole = np.float32(np.int32(product - zero))
    return (
        whole * paper[0] * terms[0]
        + terms[1] * paper[1]
        + terms[2] * paper[2]
        + terms[3] * paper[3]
        + paper[4]
    )


@helper
def _any_passes(
    products: Any, zero: Any, scale: Any, outside: Any, inside: Any, across: Any, least: Any,
    paper: Any,
) -> Any:  # fmt: skip
    """Of _CHUNK ideas; int32 and a constant length all along, or it's not vectorised."""
    passing = np.int32(0)
    for i in range(_CHUNK):
        terms = (scale[i], outside[i], inside[i], across[i])
        p = _bound(products[i], zero[i], terms, paper)
        passing = np.int32(passing + np.int32(p >= least[i]))
    return passing > 0


@kernel(
    I32_2D_IN, I32_IN, F32_IN, F32_IN, F32_IN, F32_IN, F32_2D_IN, F32_IN, I64, F32_IN, F32_2D,
    I32_2D, I32,
)  # fmt: skip
def _collect(
    products: NDArray[np.int32],
    zero: NDArray[np.int32],
    scale: NDArray[np.float32],
    outside: NDArray[np.float32],
    inside: NDArray[np.float32],
    across: NDArray[np.float32],
    bounds: NDArray[np.float32],
    impact: NDArray[np.float32],
    first_row: int,
    least: NDArray[np.float32],
    values: NDArray[np.float32],
    rows: NDArray[np.int32],
    counts: NDArray[np.int32],
) -> None:
    """Add a block's papers that reach each idea's least bound; there is room for all."""
    n_rows, n = products.shape
    for j in range(n_rows):
        row = first_row + j
        if not impact[row] >= 0:
            continue
        of_paper = products[j]
        paper = (bounds[row, 0], bounds[row, 1], bounds[row, 2], bounds[row, 3], bounds[row, 4])
        for start in range(0, n, _CHUNK):
            stop = min(start + _CHUNK, n)
            if start + _CHUNK == stop and not _any_passes(
                of_paper[start:stop],
                zero[start:stop],
                scale[start:stop],
                outside[start:stop],
                inside[start:stop],
                across[start:stop],
                least[start:stop],
                paper,
            ):
                continue
            for i in range(start, stop):
                terms = (scale[i], outside[i], inside[i], across[i])
                p = _bound(of_paper[i], zero[i], terms, paper)
                if p >= least[i]:
                    values[i, counts[i]] = p
                    rows[i, counts[i]] = row
                    counts[i] += 1


@kernel(I64_IN, F32_IN, F32_2D, I32_2D, I32)
def _drop(
    ideas: NDArray[np.int64],
    least: NDArray[np.float32],
    values: NDArray[np.float32],
    rows: NDArray[np.int32],
    counts: NDArray[np.int32],
) -> None:
    """Drop candidates of some ideas that don't reach their least value."""
    for i in ideas:
        kept = 0
        for j in range(counts[i]):
            if values[i, j] >= least[i]:
                values[i, kept] = values[i, j]
                rows[i, kept] = rows[i, j]
                kept += 1
        counts[i] = kept


@kernel(I32_2D, I32, I32_2D, I32)
def _append(
    rows: NDArray[np.int32],
    counts: NDArray[np.int32],
    all_rows: NDArray[np.int32],
    filled: NDArray[np.int32],
) -> None:
    """Add one part's candidates after those of the parts before it."""
    for i in range(counts.size):
        for j in range(counts[i]):
            all_rows[i, filled[i]] = rows[i, j]
            filled[i] += 1
