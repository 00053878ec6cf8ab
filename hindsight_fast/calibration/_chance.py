"""The theta that few ideas reach by chance.

Each idea's nearest among papers that it can't have anticipated, and the least theta that a further
idea reaches there with a chance of at most 5% (1%).
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.calibration._cosines import cosines_of_rows
from hindsight_fast.calibration._sample import (
    SEED,
    Sample,
    drawn_rows,
    topics_of_rows,
)
from hindsight_fast.calibration._search import Near, nearest
from hindsight_fast.pool import damage
from hindsight_fast.scoring import Scorer

LEVELS: Final = (0.05, 0.01)
"""Shares of ideas that may match by chance."""

_FEW_IDEAS = 20  # of a topic, that it's told of
FEW_PAPERS: Final = 50
"""With fewer papers that can't be anticipated a method says nothing."""

WEAKNESS: Final = {
    "other topics": (
        "papers of other topics are easier to tell apart than those of an idea's own, where chance "
        "matches happen, so this theta is on the low side"
    ),
    "earlier papers": (
        "an idea may repeat earlier papers that its author knew, and those are no chance matches, "
        "so this theta is on the high side"
    ),
    "random pairs": (
        "an idea's K nearest papers are picked for being near, random ones are not, so theta must "
        "be well above this one"
    ),
}


@dataclass(frozen=True, slots=True)
class Level:
    """The least theta that a further idea reaches by chance with at most this probability.

    Attributes
    ----------
    share
        One of `LEVELS`.
    theta
        None where there are too few ideas for such a share (see `least_ideas`).
    low, high
        Its 95% interval; high is None where so few ideas give no upper end.
    match_rate, mean_score
        Of the ideas in the pool itself at that theta.
    """

    share: float
    theta: float | None
    low: float | None
    high: float | None
    match_rate: float | None
    mean_score: float | None


@dataclass(frozen=True, slots=True)
class ByChance:
    """Suggestions by one kind of papers that ideas can't have anticipated.

    Attributes
    ----------
    method : str
        A key of `WEAKNESS`.
    n_ideas, n_papers : int
        What was compared; of papers, the median over the ideas.
    levels : list of Level
        For each of `LEVELS`.
    topics : dict of str to (int, list of Level)
        The same for the ideas of each topic that has enough of them, with their number.
    at_theta : float
        Share of the ideas that match by chance at the scorer's own theta.
    """

    method: str
    n_ideas: int
    n_papers: int
    levels: list[Level]
    topics: dict[str, tuple[int, list[Level]]]
    at_theta: float


def by_chance(
    scorer: Scorer, sample: Sample, earlier: NDArray[np.int64], near: Near
) -> list[ByChance]:
    """Suggest thetas by each kind of papers that there is, the soundest first."""
    with damage(scorer.pool):
        found = [
            _other_topics(scorer, sample, near),
            _earlier(scorer, sample, earlier, near),
            _random(scorer, sample, near),
        ]
    return [one for one in found if one is not None]


def _other_topics(scorer: Scorer, sample: Sample, near: Near) -> ByChance | None:
    """Each idea among the papers that have topics, and none of its own."""
    pool, names = scorer.pool, sample.topic_names
    if not names or not sample.topics.any():
        return None
    has = topics_of_rows(pool.store, names, pool.offset, pool.offset + pool.n)
    reached = np.full(sample.n, -np.inf, np.float32)
    asked = np.zeros(sample.n, bool)
    n_papers = np.zeros(sample.n, np.int64)
    for mask in np.unique(sample.topics[sample.topics != 0]):
        others = (pool.impact >= 0) & (has != 0) & ((has & mask) == 0)
        if others.sum() < FEW_PAPERS:
            continue
        ideas = np.flatnonzero(sample.topics == mask)
        found = nearest(sample.vectors[ideas], pool.vectors, others, 1, threads=scorer.threads)
        reached[ideas], asked[ideas] = found.nearest, True
        n_papers[ideas] = others.sum()
    if not asked.any():
        return None
    median = int(np.median(n_papers[asked]))
    return _by_chance("other topics", scorer, sample, near, reached, asked, median)


