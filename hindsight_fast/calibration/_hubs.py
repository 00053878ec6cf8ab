"""How much hangs on single papers: those that match many ideas, and a pool without any one."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.calibration._search import Near
from hindsight_fast.scoring import Scorer
from hindsight_fast.tables import named_papers

TOP: Final = 10


@dataclass(frozen=True, slots=True)
class Hub:
    """A paper that ideas match.

    Attributes
    ----------
    paper_id, title : str
    impact : float
    n_matches, n_best : int
        Ideas that it's a match of, and the best one.
    mean_without : float
        Mean score of all ideas if the pool lacked it, impact as it is (not normalised anew).
    """

    paper_id: str
    title: str
    impact: float
    n_matches: int
    n_best: int
    mean_without: float


@dataclass(frozen=True, slots=True)
class Hubs:
    """What the most matched papers have of all matches.

    Attributes
    ----------
    n_matches, n_best : int
        Matches of all ideas, and ideas with one.
    n_papers : int
        Papers that match at all.
    top : list of Hub
        The `TOP` most matched papers; equals by their place in the pool.
    mean : float
        Mean score of all ideas.
    lowest : Hub or None
        The paper without which it is lowest; None where it isn't lower without any.
    """

    n_matches: int
    n_best: int
    n_papers: int
    top: list[Hub]
    mean: float
    lowest: Hub | None

    @property
    def share_of_matches(self) -> float | None:
        """Of all matches, those with one of the top."""
        return sum(h.n_matches for h in self.top) / self.n_matches if self.n_matches else None

    @property
    def share_of_best(self) -> float | None:
        """Of all ideas with a match, those whose best paper is one of the top."""
        return sum(h.n_best for h in self.top) / self.n_best if self.n_best else None


def examine(scorer: Scorer, near: Near) -> Hubs:
    """Count matches; `near` holds K + 1 papers of each idea, or all there are."""
    pool, k, theta = scorer.pool, scorer.config.k, np.float32(scorer.config.theta)
    rows, matched = near.rows[:, : k + 1], near.similarities[:, : k + 1] >= theta
    worth = np.where(matched, pool.impact[rows], np.float32(-1))
    matches = rows[:, :k][matched[:, :k]]
    best = worth[:, :k].argmax(axis=1)  # the first of equals: nearest, then lower row
    has_match = matched[:, 0]
    best_rows = rows[np.arange(len(rows)), best][has_match]
    n_matches, n_best = (np.bincount(some, minlength=pool.n) for some in (matches, best_rows))
    moved = _moved(rows, worth, k, pool.n)
    mean = float(worth[:, :k].max(axis=1).clip(0).mean(dtype=np.float64))
    order = np.argsort(-n_matches, kind="stable")
    top = [row for row in order[:TOP].tolist() if n_matches[row]]
    lowest = [int(moved.argmin())] if moved.min(initial=0) < 0 else []
    named = named_papers(pool, np.array([*top, *lowest], np.int32))
    hubs = [
        Hub(
            paper_id=paper["id"],
            title=paper["title"] or "",
            impact=float(pool.impact[row]),
            n_matches=int(n_matches[row]),
            n_best=int(n_best[row]),
            mean_without=mean + float(moved[row]) / len(rows),
        )
        for row, paper in zip([*top, *lowest], named.iter_rows(named=True), strict=True)
    ]
    return Hubs(
        n_matches=len(matches),
        n_best=int(has_match.sum()),
        n_papers=int((n_matches > 0).sum()),
        top=hubs[: len(top)],
        mean=mean,
        lowest=hubs[-1] if lowest else None,
    )


def _moved(
    rows: NDArray[np.int32], worth: NDArray[np.float32], k: int, n: int
) -> NDArray[np.float64]:
    """By how much the sum of scores moves if the pool lacked a paper, for each of n.

    Without one of its K nearest papers an idea has the next in its place, so its score is the
    largest worth among the other K of K + 1.
    """
    now = worth[:, :k].max(axis=1).clip(0).astype(np.float64)
    first = worth.argmax(axis=1)
    ideas = np.arange(len(rows))
    largest = worth[ideas, first].clip(0)
    others = worth.copy()
    others[ideas, first] = -1
    second = others.max(axis=1).clip(0)
    places: NDArray[np.int64] = np.arange(min(k, rows.shape[1]))
    without = np.where(places == first[:, None], second[:, None], largest[:, None])
    idea, place = np.nonzero(rows[:, :k] >= 0)
    moved = np.zeros(n)
    np.add.at(moved, rows[idea, place], without[idea, place].astype(np.float64) - now[idea])
    return moved
