"""One polite client: a pace, the waits that a service asks for, and answers that are whole.

What fails in passing (429, 5xx, timeouts, cut connections, answers that are no answers) is asked
for again, later and later: waits grow twofold from the pace to a minute, each drawn evenly between
nothing and that ("full jitter"), or are as long as Retry-After says. The key goes to the one
service in a header, never after a redirect to another host, and stands in no message.
"""

import contextlib
import email.utils
import json
import os
import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import httpx2

from hindsight_fast.errors import ServiceError, UsageError
from hindsight_fast.papers.collect._purse import Purse
from hindsight_fast.papers.collect._service import Astray, Malformed, Page, Query, Service, Window
from hindsight_fast.version import __version__

_LONGEST_WAIT_S = 60.0
_LARGEST = 64 << 20  # bytes of an answer; Semantic Scholar's have 10 million at most
_MOST_OF_A_REFUSAL = 1 << 16
_REDIRECTS = 5
_TRIES_TO_REACH = 4
_TRIES_ASTRAY = 3
_UNBILLED = (401, 402, 403, 429)
_KEPT = "what came is kept: the same command goes on from there"


@dataclass(frozen=True, slots=True)
class Manners:
    """How patient a client is.

    Attributes
    ----------
    rate : float
        Requests a second at most.
    tries : int
        Of one page, before giving up.
    timeout_s : float
        Without a byte.
    answer_s : float
        For a whole answer.
    patience_s : float
        Longest wait that a service may ask for.
    """

    rate: float
    tries: int = 12
    timeout_s: float = 60.0
    answer_s: float = 300.0
    patience_s: float = 600.0

    def __post_init__(self) -> None:
        if not 0 < self.rate < float("inf"):
            raise UsageError(f"{self.rate} requests a second; a positive number is expected")


class Refused(Exception):
    """The service doesn't answer this request, however often it is asked.

    Attributes
    ----------
    astray : bool
        It answers, but with something else.
    """

    def __init__(self, reason: str, *, astray: bool = False) -> None:
        super().__init__(reason)
        self.astray = astray


class _Answer(NamedTuple):
    status: int
    headers: httpx2.Headers
    body: bytes


