"""How completions become rewards."""

import math
from dataclasses import dataclass
from typing import Final

from hindsight_fast.errors import UsageError

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
        if not 0 < self.softness < 1:
            raise UsageError(f"softness = {self.softness}: expected a number between 0 and 1")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(f"timeout_s = {self.timeout_s}: expected seconds, more than 0")
        if self.max_chars < 1 or self.remembered < 0:
            raise UsageError(
                f"max_chars = {self.max_chars}, remembered = {self.remembered}: too few"
            )
