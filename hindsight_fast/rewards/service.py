"""The reward model over HTTP, for trainers in other processes and on other machines.

POST /rewards         our own form: requests in, results out
POST /openrlhf        {"query": [...], "prompts": [...], "labels": [...]}
POST /slime           {"prompt": ..., "response": ..., "label": ...}
GET  /health          the process lives;  /ready: it answers;  /metrics: Prometheus;  /openapi.json

Requests of all connections are joined in batches. One that finds no room among those that wait is
sent away with 429 and Retry-After; none is answered by half.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, cast

import prometheus_client as prometheus
from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field

from hindsight_fast import rewards
from hindsight_fast.rewards._batcher import Closed
from hindsight_fast.rewards._door import Door, Numbers
from hindsight_fast.rewards._model import RewardModel
from hindsight_fast.rewards._request import RewardResult
from hindsight_fast.rewards.openrlhf import limits_of
from hindsight_fast.version import __version__

MOST: Final = 1024
"""Requests of one call."""


WAITING: Final = 4096
"""Requests that may be under way; more are sent away."""

_RETRY_S = "1"
_log = logging.getLogger("hindsight_fast.service")

Completion = str | dict[str, Any] | list[Any] | None


class Asked(BaseModel):
    """A completion to be rewarded, and what its prompt limits the papers to."""

    model_config = ConfigDict(extra="forbid")

    completion: Annotated[
        Completion, Field(description="A text, a message, a list of messages, or null.")
    ]
    prompt: Annotated[Completion, Field(description="What a text may begin with; cut off.")] = None
    prompt_id: str | None = None
    topic: Annotated[str | None, Field(description="Only papers of this topic.")] = None
    cutoff: Annotated[str | None, Field(description="Only papers dated from this day on.")] = None
    exclude_ids: Annotated[list[str], Field(max_length=MOST)] = []

    def request(self) -> rewards.Request:
        """The same for the model."""
        return rewards.Request(
            self.completion,
            self.prompt,
            self.prompt_id,
            self.topic or None,
            self.cutoff or None,
            tuple(self.exclude_ids),
        )


class Batch(BaseModel):
    """Completions to be rewarded."""

    model_config = ConfigDict(extra="forbid")

    requests: Annotated[list[Asked], Field(max_length=MOST)]


class Result(BaseModel):
    """What a completion earned, and why; see `RewardResult`."""

    reward: float | None
    score: float | None
    status: str
    signature: str
    similarity: float | None
    margin: float | None
    matched: bool
    n_matches: int
    impact: float
    best_paper_id: str | None
    nearest_paper_id: str | None
    on_topic: float | None
    signs: dict[str, float]
    n_ideas: int
    truncated: bool
    error: str


class Results(BaseModel):
    """Results in the order of the requests."""

    results: list[Result]
    signature: Annotated[str, Field(description="How scores without limits are made.")]
    request_id: str


class Queries(BaseModel):
    """What OpenRLHF sends."""

    query: Annotated[list[str], Field(max_length=MOST)]
    prompts: Annotated[list[str], Field(max_length=MOST)]
    labels: Annotated[list[Any], Field(max_length=MOST)]


class Rewards(BaseModel):
    """What OpenRLHF takes."""

    rewards: list[float]
    scores: list[float]
    extra_logs: dict[str, list[float]]


class SlimeSample(BaseModel):
    """What slime's remote_rm sends."""

    prompt: Completion = None
    response: str
    label: Any = None


class Told(BaseModel):
    """Why there is no answer."""

    detail: Any


@dataclass(slots=True)
class _Serving:
    """What all calls share."""

    open_model: Callable[[], RewardModel]
    model: RewardModel | None = None
    n_waiting: int = 0


def make_app(open_model: Callable[[], RewardModel], *, token: str | None = None) -> FastAPI:
    """An ASGI application.

    Parameters
    ----------
    open_model
        Opens the model, in a thread, when the application starts and at each `reload`.
    token
        What calls must bring as ``Authorization: Bearer``, but for /health.
    """
    serving, numbers = _Serving(open_model), Numbers()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        opening = asyncio.create_task(_reopen(serving))
        yield
        opening.cancel()
        if serving.model is not None:
            await asyncio.to_thread(serving.model.close)

    app = FastAPI(
        title="hindsight_fast rewards",
        version=__version__,
        description="Rewards of research ideas by the impact of the later papers they anticipated.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses={code: {"model": Told} for code in (400, 401, 413, 422, 429, 503)},
    )
    app.state.serving = serving
    app.add_exception_handler(RequestValidationError, _unusable)
    app.include_router(_routes(serving, numbers))
    app.add_middleware(Door, token=token, numbers=numbers)
    return app


