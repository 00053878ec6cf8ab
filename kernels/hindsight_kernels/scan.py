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
from typing import Any, NamedTuple

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

BLOCK = 768
"""Papers per matrix product; 512 to 1,536 differ by less than the noise."""
_IDEAS = 512
_BUFFERED = 1 << 21  # candidates that one thread may hold
_CHUNK = 64  # products compared at once before any is looked at
_FLT_MAX = np.float32(np.finfo(np.float32).max)
_LARGEST = 1e15  # product of norms up to which no float32 sum can overflow or lose the bound


class _Part(NamedTuple):
    """What one thread nominates among its papers for a few ideas, padded to one width."""

    values: NDArray[np.float32]
    rows: NDArray[np.int32]
    counts: NDArray[np.int32]
    errors: NDArray[np.float64]
    lower: NDArray[np.float64]


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
        Rows of papers, ascending, padded with -1; c is the largest number needed.
        Which papers come along that are not needed depends on block and threads.

    Raises
    ------
    TypeError, ValueError
        As in `match`; also where a query's norm times a paper's exceeds 1e15, far from unit.

    Notes
    -----
    Memory per thread: 512 x block products and 512 buffers of max(64, 4 k) candidates; fewer
    ideas at once where k is large.
    """
    threads = clamp_threads(threads)
    queries, papers, impact = check_vectors(queries, papers, impact)
    if k < 1 or block < 1:
        raise ValueError(f"k is {k} and block is {block}; both must be at least 1")
    n, n_papers = len(queries), len(papers)
    if n == 0 or n_papers == 0:
        return np.full((n, 0), -1, np.int32)
    k = min(k, n_papers)
    n_parts = min(threads, -(-n_papers // block))
    edges = [n_papers * part // n_parts for part in range(n_parts + 1)]

    ideas = max(1, min(_IDEAS, _BUFFERED // _capacity(k)))
    found: list[NDArray[np.int32]] = []
    with single_threaded_blas():
        for start in range(0, n, ideas):
            some = queries[start : start + ideas]

            def work(span: tuple[int, int], some: NDArray[np.float32] = some) -> _Part:
                return _nominate(some, papers, impact, k, *span, block)

            found.append(_merge(run_all(work, list(pairwise(edges)), threads), k))
    candidates = np.full((n, max(rows.shape[1] for rows in found)), -1, np.int32)
    for start, rows in zip(range(0, n, ideas), found, strict=True):
        candidates[start : start + len(rows), : rows.shape[1]] = rows
    return candidates


def _nominate(
    queries: NDArray[np.float32],
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    k: int,
    low: int,
    high: int,
    block: int,
) -> _Part:
    """Candidates of a few ideas among papers low..high-1, in the calling thread."""
    n, d = queries.shape
    capacity = min(_capacity(k), high - low)
    products = np.empty(n * block, np.float32)
    values = np.empty((n, capacity), np.float32)
    rows = np.empty((n, capacity), np.int32)
    counts = np.zeros(n, np.int32)
    scratch = np.empty(capacity, np.float32)
    norms = np.array([_largest_norm(query) for query in queries[:, None]])
    finite = np.isfinite(queries).all(axis=1)
    lower = np.where(finite, -np.inf, np.inf)  # NaN or inf: no similarities at all
    relative, absolute = _error_bound(d)
    largest = 0.0
    errors = np.zeros(n)

    for start in range(low, high, block):
        x = papers[start : min(start + block, high)]
        largest = max(largest, _largest_norm(x))
        if not largest * norms.max() <= _LARGEST:
            raise ValueError(f"norms reach {largest:.3g} and {norms.max():.3g}, not near 1")
        errors = relative * largest * norms + absolute
        s = products[: n * len(x)].reshape(n, len(x))
        with np.errstate(all="ignore"):  # NaN and inf are dealt with below
            np.matmul(queries, x.T, out=s)
        idea = column = 0
        while True:
            idea, column = _collect(
                s, impact, start, k, errors, lower, values, rows, counts, scratch, idea, column
            )
            if idea == n:
                break
            _settle(queries, papers, impact, k, idea, lower, values, rows, counts)
    _finish(k, errors, lower, values, rows, counts, scratch)
    width = counts.max()
    return _Part(values[:, :width].copy(), rows[:, :width].copy(), counts, errors, lower)


def _merge(parts: list[_Part], k: int) -> NDArray[np.int32]:
    """Candidates of a few ideas over all parts, thinned once more; (n, c), ascending, padded."""
    counts = sum((part.counts for part in parts), np.zeros_like(parts[0].counts))
    values = np.empty((len(counts), int(counts.max())), np.float32)
    rows = np.empty(values.shape, np.int32)
    filled = np.zeros_like(counts)
    for part in parts:
        _append(part.values, part.rows, part.counts, values, rows, filled)
    errors = np.max([part.errors for part in parts], axis=0)
    lower = np.max([part.lower for part in parts], axis=0)
    _finish(k, errors, lower, values, rows, counts, np.empty(values.shape[1], np.float32))
    rows = rows[:, : counts.max()]
    rows[np.arange(rows.shape[1]) >= counts[:, None]] = -1
    return rows


def _capacity(k: int) -> int:
    """Candidates to buffer per idea: room for many blocks between two thinnings."""
    return max(64, 4 * k)


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


@kernel(F32_2D_IN, any_order=True)
def _largest_norm(x: NDArray[np.float32]) -> Any:
    """An upper bound of the largest norm of rows without NaN and inf; inf if it's beyond 1e19."""
    largest = np.float32(0)
    d = x.shape[1]
    for i in range(x.shape[0]):
        square = np.float32(0)
        for j in range(d):
            square += x[i, j] * x[i, j]
        if square <= _FLT_MAX:  # not isfinite, which reordering turns into true
            largest = max(largest, square)
        else:
            finite = True
            for j in range(d):
                finite = finite and abs(x[i, j]) <= _FLT_MAX
            if finite:
                return np.inf
    # Above the rounding of d additions, and above squares that underflow.
    return np.sqrt(np.float64(largest)) * (1 + d * 2.0**-23) + np.sqrt(d) * 2.0**-62


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


