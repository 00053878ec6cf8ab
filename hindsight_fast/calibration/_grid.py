"""How mean score and match rate move with theta, K and the weight of citations."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.calibration._search import Near
from hindsight_fast.impact import CITATION_WEIGHT, VENUE_WEIGHT, citation_part, find
from hindsight_fast.papers import venues
from hindsight_fast.pool import Pool
from hindsight_fast.scoring import Scorer
from hindsight_kernels import grid

KS: Final = (1, 5, 10, 20, 50)
WEIGHTS: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
STEP: Final = 0.005
RATES: Final = (0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.01)
"""Match rates whose thetas are told."""

_STEPS = 6  # to both sides of theta
_CURVE = 48  # further thetas, over all that nearest papers reach


@dataclass(frozen=True, slots=True)
class Parts:
    """What the impact of a pool's n papers is made of.

    Attributes
    ----------
    c, v : ndarray of shape (n,), float64
        h = float32(w c + (1 - w) v); c is nan where a paper takes no part.
    exact
        Whether that is the pool's own impact to the bit where w is the recipe's.
    """

    c: NDArray[np.float64]
    v: NDArray[np.float64]
    exact: bool

    @classmethod
    def of(cls, pool: Pool) -> "Parts":
        """Made again from the store's counts and venues, as the pool was."""
        columns = sorted({"venue", *find(pool.recipe).columns})
        papers = pool.store.papers(columns, pool.offset, pool.offset + pool.n)
        c = citation_part(pool.recipe, papers, np.asarray(pool.impact >= 0))
        top = venues.is_top(papers["venue"], pool.store.venues).fill_null(False)
        v = top.cast(pl.Float64).to_numpy()
        h = np.where(np.isnan(c), -1, CITATION_WEIGHT * c + VENUE_WEIGHT * v).astype(np.float32)
        return cls(c, v, bool((h == pool.impact).all()))


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Means over the ideas at each setting of a grid.

    Attributes
    ----------
    thetas, ks, weights : list
        Ascending; weights are those of c.
    mean_score : list of list of list of float
        By theta, k and weight.
    mean_matches : list of list of float
        Matches per idea, by theta and k.
    match_rate : list of float
        By theta; an idea matches where its nearest paper does, so K makes no difference.
    theta, k, weight
        The scorer's own, which are among them; theta as it's compared, in float32.
    steps, reached : list of float
        Those thetas that lie `STEP` apart around it, and those that `RATES` of the ideas reach, one
        for each (or for the last of them, where some ideas have no paper), equal ones too.
    exact : bool
        `Parts.exact`.
    """

    thetas: list[float]
    ks: list[int]
    weights: list[float]
    mean_score: list[list[list[float]]]
    mean_matches: list[list[float]]
    match_rate: list[float]
    theta: float
    k: int
    weight: float
    steps: list[float]
    reached: list[float]
    exact: bool

    def score(
        self, *, theta: float | None = None, k: int | None = None, weight: float | None = None
    ) -> float:
        """Mean score at a setting of the grid; what isn't said is the scorer's own."""
        w = self.weights.index(self.weight if weight is None else weight)
        return self.mean_score[self._theta(theta)][self._k(k)][w]

    def matches(self, *, theta: float | None = None, k: int | None = None) -> float:
        """Mean number of matches at a setting of the grid."""
        return self.mean_matches[self._theta(theta)][self._k(k)]

    def rate(self, theta: float | None = None) -> float:
        """Match rate at a theta of the grid."""
        return self.match_rate[self._theta(theta)]

    def _theta(self, theta: float | None) -> int:
        return self.thetas.index(self.theta if theta is None else theta)

    def _k(self, k: int | None) -> int:
        return self.ks.index(self.k if k is None else k)


def examine(scorer: Scorer, near: Near) -> Sensitivity:
    """One pass over the nearest papers for all settings; `near` holds enough, or all there are."""
    pool, k, theta = scorer.pool, scorer.config.k, float(np.float32(scorer.config.theta))
    parts = Parts.of(pool)
    ks = sorted({*KS, k})
    rows, similarities = _as_wide(near, ks[-1])
    steps, reached = _steps(theta), _reached(near)
    thetas = np.unique(np.array([*steps, *reached, *_curve(near)], np.float32))
    found = grid(
        similarities,
        parts.c[rows],
        parts.v[rows],
        thetas,
        np.array(ks, np.int64),
        np.array(WEIGHTS),
        threads=scorer.threads,
    )
    n = len(rows)
    return Sensitivity(
        thetas=thetas.tolist(),
        ks=ks,
        weights=list(WEIGHTS),
        mean_score=(found.scores / n).tolist(),
        mean_matches=(found.matches / n).tolist(),
        match_rate=(found.matched / n).tolist(),
        theta=theta,
        k=k,
        weight=CITATION_WEIGHT,
        steps=steps,
        reached=reached,
        exact=parts.exact,
    )


def _as_wide(near: Near, width: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The first `width` places, idle ones added where the lists are shorter."""
    rows, similarities = near.rows[:, :width], near.similarities[:, :width]
    idle = ((0, 0), (0, width - rows.shape[1]))
    return (
        np.pad(rows, idle, constant_values=-1),
        np.pad(similarities, idle, constant_values=-np.inf),
    )


def _steps(theta: float) -> list[float]:
    around = theta + STEP * np.arange(-_STEPS, _STEPS + 1)
    around[_STEPS] = theta
    return [float(np.float32(one)) for one in around if -1 <= one <= 1]


def _reached(near: Near) -> list[float]:
    """The largest thetas that at least so many ideas reach, ascending."""
    best_first = -np.sort(-near.nearest)
    places = [math.ceil(rate * len(best_first) - 1e-9) - 1 for rate in RATES]
    return [float(theta) for theta in best_first[places] if math.isfinite(theta)]


def _curve(near: Near) -> list[float]:
    """Thetas from where all ideas match to where none does."""
    reached = near.nearest[np.isfinite(near.nearest)].astype(np.float64)
    if not reached.size:
        return []
    low, high = float(np.quantile(reached, 0.005)), float(reached.max()) + 1e-3
    return [float(one) for one in np.linspace(low, high, _CURVE)]
