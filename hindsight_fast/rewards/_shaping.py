"""Rewards that say more than the published score, which is 0 for most ideas.

Of the K nearest papers with similarities s and impacts h, for a threshold theta:

- published: max h over s >= theta, 0 without one (HindSight, arXiv 2603.15164);
- tie_breaker: the same where it is more than 0; else (1 + s_max) / 2 times half of the least impact
  above 0 in the pool, so that no near miss earns as much as a hit, and matches without any impact
  earn that half;
- soft_threshold: max h / (1 + exp((theta - s) / softness)) over all K.
"""

import numpy as np
from numpy.typing import NDArray

from hindsight_kernels import Matches


def shaped(
    shape: str,
    matches: Matches,
    impact: NDArray[np.float32],
    *,
    theta: float,
    softness: float,
    least: float,
) -> NDArray[np.float64]:
    """Rewards of n ideas, (n,).

    Parameters
    ----------
    shape
        "published", "tie_breaker" or "soft_threshold".
    impact : ndarray of shape (N,), float32
        Of the papers whose rows are in `matches`.
    least
        The least impact above 0 in the pool.
    """
    scores = matches.scores.astype(np.float64)
    if shape == "published":
        return scores
    found = matches.rows >= 0
    similarities = np.where(found, matches.similarities, -1).astype(np.float64)
    if shape == "tie_breaker":
        near = np.where(matches.n_matches > 0, 1.0, (1 + similarities[:, 0]) / 2)
        return np.where(scores > 0, scores, least / 2 * near)
    worth = np.where(found, impact[matches.rows], 0).astype(np.float64)
    reached = 1 / (1 + np.exp(np.clip((theta - similarities) / softness, -700, 700)))
    soft: NDArray[np.float64] = (worth * reached).max(axis=1, initial=0)
    return soft
