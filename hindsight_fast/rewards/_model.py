"""The reward model: requests in, results out; the same request earns the same in any batch."""

import hashlib
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.encoders import load_encoder
from hindsight_fast.encoding import VectorCache, encode_texts
from hindsight_fast.errors import EncoderError, HindsightError
from hindsight_fast.idea_text import IdeaText, idea_texts
from hindsight_fast.ideas import TEXT_FIELDS
from hindsight_fast.meeting import TextEncoder
from hindsight_fast.pool import Pool, damage
from hindsight_fast.rewards import _checks
from hindsight_fast.rewards._batcher import Batcher
from hindsight_fast.rewards._completions import Found, answer_of, find_ideas
from hindsight_fast.rewards._config import RewardConfig
from hindsight_fast.rewards._request import Request, RewardResult, no_signs
from hindsight_fast.rewards._selection import Selections
from hindsight_fast.rewards._shaping import shaped
from hindsight_fast.scanning import scan_on_cpu
from hindsight_fast.scoring import Scorer, refuse_forked_child
from hindsight_kernels import Matches, match
from hindsight_models import TextError

_STEP: Final = 32  # texts encoded between two looks at the clock
_PAPERS: Final = 10_000  # whose texts are kept in memory


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a request can't be answered; it may be tried again."""

    status: str
    error: Exception


_Outcome = RewardResult | _Failure
_Key = tuple[bytes, str | None, str | None, tuple[str, ...]]


@dataclass(slots=True)
class _Asked:
    """A request under way: the ideas found in it, and what became of each."""

    request: Request
    found: Found
    status: str
    texts: list[IdeaText]
    parts: list[RewardResult]
    failure: _Failure | None = None


