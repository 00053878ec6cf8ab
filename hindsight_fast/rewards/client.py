"""A client of `hindsight-fast serve`, for an event loop."""

import asyncio
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import TracebackType
from typing import Any, Final, cast

import httpx2 as httpx

from hindsight_fast.errors import ServiceError
from hindsight_fast.rewards._request import Request, RewardResult

_AGAIN: Final = (429, 500, 502, 503, 504)
_AT_ONCE: Final = 256  # requests of a call
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0
_NAMES: Final = {one.name for one in fields(RewardResult)}


class RewardClient:
    """Asks a service for rewards; calls may overlap.

    Only what can do no harm twice is tried again, and a reward is a function of its request, so all
    is: refused and lost connections, time-outs, and answers 429 and 5xx, with pauses that double.

    Parameters
    ----------
    url
        Of the service.
    token
        What it wants to see.
    concurrency
        Calls under way at most.
    timeout_s, tries
        Seconds of a call, and calls at most.
    low, high
        Rewards outside are no rewards of this service.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        concurrency: int = 64,
        timeout_s: float = 60.0,
        tries: int = 6,
        low: float = -1.0,
        high: float = 1.0,
    ) -> None:
        self._tries, self._low, self._high = tries, low, high
        self._room = asyncio.Semaphore(concurrency)
        self._client = httpx.AsyncClient(
            base_url=url,
            headers={} if token is None else {"authorization": f"Bearer {token}"},
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=concurrency),
        )

    async def __aenter__(self) -> "RewardClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def rewards(self, requests: Sequence[Request | str]) -> list[RewardResult]:
        """Answer requests, or texts, in their order.

        Raises
        ------
        ServiceError
            The service refuses them, stays away, or answers what can't be an answer.
        """
        asked = [one if isinstance(one, Request) else Request(one) for one in requests]
        parts = [asked[i : i + _AT_ONCE] for i in range(0, len(asked), _AT_ONCE)]
        found = await asyncio.gather(*(self._answered(part) for part in parts))
        return [one for part in found for one in part]

    async def _answered(self, asked: list[Request]) -> list[RewardResult]:
        body = {"requests": [_as_json(one) for one in asked]}
        answer = await self._called(body)
        try:
            results = [self._read(one) for one in answer.json()["results"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ServiceError(f"the answer is none of this service: {error}") from error
        if len(results) != len(asked):
            raise ServiceError(f"{len(asked)} requests have {len(results)} results")
        return results

    async def _called(self, body: Mapping[str, Any]) -> httpx.Response:
        pause, why = _FIRST_PAUSE_S, ""
        for attempt in range(self._tries):
            if attempt:
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            try:
                async with self._room:
                    answer = await self._client.post("/rewards", json=body)
            except httpx.TransportError as error:
                why = f"{type(error).__name__}: {error}"
                continue
            if answer.status_code == 200:
                return answer
            why = f"{answer.status_code}: {answer.text[:300]}"
            if answer.status_code not in _AGAIN:
                break
            pause = max(pause, _seconds(answer.headers.get("retry-after", "")))
        raise ServiceError(f"{self._client.base_url}: no rewards: {why}")

    def _read(self, raw: object) -> RewardResult:
        known = cast(dict[str, Any], raw)
        result = RewardResult(**{name: known[name] for name in known if name in _NAMES})
        for value in cast(tuple[object, ...], (result.reward, result.score)):
            if value is not None and not (
                isinstance(value, int | float)
                and math.isfinite(value)
                and self._low <= value <= self._high
            ):
                raise ValueError(f"{value!r} is no reward from {self._low:g} to {self._high:g}")
        return result


def _as_json(one: Request) -> dict[str, Any]:
    known = {
        "completion": one.completion,
        "prompt": one.prompt,
        "prompt_id": one.prompt_id,
        "topic": one.topic,
        "cutoff": one.cutoff,
        "exclude_ids": list(one.exclude_ids),
    }
    return {name: value for name, value in known.items() if name == "completion" or value}


def _seconds(text: str) -> float:
    return float(text) if text.isdigit() else 0.0
