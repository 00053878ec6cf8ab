"""Which of the candidates are an idea's K nearest papers, and what the best of them is worth.

similarity(q, x) = float32(sum_j q_j x_j), summed in float64 in a fixed order of lanes. A product
of two float32 numbers is exact in float64, so only that order decides the last bit, and it is
the same on every machine, with every block size and number of threads.

N = the K eligible candidates with the largest similarity, ties to the lower row.
M = those of N with similarity >= theta.
score = max impact over M, 0 where M is empty (HindSight, arXiv 2603.15164).
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hindsight_kernels._jit import (
    F32,
    F32_2D,
    F32_2D_IN,
    F32_IN,
    F32_SCALAR,
    F64,
    I32,
    I32_2D,
    I32_2D_IN,
    I64,
    helper,
    kernel,
)
from hindsight_kernels._threads import clamp_threads, run_all

Scalar = TypeVar("Scalar", bound=np.generic)

LANES = 32
_CHUNK = 64  # ideas per task: long enough to hide a thread's start, short enough to balance


class Matches(NamedTuple):
    """What was found for each of n ideas."""

    rows: NDArray[np.int32]
    """(n, k) rows of the nearest eligible papers, best first; -1 where there are fewer."""
    similarities: NDArray[np.float32]
    """(n, k) their similarities; -inf where there are fewer."""
    n_matches: NDArray[np.int32]
    """(n,) how many of the k reach theta."""
    scores: NDArray[np.float32]
    """(n,) the largest impact among the matches; 0 without a match."""
    best_rows: NDArray[np.int32]
    """(n,) the match that gives the score (largest impact, then similarity, then lower row)."""
    best_similarities: NDArray[np.float32]
    """(n,) its similarity; -inf without a match."""


@helper
def _similarity(q: NDArray[np.float32], x: NDArray[np.float32], lanes: NDArray[np.float64]) -> Any:
    """Lane l sums the products j = l (mod LANES); the lanes are then added pairwise."""
    for lane in range(LANES):
        lanes[lane] = 0.0
    whole = q.size - q.size % LANES
    for j in range(0, whole, LANES):
        for lane in range(LANES):  # vectorised: no addition is reordered
            lanes[lane] += np.float64(q[j + lane]) * np.float64(x[j + lane])
    for j in range(whole, q.size):
        lanes[j - whole] += np.float64(q[j]) * np.float64(x[j])
    width = LANES // 2
    while width > 0:
        for lane in range(width):
            lanes[lane] += lanes[lane + width]
        width //= 2
    return np.float32(lanes[0])


@helper
def _insert(rows: Any, similarities: Any, count: int, row: int, similarity: Any) -> Any:
    """Put one paper in its place in a list that is best first; returns the new length."""
    k = rows.size
    at = count
    while at > 0 and (
        similarities[at - 1] < similarity
        or (similarities[at - 1] == similarity and rows[at - 1] > row)
    ):
        at -= 1
    if at == k or (at > 0 and rows[at - 1] == row):  # a repeated candidate meets itself here
        return count
    last = min(count, k - 1)
    for i in range(last, at, -1):
        rows[i] = rows[i - 1]
        similarities[i] = similarities[i - 1]
    rows[at] = row
    similarities[at] = similarity
    return min(count + 1, k)


@helper
def _match_one(
    q: Any, papers: Any, impact: Any, candidates: Any, rows: Any, similarities: Any, lanes: Any
) -> Any:
    """Fill one idea's nearest list; returns its length."""
    count = 0
    for row in candidates:
        if row < 0 or not impact[row] >= 0:
            continue
        similarity = _similarity(q, papers[row], lanes)
        if np.isfinite(similarity):  # NaN and inf are not similarities
            count = _insert(rows, similarities, count, row, similarity)
    return count


@kernel(
    F32_2D_IN, F32_2D_IN, F32_IN, I32_2D_IN, F32_SCALAR, I64, I64,
    I32_2D, F32_2D, I32, F32, I32, F32, F64,
)  # fmt: skip
def _match_range(
    queries: NDArray[np.float32],
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    candidates: NDArray[np.int32],
    theta: np.float32,
    start: int,
    stop: int,
    rows: NDArray[np.int32],
    similarities: NDArray[np.float32],
    n_matches: NDArray[np.int32],
    scores: NDArray[np.float32],
    best_rows: NDArray[np.int32],
    best_similarities: NDArray[np.float32],
    lanes: NDArray[np.float64],
) -> None:
    """Ideas start..stop-1; writes only their rows of the outputs, which come padded."""
    for i in range(start, stop):
        count = _match_one(
            queries[i], papers, impact, candidates[i], rows[i], similarities[i], lanes
        )
        for j in range(count):
            if similarities[i, j] < theta:
                break
            row = rows[i, j]
            n_matches[i] += 1
            # Best first, so among equal impacts the first has similarity and row on its side.
            if best_rows[i] < 0 or impact[row] > scores[i]:
                scores[i] = impact[row]
                best_rows[i] = row
                best_similarities[i] = similarities[i, j]


