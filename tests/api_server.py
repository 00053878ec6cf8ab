"""A small server on loopback that speaks the APIs of Semantic Scholar and OpenAlex, as told badly.

Bulk search is continued by tokens, works by cursors; both serve the papers 0 to n - 1, which
`s2_paper` and `openalex_work` make.
"""

import email.utils
import gzip
import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

S2_PATH, OPENALEX_PATH = "/graph/v1/paper/search/bulk", "/works"


def s2_paper(number: int) -> dict[str, Any]:
    """A record as Semantic Scholar gives it."""
    return {
        "paperId": f"{number:040x}",
        "corpusId": 1000 + number,
        "externalIds": {"ArXiv": f"2402.{number:05d}", "CorpusId": 1000 + number},
        "url": f"https://www.semanticscholar.org/paper/{number:040x}",
        "title": f"On reasoning, part {number}",
        "abstract": f"We reason about {number} in many steps, and measure what comes of it.",
        "venue": "International Conference on Learning Representations" if number % 3 else "",
        "publicationVenue": None,
        "year": 2024,
        "publicationDate": None if number % 4 == 0 else f"2024-{number % 12 + 1:02d}-07",
        "citationCount": number * 3,
        "fieldsOfStudy": ["Computer Science"],
        "s2FieldsOfStudy": [{"category": "Computer Science", "source": "external"}],
        "publicationTypes": ["JournalArticle"],
        "journal": {"name": "ArXiv"},
        "authors": [{"authorId": "1", "name": f"A. Author{number}"}],
    }


def openalex_work(number: int) -> dict[str, Any]:
    """A record as OpenAlex gives it."""
    words = f"We reason about {number} in many steps and measure what comes of it".split()
    source = {"id": "https://openalex.org/S1", "display_name": "ICLR", "type": "conference"}
    location = {"source": source, "landing_page_url": f"https://doi.org/10.1000/{number}"}
    return {
        "id": f"https://openalex.org/W{5000 + number}",
        "doi": f"https://doi.org/10.1000/{number}",
        "title": f"On reasoning, part {number}",
        "display_name": f"On reasoning, part {number}",
        "publication_year": 2024,
        "publication_date": f"2024-{number % 12 + 1:02d}-07",
        "language": "en",
        "type": "article",
        "primary_location": location,
        "locations": [location],
        "authorships": [{"author": {"display_name": f"A. Author{number}"}}],
        "cited_by_count": number * 3,
        "counts_by_year": [{"year": 2025, "cited_by_count": number * 3}],
        "is_retracted": False,
        "primary_topic": None,
        "topics": [],
        "abstract_inverted_index": {word: [place] for place, word in enumerate(words)},
        "updated_date": "2026-01-05T10:00:00.000000",
    }