def _earlier(
    scorer: Scorer, sample: Sample, earlier: NDArray[np.int64], near: Near
) -> ByChance | None:
    """Each idea among papers from before T, at most as many as the pool has."""
    pool = scorer.pool
    rows = drawn_rows(earlier, pool.n_papers)
    if len(rows) < FEW_PAPERS:
        return None
    vectors = pool.store.vectors(pool.encoder).array
    eligible = np.zeros(int(rows.max()) + 1, bool)
    eligible[rows] = True
    reached = nearest(
        sample.vectors,
        vectors[: len(eligible)],
        eligible,
        1,
        own=sample.earlier.astype(np.int32) if (sample.earlier >= 0).any() else None,
        threads=scorer.threads,
    ).nearest
    everyone = np.ones(sample.n, bool)
    return _by_chance("earlier papers", scorer, sample, near, reached, everyone, len(rows))


def _random(scorer: Scorer, sample: Sample, near: Near) -> ByChance | None:
    """Each idea with K papers drawn at random in place of its K nearest."""
    pool, k = scorer.pool, scorer.config.k
    members = np.flatnonzero(pool.impact >= 0)
    if len(members) < 2:
        return None
    drawn = members[np.random.default_rng(SEED).integers(0, len(members), (sample.n, k))]
    ideas = np.repeat(np.arange(sample.n), k)
    found = cosines_of_rows(sample.vectors, ideas, pool.vectors, drawn.ravel())
    found = np.where(drawn == sample.own[:, None], np.float32(-np.inf), found.reshape(drawn.shape))
    everyone = np.ones(sample.n, bool)
    return _by_chance("random pairs", scorer, sample, near, found.max(1), everyone, k)


def _by_chance(
    method: str,
    scorer: Scorer,
    sample: Sample,
    near: Near,
    reached: NDArray[np.float32],
    asked: NDArray[np.bool_],
    n_papers: int,
) -> ByChance:
    """Levels of all ideas that were asked about, and of those of each topic."""

    def levels(which: NDArray[np.bool_]) -> list[Level]:
        return [_level(scorer, near, reached, which, share) for share in LEVELS]

    has = {
        name: asked & ((sample.topics & np.uint64(1 << place)) != 0)
        for place, name in enumerate(sample.topic_names)
    }
    return ByChance(
        method=method,
        n_ideas=int(asked.sum()),
        n_papers=n_papers,
        levels=levels(asked),
        topics={
            name: (int(at.sum()), levels(at))
            for name, at in has.items()
            if at.sum() >= _FEW_IDEAS and method != "random pairs"
        },
        at_theta=float((reached[asked] >= np.float32(scorer.config.theta)).mean()),
    )


def _level(
    scorer: Scorer,
    near: Near,
    reached: NDArray[np.float32],
    which: NDArray[np.bool_],
    share: float,
) -> Level:
    theta = least_theta(reached[which], share)
    if theta is None:
        return Level(share, None, None, None, None, None)
    low, high = interval(reached[which], share)
    k = scorer.config.k
    matched = near.similarities[which, :k] >= np.float32(theta)
    worth = np.where(matched, scorer.pool.impact[near.rows[which, :k]], np.float32(0))
    return Level(
        share,
        theta,
        low,
        high,
        float(matched.any(axis=1).mean()),
        float(worth.max(axis=1).mean(dtype=np.float64)),
    )


def least_theta(reached: NDArray[np.float32], share: float) -> float | None:
    """The least theta (float32) that a further idea reaches with at most this chance, or None.

    A further idea is as likely to come at any place among these n as at any other, so no more of
    them may reach theta than leave it one of share * (n + 1) places (split conformal prediction).
    """
    may = int(share * (len(reached) + 1) + 1e-9) - 1
    if may < 0:
        return None
    largest_false = np.partition(reached, len(reached) - 1 - may)[len(reached) - 1 - may]
    return float(np.nextafter(largest_false, np.float32(2)))


def least_ideas(share: float) -> int:
    """Of how many ideas `least_theta` can be said."""
    return math.ceil(1 / share - 1e-9) - 1


def interval(reached: NDArray[np.float32], share: float) -> tuple[float, float | None]:
    """95% interval of the theta that this share of all ideas reach; None: no upper end.

    By how many of n ideas reach that theta: at least `few`, so it's no higher than the `few`-th
    best; at most `many`, so it's no lower than the next.
    """
    n = len(reached)
    counts = np.random.default_rng(SEED).binomial(n, share, 20_000)
    few, many = np.quantile(counts, [0.025, 0.975], method="inverted_cdf").astype(int).tolist()
    best_first = -np.sort(-reached)
    return float(best_first[min(many, n - 1)]), float(best_first[few - 1]) if few else None
