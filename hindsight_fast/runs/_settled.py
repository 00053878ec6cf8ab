"""What is settled before the first idea of a run: how it is searched, what precision costs, and
which day it is. It is found once, on samples: a run that goes on has it from its journal.
"""

import math
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

from hindsight_fast.candidates import Choice, choose
from hindsight_fast.costs import Cost, measure
from hindsight_fast.encoding import SAMPLE, encode_texts
from hindsight_fast.ideas import ideas_at
from hindsight_fast.meeting import TextEncoder
from hindsight_fast.scoring import Scorer, encoded_pairs
from hindsight_fast.tally import sample_places

FEWEST: Final = 20_000
"""Ideas of the smallest run that tries how an index is to be searched."""

TRIED: Final = 256
"""Ideas that this is tried on: of 20 papers each, 5 may be missed where 0.999 are to be found."""

Tell = Callable[[str], None]


class Settled(NamedTuple):
    """What holds for all parts of a run."""

    costs: list[Cost]
    choice: Choice | None
    """How the index was tried."""
    exact: bool
    """Whether no setting of the index reaches the recall that is as cheap as the exact scan, and
    the search was left open."""
    day: date
    """By which dates of knowledge are read."""

    def facts(self) -> dict[str, Any]:
        """The same for a journal."""
        choice = None if self.choice is None else self.choice.facts()
        costs = [cost.facts() for cost in self.costs]
        day = self.day.isoformat()
        return {"costs": costs, "candidates": choice, "exact": self.exact, "day": day}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Settled":
        """What `facts` gave."""
        choice = facts["candidates"]
        return cls(
            [Cost.from_facts(one) for one in facts["costs"]],
            None if choice is None else Choice.from_facts(choice),
            bool(facts["exact"]),
            date.fromisoformat(facts["day"]),
        )

    def tell(self, tell: Tell) -> None:
        """Say in words what was found."""
        for cost in self.costs:
            tell(cost.in_words())
        if self.choice is None:
            return
        if self.exact:
            tell(
                "ideas are scanned exactly: no search of the index that is as fast finds enough "
                f"(tried with {self.choice.in_words()})"
            )
        else:
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
    encoder, today = scorer.encoder, date.today()
    costs = measure(
        scorer, ideas_at(ideas, sample_places(n, SAMPLE) if _is_coarse(encoder) else ())
    )
    if recall is None or n < FEWEST or scorer.search != "index" or scorer.candidates is not None:
        return Settled(costs, None, False, today)
    pairs = encoded_pairs(ideas_at(ideas, sample_places(n, TRIED)))
    if encoder is None or not pairs:
        return Settled(costs, None, False, today)
    vectors = encode_texts(encoder, pairs).vectors  # not by the cache: its hits are counted
    is_open = scorer.config.search == "auto"
    most = scorer.scan_expansion if is_open else math.inf
    choice = choose(scorer, vectors, recall, most=most)
    return Settled(costs, choice, is_open and not choice.reached, today)


def _is_coarse(encoder: TextEncoder | None) -> bool:
    return encoder is not None and encoder.precision != "float32"
