"""Threads for one call: as many as asked for, never more than the process may use."""

import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from threadpoolctl import (  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs]
    threadpool_limits,
)

T = TypeVar("T")


def clamp_threads(threads: int) -> int:
    """Number of workers to use for `threads`: at least 1, at most the usable processors."""
    if threads < 1:
        raise ValueError(f"threads is {threads}; at least 1 is needed")
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no affinity
        usable = os.cpu_count() or 1
    return min(threads, usable)


def run_all(task: Callable[[Any], T], inputs: Sequence[Any], threads: int) -> list[T]:
    """`[task(x) for x in inputs]` on `threads` short-lived threads; the first error is raised."""
    workers = min(threads, len(inputs))
    if workers <= 1:
        return [task(x) for x in inputs]
    with ThreadPoolExecutor(workers, thread_name_prefix="hindsight") as pool:
        futures = [pool.submit(task, x) for x in inputs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class _SingleThreadedBlas:
    """BLAS held to one thread while anybody is inside; the limit is global to the process.

    The first to enter sets it and the last to leave takes it back: were each caller to restore
    what it had found, two that overlap could leave the limit in place for ever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: threadpool_limits | None = None

    @contextmanager
    def __call__(self) -> Generator[None]:
        with self._lock:
            if self._inside == 0:
                self._limits = threadpool_limits(limits=1, user_api="blas")
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._restore()

    def after_fork(self) -> None:
        """In the child nobody is inside, whatever the parent's threads were doing."""
        self._lock = threading.Lock()
        self._inside = 0
        self._restore()

    def _restore(self) -> None:
        if self._limits is not None:
            self._limits.restore_original_limits()
            self._limits = None


single_threaded_blas = _SingleThreadedBlas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=single_threaded_blas.after_fork)
