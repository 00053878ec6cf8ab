"""How mean score and match rate move with the size of the pool.

A denser pool has a nearer paper for every idea, whatever the idea. So the pool is thinned at
random, impact as it is (not normalised anew over fewer papers), and ideas are scored again. That
is exact: of a wide list of an idea's nearest papers those that are left come first again; where
too few are left of a list that doesn't reach below theta, the thinned pool is scanned anew.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.calibration._sample import SEED, Sample
from hindsight_fast.calibration._search import Near, nearest
from hindsight_fast.pool import damage
from hindsight_fast.scoring import Scorer

SHARES: Final = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)
DRAWS: Final = 5


@dataclass(frozen=True, slots=True)
class Thinned:
    """The pool at one size.

    Attributes
    ----------
    share, n_papers
        What is left of it.
    score, rate
        Mean score and match rate, averaged over the draws.
    score_spread, rate_spread
        Their standard deviations over the draws; None where there was one.
    n_scanned
        Ideas, over all draws, whose list was too short.
    """

    share: float
    n_papers: int
    score: float
    rate: float
    score_spread: float | None
    rate_spread: float | None
    n_scanned: int


def examine(scorer: Scorer, sample: Sample, near: Near) -> list[Thinned]:
    """Thin the pool; each draw's smaller pools are parts of its larger ones."""
    members = np.flatnonzero(scorer.pool.impact >= 0)
    orders = [np.random.default_rng([SEED, draw]).permutation(members) for draw in range(DRAWS)]
    sizes = {share: round(len(members) * share) for share in SHARES}
    return [
        _thinned(scorer, sample, near, share, size, orders[: 1 if share == 1 else DRAWS])
        for share, size in sizes.items()
        if size
    ]


def _thinned(
    scorer: Scorer,
    sample: Sample,
    near: Near,
    share: float,
    size: int,
    orders: list[NDArray[np.int64]],
) -> Thinned:
    scores, rates, n_scanned = list[float](), list[float](), 0
    for order in orders:
        left = np.zeros(scorer.pool.n, bool)
        left[order[:size]] = True
        found, scanned = score_among(scorer, sample, near, left)
        scores.append(float(found.clip(0).mean(dtype=np.float64)))
        rates.append(float((found >= 0).mean()))
        n_scanned += scanned
    several = len(orders) > 1
    return Thinned(
        share,
        size,
        float(np.mean(scores)),
        float(np.mean(rates)),
        float(np.std(scores, ddof=1)) if several else None,
        float(np.std(rates, ddof=1)) if several else None,
        n_scanned,
    )


def score_among(
    scorer: Scorer, sample: Sample, near: Near, left: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], int]:
    """Score the ideas against some papers of the pool.

    Parameters
    ----------
    left : ndarray of shape (n,), bool

    Returns
    -------
    ndarray of shape (m,), float32
        Score of each idea; -1 without a match.
    int
        Ideas for which those papers had to be scanned.
    """
    pool, k, theta = scorer.pool, scorer.config.k, np.float32(scorer.config.theta)
    here = left[near.rows] & (near.rows >= 0)
    counts = np.cumsum(here, axis=1)
    best = _best(
        np.where(here & (counts <= k), near.rows, -1), near.similarities, pool.impact, theta
    )
    is_whole = near.rows.shape[1] >= pool.n_papers
    unsure = (counts[:, -1] < k) & (near.similarities[:, -1] >= theta) & (not is_whole)
    ideas = np.flatnonzero(unsure)
    if ideas.size:
        with damage(pool):
            again = nearest(
                sample.vectors[ideas],
                pool.vectors,
                left & (pool.impact >= 0),
                k,
                own=sample.own[ideas],
                threads=scorer.threads,
            )
        best[ideas] = _best(again.rows, again.similarities, pool.impact, theta)
    return best, len(ideas)


def _best(
    rows: NDArray[np.int32],
    similarities: NDArray[np.float32],
    impact: NDArray[np.float32],
    theta: np.float32,
) -> NDArray[np.float32]:
    """Largest impact among those rows that reach theta; -1 without one."""
    matched = (rows >= 0) & (similarities >= theta)
    worth: NDArray[np.float32] = np.where(matched, impact[rows], np.float32(-1))
    return np.asarray(worth.max(axis=1, initial=np.float32(-1)), np.float32)
