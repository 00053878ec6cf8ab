"""Files of a model on the Hugging Face hub, at a pinned revision, through the hub's own cache.

The only file that knows `huggingface_hub`, which reads HF_HOME, HF_TOKEN, HF_HUB_OFFLINE and
HF_ENDPOINT itself. Since its version 1.18 a broken download starts anew in the next run (its pull
request 4306), so the transfer goes to a file of ours beside the cache's; a later run continues
it, and the whole file, its hash checked, becomes the cache's own.
"""

import fcntl
import hashlib
import io
import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, cast
from urllib.parse import urlsplit

from hindsight_models.errors import ModelError
from hindsight_models.fetching.known import HubFolder, endpoint
from hindsight_models.fetching.placing import OF_THE_DISK, is_at

Report = Callable[[int], None]
"""Called with the bytes that have come since the last call."""

_TIMEOUT_S = 10.0
_HASH = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")  # git's of a blob, or SHA-256
_LARGEST = 8_000_000_000  # bytes; SPECTER2 has 440 million


class OutOfReach(ModelError):
    """No network, or one is not to be used; the files can be brought by hand."""


class _Metadata(Protocol):
    """What the hub says of a file."""

    @property
    def commit_hash(self) -> str | None: ...
    @property
    def etag(self) -> str | None: ...
    @property
    def location(self) -> str: ...
    @property
    def size(self) -> int | None: ...


def download(source: HubFolder, report: Report | None = None) -> Path:
    """Bring the files of a hub folder into the cache; returns the folder that has them.

    What is in the cache already is taken from there, and needs no network.

    Raises
    ------
    ModelError
        No network, no such file or revision, no access, or other bytes than the hub announced.
    OSError
        The file system refuses to write.
    """
    paths = [_file(source, name, report or (lambda _: None)) for name in source.files]
    return paths[0].parent


def _file(source: HubFolder, name: str, report: Report) -> Path:
    """The path of a file in the cache, its hash checked."""
    import huggingface_hub as hub

    path = hub.try_to_load_from_cache(source.repo, name, revision=source.revision)
    if isinstance(path, str):
        blob = Path(path).resolve()
        if _differs(blob, blob.name):
            raise ModelError(f"{blob} is damaged; remove it, and run the same command again")
        report(blob.stat().st_size)
        return Path(path)
    with _in_words(source, name):
        url = hub.hf_hub_url(source.repo, name, revision=source.revision)
        metadata = hub.get_hf_file_metadata(  # pyright: ignore[reportUnknownMemberType]
            url, timeout=_TIMEOUT_S
        )
        if metadata.commit_hash != source.revision:
            raise ModelError(
                f"{url} answered with revision {metadata.commit_hash}; expected {source.revision}"
            )
        # The name of the file in the cache, and what its bytes are checked by.
        tag = metadata.etag or ""
        if not _HASH.fullmatch(tag) or (metadata.size or 0) > _LARGEST:
            raise ModelError(
                f"{url} is announced with {metadata.size} bytes and the tag {tag!r}; "
                f"expected a hash, and at most {_LARGEST:,} bytes"
            )
        folder = hub.file_download.repo_folder_name(repo_id=source.repo, repo_type="model")
        blob = Path(hub.constants.HF_HUB_CACHE) / folder / "blobs" / tag
        _fill(blob, url, metadata, report)
        pointer = blob.parent.parent / "snapshots" / source.revision / name
        pointer.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # it is there, or the file system has no links
            pointer.symlink_to(os.path.relpath(blob, pointer.parent))
        # With the link in place it asks nothing: a second answer might have another hash.
        found = hub.hf_hub_download(  # pyright: ignore[reportUnknownMemberType]
            source.repo, name, revision=source.revision, etag_timeout=_TIMEOUT_S
        )
    return Path(found)


def _fill(blob: Path, url: str, metadata: _Metadata, report: Report) -> None:
    """Write the blob of a file, going on where an earlier run was stopped."""
    blob.parent.mkdir(parents=True, exist_ok=True)
    partial = blob.with_name(f"{blob.name}.hindsight.incomplete")
    with _locked(partial, report, metadata.size or _LARGEST) as file:
        if not blob.exists():
            with _cut(file, url, metadata.size):
                _transfer(file, url, metadata)
            file.flush()
            os.fsync(file.fileno())
            if _differs(partial, blob.name):
                partial.unlink()
                raise ModelError(
                    f"what came from {url} is not the file that the hub announced (another "
                    "hash); run the same command again"
                )
            partial.replace(blob)
    if blob.exists():
        partial.unlink(missing_ok=True)


def _locked(path: Path, report: Report, most: int) -> "_Counted":
    """The file at `path`, ours alone; a second run waits here, and then finds the blob."""
    while True:
        file = _Counted(path, report, most)
        fcntl.flock(file, fcntl.LOCK_EX)
        if is_at(file.fileno(), path):
            file.seek(0, io.SEEK_END)  # another run may have written meanwhile
            return file
        file.close()


