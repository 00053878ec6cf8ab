"""Thetas to choose from: by graded pairs, and by how often ideas match what they can't know.

By pairs: of all similarities that pairs have, the one from which on "related" is said with the
best F1, the lower on ties. By false matches: each idea's nearest among papers that it can't have
anticipated, and the least theta that at most 5% (1%) of the ideas reach there.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.calibration._cosines import cosines_of_rows
from hindsight_fast.calibration._pairs import Pairs
from hindsight_fast.calibration._sample import (
    SEED,
    Sample,
    drawn_rows,
    earlier_papers,
    topics_of_rows,
)
from hindsight_fast.calibration._search import Near, damage, nearest
from hindsight_fast.scoring import Scorer

LEVELS: Final = (0.05, 0.01)
"""Shares of ideas that may match by chance."""

_DRAWS = 1000  # of a bootstrap
_FEW_IDEAS = 20  # of a topic, that it's told of
_FEW_PAPERS = 50  # with fewer papers that can't be anticipated a method says nothing

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
    """The least theta that at most a share of ideas reach by chance.

    Attributes
    ----------
    share
        One of `LEVELS`.
    theta
        None where there are too few ideas for such a share.
    low, high
        Its 95% interval, ideas drawn again with replacement.
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


@dataclass(frozen=True, slots=True)
class Best:
    """The theta of the best F1.

    Attributes
    ----------
    n_pairs, n_related : int
    theta, precision, recall, f1
        None where no pair, or every one, is related.
    low, high
        95% interval of theta, sides a drawn again with replacement.
    """

    n_pairs: int
    n_related: int
    theta: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ByPairs:
    """Suggestions by graded pairs.

    Attributes
    ----------
    related_from : float
        Least grade of a related pair.
    n_groups, n_left_out : int
        Different sides a; records that are no pairs.
    auc : float or None
        Share of (related, unrelated) couples of pairs in the right order, ties as half.
    best : Best
    own : Best
        At the scorer's own theta, whether best or not.
    topics : dict of str to Best
    """

    related_from: float
    n_groups: int
    n_left_out: int
    auc: float | None
    best: Best
    own: Best
    topics: dict[str, Best]


def by_pairs(pairs: Pairs, theta: float, related: float | None) -> ByPairs:
    """Choose theta by F1.

    Parameters
    ----------
    related
        Least grade of a related pair; by default what is above the middle between 0 and the
        largest grade: 2 and 3 of 0..3, true of labels.
    """
    middle = float(pairs.grades.max()) / 2
    is_related = pairs.grades > middle if related is None else pairs.grades >= related
    least = related
    if least is None:
        least = float(pairs.grades[is_related].min()) if is_related.any() else middle
    topics = sorted({topic for topic in pairs.topics if topic})
    has = {topic: np.array([one == topic for one in pairs.topics]) for topic in topics}
    return ByPairs(
        least,
        len(np.unique(pairs.groups)),
        pairs.n_left_out,
        _auc(pairs.similarities, is_related),
        _best(pairs.similarities, is_related, pairs.groups),
        _at(pairs.similarities, is_related, np.float32(theta)),
        {
            topic: _best(pairs.similarities[at], is_related[at], pairs.groups[at])
            for topic, at in has.items()
        },
    )


def best_f1(
    similarities: NDArray[np.float32], related: NDArray[np.bool_], weights: NDArray[np.int64]
) -> np.float32:
    """The similarity from which on F1 is best, the lower on ties; pairs count so many times."""
    order = np.argsort(-similarities, kind="stable")
    sorted_, counts = similarities[order], weights[order]
    above = np.cumsum(counts)
    hits = np.cumsum(counts * related[order])
    is_last = np.append(sorted_[1:] != sorted_[:-1], True)  # of equal similarities
    f1 = np.where(is_last, 2 * hits / np.maximum(above + hits[-1], 1), -1.0)
    return np.float32(sorted_[len(f1) - 1 - int(np.argmax(f1[::-1]))])


