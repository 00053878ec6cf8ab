"""The K nearest papers over all papers, exactly: `scan` nominates, `match` decides."""

import numpy as np
from numpy.typing import NDArray

from hindsight_kernels.match import Matches, match
from hindsight_kernels.scan import scan


def exact(
    queries: NDArray[np.float32],
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    k: int,
    theta: float,
    *,
    threads: int,
) -> Matches:
    """`match` over all papers; parameters, result and errors are those of `match`.

    The result depends neither on threads nor on how the work is cut.
    """
    candidates = scan(queries, papers, impact, k, threads=threads)
    return match(queries, papers, impact, candidates, k, theta, threads=threads)
