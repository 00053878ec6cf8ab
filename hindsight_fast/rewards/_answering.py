"""From requests to what they earn: a batch of them at a time, each as if it were alone."""

import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.encoding import encode_texts
from hindsight_fast.errors import EncoderError, HindsightError
from hindsight_fast.idea_text import IdeaText, idea_texts
from hindsight_fast.ideas import TEXT_FIELDS
from hindsight_fast.meeting import TextEncoder
from hindsight_fast.pool import Pool, damage
from hindsight_fast.rewards import _checks
from hindsight_fast.rewards._completions import Found, find_ideas
from hindsight_fast.rewards._config import RewardConfig
from hindsight_fast.rewards._request import Request, RewardResult, no_signs
from hindsight_fast.rewards._selection import Selections
from hindsight_fast.rewards._shaping import shaped
from hindsight_fast.scanning import scan_on_cpu
from hindsight_fast.scoring import Scorer
from hindsight_kernels import Matches, match
from hindsight_models import TextError

_STEP: Final = 32  # texts encoded between two looks at the clock
_PAPERS: Final = 10_000  # whose texts are kept in memory


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request can't be answered; it may be tried again."""

    status: str
    error: Exception


Outcome = RewardResult | Failure


@dataclass(slots=True)
class _Asked:
    """A request under way: the ideas found in it, and what became of each."""

    request: Request
    found: Found
    status: str
    texts: list[IdeaText]
    parts: list[RewardResult]
    failure: Failure | None = None


