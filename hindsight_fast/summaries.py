"""What the summary of a scoring run says, gathered batch by batch in constant memory."""

import math
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.agreement import Agreement
from hindsight_fast.candidates import interval
from hindsight_fast.papers import dates
from hindsight_fast.scoring import Scored
from hindsight_kernels import Matches

RECALL_SAMPLE = 256
"""Ideas of a run with an index that are scanned exactly as well, to say what the index cost."""

SAMPLE_SEED = 20230601

CLOSE = 1e-4
"""A similarity so near theta may lie on its other side by other rounding of the vectors."""


@dataclass(slots=True)
class SystemTally:
    """One system's ideas; a difference in text shape can masquerade as one in quality."""

    n: int = 0
    n_scored: int = 0
    n_matched: int = 0
    n_matched_zero: int = 0
    n_truncated: int = 0
    sum_score: float = 0.0
    sum_tokens: int = 0
    shapes: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, rows: pl.DataFrame) -> None:
        """Count the rows of a score table, with the column `shape` beside."""
        scored = rows.filter(pl.col("score").is_not_null())
        self.n += rows.height
        self.n_scored += scored.height
        self.n_matched += int(scored["matched"].sum())
        self.n_matched_zero += scored.filter(pl.col("matched") & (pl.col("score") == 0)).height
        self.n_truncated += int(scored["truncated"].sum())
        self.sum_score += math.fsum(scored["score"].to_list())
        self.sum_tokens += sum(scored["n_tokens"].to_list())
        for shape in scored["shape"].to_list():
            self.shapes[shape] = self.shapes.get(shape, 0) + 1

    def facts(self) -> dict[str, Any]:
        """Counts and means; a mean of nothing is null."""
        scored = self.n_scored
        return {
            "n": self.n,
            "n_scored": scored,
            "n_matched": self.n_matched,
            "n_matched_zero": self.n_matched_zero,
            "mean_score": self.sum_score / scored if scored else None,
            "n_truncated": self.n_truncated,
            "mean_tokens": self.sum_tokens / scored if scored else None,
            "shapes": dict(sorted(self.shapes.items())),
        }


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
    """

    def __init__(
        self, cutoff: date, *, sampling: bool, theta: float = 0.0, error: float = 0.0
    ) -> None:
        self.cutoff = cutoff
        self._theta, self._error = float(np.float32(theta)), error
        self.systems: dict[str | None, SystemTally] = {}
        self.statuses: dict[str, int] = {}
        self.n_ideas = 0
        self.n_scored = 0
        self.n_informed = 0
        self.n_unread_dates = 0
        self.n_saturated = 0
        self.n_retried = 0
        self.n_nearest_near = 0
        self.n_any_near = 0
        self.n_close = 0
        self._rng = np.random.default_rng(SAMPLE_SEED)
        self._sampling = sampling
        self._sample: list[NDArray[np.float32]] = []

    def add(self, ideas: pl.DataFrame, scored: Scored) -> None:
        """Count one batch."""
        table = scored.scores.with_columns(pl.Series("shape", scored.shapes))
        for (name,), rows in table.group_by("system", maintain_order=True):
            key = None if name is None else str(name)
            self.systems.setdefault(key, SystemTally()).add(rows)
        for status in table["status"].to_list():
            self.statuses[status] = self.statuses.get(status, 0) + 1
        self.n_saturated += int(table["saturated"].fill_null(False).sum())
        informed, unknown = _n_informed(ideas["knowledge_date"], self.cutoff)
        self.n_informed += informed
        self.n_unread_dates += unknown
        self.n_ideas += table.height
        self.n_retried += scored.n_retried
        distances = np.abs(scored.matches.similarities.astype(np.float64) - self._theta)
        self.n_close += int((distances <= CLOSE).any(axis=1).sum())
        near = distances <= self._error
        self.n_nearest_near += int(near[:, 0].sum())
        self.n_any_near += int(near.any(axis=1).sum())
        for vector in scored.vectors:  # reservoir sampling (Vitter 1985, algorithm R)
            self.n_scored += 1
            if len(self._sample) < RECALL_SAMPLE and self._sampling:
                self._sample.append(vector.copy())  # a view would keep its whole batch alive
            elif self._sampling and (at := int(self._rng.integers(self.n_scored))) < RECALL_SAMPLE:
                self._sample[at] = vector.copy()

    def sample(self, dim: int) -> NDArray[np.float32]:
        """The sampled vectors, shape (at most RECALL_SAMPLE, dim)."""
        return np.array(self._sample, dtype=np.float32).reshape(-1, dim)

    def near_theta(self) -> dict[str, Any]:
        """Ideas whose nearest similarity, or any of the K nearest, lies within the error."""
        return {
            "error": self._error,
            "nearest": self.n_nearest_near,
            "any_of_k": self.n_any_near,
        }

    def facts(self) -> dict[str, Any]:
        """Counts over all ideas and by system."""
        return {
            "counts": {
                "ideas": self.n_ideas,
                "scored": self.n_scored,
                "by_status": dict(sorted(self.statuses.items())),
                "knowledge_on_or_after_cutoff": self.n_informed,
                "knowledge_date_not_understood": self.n_unread_dates,
                "saturated": self.n_saturated,
                "near_theta": self.n_close,
                "retried": self.n_retried,
            },
            "systems": [{"system": name, **tally.facts()} for name, tally in self.systems.items()],
        }


def index_quality(found: Matches, exact: Matches) -> dict[str, Any]:
    """What the index lost on a sample: recall@K of the neighbours, share of equal scores.

    Each with its 95% interval (Wilson 1927) for so many ideas: the neighbours of one idea are
    found or lost together, so they count as one trial.
    """
    both = [np.isin(e[e >= 0], f) for e, f in zip(exact.rows, found.rows, strict=True)]
    hits, wanted = sum(int(b.sum()) for b in both), sum(b.size for b in both)
    n = len(both)
    recall = hits / wanted if wanted else None
    equal = float((found.scores == exact.scores).mean()) if both else None
    return {
        "n_sampled": n,
        "recall": recall,
        "recall_interval": None if recall is None else interval(recall, n),
        "equal_scores": equal,
        "equal_scores_interval": None if equal is None else interval(equal, n),
    }


def notes(facts: dict[str, Any], cutoff: date) -> list[str]:
    """What a reader must know before believing the means, a sentence each."""
    counts, lines = facts["counts"], list[str]()
    unscored = {s: n for s, n in counts["by_status"].items() if s not in ("ok", "empty_pool")}
    if unscored:
        listed = ", ".join(f"{n:,} {status.replace('_', ' ')}" for status, n in unscored.items())
        lines.append(f"not scored, left out of means: {listed}")
    if counts["by_status"].get("empty_pool"):
        lines.append("the pool has no papers, so every score is 0 (status empty_pool)")
    if informed := counts["knowledge_on_or_after_cutoff"]:
        lines.append(f"{informed:,} ideas know of {cutoff} or later, and so are no forecasts")
    if unread := counts["knowledge_date_not_understood"]:
        lines.append(f"{unread:,} ideas have a knowledge_date that is no date: not looked at")
    if zero := sum(system["n_matched_zero"] for system in facts["systems"]):
        lines.append(
            f"{zero:,} ideas match papers and score 0 all the same: none of those papers has "
            "known citations or a top venue, so the match rate says more than the score"
        )
    cut = sum(system["n_truncated"] for system in facts["systems"])
    if cut > counts["scored"] / 5:
        lines.append(f"{cut:,} ideas are longer than the encoder reads: their ends were not seen")
    if repeated := facts.get("repeated_ids"):
        lines.append(f"{repeated:,} ideas have the id of an earlier one: join on places, not ids")
    if saturated := counts["saturated"]:
        lines.append(f"{saturated:,} ideas match all K nearest papers: more impact may lie beyond")
    quality = facts.get("index_quality")
    if quality and quality["recall"] is not None:
        lines.append(
            f"against the exact scan, on {quality['n_sampled']} sampled ideas: recall@K "
            f"{quality['recall']:.4f} (95%: {_in_words(quality['recall_interval'])}), equal scores "
            f"{quality['equal_scores']:.4f} (95%: {_in_words(quality['equal_scores_interval'])})"
        )
    if (close := counts["near_theta"]) and not facts["precision"]["costs"]:
        lines.append(
            f"{close:,} ideas have one of their K nearest papers within {CLOSE:g} of theta: on "
            "another kind of machine they may match otherwise"
        )
    lines += _notes_on_precision(facts) + notes_on_published(facts["published"])
    return lines + _notes_on_cache(facts["cache"])


def _in_words(interval: list[float]) -> str:
    return f"{interval[0]:.4f} to {interval[1]:.4f}"


def _notes_on_precision(facts: dict[str, Any]) -> list[str]:
    precision, lines = facts["precision"], list[str]()
    if costs := precision["costs"]:
        near, n = precision["near_theta"], facts["counts"]["scored"]
        sides = " and ".join(
            f"{cost['precision']} {cost['side']} ({cost['error']:.2g}, on {cost['n']})"
            for cost in costs
        )
        lines.append(
            f"{near['nearest']:,} of {n:,} ideas have their nearest paper within "
            f"{near['error']:.2g} of theta, {near['any_of_k']:,} any of the K nearest: in float32 "
            f"they may match otherwise; the error is that of {sides}"
        )
    if retried := facts["counts"]["retried"]:
        lines.append(
            f"{retried:,} ideas had no unit vector in {precision['ideas']}: encoded in float32"
        )
    return lines


def notes_on_published(check: dict[str, Any] | None) -> list[str]:
    """How published vectors agree with the encoder's own (`Pool.check`), where a pool has any."""
    agreement = Agreement.from_facts(check)
    if check is None or agreement is None:
        return []
    line = (
        f"vectors of papers are published ones; of {agreement.n:,} that were encoded again, the "
        f"{agreement.in_words()}"
    )
    if check.get("passed") is False:
        line += "; so they are not this encoder's, and scores mean little: --force took them"
    return [line]


def _notes_on_cache(cache: dict[str, Any] | None) -> list[str]:
    if cache is None:
        return []
    hits, n = cache["hits"], cache["hits"] + cache["misses"]
    line = f"{hits:,} of {n:,} texts were there already, in {cache['folder']}"
    if cache["damaged"]:
        line += f"; {cache['damaged']:,} more were there but damaged, and were encoded again"
    if cache["trouble"]:
        line += f"; it was given up, and the rest encoded without it: {cache['trouble']}"
    return [line]


def _n_informed(written: pl.Series, cutoff: date) -> tuple[int, int]:
    """Ideas whose knowledge may reach the cutoff (its last day counts), and unreadable dates."""
    found = dates.parse(written, date.today())
    last = found.select(dates.end(pl.col("start"), pl.col("precision")).alias("last"))["last"]
    return last.filter(last >= cutoff).len(), last.null_count() - written.null_count()
