"""What is asked of a reward model, and what it answers."""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from hindsight_fast.rewards._checks import CHECKS

FIELDS: Final = ("prompt_id", "topic", "cutoff", "exclude_ids")
"""Names under which a training set may say what a request is limited to."""


@dataclass(frozen=True, slots=True)
class Request:
    """A completion to be rewarded, and what its prompt limits the papers to.

    Attributes
    ----------
    completion
        A text, a message, a list of messages, or None.
    prompt
        What may stand before the answer in a text.
    prompt_id
        Completions of one prompt are a group.
    topic
        Only papers that have this topic of the store.
    cutoff
        Only papers dated on this day or later, ISO 8601: a day, or a month's or year's first.
    exclude_ids
        Papers that don't count, those that the prompt shows, say.
    """

    completion: object
    prompt: object = None
    prompt_id: str | None = None
    topic: str | None = None
    cutoff: str | None = None
    exclude_ids: tuple[str, ...] = ()

    @classmethod
    def of(cls, completion: object, prompt: object, *places: object) -> "Request":
        """A request whose limits stand in some mappings, the first that has a field counting.

        What is no mapping, or a field that is null or "", says nothing. Nothing is refused here:
        that a limit makes no sense is told with the answer.
        """
        found = dict[str, Any]()
        for place in places:
            if not isinstance(place, Mapping):
                continue
            known = cast(Mapping[str, object], place)
            for name in FIELDS:
                if name not in found and known.get(name) not in (None, "", [], ()):
                    found[name] = _read(name, known[name])
        return cls(completion, prompt, **found)


def _read(name: str, value: object) -> object:
    if name == "exclude_ids" and isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(str(one) for one in cast(Iterable[object], value))
    text = str(value.date() if isinstance(value, dt.datetime) else value)
    return (text,) if name == "exclude_ids" else text


def no_signs() -> dict[str, float]:
    """Every check, and no sign of what it looks for."""
    return dict.fromkeys(CHECKS, 0.0)


@dataclass(frozen=True, slots=True)
class RewardResult:
    """What a completion earned, and why.

    Attributes
    ----------
    reward
        What to train on: finite, or None where there is no reward.
    score
        The published score, whatever the reward's shape; None where nothing was scored.
    status
        "ok"; of what can't be scored "empty", "too_short", "refused", "unfinished", "unparseable"
        or "several"; "no_papers", where the request leaves none; "timeout" or "error".
    similarity, margin
        Of the nearest paper, and how far above theta it lies.
    matched, n_matches
        Whether a paper reached theta, and how many of the K nearest did.
    impact
        Of the best of them, 0 without one.
    best_paper_id, nearest_paper_id
        The match of the largest impact, and the nearest paper, matched or not.
    on_topic
        Share of the K nearest papers, of all topics, that have the topic that was asked for; None
        where none was.
    signs
        Of hacking, from 0 to 1 each, by the names of `CHECKS`; what they take from the reward is
        the configuration's.
    n_ideas
        Ideas in the completion.
    truncated
        Whether its end was not looked at.
    signature
        How this score was made.
    error
        Of "error" and "timeout", what went wrong.
    """

    reward: float | None
    score: float | None
    status: str
    signature: str
    similarity: float | None = None
    margin: float | None = None
    matched: bool = False
    n_matches: int = 0
    impact: float = 0.0
    best_paper_id: str | None = None
    nearest_paper_id: str | None = None
    on_topic: float | None = None
    signs: Mapping[str, float] = field(default_factory=no_signs)
    n_ideas: int = 0
    truncated: bool = False
    error: str = ""

    def components(self) -> dict[str, float]:
        """Numbers for a log, always the same keys; 0 where there is nothing to tell."""
        return {
            "score": self.score or 0.0,
            "similarity": self.similarity or 0.0,
            "margin": self.margin or 0.0,
            "impact": self.impact,
            "matched": float(self.matched),
            "n_matches": float(self.n_matches),
            "on_topic": self.on_topic or 0.0,
            "n_ideas": float(self.n_ideas),
            "truncated": float(self.truncated),
            "scored": float(self.score is not None),
            "failed": float(self.status in ("timeout", "error")),
            **self.signs,
        }