def _best(
    similarities: NDArray[np.float32], related: NDArray[np.bool_], groups: NDArray[np.int64]
) -> Best:
    if not 0 < related.sum() < len(related):
        return Best(len(related), int(related.sum()), None, None, None, None, None, None)
    theta = best_f1(similarities, related, np.ones(len(related), np.int64))
    rng = np.random.default_rng(SEED)
    _, group = np.unique(groups, return_inverse=True)
    n = int(group.max()) + 1
    drawn = list[float]()
    for _ in range(_DRAWS):
        weights = np.bincount(rng.integers(0, n, n), minlength=n)[group]
        if (weights * related).any():
            drawn.append(float(best_f1(similarities, related, weights)))
    low, high = np.quantile(drawn, [0.025, 0.975]) if n > 1 else (None, None)
    found = _at(similarities, related, theta)
    return Best(
        found.n_pairs, found.n_related, found.theta, found.precision, found.recall, found.f1,
        None if low is None else float(low), None if high is None else float(high),
    )  # fmt: skip


def _at(similarities: NDArray[np.float32], related: NDArray[np.bool_], theta: np.float32) -> Best:
    above = similarities >= theta
    hits, n_above, n_related = int((above & related).sum()), int(above.sum()), int(related.sum())
    return Best(
        len(related),
        n_related,
        float(theta),
        hits / n_above if n_above else None,
        hits / n_related if n_related else None,
        2 * hits / (n_above + n_related) if n_above + n_related else None,
        None,
        None,
    )


def _auc(similarities: NDArray[np.float32], related: NDArray[np.bool_]) -> float | None:
    inside, outside = similarities[related], np.sort(similarities[~related])
    if not inside.size or not outside.size:
        return None
    ranks = [np.searchsorted(outside, inside, side) for side in ("left", "right")]
    return float((ranks[0] + ranks[1]).mean() / 2 / outside.size)


def by_chance(scorer: Scorer, sample: Sample, near: Near) -> list[ByChance]:
    """Suggest thetas by each kind of papers that there is, the soundest first."""
    with damage(scorer.pool):
        found = [
            _other_topics(scorer, sample, near),
            _earlier(scorer, sample, near),
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
        if others.sum() < _FEW_PAPERS:
            continue
        ideas = np.flatnonzero(sample.topics == mask)
        found = nearest(sample.vectors[ideas], pool.vectors, others, 1, threads=scorer.threads)
        reached[ideas], asked[ideas] = found.nearest, True
        n_papers[ideas] = others.sum()
    if not asked.any():
        return None
    median = int(np.median(n_papers[asked]))
    return _by_chance("other topics", scorer, sample, near, reached, asked, median)


def _earlier(scorer: Scorer, sample: Sample, near: Near) -> ByChance | None:
    """Each idea among papers from before T, at most as many as the pool has."""
    pool = scorer.pool
    rows = drawn_rows(earlier_papers(pool), pool.n_papers)
    if len(rows) < _FEW_PAPERS:
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
    low, high = _interval(reached[which], share)
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
    """The least theta (float32) that at most this share of ideas reach; None of too few ideas."""
    may = int(share * len(reached) + 1e-9)
    if may < 1:
        return None
    largest_false = np.partition(reached, len(reached) - 1 - may)[len(reached) - 1 - may]
    return float(np.nextafter(largest_false, np.float32(2)))


def _interval(reached: NDArray[np.float32], share: float) -> tuple[float, float]:
    """Where 95% of thetas lie if as many ideas are drawn again: by how many then reach it."""
    n = len(reached)
    counts = np.random.default_rng(SEED).binomial(n, share, 20_000)
    few, many = np.quantile(counts, [0.025, 0.975]).astype(int)
    best_first = -np.sort(-reached)
    return float(best_first[min(many, n - 1)]), float(best_first[min(few, n - 1)])
