"""Single calls that come at about the same time are answered together."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

MOST: Final = 1024
"""Requests that are answered together."""

BOUND: Final = 16_384
"""Requests that may wait; further callers wait until there is room."""

_WINDOW = 0.003  # seconds in which others may join the first that comes
_PAUSE = 0.002  # seconds after which a task looks again whether there is room


class Closed(RuntimeError):
    """No more requests are taken."""


class Batcher(Generic[Asked, Answer]):
    """Joins single calls of threads and tasks into batches, in a thread of its own.

    While a batch is worked on the next one gathers, so under load no time is spent waiting.

    Parameters
    ----------
    work
        Answers a batch, in its order; what it raises is raised to each of the callers.
    """

    def __init__(self, work: Callable[[Sequence[Asked]], Sequence[Answer]]) -> None:
        self._work = work
        self._waiting: queue.Queue[tuple[Asked, Future[Answer]] | None] = queue.Queue(BOUND)
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def ask(self, asked: Asked, timeout: float | None = None) -> Answer:
        """Wait for an answer.

        Raises
        ------
        TimeoutError
            There was none after so many seconds.
        Closed
            The batcher is closed.
        """
        self._start()
        future: Future[Answer] = Future()
        try:
            self._waiting.put((asked, future), timeout=timeout)
        except queue.Full:
            raise TimeoutError("no room among the requests that wait") from None
        return future.result(timeout)

    async def ask_async(self, asked: Asked, timeout: float | None = None) -> Answer:
        """The same for a task of an event loop, which goes on meanwhile."""
        self._start()
        future: Future[Answer] = Future()
        async with asyncio.timeout(timeout):
            while True:
                try:
                    self._waiting.put_nowait((asked, future))
                    break
                except queue.Full:
                    await asyncio.sleep(_PAUSE)
            return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Answer what waits, and take no more."""
        with self._starting:
            self._closed = True
            if self._thread is not None:
                self._waiting.put(None)
                self._thread.join()

    def _start(self) -> None:
        with self._starting:
            if self._closed:
                raise Closed("the reward model was closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, daemon=True, name="rewards")
                self._thread.start()

    def _serve(self) -> None:
        last = False
        while not last:
            batch, last = self._gather()
            asked = [
                (one, future) for one, future in batch if future.set_running_or_notify_cancel()
            ]
            if not asked:
                continue
            try:
                answers = self._work([one for one, _ in asked])
                for (_, future), answer in zip(asked, answers, strict=True):
                    future.set_result(answer)
            except BaseException as error:  # the callers' to deal with
                for _, future in asked:
                    if not future.done():
                        future.set_exception(error)

    def _gather(self) -> tuple[list[tuple[Asked, Future[Answer]]], bool]:
        """The next batch, and whether it's the last."""
        batch = list[tuple[Asked, Future[Answer]]]()
        one = self._waiting.get()
        until = time.monotonic() + _WINDOW
        while one is not None:
            batch.append(one)
            if len(batch) == MOST:
                return batch, False
            try:
                one = self._waiting.get(timeout=max(until - time.monotonic(), 0))
            except queue.Empty:
                return batch, False
        return batch, True
