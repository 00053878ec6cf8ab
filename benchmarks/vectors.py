"""Made-up unit vectors in the shape of real SPECTER2 vectors; the same for the same seed.

What 43 real vectors of one field show: the mean of the unit vectors has norm 0.95, a third of it
in one coordinate; what remains after subtracting it has norm 0.295 and its variance falls slowly
over directions; cosines lie between 0.83 and 0.97, mean 0.91. A vector here is

    common mean + centre of its cluster + low-rank noise + a little of every direction,

scaled to unit length. Ideas are papers moved by fresh low-rank noise: near a paper, never on it.
"""

import argparse
import json
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

DIM = 768
MEAN_NORM = 0.954
REMAINDER_NORM = 0.30
RANK = 128
CLUSTERS_PER_PAPER = 1 / 500
SHARES = {"cluster": 0.45, "low_rank": 0.50, "everywhere": 0.05}  # of the remainder's variance
IDEA_STEP = 0.7
_BLOCK = 8192


@dataclass(frozen=True, slots=True)
class Shape:
    """What made-up vectors look like, to be printed beside the figures of real ones."""

    mean_norm: float
    remainder_norm: float
    cosine_min: float
    cosine_mean: float
    cosine_p99: float
    cosine_max: float
    idea_nearest_mean: float
    idea_nearest_min: float


class Vectors:
    """Papers and ideas of one seed; papers go into `out` where that is given (a mapped array)."""

    def __init__(
        self,
        n_papers: int,
        n_ideas: int,
        *,
        dim: int = DIM,
        seed: int = 20230601,
        rank: int = RANK,
        out: NDArray[np.float32] | None = None,
    ):
        rng = np.random.default_rng(seed)
        self._mean = _common_mean(rng, dim)
        self._basis = _directions(rng, dim, rank)
        n_clusters = max(8, round(n_papers * CLUSTERS_PER_PAPER))
        centres = self._low_rank(rng, n_clusters, SHARES["cluster"])
        self.papers = np.empty((n_papers, dim), np.float32) if out is None else out
        for start in range(0, n_papers, _BLOCK):
            some = self.papers[start : start + _BLOCK]
            some[:] = centres[_popular(rng, n_clusters, len(some))]
            some += self._low_rank(rng, len(some), SHARES["low_rank"])
            some += self._everywhere(rng, len(some))
            some += self._mean
            _normalise(some)
        near = rng.integers(0, n_papers, n_ideas)
        step = self._low_rank(rng, n_ideas, IDEA_STEP) + self._everywhere(rng, n_ideas)
        self.ideas = self.papers[near]
        self.ideas += step
        _normalise(self.ideas)

    def _low_rank(self, rng: np.random.Generator, n: int, share: float) -> NDArray[np.float32]:
        weights = rng.standard_normal((n, len(self._basis)), np.float32)
        weights *= np.float32(REMAINDER_NORM * share**0.5)
        noise: NDArray[np.float32] = weights @ self._basis
        return noise

    def _everywhere(self, rng: np.random.Generator, n: int) -> NDArray[np.float32]:
        dim = len(self._mean)
        noise = rng.standard_normal((n, dim), np.float32)
        noise *= np.float32(REMAINDER_NORM * (SHARES["everywhere"] / dim) ** 0.5)
        return noise


def _common_mean(rng: np.random.Generator, dim: int) -> NDArray[np.float32]:
    mean = rng.standard_normal(dim).astype(np.float32)
    mean *= (MEAN_NORM**2 - 0.67**2) ** 0.5 / np.linalg.norm(mean)
    mean[dim // 3] = -0.67
    return mean


def _directions(rng: np.random.Generator, dim: int, rank: int) -> NDArray[np.float32]:
    """Orthogonal rows whose squared lengths fall like 1 / (number + 4) and sum to 1."""
    rank = min(rank, dim)
    basis: NDArray[np.float64] = np.linalg.qr(rng.standard_normal((dim, rank)))[0].T
    variance = 1 / np.arange(5, 5 + rank)
    basis *= np.sqrt(variance / variance.sum())[:, None]
    return basis.astype(np.float32)


def _popular(rng: np.random.Generator, n_clusters: int, n: int) -> NDArray[np.int64]:
    """Clusters of papers, a few large and many small."""
    return (n_clusters * rng.random(n) ** 2).astype(np.int64)


def _normalise(rows: NDArray[np.float32]) -> None:
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)


def shape_of(papers: NDArray[np.float32], ideas: NDArray[np.float32]) -> Shape:
    """Measure made-up (or real) vectors on the first 2,000 papers and 100 ideas."""
    sample = papers[:2000].astype(np.float64)
    mean = sample.mean(axis=0)
    cosines = (sample @ sample.T)[np.triu_indices(len(sample), 1)]
    nearest = (ideas[:100] @ papers.T).max(axis=1)
    return Shape(
        mean_norm=float(np.linalg.norm(mean)),
        remainder_norm=float(np.linalg.norm(sample - mean, axis=1).mean()),
        cosine_min=float(np.quantile(cosines, 1e-4)),
        cosine_mean=float(cosines.mean()),
        cosine_p99=float(np.quantile(cosines, 0.99)),
        cosine_max=float(np.quantile(cosines, 1 - 1e-4)),
        idea_nearest_mean=float(nearest.mean()),
        idea_nearest_min=float(nearest.min()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--papers", type=int, default=200_000)
    parser.add_argument("--ideas", type=int, default=512)
    arguments = parser.parse_args()
    made = Vectors(arguments.papers, arguments.ideas)
    print(json.dumps(asdict(shape_of(made.papers, made.ideas)), indent=2))


if __name__ == "__main__":
    main()
