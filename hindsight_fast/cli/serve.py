"""Rewards over HTTP: serve."""

import asyncio
import ipaddress
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Device, Threads
from hindsight_fast.cli.score import Cache, Encoder, K, PoolPath, StorePath, Theta

if TYPE_CHECKING:
    from fastapi import FastAPI

    Reload = Callable[[FastAPI], Awaitable[None]]

TOKEN: Final = "HINDSIGHT_TOKEN"

_DRAIN_S = 60  # in which calls under way are answered after SIGTERM


def serve(
    pool: PoolPath,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="0 takes a free one.", min=0, max=65_535)
    ] = 8000,
    theta: Theta = None,
    k: K = None,
    shaping: Annotated[
        str, typer.Option("--shaping", help="published, tie_breaker or soft_threshold.")
    ] = "published",
    several: Annotated[
        str, typer.Option("--several", help="Of several ideas in a text: first, mean or reject.")
    ] = "first",
    penalty: Annotated[
        list[str] | None,
        typer.Option(
            "--penalty",
            help="NAME=SHARE: what a sign of hacking takes, near_copy=1 say; may be repeated.",
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Seconds that a call may take.")
    ] = None,
    store: StorePath = None,
    encoder: Encoder = None,
    device: Device = "auto",
    cache: Cache = None,
    threads: Threads = None,
) -> None:
    """Answer completions with rewards over HTTP, for training loops.

    Each call must bring the token that the environment variable HINDSIGHT_TOKEN holds; without it
    only this machine can call. SIGHUP opens the pool anew, SIGTERM ends after the calls under way.

    Example: hindsight-fast serve --pool pool --port 8000
    """
    from hindsight_fast.errors import UsageError

    token = os.environ.get(TOKEN) or None
    if token is None and not _is_loopback(host):
        raise UsageError(
            f"--host {host} can be reached from other machines: set {TOKEN} to a secret first"
        )
    try:
        from hindsight_fast.rewards.service import make_app, reload
    except ModuleNotFoundError as error:
        raise UsageError(
            f"serve needs {error.name}: pip install 'hindsight-fast[serve]'"
        ) from error
    from hindsight_fast.rewards import RewardConfig, RewardModel

    config = RewardConfig(
        k=k,
        theta=theta,
        shaping=shaping,
        several=several,
        penalties=dict(_penalty(one) for one in penalty or []),
        timeout_s=timeout,
    )

    def opened() -> RewardModel:
        return RewardModel.open(
            pool,
            config,
            store=store,
            encoder=encoder,
            device=device,
            threads=console.threads_to_use(threads),
            cache=cache,
        )

    first = [opened()]  # what can't be opened is told before anybody calls
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    app = make_app(lambda: first.pop() if first else opened(), token=token)
    asyncio.run(_serve(app, host, port, reload))


async def _serve(app: "FastAPI", host: str, port: int, reload: "Reload") -> None:
    import uvicorn

    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_DRAIN_S,
    )
    server, tasks = uvicorn.Server(config), set[asyncio.Future[None]]()

    def again() -> None:
        task = asyncio.ensure_future(reload(app))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, again)
    serving = asyncio.create_task(server.serve())
    while not (server.started or serving.done()):
        await asyncio.sleep(0.02)
    if server.started:
        address = server.servers[0].sockets[0].getsockname()
        console.note(f"listening on http://{address[0]}:{address[1]}")
    await serving


def _penalty(text: str) -> tuple[str, float]:
    from hindsight_fast.errors import UsageError

    name, _, share = text.partition("=")
    try:
        return name, float(share)
    except ValueError:
        raise UsageError(f"--penalty {text}: NAME=SHARE was expected, near_copy=1 say") from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
