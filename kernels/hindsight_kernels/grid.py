"""Scores at every theta, K and weight of a grid, from one list of nearest papers per idea.

With an idea's nearest papers best first, M(theta, k) = those of the first k with similarity >=
theta, and h_w = float32(w c + (1 - w) v) the impact at weight w:

    score(theta, k, w) = max of h_w over M(theta, k), 0 where it is empty.

So one walk along a list, as far as theta reaches, passes every k. Products and sum are of float64
and rounded once, as impact itself is. Each theta is one task that adds up the ideas in their order,
so sums are the same with any number of threads.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_kernels._jit import (
    F32,
    F32_2D_IN,
    F32_SCALAR,
    F64_2D,
    F64_2D_IN,
    F64_IN,
    I64_1D,
    I64_IN,
    helper,
    kernel,
)
from hindsight_kernels._threads import clamp_threads, run_all
from hindsight_kernels.match import check_array


class Grid(NamedTuple):
    """What n ideas come to at each of T thetas, K ks and W weights."""

    scores: NDArray[np.float64]
    """(T, K, W) sums of the scores, each rounded to float32 as a score is."""
    matches: NDArray[np.int64]
    """(T, K) sums of the numbers of matches."""
    matched: NDArray[np.int64]
    """(T,) ideas with a match: their nearest paper is one, so it's the same for every k."""


@helper
def _add_one(
    similarities: Any, c: Any, v: Any, theta: Any, ks: Any, weights: Any,
    best: Any, scores: Any, matches: Any,
) -> Any:  # fmt: skip
    """Add one idea to the sums; returns whether it matches."""
    count = 0
    while count < similarities.size and similarities[count] >= theta:
        count += 1
    best[:] = 0
    j = 0
    for place in range(ks.size):
        while j < min(count, ks[place]):
            for w in range(weights.size):
                impact = np.float32(weights[w] * c[j] + (1.0 - weights[w]) * v[j])
                best[w] = max(best[w], impact)
            j += 1
        matches[place] += j
        for w in range(weights.size):
            scores[place, w] += np.float64(best[w])
    return count > 0


@kernel(
    F32_2D_IN, F64_2D_IN, F64_2D_IN, F32_SCALAR, I64_IN, F64_IN, F32, F64_2D, I64_1D,
)  # fmt: skip
def _add_all(
    similarities: NDArray[np.float32],
    c: NDArray[np.float64],
    v: NDArray[np.float64],
    theta: np.float32,
    ks: NDArray[np.int64],
    weights: NDArray[np.float64],
    best: NDArray[np.float32],
    scores: NDArray[np.float64],
    matches: NDArray[np.int64],
) -> Any:
    """All ideas at one theta; returns how many match."""
    matched = 0
    for i in range(len(similarities)):
        if _add_one(similarities[i], c[i], v[i], theta, ks, weights, best, scores, matches):
            matched += 1
    return matched


def grid(
    similarities: NDArray[np.float32],
    c: NDArray[np.float64],
    v: NDArray[np.float64],
    thetas: NDArray[np.float32],
    ks: NDArray[np.int64],
    weights: NDArray[np.float64],
    *,
    threads: int,
) -> Grid:
    """Sum up scores and matches of n ideas over a grid of settings.

    Parameters
    ----------
    similarities : ndarray of shape (n, m), float32
        Of each idea's m nearest papers, best first; -inf where there are fewer.
    c, v : ndarray of shape (n, m), float64
        The two parts of their impact, from 0 to 1; not looked at where there is no paper.
    thetas : ndarray of shape (T,), float32
        Least similarities of a match.
    ks : ndarray of shape (K,), int64
        Ascending, from 1 to m.
    weights : ndarray of shape (W,), float64
        Of c, from 0 to 1; v has the rest.
    threads : int
        Most threads to use; clamped to the usable processors.

    Raises
    ------
    TypeError
        An array is of another dtype.
    ValueError
        Shapes don't agree, ks are not as said, or a theta is NaN.
    """
    threads = clamp_threads(threads)
    similarities = check_array("similarities", similarities, np.float32, 2, copy=True)
    c = check_array("c", c, np.float64, 2, copy=True)
    v = check_array("v", v, np.float64, 2, copy=True)
    thetas = check_array("thetas", thetas, np.float32, 1, copy=True)
    ks = check_array("ks", ks, np.int64, 1, copy=True)
    weights = check_array("weights", weights, np.float64, 1, copy=True)
    if not similarities.shape == c.shape == v.shape:
        raise ValueError(
            f"similarities, c and v have shapes {similarities.shape}, {c.shape} and {v.shape}; "
            "the same (n, m) was expected"
        )
    if ks.size and not (ks[0] >= 1 and (np.diff(ks) > 0).all() and ks[-1] <= c.shape[1]):
        raise ValueError(f"ks are {ks.tolist()}; expected ascending, from 1 to {c.shape[1]}")
    if np.isnan(thetas).any():
        raise ValueError("a theta is NaN")
    found = Grid(
        scores=np.zeros((len(thetas), len(ks), len(weights))),
        matches=np.zeros((len(thetas), len(ks)), np.int64),
        matched=np.zeros(len(thetas), np.int64),
    )

    def work(place: int) -> None:
        found.matched[place] = _add_all(
            similarities, c, v, thetas[place], ks, weights,
            np.zeros(len(weights), np.float32), found.scores[place], found.matches[place],
        )  # fmt: skip

    run_all(work, range(len(thetas)), threads)
    return found
