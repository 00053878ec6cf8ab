"""What is told of a collection while it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Progress(NamedTuple):
    """How far it is.

    Attributes
    ----------
    papers, announced : int
        Records that came, and how many there are, as far as is known.
    pages : int
        Answers that came.
    query : str
        What is being asked for.
    spent, left : float or None
        USD; None where nothing is billed, or the service doesn't say.
    """

    papers: int
    announced: int
    pages: int
    query: str
    spent: float | None
    left: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a collection will take, once the first page of each query is known.

    Attributes
    ----------
    announced : dict of str to int
        Papers of each query.
    pages_left : int
    cost_left, spent, left : float or None
        USD; None where nothing is billed, or the service doesn't say.
    seconds_left : float
        At the pace that is kept, at least.
    """

    announced: dict[str, int]
    pages_left: int
    cost_left: float | None
    spent: float | None
    left: float | None
    seconds_left: float


class Watch(NamedTuple):
    """Who is told.

    Attributes
    ----------
    plan : callable
        Told what it will take.
    progress : callable
        Told how far it is, after each page.
    said : callable
        Told sentences for a person.
    """

    plan: Callable[[Plan], None] = lambda _: None
    progress: Callable[[Progress], None] = lambda _: None
    said: Callable[[str], None] = lambda _: None


SILENT = Watch()
