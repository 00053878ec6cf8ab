"""An iterator that works ahead in a thread of its own."""

from collections.abc import Generator
from contextlib import closing, suppress
from queue import Full, Queue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")

_PATIENCE = 0.1  # seconds between looks at whether anybody still waits


def ahead(items: Generator[Item], depth: int) -> Generator[Item]:
    """Yield what `items` yields, while a thread fetches up to `depth` more.

    What `items` raises is raised here, in its place. Whoever stops early closes this generator
    (`contextlib.closing`), which closes `items` and ends the thread.
    """
    queue: Queue[list[Item] | BaseException | None] = Queue(depth)
    stopped = Event()

    def put(message: list[Item] | BaseException | None) -> None:
        while not stopped.is_set():
            with suppress(Full):
                queue.put(message, timeout=_PATIENCE)
                return

    def work() -> None:
        try:
            with closing(items):
                for item in items:
                    message = [item]
                    del item  # nothing is held while the next one is made
                    put(message)
                    del message
                    if stopped.is_set():
                        return
            put(None)
        except BaseException as error:  # whatever it is, it is raised where the items are used
            put(error)

    thread = Thread(target=work, name="reading ahead", daemon=True)
    thread.start()
    try:
        while (message := queue.get()) is not None:
            if isinstance(message, BaseException):
                raise message
            yield message.pop()
    finally:
        stopped.set()
        thread.join()
