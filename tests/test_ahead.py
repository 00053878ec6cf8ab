"""An iterator that works ahead: the same items, the same errors, and an end."""

import threading
import time
from collections.abc import Generator
from contextlib import closing

import pytest

from hindsight_fast.papers._ahead import ahead


class Source:
    """Yields numbers, and tells how far it got."""

    def __init__(self, n: int, error: BaseException | None = None) -> None:
        self.n = n
        self.error = error
        self.made = 0
        self.closed = False

    def items(self) -> Generator[int]:
        try:
            for number in range(self.n):
                self.made = number
                yield number
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


def test_the_same_items_in_order() -> None:
    for n in (0, 1, 2, 3, 50):
        source = Source(n)
        assert list(ahead(source.items(), 2)) == list(range(n))
        assert source.closed


def test_it_works_ahead_but_not_far() -> None:
    source = Source(50)
    with closing(ahead(source.items(), 2)) as items:
        assert next(items) == 0
        for _ in range(100):
            if source.made >= 3:
                break
            time.sleep(0.01)
        time.sleep(0.02)
        assert source.made == 3  # two wait, and one stands before the door
    assert source.closed and source.made < 6


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()])
def test_errors_come_in_their_place(error: BaseException) -> None:
    items = ahead(Source(3, error).items(), 5)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(type(error)) as raised:
        next(items)
    assert raised.value is error


def test_who_stops_early_ends_the_thread() -> None:
    before = threading.active_count()
    source = Source(10**9)
    items = ahead(source.items(), 2)
    with pytest.raises(ZeroDivisionError), closing(items):
        assert next(items) == 0
        raise ZeroDivisionError
    assert source.closed and threading.active_count() == before