def _transfer(file: "_Counted", url: str, metadata: _Metadata) -> None:
    from huggingface_hub import file_download, utils

    headers: dict[str, str] = utils.build_hf_headers()  # type: ignore[attr-defined]
    if urlsplit(metadata.location).netloc != urlsplit(url).netloc:
        headers.pop("authorization", None)  # the token is the hub's, not its storage's
    if metadata.size is not None and file.tell() > metadata.size:
        file.truncate(0)
        file.seek(0)
    file.report(file.tell())
    with _no_bars():
        file_download.http_get(  # pyright: ignore[reportUnknownMemberType]
            metadata.location,
            file,
            resume_size=file.tell(),
            headers=headers,
            expected_size=metadata.size,
        )


@contextmanager
def _cut(file: "_Counted", url: str, size: int | None) -> Generator[None]:
    """Say of a connection that broke that what has come is kept."""
    from huggingface_hub import errors

    try:
        yield
    except errors.HfHubHTTPError:
        raise  # the server answered: not cut but refused
    except _failures() as error:
        if _is_of_the_disk(error) or not file.tell():
            raise
        of = f" of {size:,}" if size else ""
        raise ModelError(
            f"{url}: the connection broke after {file.tell():,}{of} bytes ({_first_line(error)}); "
            "the same command goes on from there"
        ) from error


class _Counted(io.BufferedWriter):
    """A file written at its end, up to a size, which reports what is written."""

    def __init__(self, path: Path, report: Report, most: int) -> None:
        super().__init__(io.FileIO(path, "a"))
        self.report, self._most = report, most

    def write(self, data: "bytes | bytearray | memoryview[int]", /) -> int:  # type: ignore[override]
        """Write bytes, and report how many; ModelError where they are more than announced."""
        if self.tell() + len(data) > self._most:
            self.seek(0)
            self.truncate()
            raise ModelError(
                f"more than the {self._most:,} bytes that were announced came for {self.name}; "
                "nothing of them was kept"
            )
        written = super().write(data)
        self.report(written)
        return written


@contextmanager
def _no_bars() -> Generator[None]:
    """Keep the hub's own bar quiet: progress is told in one place."""
    from huggingface_hub import constants
    from huggingface_hub.utils import (  # type: ignore[attr-defined]
        disable_progress_bars,
        enable_progress_bars,
    )

    if constants.HF_HUB_DISABLE_PROGRESS_BARS is not None:  # the user has decided
        yield
        return
    disable_progress_bars("huggingface_hub.http_get")
    try:
        yield
    finally:
        enable_progress_bars("huggingface_hub.http_get")


def _differs(path: Path, etag: str) -> bool:
    """Whether a file has another hash than the hub's name for it: SHA-256, or git's of a blob."""
    with path.open("rb") as file:
        if len(etag) == 64:
            return hashlib.file_digest(file, "sha256").hexdigest() != etag
        if len(etag) == 40:
            digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
            return hashlib.file_digest(file, lambda: digest).hexdigest() != etag
    return False


@contextmanager
def _in_words(source: HubFolder, name: str) -> Generator[None]:
    """Turn the hub's errors into sentences; those of the disk are passed on."""
    from huggingface_hub import errors

    what, where = f"{source.repo} at revision {source.revision[:12]}", endpoint()
    try:
        yield
    except errors.GatedRepoError as error:
        raise ModelError(
            f"{where} gives {source.repo} only to accounts that were granted access; ask for it "
            "on its page, and set HF_TOKEN to a token of yours"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(
            f"{where} has no {what}; it was withdrawn, or HF_ENDPOINT is no full copy of the hub"
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise OutOfReach(f"{where} could not be reached for {name} of {what}") from error
    except errors.EntryNotFoundError as error:
        raise ModelError(f"{where} has no file {name} in {what}") from error
    except errors.RepositoryNotFoundError as error:
        raise ModelError(
            f"{where} has no {source.repo}, or shows it only to some accounts, or the token in "
            "HF_TOKEN is wrong (HTTP 401 or 404)"
        ) from error
    except errors.OfflineModeIsEnabled as error:
        raise OutOfReach(
            f"HF_HUB_OFFLINE is set, and {name} of {what} is not in the cache"
        ) from error
    except errors.HfHubHTTPError as error:
        code = error.response.status_code
        raise ModelError(f"{where} answered HTTP {code} for {name} of {what}") from error
    except _failures() as error:
        if _is_of_the_disk(error):
            raise
        raise OutOfReach(
            f"{name} could not be fetched from {where}: {_first_line(error)}"
        ) from error


def _failures() -> tuple[type[Exception], ...]:
    """Whatever the library uses for HTTP (requests, httpx), its failures are of these classes."""
    from huggingface_hub import errors

    return OSError, cast(type[Exception], errors.HfHubHTTPError.__mro__[1])


def _is_of_the_disk(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in OF_THE_DISK


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
