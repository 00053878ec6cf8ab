"""What is counted over a run, part by part, in constant memory: counts add up, in order of parts.

What one part adds is a few JSON values, so that a journal can hold it in place of its ideas.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import date
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers import dates
from hindsight_fast.scoring import Scored

RECALL_SAMPLE: Final = 256
"""Ideas of a run with an index that are scanned exactly as well, to say what the index cost."""

MOST_SYSTEMS: Final = 1000
"""Systems that are counted each by itself, the first met: a manifest has room for no more."""

OTHERS: Final = "(all others)"
"""Where all other systems are counted, and one that has this very name."""

_LONGEST_NAME = 200
_SEED, _OTHER_SEED = np.uint64(20230601), np.uint64(20251231)
_AT_ONCE = 1 << 20


@dataclass(slots=True)
class SystemTally:
    """One system's ideas; a difference in text shape can masquerade as one in quality."""

    n: int = 0
    n_scored: int = 0
    n_matched: int = 0
    n_matched_zero: int = 0
    n_weakly_dated: int = 0
    n_truncated: int = 0
    sum_score: float = 0.0
    sum_tokens: int = 0
    shapes: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, more: Mapping[str, Any]) -> None:
        """Add what `asdict` of another one gave."""
        _add_up(self.shapes, more["shapes"])
        for one in fields(self):
            if one.name != "shapes":
                setattr(self, one.name, getattr(self, one.name) + more[one.name])

    def facts(self) -> dict[str, Any]:
        """Counts and means; a mean of nothing is null."""
        scored = self.n_scored
        return {
            "n": self.n,
            "n_scored": scored,
            "n_matched": self.n_matched,
            "n_matched_zero": self.n_matched_zero,
            "n_weakly_dated": self.n_weakly_dated,
            "mean_score": self.sum_score / scored if scored else None,
            "n_truncated": self.n_truncated,
            "mean_tokens": self.sum_tokens / scored if scored else None,
            "shapes": dict(sorted(self.shapes.items())),
        }


class Counted(NamedTuple):
    """What a part adds to a tally.

    Attributes
    ----------
    facts
        JSON values.
    vectors : ndarray of shape (s, d), float32
        Those that were in the sample when the part was counted; places are among the facts.
    """

    facts: Mapping[str, Any]
    vectors: NDArray[np.float32]


class Tally:
    """Everything that is counted over a run.

    Parameters
    ----------
    cutoff
        T; an idea that knows of that day or later is counted.
    sampling
        Keep a random sample of vectors for `index_quality`.
    theta, error
        Ideas are counted whose similarities lie within `error` of theta.
    today
        The day by which dates are read, which parts of one run must share; this one by default.
    """

    def __init__(
        self,
        cutoff: date,
        *,
        sampling: bool,
        theta: float = 0.0,
        error: float = 0.0,
        today: date | None = None,
    ) -> None:
        self.cutoff, self._today = cutoff, today or date.today()
        self._theta, self._error = float(np.float32(theta)), error
        self.systems: dict[str | None, SystemTally] = {}
        self.statuses: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._sample = Sample(RECALL_SAMPLE if sampling else 0)

    @property
    def n_ideas(self) -> int:
        """Ideas so far."""
        return self._counts.get("ideas", 0)

    def add(self, ideas: pl.DataFrame, scored: Scored) -> Counted:
        """Count the next ideas, and return what they add."""
        start, table = self.n_ideas, scored.scores
        informed, unread = _n_informed(ideas["knowledge_date"], self.cutoff, self._today)
        apart = np.abs(scored.matches.similarities.astype(np.float64) - self._theta)
        near = apart <= self._error
        facts = {
            "counts": {
                "ideas": table.height,
                "scored": len(scored.scored),
                "informed": informed,
                "unread_dates": unread,
                "saturated": int(table["saturated"].sum()),
                "close": int(table["near_theta"].sum()),
                "retried": scored.n_retried,
                "nearest_near": int(near[:, 0].sum()),
                "any_near": int(near.any(axis=1).sum()),
            },
            "statuses": dict(table["status"].value_counts().iter_rows()),
            "systems": _by_system(table.with_columns(pl.Series("shape", scored.shapes))),
        }
        self._add_counts(facts)
        taken = self._sample.offer(start + scored.scored, scored.vectors)
        places = (start + scored.scored[taken]).tolist()
        return Counted({**facts, "sampled": places}, scored.vectors[taken])

    def take(self, counted: Counted) -> None:
        """Count what `add` returned for the next ideas."""
        self._add_counts(counted.facts)
        self._sample.offer(np.array(counted.facts["sampled"], np.int64), counted.vectors)

    def sample(self, dim: int) -> NDArray[np.float32]:
        """The sampled vectors, shape (at most RECALL_SAMPLE, dim)."""
        return self._sample.vectors.reshape(-1, dim)

    def near_theta(self) -> dict[str, Any]:
        """Ideas whose nearest similarity, or any of the K nearest, lies within the error."""
        return {
            "error": self._error,
            "nearest": self._counts.get("nearest_near", 0),
            "any_of_k": self._counts.get("any_near", 0),
        }

    def facts(self) -> dict[str, Any]:
        """Counts over all ideas and by system, whose names are cut where they are very long."""
        counts = self._counts
        return {
            "counts": {
                "ideas": counts.get("ideas", 0),
                "scored": counts.get("scored", 0),
                "by_status": dict(sorted(self.statuses.items())),
                "knowledge_on_or_after_cutoff": counts.get("informed", 0),
                "knowledge_date_not_understood": counts.get("unread_dates", 0),
                "saturated": counts.get("saturated", 0),
                "near_theta": counts.get("close", 0),
                "retried": counts.get("retried", 0),
            },
            "systems": [
                {"system": name and name[:_LONGEST_NAME], **tally.facts()}
                for name, tally in self.systems.items()
            ],
        }

    def _add_counts(self, facts: Mapping[str, Any]) -> None:
        _add_up(self._counts, facts["counts"])
        _add_up(self.statuses, facts["statuses"])
        for name, more in facts["systems"]:
            has_room = name in self.systems or len(self.systems) < MOST_SYSTEMS
            self.systems.setdefault(name if has_room else OTHERS, SystemTally()).take(more)