class RewardModel:
    """Rewards of completions, by the impact of the best later paper that their idea anticipated.

    Safe with several threads and event loops. In the child of a fork it answers no request: start
    workers by "spawn", or make it there.

    Parameters
    ----------
    pool
        The papers, opened.
    encoder
        The encoder that the pool's vectors come from.
    config
        Settings; the defaults without.
    threads, cache, allow, scan_device
        As in `Scorer`.

    Attributes
    ----------
    pool, encoder, config
    signature : str
        How the score of a request is made that is limited to nothing.

    Raises
    ------
    EncoderError, ArtefactError, UsageError
        As `Scorer` does.
    """

    def __init__(
        self,
        pool: Pool,
        encoder: TextEncoder,
        config: RewardConfig | None = None,
        *,
        threads: int | None = None,
        cache: VectorCache | None = None,
        allow: Collection[str] = (),
        scan_device: str = "auto",
    ) -> None:
        self.pool, self.encoder = pool, encoder
        self.config = config or RewardConfig()
        self._scorer = Scorer(
            pool,
            encoder,
            k=self.config.k,
            theta=self.config.theta,
            search=self.config.search,
            threads=threads,
            cache=cache,
            allow=allow,
            scan_device=scan_device,
        )
        self.signature = self._signed(self._scorer.signature)
        self._limited_signature = self._signed(
            pool.signature(
                self._scorer.config.k, self._scorer.config.theta, "exact", encoder.precision
            )
        )
        above = pool.impact[pool.impact > 0]
        self._least = float(above.min()) if len(above) else 0.0
        self._selections = Selections(pool)
        self._working, self._remembering = threading.Lock(), threading.Lock()
        self._known: OrderedDict[_Key, RewardResult] = OrderedDict()
        self._papers: OrderedDict[str, str] = OrderedDict()
        self._batcher: Batcher[Request, _Outcome] = Batcher(self._outcomes)

    @classmethod
    def open(
        cls,
        pool: str | Path,
        config: RewardConfig | None = None,
        *,
        store: str | Path | None = None,
        encoder: str | None = None,
        device: str = "auto",
        threads: int | None = None,
        cache: str | Path | None = None,
    ) -> "RewardModel":
        """Open a pool's folder, and its encoder by the pool's own name for it or another.

        Raises
        ------
        HindsightError
            As `Pool.open`, `load_encoder` and `VectorCache` do.
        """
        opened = Pool.open(pool, store)
        loaded = load_encoder(encoder or opened.encoder, device=device, threads=threads)
        kept = None if cache is None else VectorCache(cache)
        return cls(opened, loaded, config, threads=threads, cache=kept)

    def rewards(self, requests: Sequence[Request | str]) -> list[RewardResult]:
        """Answer requests, or texts, in their order.

        Raises
        ------
        Exception
            What kept one from being answered, the first of them, if `config.errors` is "raise".
        """
        asked = [one if isinstance(one, Request) else Request(one) for one in requests]
        return [self._by_policy(one) for one in self._outcomes(asked)]

    def reward(self, request: Request | str) -> RewardResult:
        """Answer one request, together with those of other threads that come meanwhile.

        Raises
        ------
        Exception
            As `rewards` does.
        """
        asked, known = self._asked(request)
        if known is not None:
            return known
        try:
            return self._by_policy(self._batcher.ask(asked, self.config.timeout_s))
        except TimeoutError:
            return self._by_policy(_too_late())

    async def reward_async(self, request: Request | str) -> RewardResult:
        """Answer one request, together with those of other tasks that come meanwhile.

        Raises
        ------
        Exception
            As `rewards` does.
        """
        asked, known = self._asked(request)
        if known is not None:
            return known
        try:
            return self._by_policy(await self._batcher.ask_async(asked, self.config.timeout_s))
        except TimeoutError:
            return self._by_policy(_too_late())

    def close(self) -> None:
        """Answer what was asked by `reward` so far, and take no more there."""
        self._batcher.close()

    def _asked(self, request: Request | str) -> tuple[Request, RewardResult | None]:
        asked = request if isinstance(request, Request) else Request(request)
        return asked, self._recall(_key(asked, answer_of(asked.completion, asked.prompt)))

    def _signed(self, line: str) -> str:
        shape = self.config.shaping
        return line if shape == "published" else f"{line} shaping={shape}"

    def _by_policy(self, outcome: _Outcome) -> RewardResult:
        if isinstance(outcome, RewardResult):
            return outcome
        if self.config.errors == "raise":
            raise outcome.error
        reward = self.config.error_value if self.config.errors == "value" else None
        why = f"{type(outcome.error).__name__}: {outcome.error}"[:500]
        return RewardResult(reward, None, outcome.status, self.signature, error=why)

    def _recall(self, key: _Key) -> RewardResult | None:
        with self._remembering:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
        return known

    def _outcomes(self, asked: Sequence[Request]) -> list[_Outcome]:
        """What each earns, or why it earns nothing; equal requests are answered once."""
        refuse_forked_child()
        limit = self.config.timeout_s
        deadline = None if limit is None else time.monotonic() + limit
        answers = [answer_of(one.completion, one.prompt) for one in asked]
        keys = [_key(one, answer) for one, answer in zip(asked, answers, strict=True)]
        outcomes: dict[_Key, _Outcome] = {}
        unknown: dict[_Key, int] = {}
        for place, key in enumerate(keys):
            if key in outcomes or key in unknown:
                continue
            if (known := self._recall(key)) is None:
                unknown[key] = place
            else:
                outcomes[key] = known
        if unknown:
            new = [(asked[place], answers[place]) for place in unknown.values()]
            outcomes |= zip(unknown, self._answered(new, deadline), strict=True)
            self._remember({key: outcomes[key] for key in unknown})
        return [outcomes[key] for key in keys]

    def _remember(self, outcomes: dict[_Key, _Outcome]) -> None:
        with self._remembering:
            for key, outcome in outcomes.items():
                if isinstance(outcome, RewardResult):
                    self._known[key] = outcome
            while len(self._known) > self.config.remembered:
                self._known.popitem(last=False)

    def _answered(
        self, new: list[tuple[Request, str | None]], deadline: float | None
    ) -> list[_Outcome]:
        left = -1 if deadline is None else max(deadline - time.monotonic(), 0)
        if not self._working.acquire(timeout=left):
            return [_too_late() for _ in new]
        try:
            items = [self._read(request, answer) for request, answer in new]
            self._fill_texts(items)
            places = [(item, place) for item in items for place in range(len(item.texts))]
            good = [(item, at) for item, at in places if item.texts[at].status == "ok"]
            vectors, encoded = self._encoded(good, deadline)
            self._match(good, vectors, encoded)
            return [self._joined(item) for item in items]
        except Exception as error:  # whatever it is, a training loop goes on
            return [_failed(error) for _ in new]
        finally:
            self._working.release()

    def _read(self, request: Request, answer: str | None) -> _Asked:
        found = find_ideas(answer, max_chars=self.config.max_chars)
        status = found.status
        if len(found.ideas) > 1 and self.config.several == "reject":
            status = "several"
        return _Asked(request, found, status, [], [])

    def _fill_texts(self, items: list[_Asked]) -> None:
        """Ideas as they are encoded: the first of each, or all whose mean is wanted."""
        wanted = None if self.config.several == "mean" else 1
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
        vectors = np.zeros((len(good), self.pool.vectors.shape[1]), np.float32)
        done = np.zeros(len(good), bool)
        pairs = [(item.texts[at].head, item.texts[at].body) for item, at in good]
        step = max(len(pairs), 1) if deadline is None else _STEP
        for start in range(0, len(pairs), step):
            some = range(start, min(start + step, len(pairs)))
            if deadline is not None and time.monotonic() > deadline:
                for place in some:
                    good[place][0].failure = _too_late()
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
                self.encoder, texts, self._scorer.cache
            ).vectors
            done[some.start : some.stop] = True
        except EncoderError as error:
            if len(some) > 1 and isinstance(error.__cause__, TextError):
                for place in some:  # one text fails, not all of them
                    one = range(place, place + 1)
                    self._encode_some(pairs, one, good, vectors, done)
                return
            for place in some:
                good[place][0].failure = _failed(error)

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
                    item.failure = _failed(error)
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
        pool, scorer, config = self.pool, self._scorer, self._scorer.config
        is_limited = bool(topic or cutoff or items[0].request.exclude_ids)
        if is_limited:
            chosen = self._selections.of(topic, cutoff)
            matches = self._limited(items, vectors, chosen.impact)
            n_papers = chosen.n_papers
        else:
            matches, n_papers = scorer.match_vectors(vectors), pool.n_papers
        rewards = shaped(
            self.config.shaping,
            matches,
            pool.impact,
            theta=config.theta,
            softness=self.config.softness,
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
        kept = math.prod(1 - share * signs[name] for name, share in self.config.penalties.items())
        reward = part.reward or 0.0
        return replace(part, signs=signs, reward=reward * kept if reward > 0 else reward)

    def _text_of(self, paper_id: str) -> str:
        """Title and abstract of a paper of the pool."""
        if (known := self._papers.get(paper_id)) is None:
            row = int(self._selections.rows([paper_id])[0]) + self.pool.offset
            title, abstract = self.pool.store.papers(["title", "abstract"], row, row + 1).row(0)
            known = self._papers[paper_id] = f"{title}. {abstract or ''}"
            if len(self._papers) > _PAPERS:
                self._papers.popitem(last=False)
        return known

    def _limited(
        self, items: list[_Asked], vectors: NDArray[np.float32], impact: NDArray[np.float32]
    ) -> Matches:
        """The nearest of the papers that count, exactly, but for those that a request excludes."""
        pool, config, threads = self.pool, self._scorer.config, self._scorer.threads
        excluded = [self._selections.rows(item.request.exclude_ids) for item in items]
        more = max(len(rows) for rows in excluded)
        with damage(pool):
            candidates = scan_on_cpu(pool, vectors, impact, config.k + more, threads=threads)
            for row, out in zip(candidates, excluded, strict=True):
                row[np.isin(row, out)] = -1
            return match(
                vectors, pool.vectors, impact, candidates, config.k, config.theta, threads=threads
            )

    def _joined(self, item: _Asked) -> _Outcome:
        """The result of an item from those of its ideas."""
        if item.failure is not None:
            return item.failure
        n, cut = len(item.found.ideas), item.found.cut or any(text.cut for text in item.texts)
        invalid = self.config.invalid_value
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


def _key(request: Request, answer: str | None) -> _Key:
    text = b"none" if answer is None else b"text" + answer.encode("utf-8")
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return digest, request.topic, request.cutoff, request.exclude_ids


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


def _failed(error: Exception) -> _Failure:
    return _Failure("timeout" if isinstance(error, TimeoutError) else "error", error)


def _too_late() -> _Failure:
    return _failed(TimeoutError("the time that a call may take was over"))