class Client:
    """Asks one service.

    Parameters
    ----------
    service : Service
    manners : Manners
    told : callable
        Called with a sentence before a wait.

    Raises
    ------
    UsageError
        No key where one is needed, or an address or key that can't be one.
    """

    def __init__(self, service: Service, manners: Manners, told: Callable[[str], None]) -> None:
        self._service, self._manners, self._told = service, manners, told
        self._key = _key(service)
        self._url = _address(service)
        self._next, self._was_reached = time.monotonic(), False
        headers = {"User-Agent": f"hindsight-fast/{__version__}", "Accept": "application/json"}
        self._client = httpx2.Client(
            headers=headers | dict(service.authorise(self._key) if self._key else {}),
            timeout=manners.timeout_s,
            follow_redirects=False,
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def check_length(self, query: Query, window: Window) -> None:
        """Refuse a query that makes a longer request than the service takes.

        Raises
        ------
        UsageError
        """
        url = httpx2.URL(self._url, params=self._service.ask(query, window, None))
        length = len(str(url)) + 400  # what asks for a later page
        if length > self._service.longest_url:
            raise UsageError(
                f"the query {query.text[:80]!r} is too long: a request with it has about {length} "
                f"bytes, {self._service.title} takes {self._service.longest_url}; make several "
                "topics of it"
            )

    def page(
        self, params: dict[str, str], read: Callable[[bytes], Page], purse: Purse
    ) -> tuple[bytes, Page]:
        """Ask for a page until `read` makes one of the answer; `purse` counts what is billed.

        Raises
        ------
        Refused
            The service can't do with these parameters.
        UsageError
            It refuses the key.
        ServiceError
            It failed too often, asks for more patience than there is, or would cost too much.
        """
        failure, after, attempt, astray = "", None, 0, 0
        for attempt in range(1, self._manners.tries + 1):
            if attempt > 1:
                self._wait(attempt, failure, after)
            self._keep_pace()
            purse.reserve()
            try:
                answer = self._answer(params)
            except _Lost as error:
                failure, after = str(error), None
                if error.unreached and not self._was_reached and attempt >= _TRIES_TO_REACH:
                    break
                continue
            self._was_reached = True
            purse.left = _left(answer.headers, purse.left)
            cost = _number(answer.headers, "X-RateLimit-Cost-USD")
            if answer.status != 200:
                purse.settle(0.0 if cost is None and answer.status in _UNBILLED else cost)
                failure, after = self._refusal(answer)
                continue
            try:
                page = read(answer.body)
            except Malformed as error:
                purse.settle(cost)
                astray += isinstance(error, Astray)
                if astray == _TRIES_ASTRAY:
                    raise Refused(str(error), astray=True) from error
                failure, after = f"an answer that is none: {self._shown(answer, error)}", None
                continue
            purse.settle(page.cost if cost is None else cost)
            return answer.body, page
        raise ServiceError(
            f"{self._service.title} ({self._url}) failed {attempt} times in a row, at last with "
            f"{failure}; {_KEPT}"
        )

    def _wait(self, attempt: int, failure: str, after: float | None) -> None:
        if after is None:
            most = min(_LONGEST_WAIT_S, 2.0 ** (attempt - 1) / self._manners.rate)
            after = random.uniform(0, most)
        if after >= 5:
            self._told(f"{self._service.title}: {failure}; waiting {after:.0f} s")
        time.sleep(after)

    def _keep_pace(self) -> None:
        now = time.monotonic()
        time.sleep(max(self._next - now, 0))
        self._next = max(self._next, now) + 1 / self._manners.rate

    def _answer(self, params: dict[str, str]) -> _Answer:
        """Send a request, follow redirects within the service, and read the whole answer."""
        url = httpx2.URL(self._url, params=params)
        for _ in range(_REDIRECTS):
            with _losses(), self._client.stream("GET", url) as response:
                whole = response.status_code == 200
                body = self._body(response, _LARGEST if whole else _MOST_OF_A_REFUSAL)
                answer = _Answer(response.status_code, response.headers, self._scrubbed(body))
            if not 300 <= answer.status < 400:
                return answer
            url = self._elsewhere(url, answer)
        raise ServiceError(f"{self._service.title} redirects in a circle at {url.host}; {_KEPT}")

    def _body(self, response: httpx2.Response, most: int) -> bytes:
        body, end = bytearray(), time.monotonic() + self._manners.answer_s
        for piece in response.iter_bytes():
            body += piece
            if len(body) > most:
                if response.status_code != 200:
                    break
                raise _Lost(f"an answer of more than {most >> 20} MiB")
            if time.monotonic() > end:
                raise _Lost(f"an answer that was not whole after {self._manners.answer_s:.0f} s")
        return bytes(body)

    def _scrubbed(self, body: bytes) -> bytes:
        """Whoever echoes a key: it is not kept."""
        return body.replace(self._key.encode(), b"***") if self._key else body

    def _elsewhere(self, url: httpx2.URL, answer: _Answer) -> httpx2.URL:
        location = answer.headers.get("Location", "")
        try:
            target = url.join(location) if location else httpx2.URL("")
        except httpx2.InvalidURL:
            target = httpx2.URL("")
        if (target.scheme, target.host, target.port) != (url.scheme, url.host, url.port):
            raise ServiceError(
                f"{self._service.title} ({url.host}) redirects to {target.host[:100] or 'nowhere'} "
                f"(HTTP {answer.status}), where nothing is sent: a key would go along. If that is "
                f"its new address, set {self._service.url_variable} to it; {_KEPT}"
            )
        return target

    def _refusal(self, answer: _Answer) -> tuple[str, float | None]:
        """What was refused and for how long, if asking again may help."""
        service, status = self._service, answer.status
        said = self._said(answer)
        what = f"HTTP {status}" + (f" ({said})" if said else "")
        after = _retry_after(answer.headers)
        if status in (401, 403) and after is None:
            variable = next(v for v in service.key_variables if os.environ.get(v) or not self._key)
            raise UsageError(
                f"{service.title} refuses the key in {variable}: {what}; check it, or get one "
                f"({service.keys_from})"
                if self._key
                else f"{service.title} answers {what} without a key; set {variable} to one "
                f"({service.keys_from})"
            )
        if status == 402 or (after or 0) > self._manners.patience_s:
            wait = "" if after is None else f", to be asked again in {after / 3600:.1f} hours"
            raise ServiceError(f"{service.title} answers {what}{wait}; {_KEPT}")
        if status == 429 and not self._key:
            what += f", the limit of all who have no key ({service.keys_from})"
        if status in (403, 408, 409, 425, 429) or status >= 500 or status < 300:
            return what, after
        raise Refused(what)

    def _said(self, answer: _Answer) -> str:
        """What the service says of a refusal, cut, and without the key."""
        try:
            content: Any = json.loads(answer.body)
        except (ValueError, RecursionError):
            return "a page of HTML" if b"<html" in answer.body[:2000].lower() else ""
        if not isinstance(content, dict):
            return ""
        fields = cast(dict[str, Any], content)
        texts = [fields.get(name) for name in ("error", "message")]
        return _printable(": ".join(text for text in texts if isinstance(text, str)))

    def _shown(self, answer: _Answer, error: Malformed) -> str:
        head = answer.body[:200].lstrip().lower()
        is_html = head.startswith((b"<!doctype", b"<html"))
        said = self._said(answer)
        return (
            "a page of HTML" if is_html else _printable(f"{error}" + (f" ({said})" if said else ""))
        )


class _Lost(Exception):
    """No whole answer came."""

    unreached = False


@contextlib.contextmanager
def _losses() -> Generator[None]:
    try:
        yield
    except (httpx2.RequestError, httpx2.StreamError) as error:
        lost = _Lost(f"{type(error).__name__} ({str(error)[:100]})")
        lost.unreached = isinstance(error, httpx2.ConnectError)
        raise lost from error


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:300].strip()


