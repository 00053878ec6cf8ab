"""The service's door: who may come in with how much; ids, lines in the log, numbers."""

import hmac
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, cast

import prometheus_client as prometheus
from starlette.responses import JSONResponse

BODY: Final = 32 << 20
"""Bytes of one call."""

_log = logging.getLogger("hindsight_fast.service")

_PATHS: Final = (
    "/rewards", "/openrlhf", "/slime", "/health", "/ready", "/metrics", "/openapi.json",
)  # fmt: skip


class Numbers:
    """What Prometheus is told."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        self.answered = prometheus.Counter(
            "hindsight_rewards_total", "Rewards by status", ["status"], registry=self.registry
        )
        self.calls = prometheus.Counter(
            "hindsight_calls_total", "Calls by path and code", ["path", "code"],
            registry=self.registry,
        )  # fmt: skip
        self.seconds = prometheus.Histogram(
            "hindsight_call_seconds", "Seconds of a call", ["path"], registry=self.registry
        )
        self.waiting = prometheus.Gauge(
            "hindsight_requests_waiting", "Requests under way", registry=self.registry
        )


_Scope = MutableMapping[str, Any]
_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


class _TooLarge(Exception):
    pass


class Door:
    """ASGI middleware.

    Parameters
    ----------
    token
        What calls must bring, but for /health; None: nothing.
    """

    def __init__(self, app: Any, token: str | None, numbers: Numbers) -> None:
        self._app, self._token, self._numbers = app, token, numbers

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, code, n_bytes = time.perf_counter(), 500, 0
        headers = dict(cast(list[tuple[bytes, bytes]], scope["headers"]))
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        is_started = False

        async def limited() -> _Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > BODY:
                raise _TooLarge
            return message

        async def told(message: _Message) -> None:
            nonlocal code, is_started
            if message["type"] == "http.response.start":
                code, is_started = message["status"], True
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        async def refuse(status: int, detail: str) -> None:
            await JSONResponse({"detail": detail}, status)(scope, receive, told)

        try:
            length = headers.get(b"content-length", b"0")
            if not self._may_enter(scope["path"], headers):
                await refuse(401, "a token is needed: Authorization: Bearer ...")
            elif length.isdigit() and int(length) > BODY:
                await refuse(413, f"a call may have {BODY:,} bytes")
            else:
                try:
                    await self._app(scope, limited, told)
                except _TooLarge:
                    if is_started:
                        raise
                    await refuse(413, f"a call may have {BODY:,} bytes")
        finally:
            self._tell(scope["path"], code, time.perf_counter() - began, request_id)

    def _may_enter(self, path: str, headers: Mapping[bytes, bytes]) -> bool:
        token = self._token
        if token is None or path == "/health":
            return True
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), token.encode())

    def _tell(self, path: str, code: int, seconds: float, request_id: str) -> None:
        known = path if path in _PATHS else "other"
        self._numbers.calls.labels(known, str(code)).inc()
        self._numbers.seconds.labels(known).observe(seconds)
        _log.info(
            json.dumps(
                {"event": "call", "id": request_id, "path": known, "code": code,
                 "ms": round(1000 * seconds, 1)}
            )
        )  # fmt: skip
