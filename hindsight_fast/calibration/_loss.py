"""What a search by the index loses, split by what loses it, and which ideas lie next to theta.

Exact neighbours can be lost in two places. Codes of a byte along few axes may rank a paper below
too many others (quantisation): found by comparing every code, no graph between. And the graph may
not come by it (HNSW): the rest. Theta loses nothing by itself, but what lies within an error of
it is decided by that error.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.calibration._sample import SEED, Sample
from hindsight_fast.calibration._search import Near
from hindsight_fast.candidates import choose, interval, recall
from hindsight_fast.costs import draw, measure, total_error
from hindsight_fast.index import Index
from hindsight_fast.scoring import Scorer
from hindsight_fast.tables import CLOSE

SAMPLED: Final = 256

_BLOCK = 8192  # codes compared at once
_ROW_BITS = 31
_NONE = np.int64(2**62)


@dataclass(frozen=True, slots=True)
class Share:
    """A share of n ideas with its 95% interval (Wilson 1927).

    The papers of one idea are found or lost together, so they count as one trial.
    """

    share: float
    low: float
    high: float

    @classmethod
    def of(cls, share: float, n: int) -> "Share":
        low, high = interval(share, n)
        return cls(share, low, high)


@dataclass(frozen=True, slots=True)
class IndexLoss:
    """What an index loses on a sample, each against the exact scan but `graph`.

    Attributes
    ----------
    n_sampled : int
    count, expansion : int
        Papers nominated for each idea, and ef.
    flatters : bool
        Whether these were chosen on the very ideas that they are judged on.
    codes : Share
        Recall@K of the codes alone: all of them compared, as many nominated, then rescored.
    graph : Share
        Of the papers that the codes alone nominate, the share that the graph nominates too.
    index : Share
        Recall@K of the index as it's searched.
    matches : Share or None
        Of the exact neighbours that reach theta, the share that the index finds: the others lost
        can't change a score. Of the ideas that match anything; None where none does.
    equal_scores : Share
        Ideas that score the same by index and exact scan.
    mean_index, mean_exact : float
        Mean scores of the sample.
    """

    n_sampled: int
    count: int
    expansion: int
    flatters: bool
    codes: Share
    graph: Share
    index: Share
    matches: Share | None
    equal_scores: Share
    mean_index: float
    mean_exact: float


@dataclass(frozen=True, slots=True)
class Loss:
    """What is lost, and what is decided by a hair.

    Attributes
    ----------
    index
        None where the pool has none that may be opened.
    set_aside
        Whether it has one that somebody else made, which is not opened.
    close
        Ideas that have one of their K nearest papers within `CLOSE` of theta.
    precisions
        Of the two sides' vectors.
    error
        By how much similarities differ from those in float32, as far as was seen; None where both
        sides are float32, or there is no encoder to tell.
    within_error
        Ideas that have one of their K nearest papers within that of theta.
    """

    index: IndexLoss | None
    set_aside: bool
    close: Share
    precisions: list[str]
    error: float | None
    within_error: Share | None


def examine(scorer: Scorer, sample: Sample, near: Near) -> Loss:
    """Measure on at most `SAMPLED` of the sample, and on all of it what lies next to theta."""
    k, theta = scorer.config.k, float(np.float32(scorer.config.theta))
    distances = np.abs(near.similarities[:, :k].astype(np.float64) - theta)

    def within(error: float) -> Share:
        return Share.of(float((distances <= error).any(axis=1).mean()), sample.n)

    costs = measure(scorer, draw([sample.texts]))
    error = total_error(costs) if costs else None
    return Loss(
        index=_of_index(scorer, sample, near),
        set_aside=scorer.pool.index is None and "index" in scorer.pool.set_aside,
        close=within(CLOSE),
        precisions=sorted({scorer.pool.precision, sample.precision}),
        error=error,
        within_error=None if error is None else within(error),
    )


def _of_index(scorer: Scorer, sample: Sample, near: Near) -> IndexLoss | None:
    pool = scorer.pool
    if pool.index is None:
        return None
    order = np.random.default_rng(SEED).permutation(sample.n)
    # Chosen on other ideas than it's judged on: what is chosen for its recall flatters itself.
    half = min(sample.n if scorer.candidates else max(sample.n // 2, 1), SAMPLED)
    places, others = order[:half], order[half : half + SAMPLED]
    vectors, own = sample.vectors[places], sample.own[places, None]
    flatters = not scorer.candidates and not len(others)
    choice = scorer.candidates or choose(scorer, sample.vectors[places if flatters else others])
    count = choice.count + int((own >= 0).any())  # a paper finds itself first
    exact = scorer.decide(vectors, near.rows[places])
    by_graph = scorer.nominate(vectors, count, choice.expansion)
    codes = nearest_codes(pool.index, vectors, pool.vectors, pool.impact >= 0, count)
    found = scorer.decide(vectors, _others(by_graph, own))
    found_by_codes = scorer.decide(vectors, _others(codes.rows, own))
    apart = _distances(pool.index, vectors, pool.vectors, by_graph)
    wanted = (codes.rows >= 0).sum()
    n = len(vectors)
    return IndexLoss(
        n_sampled=n,
        count=choice.count,
        expansion=choice.expansion,
        flatters=flatters,
        codes=Share.of(recall(found_by_codes, exact) or 0.0, n),
        graph=Share.of(float(min((apart <= codes.last[:, None]).sum() / wanted, 1.0)), n),
        index=Share.of(recall(found, exact) or 0.0, n),
        matches=of_matches(found.n_matches, exact.n_matches),
        equal_scores=Share.of(float((found.scores == exact.scores).mean()), n),
        mean_index=float(found.scores.mean(dtype=np.float64)),
        mean_exact=float(exact.scores.mean(dtype=np.float64)),
    )


def of_matches(found: NDArray[np.int32], exact: NDArray[np.int32]) -> Share | None:
    """Of all matches the share that is found, by their numbers for each idea.

    Ideas that match nothing have none to lose, so they are no trials.
    """
    n = int((exact > 0).sum())
    return Share.of(float(np.minimum(found, exact).sum() / exact.sum()), n) if n else None


def _others(candidates: NDArray[np.int32], own: NDArray[np.int32]) -> NDArray[np.int32]:
    """Candidates without the paper that an idea is itself."""
    return np.where(candidates == own, np.int32(-1), candidates)


class NearestCodes(NamedTuple):
    """The papers whose codes are nearest to those of m ideas.

    Attributes
    ----------
    rows : ndarray of shape (m, count), int32
        Nearest first, ties to the lower row; -1 where there are fewer.
    last : ndarray of shape (m,), int64
        Squared distance of the last of them.
    """

    rows: NDArray[np.int32]
    last: NDArray[np.int64]


def nearest_codes(
    index: Index,
    vectors: NDArray[np.float32],
    papers: NDArray[np.float32],
    eligible: NDArray[np.bool_],
    count: int,
) -> NearestCodes:
    """Compare all codes; squared distances are whole numbers, which float64 adds without a loss."""
    queries = index.codes(vectors).astype(np.float64)
    best = np.full((len(vectors), count), _NONE)
    members = np.flatnonzero(eligible)
    for start in range(0, len(members), _BLOCK):
        some = members[start : start + _BLOCK]
        codes = index.codes(papers[some]).astype(np.float64)
        apart = (queries**2).sum(1)[:, None] + (codes**2).sum(1) - 2 * queries @ codes.T
        keys = apart.astype(np.int64) << _ROW_BITS | some  # by distance, then by row
        best = np.concatenate([best, keys], axis=1)
        best = np.partition(best, count - 1, axis=1)[:, :count]
    best.sort(axis=1)
    found = best < _NONE
    rows = np.where(found, best & ((1 << _ROW_BITS) - 1), -1).astype(np.int32)
    last = np.where(found, best >> _ROW_BITS, -1).max(axis=1, initial=-1)
    return NearestCodes(rows, last)


def _distances(
    index: Index,
    vectors: NDArray[np.float32],
    papers: NDArray[np.float32],
    rows: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Squared distances of codes, shape of `rows`; `_NONE` where there is no paper."""
    queries = index.codes(vectors).astype(np.int64)
    found = np.full(rows.shape, _NONE)
    for i, row in enumerate(rows):
        codes = index.codes(papers[row[row >= 0]]).astype(np.int64)
        found[i, row >= 0] = ((codes - queries[i]) ** 2).sum(1)
    return found