def _key(service: Service) -> str:
    for variable in service.key_variables:
        key = os.environ.get(variable, "").strip()
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise UsageError(f"{variable} holds characters that no key has; set it anew")
        if key:
            return key
    if service.key_needed:
        raise UsageError(
            f"{service.title} needs a key: set {service.key_variables[0]} to yours "
            f"({service.keys_from})"
        )
    return ""


def _address(service: Service) -> str:
    base = os.environ.get(service.url_variable, "") or service.url
    try:
        url = httpx2.URL(base)
    except httpx2.InvalidURL as error:
        raise UsageError(f"{service.url_variable}: {base!r} is no address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host or url.query or url.userinfo:
        raise UsageError(f"{service.url_variable}: {base!r}; https://HOST is expected")
    return base.rstrip("/") + service.path


def _number(headers: httpx2.Headers, name: str) -> float | None:
    """A header that is an amount; None where it is none."""
    try:
        value = float(headers.get(name, ""))
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


def _left(headers: httpx2.Headers, before: float | None) -> float | None:
    """USD that the key has left; what was known before where these headers don't say."""
    left = _number(headers, "X-RateLimit-Remaining-USD")
    prepaid = _number(headers, "X-RateLimit-Prepaid-Remaining-USD")
    return before if left is None else left + (prepaid or 0)


def _retry_after(headers: httpx2.Headers) -> float | None:
    """Seconds that Retry-After asks for, which it says as such or as a time of day."""
    seconds = _number(headers, "Retry-After")
    if seconds is not None:
        return seconds
    then = email.utils.parsedate_tz(headers.get("Retry-After", ""))
    if then is None:
        return None
    date = email.utils.parsedate_tz(headers.get("Date", ""))
    now = time.time() if date is None else email.utils.mktime_tz(date)
    return max(email.utils.mktime_tz(then) - now, 0.0)