class Answering:
    """Answers requests by a scorer's pool; not for several threads at once.

    Attributes
    ----------
    signature : str
        How the score of a request is made that is limited to nothing.
    """

    def __init__(self, scorer: Scorer, encoder: TextEncoder, config: RewardConfig) -> None:
        self._scorer, self._encoder, self._config = scorer, encoder, config
        self._pool = pool = scorer.pool
        exactly = pool.signature(scorer.config.k, scorer.config.theta, "exact", encoder.precision)
        shape = "" if config.shaping == "published" else f" shaping={config.shaping}"
        self.signature = f"{scorer.signature}{shape}"
        self._limited_signature = f"{exactly}{shape}"
        above = pool.impact[pool.impact > 0]
        self._least = float(above.min()) if len(above) else 0.0
        self._selections = Selections(pool)
        self._papers: OrderedDict[str, str] = OrderedDict()

    def answer(
        self, asked: Sequence[tuple[Request, str | None]], deadline: float | None
    ) -> list[Outcome]:
        """What requests earn whose answers, by `answer_of`, stand beside them.

        Parameters
        ----------
        deadline
            By `time.monotonic`; None: there is none.
        """
        items = [self._read(request, answer) for request, answer in asked]
        self._fill_texts(items)
        places = [(item, place) for item in items for place in range(len(item.texts))]
        good = [(item, at) for item, at in places if item.texts[at].status == "ok"]
        vectors, encoded = self._encoded(good, deadline)
        self._match(good, vectors, encoded)
        return [self._joined(item) for item in items]

    def _read(self, request: Request, answer: str | None) -> _Asked:
        found = find_ideas(answer, max_chars=self._config.max_chars)
        status = found.status
        if len(found.ideas) > 1 and self._config.several == "reject":
            status = "several"
        return _Asked(request, found, status, [], [])

    def _fill_texts(self, items: list[_Asked]) -> None:
        """Ideas as they are encoded: the first of each, or all whose mean is wanted."""
        wanted = None if self._config.several == "mean" else 1
        ideas = [
            (item, idea)
            for item in items
            if item.status == "ok"
            for idea in item.found.ideas[:wanted]
        ]
        texts = idea_texts(*([idea.get(name, "") for _, idea in ideas] for name in TEXT_FIELDS))
        for (item, _), text in zip(ideas, texts, strict=True):
            item.texts.append(text)

    def _encoded(
        self, good: list[tuple[_Asked, int]], deadline: float | None
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Vectors of the ideas, and which have one; the others' items say what failed."""
        vectors = np.zeros((len(good), self._pool.vectors.shape[1]), np.float32)
        done = np.zeros(len(good), bool)
        pairs = [(item.texts[at].head, item.texts[at].body) for item, at in good]
        step = max(len(pairs), 1) if deadline is None else _STEP
        for start in range(0, len(pairs), step):
            some = range(start, min(start + step, len(pairs)))
            if deadline is not None and time.monotonic() > deadline:
                for place in some:
                    good[place][0].failure = too_late()
                continue
            self._encode_some(pairs, some, good, vectors, done)
        return vectors, done

    def _encode_some(
        self,
        pairs: list[tuple[str, str]],
        some: range,
        good: list[tuple[_Asked, int]],
        vectors: NDArray[np.float32],
        done: NDArray[np.bool_],
    ) -> None:
        texts = [pairs[place] for place in some]
        try:
            vectors[some.start : some.stop] = encode_texts(
                self._encoder, texts, self._scorer.cache
            ).vectors
            done[some.start : some.stop] = True
        except EncoderError as error:
            if len(some) > 1 and isinstance(error.__cause__, TextError):
                for place in some:  # one text fails, not all of them
                    one = range(place, place + 1)
                    self._encode_some(pairs, one, good, vectors, done)
                return
            for place in some:
                good[place][0].failure = failed(error)

    def _match(
        self,
        good: list[tuple[_Asked, int]],
        vectors: NDArray[np.float32],
        encoded: NDArray[np.bool_],
    ) -> None:
        groups: dict[tuple[str | None, str | None, bool], list[int]] = {}
        for place in np.flatnonzero(encoded).tolist():
            request = good[place][0].request
            group = (request.topic, request.cutoff, bool(request.exclude_ids))
            groups.setdefault(group, []).append(place)
        for (topic, cutoff, _), places in groups.items():
            items = [good[place][0] for place in places]
            try:
                parts = self._parts(items, vectors[places], topic, cutoff)
            except HindsightError as error:
                for item in items:
                    item.failure = failed(error)
                continue
            for place, part in zip(places, parts, strict=True):
                item, at = good[place]
                item.parts.append(self._checked(item, item.texts[at], part))

    def _parts(
        self,
        items: list[_Asked],
        vectors: NDArray[np.float32],
        topic: str | None,
        cutoff: str | None,
    ) -> list[RewardResult]:
        """Results of single ideas that are limited to the same topic and window."""
        pool, scorer, config = self._pool, self._scorer, self._scorer.config
        is_limited = bool(topic or cutoff or items[0].request.exclude_ids)
        if is_limited:
            chosen = self._selections.of(topic, cutoff)
            matches = self._limited(items, vectors, chosen.impact)
            n_papers = chosen.n_papers
        else:
            matches, n_papers = scorer.match_vectors(vectors), pool.n_papers
        rewards = shaped(
            self._config.shaping,
            matches,
            pool.impact,
            theta=config.theta,
            softness=self._config.softness,
            least=self._least,
        )
        on_topic: list[float | None] = [None] * len(items)
        if topic is not None:
            near = scorer.match_vectors(vectors).rows
            has = self._selections.have(topic)[near] & (near >= 0)
            on_topic = list((has.sum(axis=1) / np.maximum((near >= 0).sum(axis=1), 1)).tolist())
        best, nearest = _names(pool, matches.best_rows), _names(pool, matches.rows[:, 0])
        signature = self._limited_signature if is_limited else self.signature
        status = "ok" if n_papers else "no_papers"
        return [
            RewardResult(
                reward=float(rewards[i]),
                score=float(matches.scores[i]),
                status=status,
                signature=signature,
                similarity=_finite(matches.similarities[i, 0]),
                margin=_finite(matches.similarities[i, 0] - np.float32(config.theta)),
                matched=bool(matches.n_matches[i] > 0),
                n_matches=int(matches.n_matches[i]),
                impact=float(matches.scores[i]),
                best_paper_id=best[i],
                nearest_paper_id=nearest[i],
                on_topic=on_topic[i],
            )
            for i in range(len(items))
        ]

    def _checked(self, item: _Asked, text: IdeaText, part: RewardResult) -> RewardResult:
        """The same with the signs of hacking in its text, and what they take from its reward."""
        whole = f"{text.head}\n{text.body}"
        words = _checks.words_of(whole)
        signs = no_signs()
        signs["keyword_list"] = _checks.keyword_list(words)
        signs["repetition"] = _checks.repetition(whole, words)
        signs["injection"] = _checks.injection(whole)
        signs["several"] = float(len(item.found.ideas) > 1)
        signs["long"] = float(item.found.cut or text.cut)
        if part.matched:
            papers = {name for name in (part.best_paper_id, part.nearest_paper_id) if name}
            signs["near_copy"] = max(
                _checks.near_copy(words, self._text_of(name)) for name in papers
            )
        kept = math.prod(1 - share * signs[name] for name, share in self._config.penalties.items())
        reward = part.reward or 0.0
        return replace(part, signs=signs, reward=reward * kept if reward > 0 else reward)

    def _text_of(self, paper_id: str) -> str:
        """Title and abstract of a paper of the pool."""
        if (known := self._papers.get(paper_id)) is None:
            row = int(self._selections.rows([paper_id])[0]) + self._pool.offset
            title, abstract = self._pool.store.papers(["title", "abstract"], row, row + 1).row(0)
            known = self._papers[paper_id] = f"{title}. {abstract or ''}"
            if len(self._papers) > _PAPERS:
                self._papers.popitem(last=False)
        return known

    def _limited(
        self, items: list[_Asked], vectors: NDArray[np.float32], impact: NDArray[np.float32]
    ) -> Matches:
        """The nearest of the papers that count, exactly, but for those that a request excludes."""
        pool, config, threads = self._pool, self._scorer.config, self._scorer.threads
        excluded = [self._selections.rows(item.request.exclude_ids) for item in items]
        more = max(len(rows) for rows in excluded)
        with damage(pool):
            candidates = scan_on_cpu(pool, vectors, impact, config.k + more, threads=threads)
            for row, out in zip(candidates, excluded, strict=True):
                row[np.isin(row, out)] = -1
            return match(
                vectors, pool.vectors, impact, candidates, config.k, config.theta, threads=threads
            )

    def _joined(self, item: _Asked) -> Outcome:
        """The result of an item from those of its ideas."""
        if item.failure is not None:
            return item.failure
        n, cut = len(item.found.ideas), item.found.cut or any(text.cut for text in item.texts)
        invalid = self._config.invalid_value
        if not item.parts:
            status = item.texts[0].status if item.texts else item.status
            return RewardResult(invalid, None, status, self.signature, n_ideas=n, truncated=cut)
        best = max(item.parts, key=lambda part: (part.score or 0.0, part.similarity or -1.0))
        reward, score = best.reward, best.score
        if len(item.texts) > 1:
            missing = len(item.texts) - len(item.parts)
            rewards = [part.reward or 0.0 for part in item.parts] + [invalid] * missing
            reward = float(np.mean(rewards))
            score = float(np.mean([part.score or 0.0 for part in item.parts] + [0.0] * missing))
        return replace(best, reward=reward, score=score, n_ideas=n, truncated=cut)


def _names(pool: Pool, rows: NDArray[np.int32]) -> list[str | None]:
    """Ids of papers by row; None for -1."""
    found = np.flatnonzero(rows >= 0)
    names: list[str | None] = [None] * len(rows)
    ids = pool.store.lookup(rows[found].astype(np.int64) + pool.offset, ["id"])["id"].to_list()
    for place, name in zip(found.tolist(), ids, strict=True):
        names[place] = name
    return names


def _finite(value: np.float32) -> float | None:
    return float(value) if np.isfinite(value) else None


def failed(error: Exception) -> Failure:
    """What an error makes of a request."""
    return Failure("timeout" if isinstance(error, TimeoutError) else "error", error)


def too_late() -> Failure:
    """What the clock makes of one."""
    return failed(TimeoutError("the time that a call may take was over"))
