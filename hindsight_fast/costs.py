"""What the precision of ideas and papers costs a run: its error, measured on a sample.

An error of a similarity is that of the idea's vector and that of the paper's together. Both are
measured against float32 on the CPU, where they are not float32 themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hindsight_fast.agreement import Agreement, compare
from hindsight_fast.encoding import SAMPLE, CountingEncoder, encode_texts, sample_papers
from hindsight_fast.errors import ArtefactError
from hindsight_fast.ideas import IDEA_SCHEMA
from hindsight_fast.meeting import TextEncoder
from hindsight_fast.scoring import Scorer, encoded_pairs

_SEED = 20250601


@dataclass(frozen=True, slots=True)
class Cost:
    """The precision of one side of the similarities, measured.

    Attributes
    ----------
    side : str
        "ideas" or "papers".
    precision : str
    agreement : Agreement
        Of the vectors of a sample with those in float32.
    neighbour_error : float or None
        Ideas: the most by which a similarity to one of the K nearest papers differs.
    equal_scores : float or None
        Ideas: the share that scores the same.
    """

    side: str
    precision: str
    agreement: Agreement
    neighbour_error: float | None = None
    equal_scores: float | None = None

    @property
    def error(self) -> float:
        """The most by which a similarity was seen to differ."""
        return max(self.neighbour_error or 0.0, self.agreement.similarity_error or 0.0)

    def facts(self) -> dict[str, Any]:
        """The same for a manifest."""
        return {
            "side": self.side,
            "precision": self.precision,
            "error": self.error,
            "neighbour_error": self.neighbour_error,
            "equal_scores": self.equal_scores,
            **self.agreement.facts(),
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Cost":
        """What `facts` gave.

        Raises
        ------
        ArtefactError
            Something is missing.
        """
        agreement = Agreement.from_facts(facts)
        if agreement is None or not {"side", "precision"} <= set(facts):
            raise ArtefactError("no facts of what a precision costs")
        return cls(
            facts["side"],
            facts["precision"],
            agreement,
            facts.get("neighbour_error"),
            facts.get("equal_scores"),
        )

    def in_words(self) -> str:
        """A line for a person."""
        line = (
            f"what {self.precision} {self.side} cost, {self.agreement.n} of them compared with "
            f"float32: {self.agreement.in_words()}"
        )
        if self.equal_scores is None:
            return line
        return f"{line}; {100 * self.equal_scores:.1f}% of scores are equal"


def measure(scorer: Scorer, sample: pl.DataFrame) -> list[Cost]:
    """What the precisions of the two sides cost; nothing for a side in float32.

    Parameters
    ----------
    sample
        Some of the ideas, columns of `IDEA_SCHEMA`.

    Raises
    ------
    EncoderError
        The float32 reference can't be opened, or a model failed.
    ArtefactError
        The pool or its store is damaged.
    """
    encoder, pool = scorer.encoder, scorer.pool
    costs = list[Cost | None]()
    if encoder is not None and {encoder.precision, pool.precision} != {"float32"}:
        reference = encoder.reference()
        costs = [_of_ideas(scorer, encoder, reference, sample), _of_papers(scorer, reference)]
    return [cost for cost in costs if cost is not None]


def draw(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Up to `SAMPLE` rows, each as likely as any other; always the same ones of the same ideas."""
    rng = np.random.default_rng(_SEED)
    kept = pl.DataFrame(schema={**IDEA_SCHEMA, "lot": pl.Float64()})
    for frame in frames:
        lots = pl.Series("lot", rng.random(frame.height))
        kept = pl.concat([kept, frame.with_columns(lots)]).bottom_k(SAMPLE, by="lot")
    return kept.sort("lot").drop("lot")


def _of_ideas(
    scorer: Scorer, encoder: TextEncoder, reference: CountingEncoder, sample: pl.DataFrame
) -> Cost | None:
    pairs = encoded_pairs(sample)
    if encoder.precision == "float32" or not pairs:
        return None
    ours = encode_texts(encoder, pairs).vectors  # not through the cache, whose hits are counted
    right = encode_texts(reference, pairs).vectors
    before, after = scorer.match_exactly(right), scorer.match_exactly(ours)
    idea, rank = np.nonzero(before.rows >= 0)
    papers = np.asarray(scorer.pool.vectors[before.rows[idea, rank]], np.float64)
    moved = np.einsum("ij,ij->i", right[idea].astype(np.float64) - ours[idea], papers)
    return Cost(
        "ideas",
        encoder.precision,
        compare(right, ours, scorer.config.theta),
        neighbour_error=float(np.abs(moved).max()) if len(moved) else None,
        equal_scores=float((before.scores == after.scores).mean()),
    )


def _of_papers(scorer: Scorer, reference: CountingEncoder) -> Cost | None:
    """As measured when they were encoded, or else now."""
    pool = scorer.pool
    if pool.precision == "float32":
        return None
    agreement = Agreement.from_facts(pool.precision_cost)
    if agreement is None:
        rows, pairs = sample_papers(pool.store, pool.offset, pool.offset + pool.n)
        stored = np.asarray(pool.vectors[rows - pool.offset])
        there = np.flatnonzero(stored.any(axis=1))
        if not there.size:
            return None
        right = encode_texts(reference, [pairs[i] for i in there]).vectors
        agreement = compare(right, stored[there], scorer.config.theta)
    return Cost("papers", pool.precision, agreement)


def total_error(costs: Sequence[Cost]) -> float:
    """By how much a similarity may differ from float32's, as far as was seen."""
    return sum(cost.error for cost in costs)
