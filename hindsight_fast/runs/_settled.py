"""What is settled before the first idea of a run: how an index is searched, and what precision
costs. Both are found on samples, once: a run that goes on has them from its journal.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from hindsight_fast.candidates import Choice, choose
from hindsight_fast.costs import Cost, measure
from hindsight_fast.encoding import SAMPLE, encode_texts
from hindsight_fast.ideas import ideas_at
from hindsight_fast.scoring import Scorer, encoded_pairs
from hindsight_fast.tally import sample_places

FEWEST: Final = 10_000
"""Ideas of the smallest run that tries how an index is to be searched; it takes a few hundred."""

Tell = Callable[[str], None]


class Settled(NamedTuple):
    """What holds for all parts of a run."""

    costs: list[Cost]
    choice: Choice | None

    def facts(self) -> dict[str, Any]:
        """The same for a journal."""
        choice = None if self.choice is None else self.choice.facts()
        return {"costs": [cost.facts() for cost in self.costs], "candidates": choice}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Settled":
        """What `facts` gave."""
        choice = facts["candidates"]
        return cls(
            [Cost.from_facts(one) for one in facts["costs"]],
            None if choice is None else Choice.from_facts(choice),
        )

    def tell(self, tell: Tell) -> None:
        """Say in words what was found."""
        for cost in self.costs:
            tell(cost.in_words())
        if self.choice is not None:
            tell(f"the index is searched with {self.choice.in_words()}")


def settle(scorer: Scorer, ideas: Path, n: int, recall: float | None) -> Settled:
    """Find it on samples of the first `n` ideas, which are encoded for that.

    Raises
    ------
    EncoderError
        The float32 reference can't be opened where that is needed, or a model failed.
    ArtefactError
        The pool or its store is damaged.
    """
    encoder = scorer.encoder
    by_index = scorer.search == "index" and scorer.candidates is None
    wants_choice = by_index and recall is not None and n >= FEWEST and encoder is not None
    wants_costs = encoder is not None and encoder.precision != "float32"
    if not wants_choice and not wants_costs:
        return Settled(measure(scorer, ideas_at(ideas, ())), None)
    sample = ideas_at(ideas, sample_places(n, SAMPLE))
    costs, choice = measure(scorer, sample), None
    if wants_choice and encoder is not None and recall is not None:
        choice = _choice(scorer, sample, recall)
    return Settled(costs, choice)


def _choice(scorer: Scorer, sample: pl.DataFrame, recall: float) -> Choice | None:
    pairs = encoded_pairs(sample)
    if scorer.encoder is None or not pairs:
        return None
    vectors = encode_texts(scorer.encoder, pairs).vectors  # not by the cache: its hits are counted
    return choose(scorer, vectors, recall)
