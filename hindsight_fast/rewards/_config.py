"""How completions become rewards."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hindsight_fast.errors import UsageError
from hindsight_fast.rewards._checks import CHECKS

ERRORS: Final = ("none", "value", "raise")
SEVERAL: Final = ("first", "mean", "reject")
SHAPES: Final = ("published", "tie_breaker", "soft_threshold")


@dataclass(frozen=True, slots=True)
class RewardConfig:
    """Settings of a `RewardModel`.

    Attributes
    ----------
    k, theta
        Neighbours looked at, and similarity of a match; None: the pool's own.
    search
        As in `Scorer`, for requests that are limited to nothing; all others are scanned exactly.
    shaping
        What of the published score becomes the reward: itself ("published"), with a tie-breaker
        among ideas that match nothing ("tie_breaker"), or with a soft threshold
        ("soft_threshold", as wide as `softness`); see `shaping`.
    penalties
        What signs of hacking take from the reward: for names of `checks.CHECKS` the share that a
        full sign takes, 1 for all of it. Without a name its sign is told and takes nothing. Rewards
        below 0 are left as they are.
    several
        Of several ideas in a completion: the "first", the "mean" of their rewards, or none
        ("reject", the value of an invalid idea).
    invalid_value
        The reward of what can't be scored: no text, too little, a refusal, thinking without end.
    errors
        What becomes of requests that can't be answered: no reward ("none"), `error_value`
        ("value"), or the error itself ("raise").
    error_value
    timeout_s
        Seconds that a call may take; what isn't done by then has the status "timeout" and the
        reward of an error. None: as long as it takes.
    max_chars
        Characters of an answer that are looked at.
    remembered
        Results that are kept in memory, so that a text that comes again costs nothing.
    """

    k: int | None = None
    theta: float | None = None
    search: str = "auto"
    shaping: str = "published"
    softness: float = 0.01
    penalties: Mapping[str, float] = field(default_factory=dict[str, float])
    several: str = "first"
    invalid_value: float = 0.0
    errors: str = "none"
    error_value: float = 0.0
    timeout_s: float | None = None
    max_chars: int = 8000
    remembered: int = 100_000

    def __post_init__(self) -> None:
        for name, known in (("errors", ERRORS), ("several", SEVERAL), ("shaping", SHAPES)):
            if getattr(self, name) not in known:
                raise UsageError(
                    f"{name} = {getattr(self, name)!r}: expected one of {', '.join(known)}"
                )
        for name in ("invalid_value", "error_value"):
            if not math.isfinite(getattr(self, name)):
                raise UsageError(f"{name} = {getattr(self, name)}: a reward is a finite number")
        object.__setattr__(self, "penalties", dict(self.penalties))
        for name, share in self.penalties.items():
            if name not in CHECKS or not 0 <= share <= 1:
                raise UsageError(
                    f"penalties: {name} = {share}: expected a number from 0 to 1 for some of "
                    f"{', '.join(CHECKS)}"
                )
        if not 0 < self.softness < 1:
            raise UsageError(f"softness = {self.softness}: expected a number between 0 and 1")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(f"timeout_s = {self.timeout_s}: expected seconds, more than 0")
        if self.max_chars < 1 or self.remembered < 0:
            raise UsageError(
                f"max_chars = {self.max_chars}, remembered = {self.remembered}: too few"
            )