@dataclass
class Reply:
    """An answer in place of the right one.

    Attributes
    ----------
    status
        0: the connection is closed without a word.
    headers
        Beside Content-Length and Content-Type.
    body
        None: the right answer.
    cut
        The connection is closed after so many bytes of the body.
    stall
        Nothing more is sent after so many bytes, and the connection is held.
    drip
        Seconds between two bytes.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    cut: int | None = None
    stall: int | None = None
    drip: float = 0.0


@dataclass
class Asked:
    """A request: what of, with what, when."""

    path: str
    params: dict[str, str]
    headers: dict[str, str]
    at: float


@dataclass
class Api:
    """What the services have, how they misbehave, and what they were asked.

    Attributes
    ----------
    n
        Papers that match a query, by its text; `matches` for any other.
    page_size
        Papers on a page.
    key
        What the key must be; "": none is needed.
    replies
        Answers to the next requests, in order: None is the right one.
    always
        Answers to all requests after these, if any.
    change
        Changes the right answer before it is sent.
    valid
        Which tokens are taken; None: all that were given.
    packed
        Right answers are sent compressed.
    price, budget
        USD of a request, and what the key has; None: no headers about that.
    """

    matches: int = 12
    n: dict[str, int] = field(default_factory=dict[str, int])
    page_size: int = 5
    key: str = ""
    replies: list[Reply | None] = field(default_factory=list[Reply | None])
    always: Reply | None = None
    change: Callable[[dict[str, Any]], None] = lambda _: None
    valid: Callable[[str], bool] = lambda _: True
    packed: bool = False
    price: float | None = 0.001
    budget: float = 1.0
    asked: list[Asked] = field(default_factory=list[Asked])
    port: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """Address of both services."""
        return f"http://127.0.0.1:{self.port}"

    def pages(self) -> list[str]:
        """What asked for each page: tokens or cursors, "" for the first."""
        return [
            one.params.get("token", one.params.get("cursor", "")).replace("*", "")
            for one in self.asked
        ]

    def answer(self, path: str, params: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """The right answer."""
        is_s2 = path == S2_PATH
        text = params.get("query" if is_s2 else "search", "")
        token = params.get("token" if is_s2 else "cursor", "").replace("*", "")
        total = self.n.get(text, self.matches)
        start = int(token.removeprefix("at-").split("-")[0]) if token else 0
        if token and not self.valid(token):
            return 400, {"error": "the continuation token is expired"}
        numbers = range(start, min(start + self.page_size, total))
        following = f"at-{numbers.stop}-{len(self.asked)}" if numbers.stop < total else None
        if is_s2:
            body: dict[str, Any] = {
                "total": total,
                "data": [s2_paper(number) for number in numbers],
            }
            if following:
                body["token"] = following
            return 200, body
        meta: dict[str, Any] = {"count": total, "page": None, "per_page": self.page_size}
        meta |= {"next_cursor": following, "cost_usd": self.price}
        works = [openalex_work(number) for number in numbers]
        return 200, {"meta": meta, "results": works, "group_by": []}


@contextmanager
def serving() -> Generator[Api]:
    """The services, which run while the body does."""
    api = Api()

    class Handler(_Handler):
        pass

    Handler.api = api
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api.port = int(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield api
    finally:
        api.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    api: Api
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer takes 40 ms

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        api, url = self.api, urlsplit(self.path)
        params = {name: values[0] for name, values in parse_qs(url.query).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        api.asked.append(Asked(url.path, params, headers, time.monotonic()))
        reply = api.replies.pop(0) if api.replies else api.always
        status, content = self._right(url.path, params, headers)
        packed = api.packed and reply is None
        reply = reply or Reply(status, {"Content-Encoding": "gzip"} if packed else {})
        body = json.dumps(content).encode() if reply.body is None else reply.body
        body = gzip.compress(body) if packed else body
        if reply.status:
            self._send(reply, body)
        else:
            self.close_connection = True

    def _right(
        self, path: str, params: dict[str, str], headers: dict[str, str]
    ) -> tuple[int, dict[str, Any]]:
        api = self.api
        given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if api.key and given != api.key:
            return 403, {"message": f"Forbidden: {given}"}
        if path not in (S2_PATH, OPENALEX_PATH):
            return 404, {"error": "no such path"}
        status, content = api.answer(path, params)
        api.change(content)
        return status, content

    def _send(self, reply: Reply, body: bytes) -> None:
        api = self.api
        self.send_response(reply.status)  # with the time, in Date
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if api.price is not None and self.path.startswith(OPENALEX_PATH):
            cost = 0.0 if reply.status in (401, 403, 429) else api.price
            api.budget -= cost
            self.send_header("X-RateLimit-Cost-USD", str(cost))
            self.send_header("X-RateLimit-Remaining-USD", f"{api.budget:.4f}")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        stop = reply.cut if reply.stall is None else reply.stall
        with suppress(OSError):  # the client has had enough
            if reply.drip:
                for place in range(len(body)):
                    self.wfile.write(body[place : place + 1])
                    time.sleep(reply.drip)
            else:
                self.wfile.write(body[:stop])
        if reply.stall is not None:
            self.api.stop.wait(30)
        if stop is not None:
            self.close_connection = True


def in_seconds(seconds: int) -> str:
    """A time of day, as Retry-After may give it."""
    return email.utils.formatdate(time.time() + seconds, usegmt=True)