@helper
def _just_below(value: Any) -> Any:
    """float32 and no larger than the value, so that rounding loses no candidate."""
    return np.float32(np.nextafter(np.float32(value), np.float32(-np.inf)))


@helper
def _any_passes(chunk: Any, least: Any) -> Any:
    """Of _CHUNK products; int32 and a constant length all along, or it's not vectorised."""
    passing = np.int32(0)
    for j in range(_CHUNK):
        passing = np.int32(passing + np.int32(chunk[j] >= least))
    return passing > 0


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
    hits = np.empty(_CHUNK, np.int32)
    for i in range(idea, n):
        s = products[i]
        count = counts[i]
        least = _just_below(lower[i] - errors[i])
        for chunk in range(column - column % _CHUNK, n_columns, _CHUNK):
            stop = min(chunk + _CHUNK, n_columns)
            if chunk + _CHUNK == stop and not _any_passes(s[chunk:stop], least):
                continue
            n_hits = 0
            for j in range(max(chunk, column), stop):  # no branch to mispredict
                hits[n_hits] = j
                n_hits += s[j] >= least
            for j in hits[:n_hits]:
                if not (abs(s[j]) <= _FLT_MAX and impact[first_row + j] >= 0):
                    continue
                if count == capacity:
                    lower[i], count = _thin(
                        k, errors[i], lower[i], values[i], rows[i], count, scratch
                    )
                    counts[i] = count
                    if count > capacity // 2:
                        return i, j
                    least = _just_below(lower[i] - errors[i])
                    if not s[j] >= least:
                        continue
                values[i, count] = s[j]
                rows[i, count] = first_row + j
                count += 1
        counts[i] = count
        column = 0
    return n, 0


@kernel(F32_2D, I32_2D, I32, F32_2D, I32_2D, I32)
def _append(
    values: NDArray[np.float32],
    rows: NDArray[np.int32],
    counts: NDArray[np.int32],
    all_values: NDArray[np.float32],
    all_rows: NDArray[np.int32],
    filled: NDArray[np.int32],
) -> None:
    """Add one part's candidates after those of the parts before it."""
    for i in range(counts.size):
        for j in range(counts[i]):
            all_values[i, filled[i]] = values[i, j]
            all_rows[i, filled[i]] = rows[i, j]
            filled[i] += 1


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
