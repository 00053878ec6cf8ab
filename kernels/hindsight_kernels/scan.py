"""Nominate every paper that could be among an idea's K nearest, by a float32 matrix product.

The product of a query q and a paper x by BLAS is some float32 sum a of the d products, in an
order that is BLAS's own. Whatever the order, and fused or not (Higham, Accuracy and Stability of
Numerical Algorithms, 2nd ed., section 3.1),

    |a - q.x| <= gamma_d sum_j |q_j x_j| <= gamma_d |q| |x|,  gamma_d = d u / (1 - d u), u = 2**-24,

and the similarity s that `match` computes, a float64 sum rounded once to float32, obeys

    |s - q.x| <= (u + 2 gamma'_d) |q| |x|,                      gamma'_d with u' = 2**-53.

Numbers that underflow add at most d 2**-125. So |a - s| <= eps(q, x) with

    eps(q, x) = (gamma_d + u + 2 gamma'_d) |q| |x| + d 2**-125.

Norms are measured, not assumed: |q| for each idea, and for |x| the largest norm R of the blocks
read so far. Among papers read so far let a_K be the K-th largest product. K papers have
s >= a_K - eps, so L = a_K - eps is a lower bound of the K-th largest similarity, and a paper can
be among the K only if a + eps >= L. L never falls, so a paper that was once left out stays out.

Papers with NaN or inf have no finite product and are never nominated.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight_kernels._jit import (
    F32,
    F32_2D,
    F32_2D_IN,
    F32_IN,
    F64,
    I32,
    I32_2D,
    I64,
    helper,
    kernel,
)
from hindsight_kernels._threads import clamp_threads, run_all, single_threaded_blas
from hindsight_kernels.match import check_vectors, match

BLOCK = 512
"""Papers per matrix product: with 256 ideas its result stays in the second-level cache."""
_IDEAS = 256
_LEAST_IDEAS = 64  # fewer per product and BLAS spends its time on packing
_CHUNK = 64
_LARGEST = 1e15  # product of norms up to which no float32 sum can overflow or lose the bound


def scan(
    queries: NDArray[np.float32],
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    k: int,
    *,
    threads: int,
    block: int = BLOCK,
) -> NDArray[np.int32]:
    """Candidates among which `match` finds each idea's exact k nearest eligible papers.

    Parameters
    ----------
    queries, papers, impact
        As in `match`.
    k : int
        How many nearest papers must be among the candidates.
    threads : int
        Most threads to use; clamped to the usable processors. BLAS runs on one in each.
    block : int
        Papers per matrix product; changes speed and memory, never what `match` finds.

    Returns
    -------
    ndarray of shape (n, c), int32
        Rows of papers in ascending order, padded with -1; c is the largest number needed.
        Which papers come along that are not needed depends on block and threads.

    Raises
    ------
    TypeError, ValueError
        As in `match`; also where a query's norm times a paper's exceeds 1e15, far from unit.

    Notes
    -----
    Memory per thread: 256 x block products and 256 buffers of max(256, 4 k) candidates.
    """
    threads = clamp_threads(threads)
    queries, papers, impact = check_vectors(queries, papers, impact)
    if k < 1 or block < 1:
        raise ValueError(f"k is {k} and block is {block}; both must be at least 1")
    n, n_papers = len(queries), len(papers)
    if n == 0 or n_papers == 0:
        return np.full((n, 0), -1, np.int32)
    k = min(k, n_papers)

    ideas = min(_IDEAS, max(_LEAST_IDEAS, -(-n // threads)))
    starts = range(0, n, ideas)
    n_parts = min(-(-threads // len(starts)), -(-n_papers // block))
    edges = np.linspace(0, n_papers, n_parts + 1).astype(int)
    tasks = [(start, int(low), int(high)) for start in starts for low, high in pairwise(edges)]

    def work(task: tuple[int, int, int]) -> list[NDArray[np.int32]]:
        start, low, high = task
        return _nominate(queries[start : start + ideas], papers, impact, k, low, high, block)

    with single_threaded_blas():
        parts = run_all(work, tasks, threads)
    lists: list[list[NDArray[np.int32]]] = [[] for _ in range(n)]
    for (start, _, _), part in zip(tasks, parts, strict=True):
        for i, rows in enumerate(part, start):
            lists[i].append(rows)
    return _pad(lists)


def _pad(lists: list[list[NDArray[np.int32]]]) -> NDArray[np.int32]:
    """Lists of ascending rows per idea, as one array."""
    joined = [np.concatenate(parts) for parts in lists]
    candidates = np.full((len(joined), max(map(len, joined))), -1, np.int32)
    for row, rows in zip(candidates, joined, strict=True):
        row[: len(rows)] = rows
    return candidates


def _nominate(
    queries: NDArray[np.float32],
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    k: int,
    low: int,
    high: int,
    block: int,
) -> list[NDArray[np.int32]]:
    """Candidates of a few ideas among papers low..high-1, in the calling thread."""
    n, d = queries.shape
    capacity = max(256, 4 * k)
    products = np.empty(n * block, np.float32)
    values = np.empty((n, capacity), np.float32)
    rows = np.empty((n, capacity), np.int32)
    counts = np.zeros(n, np.int32)
    scratch = np.empty(capacity, np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", queries, queries, dtype=np.float64))
    lower = np.where(np.isfinite(norms), -np.inf, np.inf)  # such a query has no similarities
    relative, absolute = _error_bound(d)
    largest = 0.0

    for start in range(low, high, block):
        x = papers[start : min(start + block, high)]
        largest = max(largest, _largest_norm(x))
        errors = relative * largest * norms + absolute
        if largest * np.max(norms, where=np.isfinite(norms), initial=0.0) > _LARGEST:
            raise ValueError(f"a paper's vector has norm {largest:.3g}; unit vectors are needed")
        s = products[: n * len(x)].reshape(n, len(x))
        np.matmul(queries, x.T, out=s)
        idea = column = 0
        while True:
            idea, column = _collect(
                s, impact, start, k, errors, lower, values, rows, counts, scratch, idea, column
            )
            if idea == n:
                break
            _settle(queries, papers, impact, k, idea, lower, values, rows, counts)
    _finish(k, relative * largest * norms + absolute, lower, values, rows, counts, scratch)
    return [np.sort(rows[i, : counts[i]]) for i in range(n)]


def _error_bound(d: int) -> tuple[float, float]:
    """(relative, absolute) parts of eps: eps = relative |q| |x| + absolute."""
    u, u64 = 2.0**-24, 2.0**-53
    gamma, gamma64 = d * u / (1 - d * u), d * u64 / (1 - d * u64)
    slack = 1 + 1e-6  # the bound itself is computed with rounding
    return (gamma + u + 2 * gamma64) * slack, d * 2.0**-125


def _settle(
    queries: NDArray[np.float32],
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    k: int,
    idea: int,
    lower: NDArray[np.float64],
    values: NDArray[np.float32],
    rows: NDArray[np.int32],
    counts: NDArray[np.int32],
) -> None:
    """A buffer that the bound can't thin (near ties): keep the exact best k of it.

    Rows come in ascending order, so a later paper of equal similarity is never needed instead.
    """
    kept = rows[idea, : counts[idea]].copy()
    best = match(
        queries[idea : idea + 1], papers, impact, kept[None], k, -np.inf, threads=1
    )  # fmt: skip
    stay = np.isin(kept, best.rows[0])
    counts[idea] = stay.sum()
    values[idea, : counts[idea]] = values[idea, : len(kept)][stay]
    rows[idea, : counts[idea]] = kept[stay]
    lower[idea] = max(lower[idea], best.similarities[0, -1])


@kernel(F32_2D_IN)
def _largest_norm(x: NDArray[np.float32]) -> Any:
    """An upper bound of the largest norm among rows that are finite, a little above it."""
    largest = np.float32(0)
    lanes = np.empty(16, np.float32)
    whole = x.shape[1] - x.shape[1] % 16
    for row in x:
        for lane in range(16):
            lanes[lane] = 0
        for j in range(0, whole, 16):
            for lane in range(16):
                lanes[lane] += row[j + lane] * row[j + lane]
        for j in range(whole, x.shape[1]):
            lanes[0] += row[j] * row[j]
        square = np.float32(0)
        for lane in range(16):
            square += lanes[lane]
        if np.isfinite(square) and square > largest:
            largest = square
    return np.sqrt(np.float64(largest)) * (1 + 1e-3) + 1e-18


@helper
def _kth_largest(values: Any, k: int) -> Any:
    """Quickselect (Hoare); reorders `values`."""
    low, high = 0, values.size - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]


@helper
def _thin(k: int, error: Any, lower: Any, values: Any, rows: Any, count: int, scratch: Any) -> Any:
    """Raise the lower bound of one idea and drop what falls below; returns (lower, count)."""
    if count >= k:
        for j in range(count):
            scratch[j] = values[j]
        lower = max(lower, np.float64(_kth_largest(scratch[:count], k)) - error)
    kept = 0
    for j in range(count):
        if values[j] + error >= lower:
            values[kept] = values[j]
            rows[kept] = rows[j]
            kept += 1
    return lower, kept


@kernel(
    F32_2D_IN, F32_IN, I64, I64, F64, F64, F32_2D, I32_2D, I32, F32, I64, I64,
)  # fmt: skip
def _collect(
    products: NDArray[np.float32],
    impact: NDArray[np.float32],
    first_row: int,
    k: int,
    errors: NDArray[np.float64],
    lower: NDArray[np.float64],
    values: NDArray[np.float32],
    rows: NDArray[np.int32],
    counts: NDArray[np.int32],
    scratch: NDArray[np.float32],
    idea: int,
    column: int,
) -> Any:
    """Add a block's papers to the buffers of ideas, from (idea, column) on.

    Returns (number of ideas, 0) at the end, or the (idea, column) where a buffer is too full.
    """
    n, n_columns = products.shape
    capacity = values.shape[1]
    largest = np.float32(np.finfo(np.float32).max)
    for i in range(idea, n):
        s = products[i]
        count = counts[i]
        # Rounded down to float32, so that no value is lost by the rounding.
        least = np.nextafter(np.float32(lower[i] - errors[i]), np.float32(-np.inf))
        for chunk in range(column - column % _CHUNK, n_columns, _CHUNK):
            stop = min(chunk + _CHUNK, n_columns)
            passing = 0
            for j in range(chunk, stop):
                passing += s[j] >= least
            if passing == 0:
                continue
            for j in range(max(chunk, column), stop):
                if not (s[j] >= least and abs(s[j]) <= largest and impact[first_row + j] >= 0):
                    continue
                if count == capacity:
                    lower[i], count = _thin(
                        k, errors[i], lower[i], values[i], rows[i], count, scratch
                    )
                    counts[i] = count
                    if count > capacity // 2:
                        return i, j
                    least = np.nextafter(np.float32(lower[i] - errors[i]), np.float32(-np.inf))
                    if not s[j] >= least:
                        continue
                values[i, count] = s[j]
                rows[i, count] = first_row + j
                count += 1
        counts[i] = count
        column = 0
    return n, 0


@kernel(I64, F64, F64, F32_2D, I32_2D, I32, F32)
def _finish(
    k: int,
    errors: NDArray[np.float64],
    lower: NDArray[np.float64],
    values: NDArray[np.float32],
    rows: NDArray[np.int32],
    counts: NDArray[np.int32],
    scratch: NDArray[np.float32],
) -> None:
    """Thin every buffer for the last time."""
    for i in range(counts.size):
        lower[i], counts[i] = _thin(k, errors[i], lower[i], values[i], rows[i], counts[i], scratch)
