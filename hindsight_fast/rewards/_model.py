"""The reward model: requests in, results out; the same request earns the same in any batch."""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from pathlib import Path

from hindsight_fast.encoders import load_encoder
from hindsight_fast.encoding import VectorCache
from hindsight_fast.errors import UsageError
from hindsight_fast.meeting import TextEncoder
from hindsight_fast.pool import Pool
from hindsight_fast.rewards._answering import Answering, Outcome, failed, too_late
from hindsight_fast.rewards._batcher import Batcher
from hindsight_fast.rewards._completions import answer_of
from hindsight_fast.rewards._config import RewardConfig
from hindsight_fast.rewards._request import Request, RewardResult
from hindsight_fast.scoring import Scorer, refuse_forked_child

_Key = tuple[bytes, str | None, str | None, tuple[str, ...]]


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
        scorer = Scorer(
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
        self._answering = Answering(scorer, encoder, self.config)
        self.signature = self._answering.signature
        self._working, self._remembering = threading.Lock(), threading.Lock()
        self._known: OrderedDict[_Key, RewardResult] = OrderedDict()
        self._batcher: Batcher[Request, Outcome] = Batcher(self._outcomes)

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
        asked = request if isinstance(request, Request) else Request(request)
        if (outcome := self._at_once(asked)) is None:
            try:
                outcome = self._batcher.ask(asked, self.config.timeout_s)
            except TimeoutError:
                outcome = too_late()
        return self._by_policy(outcome)

    async def reward_async(self, request: Request | str) -> RewardResult:
        """`reward` for a task of an event loop, which goes on meanwhile."""
        asked = request if isinstance(request, Request) else Request(request)
        if (outcome := self._at_once(asked)) is None:
            try:
                outcome = await self._batcher.ask_async(asked, self.config.timeout_s)
            except TimeoutError:
                outcome = too_late()
        return self._by_policy(outcome)

    def close(self) -> None:
        """Answer what was asked by `reward` so far, and take no more there."""
        self._batcher.close()

    def _at_once(self, asked: Request) -> Outcome | None:
        """What needs no work: what is known, and that the child of a fork can't answer."""
        try:
            refuse_forked_child()  # no lock and no thread of the parent's may be waited for
        except UsageError as error:
            return failed(error)
        return self._recall(_key(asked, answer_of(asked.completion, asked.prompt)))

    def _by_policy(self, outcome: Outcome) -> RewardResult:
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

    def _outcomes(self, asked: Sequence[Request]) -> list[Outcome]:
        """What each earns, or why it earns nothing; equal requests are answered once."""
        try:
            refuse_forked_child()
        except UsageError as error:
            return [failed(error) for _ in asked]
        limit = self.config.timeout_s
        deadline = None if limit is None else time.monotonic() + limit
        answers = [answer_of(one.completion, one.prompt) for one in asked]
        keys = [_key(one, answer) for one, answer in zip(asked, answers, strict=True)]
        outcomes: dict[_Key, Outcome] = {}
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

    def _remember(self, outcomes: dict[_Key, Outcome]) -> None:
        with self._remembering:
            for key, outcome in outcomes.items():
                if isinstance(outcome, RewardResult):
                    self._known[key] = outcome
            while len(self._known) > self.config.remembered:
                self._known.popitem(last=False)

    def _answered(
        self, new: list[tuple[Request, str | None]], deadline: float | None
    ) -> list[Outcome]:
        left = -1 if deadline is None else max(deadline - time.monotonic(), 0)
        if not self._working.acquire(timeout=left):
            return [too_late() for _ in new]
        try:
            return self._answering.answer(new, deadline)
        except Exception as error:  # whatever it is, a training loop goes on
            return [failed(error) for _ in new]
        finally:
            self._working.release()


def _key(request: Request, answer: str | None) -> _Key:
    text = b"none" if answer is None else b"text" + answer.encode("utf-8")
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return digest, request.topic, request.cutoff, request.exclude_ids
