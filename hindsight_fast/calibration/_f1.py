"""The theta at which "related" is said best, by graded pairs of texts.

Of all similarities that the pairs have, the one from which on F1 is best, the lower on ties.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.calibration._pairs import Pairs
from hindsight_fast.calibration._sample import SEED

_DRAWS = 1000  # of a bootstrap


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
    is_assumed : bool
        Whether nobody said so: it lies above half of the largest grade seen.
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
    is_assumed: bool
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
        related is None,
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
    there = np.flatnonzero(weights)  # a pair that counts for nothing is no threshold
    order = there[np.argsort(-similarities[there], kind="stable")]
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
