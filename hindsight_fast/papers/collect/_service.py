"""What a service is, what it is asked, and what a page of its answers says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple


class Malformed(Exception):
    """An answer is not what the service gives; the text says why."""


class Astray(Malformed):
    """An answer is a page, but not the one that was asked for."""


class Window(NamedTuple):
    """Days of publication that are asked for, both included."""

    first: date
    last: date

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


class Query(NamedTuple):
    """One search: what its files are called after, and its text in the syntax of the service."""

    name: str
    text: str


class Page(NamedTuple):
    """What a page says.

    Attributes
    ----------
    ids : list of str
        Of its records, in order; "" for one without.
    total : int
        How many records match the query, as the service says, on all pages together.
    following : str or None
        What asks for the next page; None on the last.
    cost : float or None
        USD that this request was billed, where the answer says it.
    """

    ids: list[str]
    total: int
    following: str | None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """How a service is asked.

    Attributes
    ----------
    name, title : str
        For commands and files; for sentences.
    url, url_variable : str
        Where it is, and the environment variable that says otherwise.
    path : str
        Of its search.
    key_variables : tuple of str
        Environment variables that may hold the key; the first that is set counts.
    keys_from : str
        Where a key is to be had.
    key_needed : bool
        Without a key it answers nothing.
    rate : float
        Requests a second that are welcome.
    page_size : int
        Records on a full page.
    price : float
        USD that a request is billed; 0: it is free of charge.
    longest_url : int
        Bytes.
    fields : str
        What is asked for of each record.
    authorise : callable
        Headers that carry the key.
    ask : callable
        Parameters of the request for a page, from what asks for it (None: the first).
    parse : callable
        A page from the bytes of an answer; `Malformed` where it is none.
    any_of : callable
        The text of a query for papers with any of some phrases.
    """

    name: str
    title: str
    url: str
    url_variable: str
    path: str
    key_variables: tuple[str, ...]
    keys_from: str
    key_needed: bool
    rate: float
    page_size: int
    price: float
    longest_url: int
    fields: str
    authorise: Callable[[str], Mapping[str, str]]
    ask: Callable[[Query, Window, str | None], dict[str, str]]
    parse: Callable[[bytes], Page]
    any_of: Callable[[Sequence[str]], str]


def money(usd: float) -> str:
    """An amount as a person reads it: "0.034 USD"."""
    return f"{usd:.3f} USD"
