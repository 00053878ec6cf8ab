"""Between which cosines similarities lie: those of anything, of neighbours, of ideas."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.calibration._sample import SEED, Sample, drawn_rows
from hindsight_fast.calibration._search import Near, cosines, encode, nearest
from hindsight_fast.pool import damage
from hindsight_fast.scoring import Scorer

QUANTILES: Final = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)

_PAIRS = 50_000
_NEAREST = 1000  # papers whose nearest other paper is looked for
_BINS = 60


@dataclass(frozen=True, slots=True)
class Distribution:
    """Cosines of one kind of pairs.

    Attributes
    ----------
    name : str
    n : int
    mean : float
    quantiles : list of float
        Those of `QUANTILES`.
    shares : list of float
        Of the cosines in each bin of `Cosines.edges`.
    at_theta : float
        Share of them at theta or above.
    """

    name: str
    n: int
    mean: float
    quantiles: list[float]
    shares: list[float]
    at_theta: float


@dataclass(frozen=True, slots=True)
class Cosines:
    """Distributions over the same bins.

    Attributes
    ----------
    edges : list of float
        One more than there are bins; none where there are no cosines.
    kinds : list of Distribution
        Those of which there are any.
    """

    edges: list[float]
    kinds: list[Distribution]


def examine(scorer: Scorer, sample: Sample, near: Near) -> Cosines:
    """Draw pairs and look up neighbours."""
    pool = scorer.pool
    members = np.flatnonzero(pool.impact >= 0)
    found: dict[str, NDArray[np.float32]] = {}
    with damage(pool):
        if len(members) > 1:
            found["random pairs of papers"] = _random_pairs(pool.vectors, members)
            found["papers to their nearest other"] = _nearest_others(scorer, members)
        ideas = "ideas" if sample.kind == "ideas" else "stand-ins for ideas"
        found[f"{ideas} to their nearest paper"] = near.nearest
        if scorer.encoder is not None:
            empty = encode(scorer, [("", "")])
            rows = drawn_rows(members, _PAIRS)
            same = np.broadcast_to(empty, (len(rows), empty.shape[1]))
            found["the empty text to papers"] = cosines(same, pool.vectors[rows])
    return _over_the_same_bins(
        {name: some[np.isfinite(some)] for name, some in found.items()},
        np.float32(scorer.config.theta),
    )


def _random_pairs(vectors: NDArray[np.float32], members: NDArray[np.int64]) -> NDArray[np.float32]:
    """Two different papers each, every pair as likely as any other."""
    rng = np.random.default_rng(SEED)
    left = rng.integers(0, len(members), _PAIRS)
    right = rng.integers(0, len(members) - 1, _PAIRS)
    right += right >= left
    return cosines_of_rows(vectors, members[left], vectors, members[right])


def cosines_of_rows(
    left: NDArray[np.float32],
    left_rows: NDArray[np.int64],
    right: NDArray[np.float32],
    right_rows: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Similarities of rows of two arrays, few at a time: they may be mapped and large."""
    parts = [
        cosines(left[left_rows[start : start + 4096]], right[right_rows[start : start + 4096]])
        for start in range(0, len(left_rows), 4096)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def _nearest_others(scorer: Scorer, members: NDArray[np.int64]) -> NDArray[np.float32]:
    pool, rows = scorer.pool, drawn_rows(members, _NEAREST)
    return nearest(
        pool.vectors[rows],
        pool.vectors,
        pool.impact >= 0,
        1,
        own=rows.astype(np.int32),
        projection=pool.projection,
        threads=scorer.threads,
    ).nearest


def _over_the_same_bins(found: dict[str, NDArray[np.float32]], theta: np.float32) -> Cosines:
    found = {name: some for name, some in found.items() if some.size}
    if not found:
        return Cosines([], [])
    everything = np.concatenate(list(found.values()))
    low, high = float(everything.min()), float(everything.max())
    edges = np.linspace(low, max(high, low + 1e-6), _BINS + 1)
    return Cosines(
        edges=edges.tolist(),
        kinds=[
            Distribution(
                name=name,
                n=some.size,
                mean=float(some.mean(dtype=np.float64)),
                quantiles=[float(q) for q in np.quantile(some.astype(np.float64), QUANTILES)],
                shares=(np.histogram(some, edges)[0] / some.size).tolist(),
                at_theta=float((some >= theta).mean()),
            )
            for name, some in found.items()
        ],
    )
