"""Signs that a text was written for the reward and not as an idea, by its words alone.

Each is a number from 0, no sign, to 1. They are told beside every score; what a sign takes from the
reward is for `RewardConfig.penalties` to say.
"""

import re
from collections import Counter
from typing import Final

CHECKS: Final = (
    "near_copy",  # of a paper: share of the text's runs of words that stand in a matched paper
    "keyword_list",
    "repetition",
    "injection",
    "several",  # more than one idea
    "long",  # its end was not read
)
"""Their names, in the order in which they are told."""

RUN: Final = 5
"""Words of a run."""

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_SENTENCE = re.compile(r"[.!?;\n]+")
# The most frequent words of English prose that say nothing alone: a third of any abstract.
_FUNCTION: Final = frozenset(
    _WORD.findall(
        """
        a about after all also an and any are as at be because been before being between both but by
        can could do does each even for from further had has have how however i if in into is it its
        itself many may might more most much must no nor not of on once only or other our over own
        same several should so some such than that the their them then there these they this those
        through thus to too under until up upon us using very via was we were what when where
        whether which while who why will with within without would you your
        """
    )
)
_FEW_WORDS = 12
_PROSE, _LIST = 0.22, 0.08  # shares of function words: prose has more, a list of keywords less
_TOLD: Final = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,40}\b(?:instruction|prompt|rubric|criteria|above|previous)"
    r"|\b(?:give|assign|award|rate|score)\b.{0,30}\b(?:full marks|highest|maximum|perfect|top)\b"
    r"|\b(?:give|assign|award|rate|score)\b.{0,30}\b(?:10|ten|100|5)\s*(?:/|out of|points|stars)"
    r"|\byou are (?:now )?an? (?:helpful|impartial|expert|judge|reviewer|assistant|grader)\b"
    r"|\b(?:system|developer) (?:prompt|message)\b|\bas the (?:judge|reviewer|grader)\b",
    re.IGNORECASE,
)


def words_of(text: str) -> list[str]:
    """Words in lower case, without punctuation."""
    return [one.lower() for one in _WORD.findall(text)]


def keyword_list(words: list[str]) -> float:
    """How far the text lacks the small words that sentences have."""
    known = [one for one in words if one.isascii()]
    if len(known) < _FEW_WORDS:
        return 0.0
    share = sum(one in _FUNCTION for one in known) / len(known)
    return min(max((_PROSE - share) / (_PROSE - _LIST), 0.0), 1.0)


def repetition(text: str, words: list[str]) -> float:
    """Share of runs of words, or of sentences, that stood there before, whichever is more."""
    runs = runs_of(words)
    sentences = [" ".join(words_of(one)) for one in _SENTENCE.split(text)]
    long = [one for one in sentences if len(one) > 20]
    return max(_repeated(runs), _repeated(long))


def _repeated(parts: list[str]) -> float:
    return 1 - len(Counter(parts)) / len(parts) if parts else 0.0


def runs_of(words: list[str]) -> list[str]:
    """All runs of `RUN` words."""
    return [" ".join(words[i : i + RUN]) for i in range(len(words) - RUN + 1)]


def near_copy(words: list[str], paper: str) -> float:
    """Share of the text's runs of words that stand in a paper's title and abstract."""
    runs = runs_of(words)
    if not runs:
        return 0.0
    there = set(runs_of(words_of(paper)))
    return sum(one in there for one in runs) / len(runs)


def injection(text: str) -> float:
    """1 where the text tells a judge what to do."""
    return float(_TOLD.search(text) is not None)