def match(
    queries: NDArray[np.float32],
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    candidates: NDArray[np.int32],
    k: int,
    theta: float,
    *,
    threads: int,
) -> Matches:
    """Rescore candidates, keep each idea's k nearest eligible papers, and take the best impact.

    Parameters
    ----------
    queries : ndarray of shape (n, d), float32
        Unit vectors of the ideas.
    papers : ndarray of shape (N, d), float32, C-contiguous
        Unit vectors of the papers; may be memory-mapped and read-only.
    impact : ndarray of shape (N,), float32
        In [0, 1]; -1 marks a paper that is not eligible: it is nobody's neighbour.
    candidates : ndarray of shape (n, c), int32
        Rows of papers, in any order; -1 is none; a row given twice counts once.
    k : int
        How many nearest papers count (the K of HindSight).
    theta : float
        Least similarity of a match; rounded to float32 before the comparison.
    threads : int
        Most threads to use; clamped to the usable processors.

    Returns
    -------
    Matches

    Raises
    ------
    TypeError
        An array is of another dtype.
    ValueError
        Shapes don't agree, a candidate is no row of `papers`, `papers` is not C-contiguous, k or
        threads is below 1, or theta is NaN.

    Notes
    -----
    A similarity that is NaN or infinite is none: that paper is left out. Zero vectors have
    similarity 0 with everything.
    """
    threads = clamp_threads(threads)
    queries, papers, impact = check_vectors(queries, papers, impact)
    candidates = check_array("candidates", candidates, np.int32, 2, copy=True)
    n, n_papers = len(queries), len(papers)
    if len(candidates) != n:
        raise ValueError(f"candidates are for {len(candidates)} ideas, queries are {n}")
    if candidates.size and not (candidates.min() >= -1 and candidates.max() < n_papers):
        raise ValueError(f"candidates reach outside -1..{n_papers - 1}, the rows of papers")
    if k < 1:
        raise ValueError(f"k is {k}; at least 1 is needed")
    if np.isnan(theta):
        raise ValueError("theta is NaN")

    found = Matches(
        rows=np.full((n, k), -1, np.int32),
        similarities=np.full((n, k), -np.inf, np.float32),
        n_matches=np.zeros(n, np.int32),
        scores=np.zeros(n, np.float32),
        best_rows=np.full(n, -1, np.int32),
        best_similarities=np.full(n, -np.inf, np.float32),
    )

    def work(start: int) -> None:
        _match_range(
            queries, papers, impact, candidates, np.float32(theta), start, min(start + _CHUNK, n),
            *found, np.empty(LANES),
        )  # fmt: skip

    run_all(work, range(0, n, _CHUNK), threads)
    return found


def check_vectors(
    queries: NDArray[np.float32], papers: NDArray[np.float32], impact: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """The three arrays as kernels take them; queries and impact are copied if need be."""
    queries = check_array("queries", queries, np.float32, 2, copy=True)
    papers = check_array("papers", papers, np.float32, 2, copy=False)
    impact = check_array("impact", impact, np.float32, 1, copy=True)
    if queries.shape[1] != papers.shape[1]:
        raise ValueError(
            f"queries have {queries.shape[1]} dimensions, papers have {papers.shape[1]}"
        )
    if len(impact) != len(papers):
        raise ValueError(f"impact is of {len(impact)} papers, vectors are of {len(papers)}")
    if len(papers) > np.iinfo(np.int32).max:
        raise ValueError(f"{len(papers)} papers; rows are int32, so at most 2**31 - 1 fit")
    return queries, papers, impact


def check_array(
    name: str, array: NDArray[Scalar], dtype: type[Scalar], ndim: int, *, copy: bool
) -> NDArray[Scalar]:
    """A plain C-contiguous array of that dtype and dimension, copied only if `copy` allows."""
    array = np.asarray(array)
    if array.dtype != np.dtype(dtype):
        raise TypeError(f"{name} is {array.dtype}, expected {np.dtype(dtype)}")
    if array.ndim != ndim:
        raise ValueError(f"{name} has shape {array.shape}, expected {ndim} dimensions")
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    if not copy:
        raise ValueError(f"{name} is not C-contiguous and is too large to copy unasked")
    return np.array(array, order="C")
