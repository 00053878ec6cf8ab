"""How many papers an index must nominate, and how hard it must look: chosen once, before a run.

A graph misses a near paper where it holds too few candidates (ef), and where codes of a byte rank
it below too many others (how many it nominates). How many that are depends on the papers, the
ideas and K; so it is tried on a sample of the ideas, of which the exact scan says the truth.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.config import ScoreConfig
from hindsight_fast.errors import ArtefactError
from hindsight_kernels import Matches

TARGET: Final = 0.999
"""Least recall that is asked for where nobody says another."""

EXPANSIONS: Final = (
    32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
)  # fmt: skip
BEYOND: Final = (0, 0.25, 0.5, 1, 2, 3, 5)
"""Papers nominated beyond K, in multiples of K (or of `_FEW`, where K is less)."""

RESCORING: Final = 0.5
"""How many candidates a graph can hold in the time that it takes to rescore one paper. Of a million
made-up papers in 768 dimensions one is rescored in 0.9 microseconds, and one of ef takes 1.8."""

_FEW = 10

_Z = 1.959963984540054  # 95% of a normal distribution lie so far around its mean


@dataclass(frozen=True, slots=True)
class Choice:
    """How an index is searched, and what that found on a sample.

    Attributes
    ----------
    count
        Papers that the index nominates for each idea.
    expansion
        Candidates that it holds while searching (ef).
    recall
        Share of the K nearest papers of the sample that were found after rescoring; None where the
        sample holds none. A paper as near as the K-th is as good as that.
    recall_interval
        Its 95% interval (see `interval`). Much wider than the target is from 1 unless the sample
        is of thousands of ideas: it's the share itself that was held against the target.
    equal_scores, equal_scores_interval
        Share of the sample that scores as by the exact scan.
    n_sampled
        Ideas.
    target
        Least recall that was asked for.
    reached
        Whether it was reached; if not, this is the most that the ladder has, or that it may cost.
    """

    count: int
    expansion: int
    recall: float | None
    recall_interval: tuple[float, float] | None
    equal_scores: float | None
    equal_scores_interval: tuple[float, float] | None
    n_sampled: int
    target: float
    reached: bool

    def facts(self) -> dict[str, Any]:
        """The same for a manifest or a journal."""
        facts = asdict(self)
        for name in ("recall_interval", "equal_scores_interval"):
            facts[name] = None if facts[name] is None else list(facts[name])
        return facts

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> "Choice":
        """What `facts` gave.

        Raises
        ------
        ArtefactError
            Something is missing, or no number of candidates.
        """
        try:
            values = {field.name: facts[field.name] for field in fields(cls)}
            for name in ("recall_interval", "equal_scores_interval"):
                if values[name] is not None:
                    low, high = values[name]
                    values[name] = float(low), float(high)
            for name in ("count", "expansion"):
                if type(values[name]) is not int or values[name] < 1:
                    raise ValueError(f"{name} is {values[name]!r}")
        except (KeyError, TypeError, ValueError) as error:
            raise ArtefactError(f"no choice of candidates: {error!r}") from error
        return cls(**values)

    def in_words(self) -> str:
        """A sentence for a person."""
        setting = f"{self.count} candidates an idea, ef {self.expansion}"
        if self.recall is None or self.recall_interval is None:
            return f"{setting}: there was no idea to try fewer on"
        low, high = self.recall_interval
        sentence = (
            f"{setting}: recall {self.recall:.4f} (95%: {low:.4f} to {high:.4f}) on "
            f"{self.n_sampled} sampled ideas"
        )
        return sentence if self.reached else f"{sentence}, which is below {self.target:g}"


class Searching(Protocol):
    """What is needed of a `Scorer` with an index."""

    @property
    def config(self) -> ScoreConfig: ...

    def nominate(
        self, vectors: NDArray[np.float32], count: int, expansion: int
    ) -> NDArray[np.int32]: ...

    def decide(self, vectors: NDArray[np.float32], candidates: NDArray[np.int32]) -> Matches: ...

    def match_exactly(self, vectors: NDArray[np.float32]) -> Matches: ...


def choose(
    scorer: Searching,
    vectors: NDArray[np.float32],
    target: float = TARGET,
    *,
    most: float = math.inf,
) -> Choice:
    """Find the cheapest setting of a fixed ladder whose recall on some ideas reaches the target.

    What a setting costs is not measured, so that equal indexes give equal choices anywhere.

    Parameters
    ----------
    scorer
        With an index; its K and theta count.
    vectors : ndarray of shape (n, d), float32
        Unit vectors of a fair sample of the ideas.
    target
        In (0, 1].
    most
        What a setting may cost, as an ef alone would: those that cost more are not tried, unless
        the first does.

    Raises
    ------
    UsageError
        The scorer's pool has no index.
    ArtefactError
        The pool's vectors were damaged since it was opened.
    """
    k = scorer.config.k
    exact = scorer.match_exactly(vectors)

    def tried(count: int, expansion: int) -> Matches:
        return scorer.decide(vectors, scorer.nominate(vectors, count, expansion))

    def reaches(found: Matches) -> bool:
        share = recall(found, exact)
        return share is not None and share >= target

    best: tuple[int, int, Matches] | None = None
    expansion, counts = next(_ladder(k))
    last, least = (counts[0], expansion), most
    for expansion, counts in _ladder(k):
        cheap = [count for count in counts if _cost(count, expansion) < least]
        if not cheap:
            break
        last = cheap[-1], expansion
        if not reaches(tried(*last)):
            continue
        for count in cheap:
            if reaches(found := tried(count, expansion)):
                best, least = (count, expansion, found), _cost(count, expansion)
                break
    if best is not None:
        return _choice(*best, exact, target, reached=True)
    return _choice(*last, tried(*last), exact, target, reached=False)


def recall(found: Matches, exact: Matches) -> float | None:
    """Share of the K nearest papers that were found; None where there are none.

    A paper as near as the last of an idea's nearest is as good, whichever of equals it is.
    """
    wanted = (exact.rows >= 0).sum(axis=1)
    if not wanted.sum():
        return None
    last = np.maximum(wanted - 1, 0)[:, None]
    least = np.take_along_axis(exact.similarities, last, axis=1)
    hits = ((found.rows >= 0) & (found.similarities >= least)).sum(axis=1)
    return float(np.minimum(hits, wanted).sum() / wanted.sum())


def index_quality(found: Matches, exact: Matches) -> dict[str, Any]:
    """What an index lost on a sample: `recall` of the neighbours, equal scores.

    Each with its 95% interval (Wilson 1927) for so many ideas: the neighbours of one idea are
    found or lost together, so they count as one trial.
    """
    n, share = len(exact.rows), recall(found, exact)
    equal = float((found.scores == exact.scores).mean()) if n else None
    return {
        "n_sampled": n,
        "recall": share,
        "recall_interval": None if share is None else interval(share, n),
        "equal_scores": equal,
        "equal_scores_interval": None if equal is None else interval(equal, n),
    }


def interval(share: float, n: int) -> list[float]:
    """Where 95% of such intervals hold the true share of which n trials gave this one (Wilson)."""
    spread = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    centre, scale = share + _Z**2 / (2 * n), 1 + _Z**2 / n
    return [max((centre - spread) / scale, 0.0), min((centre + spread) / scale, 1.0)]


def _ladder(k: int) -> Iterator[tuple[int, list[int]]]:
    """Each ef with the counts that it is tried with, both ascending."""
    counts = [k + math.ceil(max(k, _FEW) * multiple) for multiple in BEYOND]
    for expansion in EXPANSIONS:
        if fitting := [count for count in counts if count <= expansion]:
            yield expansion, fitting


def _cost(count: int, expansion: int) -> float:
    return expansion + RESCORING * count


def _choice(
    count: int, expansion: int, found: Matches, exact: Matches, target: float, *, reached: bool
) -> Choice:
    setting = {"count": count, "expansion": expansion, "target": target, "reached": reached}
    return Choice.from_facts({**setting, **index_quality(found, exact)})
