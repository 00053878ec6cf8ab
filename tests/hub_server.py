"""A small Hugging Face hub on loopback: enough of its protocol to fetch files at a revision.

Small files are answered directly, as from git; larger ones are redirected to a storage under
another host name, with their SHA-256, as the hub does with its large files.
"""

import hashlib
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LARGE = 20_000  # bytes
_RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


@dataclass
class Hub:
    """What the hub has, how it misbehaves, and what it was asked for.

    Attributes
    ----------
    folders
        Folder of each repository and revision.
    refuse
        Repositories that are answered with this status and X-Error-Code.
    commit
        Revision that answers name in place of the right one.
    cut
        Bytes after which the storage closes the connection, once for each item.
    stall
        Bytes after which the storage sends nothing more and holds the connection open.
    broken
        The storage answers 503.
    spoilt
        The storage sends other bytes than announced.
    tag
        ETag in place of the hash.
    endless
        The storage sends this many bytes more than announced, without a length.
    requests
        Method, path and headers (lower case) of what was asked.
    sent
        Bytes that the storage gave.
    """

    folders: dict[tuple[str, str], Path] = field(default_factory=dict[tuple[str, str], Path])
    refuse: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    commit: str | None = None
    cut: list[int] = field(default_factory=list[int])
    stall: int | None = None
    broken: bool = False
    spoilt: bool = False
    tag: str | None = None
    endless: int = 0
    requests: list[tuple[str, str, dict[str, str]]] = field(
        default_factory=list[tuple[str, str, dict[str, str]]]
    )
    sent: int = 0
    port: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """Address of the hub."""
        return f"http://127.0.0.1:{self.port}"

    def asked(self, part: str) -> list[dict[str, str]]:
        """Headers of the requests whose path has this part."""
        return [headers for _, path, headers in self.requests if part in path]


@contextmanager
def serving() -> Generator[Hub]:
    """A hub that runs while the body does."""
    hub = Hub()

    class Handler(_Handler):
        pass

    Handler.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.port = int(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self, *, body: bool) -> None:
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.hub.requests.append((self.command, self.path, headers))
        if self.path.startswith("/storage"):
            self._storage(Path(self.path.removeprefix("/storage")).read_bytes())
            return
        found = _RESOLVE.fullmatch(self.path)
        if found is None:
            self._refuse(404, "")
            return
        repo, revision, name = found.groups()
        if repo in self.hub.refuse:
            self._refuse(*self.hub.refuse[repo])
        elif repo not in {known for known, _ in self.hub.folders}:
            self._refuse(401, "RepoNotFound")
        elif (repo, revision) not in self.hub.folders:
            self._refuse(404, "RevisionNotFound")
        elif not (path := self.hub.folders[repo, revision] / name).is_file():
            self._refuse(404, "EntryNotFound")
        else:
            self._file(path, self.hub.commit or revision, body=body)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _file(self, path: Path, commit: str, *, body: bool) -> None:
        content = path.read_bytes()
        large = len(content) > LARGE
        self.send_response(302 if large else 200)
        self.send_header("X-Repo-Commit", commit)
        if large:
            tag = self.hub.tag or hashlib.sha256(content).hexdigest()
            self.send_header("X-Linked-Etag", f'"{tag}"')
            self.send_header("X-Linked-Size", str(len(content)))
            self.send_header("Location", f"http://localhost:{self.hub.port}/storage{path}")
            self.send_header("Content-Length", "0")
        else:
            git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            self.send_header("ETag", f'"{self.hub.tag or git}"')
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body and not large:
            self.wfile.write(content)

    def _storage(self, content: bytes) -> None:
        if self.hub.broken:
            self._refuse(503, "")
            return
        if self.hub.spoilt:
            content = bytes(len(content))
        if self.hub.endless:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):  # the client has had enough
                self.wfile.write(content + bytes(self.hub.endless))
            self.close_connection = True
            return
        start = 0
        if asked := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start = int(asked[1])
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if asked:
            whole = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.send_header("Content-Range", whole)
        self.end_headers()
        limit = self.hub.stall or (self.hub.cut.pop(0) if self.hub.cut else len(content))
        given = content[start : start + limit]
        self.hub.sent += len(given)
        self.wfile.write(given)
        self.wfile.flush()
        if len(given) < len(content) - start:
            if self.hub.stall:
                self.hub.stop.wait(30)
            self.close_connection = True