async def _unusable(_: Request, error: Exception) -> Response:
    """Say what is wrong with a body, but not what it is: that need not be text that can be sent."""
    found: Sequence[Mapping[str, Any]] = []
    if isinstance(error, RequestValidationError):
        found = error.errors()
    detail = [{"loc": list(map(str, one["loc"])), "msg": str(one["msg"])} for one in found]
    return Response(json.dumps({"detail": detail}), 422, media_type="application/json")


async def reload(app: FastAPI) -> None:
    """Open the model anew; the old one answers until it is there, and what it was asked before."""
    await _reopen(cast(_Serving, app.state.serving))


async def _reopen(serving: _Serving) -> None:
    try:
        new = await asyncio.to_thread(serving.open_model)
    except Exception:
        if serving.model is None:
            _log.exception("the pool can't be opened")
        else:
            _log.exception("the pool can't be opened again; the one that is open goes on serving")
        return
    old, serving.model = serving.model, new
    _log.info(json.dumps({"event": "ready", "signature": new.signature}))
    if old is not None:  # answers what it was asked before
        await asyncio.to_thread(old.close)


def _routes(serving: _Serving, numbers: Numbers) -> APIRouter:
    router = APIRouter()

    async def by_model(asked: list[rewards.Request]) -> tuple[RewardModel, list[RewardResult]]:
        while (model := serving.model) is not None:
            try:
                return model, await asyncio.gather(*(model.reward_async(one) for one in asked))
            except Closed:
                if model is serving.model:  # the service ends
                    break
        raise HTTPException(503, "not ready", {"Retry-After": _RETRY_S})

    async def answered(asked: list[rewards.Request]) -> tuple[RewardModel, list[RewardResult]]:
        if serving.n_waiting + len(asked) > WAITING:
            raise HTTPException(429, "too many requests wait", {"Retry-After": _RETRY_S})
        serving.n_waiting += len(asked)
        numbers.waiting.set(serving.n_waiting)
        try:
            model, found = await by_model(asked)
        finally:
            serving.n_waiting -= len(asked)
            numbers.waiting.set(serving.n_waiting)
        for one in found:
            numbers.answered.labels(one.status).inc()
        return model, found

    def number(result: RewardResult) -> float:
        if result.reward is None:
            raise HTTPException(
                503, f"no reward: {result.status}: {result.error}", {"Retry-After": _RETRY_S}
            )
        return result.reward

    @router.post("/rewards")
    async def rewards_of(batch: Batch, request: Request) -> Results:
        """Rewards of completions, with what they come from."""
        model, found = await answered([one.request() for one in batch.requests])
        return Results(
            results=[Result(**asdict(one)) for one in found],
            signature=model.signature,
            request_id=request.state.request_id,
        )

    @router.post("/openrlhf")
    async def openrlhf(queries: Queries) -> Rewards:
        """Rewards in the form that OpenRLHF's --reward.remote_url wants."""
        if not len(queries.query) == len(queries.prompts) == len(queries.labels):
            raise HTTPException(422, "query, prompts and labels have different lengths")
        asked = [
            rewards.Request.of(query, prompt, limits_of(label))
            for query, prompt, label in zip(
                queries.query, queries.prompts, queries.labels, strict=True
            )
        ]
        _, found = await answered(asked)
        values = [number(one) for one in found]
        parts = [one.components() for one in found]
        names = parts[0] if parts else {}
        logs = {f"hindsight_{name}": [one[name] for one in parts] for name in names}
        return Rewards(rewards=values, scores=values, extra_logs=logs)

    @router.post("/slime")
    async def slime(sample: SlimeSample) -> float:
        """The reward that slime's --rm-type remote_rm wants."""
        asked = rewards.Request.of(sample.response, sample.prompt, limits_of(sample.label))
        return number((await answered([asked]))[1][0])

    @router.get("/health")
    async def health() -> dict[str, str]:
        """The process lives."""
        return {"status": "ok"}

    @router.get("/ready")
    async def ready() -> dict[str, str]:
        """The pool and the encoder are open."""
        if serving.model is None:
            raise HTTPException(503, "not ready yet", {"Retry-After": _RETRY_S})
        return {"status": "ready", "signature": serving.model.signature}

    @router.get("/metrics")
    async def metrics() -> Response:
        """Counts and times for Prometheus."""
        return Response(
            prometheus.generate_latest(numbers.registry), media_type=prometheus.CONTENT_TYPE_LATEST
        )

    return router