class Sample:
    """The vectors of the ideas whose places have the smallest hashes: a fair sample of any run.

    Which these are depends on nothing but the places, so that a run that was interrupted has the
    same ones as one that was not.

    Attributes
    ----------
    vectors : ndarray of shape (at most size, d), float32
        By ascending hash.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._hashes: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.vectors: NDArray[np.float32] = np.zeros((0, 0), np.float32)

    def offer(self, places: NDArray[np.int64], vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """Add those that belong to it; returns which of them, ascending."""
        marks = _hashes(places, _SEED)
        if len(self._hashes) >= self._size:
            last = self._hashes[-1] if self._size else np.uint64(0)
            new = np.flatnonzero(marks < last)
        else:
            new = np.arange(len(marks))
        if not len(new):
            return new
        n_old, together = len(self._hashes), np.concatenate([self._hashes, marks[new]])
        order = np.argsort(together)[: self._size]
        is_new = order >= n_old
        taken, kept = new[order[is_new] - n_old], self.vectors.reshape(-1, vectors.shape[1])
        self._hashes = together[order]
        self.vectors = np.empty((len(order), vectors.shape[1]), np.float32)
        self.vectors[is_new], self.vectors[~is_new] = vectors[taken], kept[order[~is_new]]
        return np.sort(taken)


def sample_places(n: int, size: int) -> frozenset[int]:
    """Some of the places 0 ... n - 1, fairly drawn, and apart from how `Sample` draws them."""
    best: NDArray[np.int64] = np.zeros(0, np.int64)
    for start in range(0, n, _AT_ONCE):
        both = np.concatenate([best, np.arange(start, min(start + _AT_ONCE, n))])
        best = both[np.argsort(_hashes(both, _OTHER_SEED))[:size]]
    return frozenset(best.tolist())


def _hashes(places: NDArray[np.int64], seed: np.uint64) -> NDArray[np.uint64]:
    """Hashes of places, no two alike (the finaliser of SplitMix64; Steele et al., OOPSLA 2014)."""
    x = (places.astype(np.uint64) + seed) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _add_up(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, n in more.items():
        counts[name] = counts.get(name, 0) + n


def _by_system(table: pl.DataFrame) -> list[tuple[str | None, dict[str, Any]]]:
    """The tally of each system of a score table with the column `shape` beside, first met first."""
    is_scored = pl.col("score").is_not_null()
    zero = pl.col("matched") & (pl.col("score") == 0)
    found = table.group_by("system", maintain_order=True).agg(
        n=pl.len(),
        n_scored=is_scored.sum(),
        n_matched=pl.col("matched").sum(),
        n_matched_zero=zero.sum(),
        n_weakly_dated=pl.col("best_date_kind").is_in(dates.WEAK).sum(),
        n_truncated=pl.col("truncated").filter(is_scored).sum(),
        sum_tokens=pl.col("n_tokens").filter(is_scored).cast(pl.Int64).sum(),
        sum_score=pl.col("score").drop_nulls(),
        shapes=pl.col("shape").filter(is_scored).value_counts(sort=True, name="n"),
    )
    systems = list[tuple[str | None, dict[str, Any]]]()
    for row in found.iter_rows(named=True):
        name = row.pop("system")
        # A sum that threads can't reorder: the means are the same each time.
        row["sum_score"] = math.fsum(row["sum_score"])
        row["shapes"] = {one["shape"]: one["n"] for one in row["shapes"]}
        systems.append((name, asdict(SystemTally(**row))))
    return systems


def _n_informed(written: pl.Series, cutoff: date, today: date) -> tuple[int, int]:
    """Ideas whose knowledge may reach the cutoff (its last day counts), and unreadable dates."""
    if written.null_count() == len(written):
        return 0, 0
    found = dates.parse(written, today)
    last = found.select(dates.end(pl.col("start"), pl.col("precision")).alias("last"))["last"]
    return last.filter(last >= cutoff).len(), last.null_count() - written.null_count()
