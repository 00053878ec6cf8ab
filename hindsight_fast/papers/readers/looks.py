"""What a file or a record is, told by its first bytes and its keys."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Set
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from hindsight_fast.errors import DataError
from hindsight_fast.papers.readers import tables
from hindsight_fast.papers.readers.s2_shards import s2_dataset, s2_named

_BINARY: Final[tuple[tuple[bytes, str], ...]] = (
    (b"%PDF", "a PDF"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xd0\xcf\x11\xe0", "an Excel or Word file: save it as CSV"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"ARROW1", "an Arrow file: save it as parquet"),
    (b"\x80\x04", "a Python pickle, which is never read"),
    (b"\x80\x05", "a Python pickle, which is never read"),
    (b"BZh", "compressed by bzip2; .gz and .zst are read"),
    (b"\xfd7zXZ", "compressed by xz; .gz and .zst are read"),
    (b"\x1f\x8b", "compressed twice: unpack it once"),
    (b"\x28\xb5\x2f\xfd", "compressed twice: unpack it once"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it and name the files in it"),
    (b"Rar!", "a RAR archive: unpack it and name the files in it"),
    (b"interactions:\n- request:", "recorded HTTP traffic (a cassette), not the answers in it"),
    (b"version https://git-lfs", "a pointer of Git LFS: fetch the file itself (git lfs pull)"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
)
_SKIPPED = rb"(?:<\?.{0,400}?\?>|<!--.{0,2000}?-->|\s)*"
_HTML = re.compile(_SKIPPED + rb"<(?:!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(rb"<title[^>]{0,200}>\s*([^<]{1,80})", re.IGNORECASE)
_STORAGE_ERROR = re.compile(_SKIPPED + rb"<Error>.{0,200}?<Code>(\w{1,60})</Code>", re.DOTALL)
_ROOT = re.compile(_SKIPPED + rb"(?:<![^>]{0,400}>\s*)?<([\w:.-]{1,60})", re.DOTALL)
_TOKEN = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(\s*+:)?|[{}\[\]]', re.DOTALL)
_WORK_ID = re.compile(rb'"id"\s*:\s*"https?://openalex\.org/W[0-9]')
_ERROR_TEXT = re.compile(rb'"(?:error|message|detail)"\s*:\s*"([^"]{1,100})')

_LISTS = ("data", "results", "recommendedPapers", "papers", "ideas")
_LINES = 20
_FIRST_KEYS = 4096
_FOLLOWED = 4


class Outline(NamedTuple):
    """Keys of the first value of a JSON text, which may be cut.

    Attributes
    ----------
    top : frozenset of str
        Keys of the object at the top; none where that is an array.
    record : frozenset of str
        Keys of the records: of the objects that an object at the top, or in the array there, holds
        as ``data`` or the like, else of those objects themselves.
    """

    top: frozenset[str]
    record: frozenset[str]


def outlines(head: bytes) -> Iterator[Outline]:
    """Outlines of a file's beginning as a whole, and of each of its first lines."""
    return map(_outline, _texts(head))


def _texts(head: bytes) -> Iterator[bytes]:
    return filter(is_json, (head, *head.split(b"\n", _LINES)[1:_LINES]))


def is_json(text: bytes) -> bool:
    """Tell whether a text begins as a JSON object or array does."""
    return text.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def _outline(text: bytes) -> Outline:
    keys = _keys_by_path(text)
    top = keys.get("", set())
    start = "" if top else "[]."
    lists = (f"{start}{name}[]" for name in _LISTS)
    inner = next((keys[path] for path in (*lists, "[]") if path in keys), top)
    return Outline(frozenset(top), frozenset(inner))


class _Level:
    """An object or array that is open, and the key that was last seen in it."""

    def __init__(self, path: str, is_object: bool) -> None:
        self.path = path
        self.is_object = is_object
        self.key = ""

    def path_of_value(self) -> str:
        return f"{self.path}.{self.key}".lstrip(".") if self.is_object else self.path


def _keys_by_path(text: bytes) -> dict[str, set[str]]:
    """Keys of objects by where these are: ``""``, ``"[]"``, ``"data"``, ``"data[]"``."""
    keys: dict[str, set[str]] = {}
    levels: list[_Level] = []
    depth = 0  # of which only the first levels are followed
    for token in _TOKEN.finditer(text):
        match token.group()[:1]:
            case b"{" | b"[" as bracket:
                depth += 1
                if depth <= _FOLLOWED:
                    path = levels[-1].path_of_value() if levels else ""
                    levels.append(_Level(path if bracket == b"{" else f"{path}[]", bracket == b"{"))
                    if bracket == b"{":
                        keys.setdefault(path, set())
            case b'"':
                if depth <= _FOLLOWED and token.group(2) and levels and levels[-1].is_object:
                    levels[-1].key = token.group(1).decode("utf-8", "replace")
                    keys[levels[-1].path].add(levels[-1].key)
            case _:
                depth -= 1
                if depth < 1:
                    break
                del levels[depth:]
    return keys


def _arxiv(keys: Set[str]) -> bool:
    return {"id", "title", "categories"} <= keys and bool(
        keys & {"authors_parsed", "versions", "submitter", "update_date"}
    )


def _openalex(keys: Set[str]) -> bool:
    return (
        "id" in keys
        and "works_count" not in keys
        and bool(
            keys & {"abstract_inverted_index", "authorships", "primary_location", "host_venue"}
        )
    )


def _paperlists(keys: Set[str]) -> bool:
    return "title" in keys and ("gs_citation" in keys or {"author", "track", "status"} <= keys)


RECORDS: Final[dict[str, Callable[[Set[str]], bool]]] = {
    "s2_graph": lambda keys: "paperId" in keys,
    "openalex": _openalex,
    "arxiv_snapshot": _arxiv,
    "paperlists": _paperlists,
}
"""Formats of JSON by the keys of their records."""

_ANSWERS: Final[dict[str, Set[str]]] = {
    "s2_graph": {"total", "data"},
    "openalex": {"meta", "results"},
}
"""Formats by the keys of an answer without records."""


def record_format(keys: Set[str]) -> str | None:
    """Name the format that records with these keys have, or None."""
    return next((name for name, has in RECORDS.items() if has(keys)), None)


def is_of(format: str, head: bytes) -> bool:
    """Tell whether a file's first bytes are of one of the formats of `RECORDS`."""
    return json_format(head) == format


@lru_cache(4)  # each reader asks
def json_format(head: bytes) -> str | None:
    """Name the format of a file of JSON: that of its first record, if that one has a title."""
    if s2_dataset(head) is not None:
        return None
    for text in _texts(head):
        found = _outline(text)
        known = record_format(found.record) or _answer_format(found)
        if known is None and _WORK_ID.search(text.split(b"\n{", 1)[0], 0, _FIRST_KEYS):
            return "openalex"
        if known is not None or "title" in found.record:
            return known
    return None


def _answer_format(found: Outline) -> str | None:
    if found.record != found.top:  # it holds records, which tell
        return None
    return next((name for name, needed in _ANSWERS.items() if needed <= found.top), None)


def binary(head: bytes) -> str | None:
    """Name what is no text at all, or only a page about the file that was wanted."""
    for magic, name in _BINARY:
        if head.startswith(magic):
            return name
    if head.startswith(b"PK\x03\x04"):
        if b"[Content_Types].xml" in head or b"xl/" in head:
            return "an Excel or Word file: save it as CSV"
        return "a ZIP archive: unpack it and name the files in it"
    if head[257:262] == b"ustar":
        return "a tar archive: unpack it and name the files in it"
    text = head.removeprefix(b"\xef\xbb\xbf")
    if _HTML.match(text):
        title = _TITLE.search(text)
        shown = f" ({title.group(1).strip().decode('utf-8', 'replace')!r})" if title else ""
        return f"an HTML page{shown}, perhaps of a login or an error, in place of the file wanted"
    error = _STORAGE_ERROR.match(text)
    if error:
        return f"an error answer ({error.group(1).decode()}) in place of the file wanted"
    return None


def other(path: Path, head: bytes) -> str | None:
    """Name what is a table or JSON, but not of papers."""
    if head.startswith(b"PAR1"):
        return _other_table(set(tables.schema(path)))
    dataset = s2_dataset(head)
    if dataset is not None:
        return (
            f"a shard of the dataset {dataset!r} of Semantic Scholar's bulk releases, which are "
            "read together: name the folder that holds them all"
        )
    text = head.removeprefix(b"\xef\xbb\xbf")
    if text.lstrip().startswith(b"<"):
        root = _ROOT.match(text)
        return f"XML with the root <{root.group(1).decode()}>" if root else "XML"
    for found in outlines(head):
        name = error_answer(found.top, head) or _other_json(found)
        if name is not None or "title" in found.record:
            return name
    return None


def odd_record(content: Mapping[str, Any]) -> str | None:
    """Name what a record looks like that is not of its file's format; None for nothing known."""
    keys = content.keys()
    texts = json.dumps({name: content[name] for name in _ERROR_KEYS & keys})
    return odd_keys(keys) or error_answer(keys, texts.encode())


def odd_keys(keys: Set[str]) -> str | None:
    """Name what a record with these keys looks like, other than one in our own columns."""
    known = record_format(keys)
    dataset = s2_named(keys)
    if known is not None:
        return f"a record of {known}"
    if dataset is not None:
        return f"a record of the dataset {dataset!r} of Semantic Scholar's bulk releases"
    return _other_json(Outline(frozenset(keys), frozenset(keys)))


def error_answer(keys: Set[str], text: bytes) -> str | None:
    """Name an object that a service answers instead of what was asked of it."""
    if not keys & _ERROR_KEYS or keys - _OF_ERRORS:
        return None
    found = _ERROR_TEXT.search(text)
    said = f" ({found.group(1).decode('utf-8', 'replace')!r})" if found else ""
    return f"an error answer{said}"


_ERROR_KEYS = frozenset({"error", "message", "detail"})
_OF_ERRORS = frozenset(
    {"error", "errors", "message", "detail", "code", "status", "statusCode", "type", "requestId"}
)


def _other_json(found: Outline) -> str | None:
    top, keys = found
    if {"format_version", "kind"} <= top:
        return "a manifest of this package: name its sources instead"
    if set(top) == {"entries", "meta"}:
        return "the list of an OpenAlex snapshot's files: name the folders in it"
    if keys & {"citingPaper", "citedPaper"}:
        return "citations or references of a paper, as the Graph API answers"
    if "works_count" in keys:
        return "OpenAlex authors, sources or the like, not works"
    if "authorId" in keys and "title" not in keys:
        return "authors, as the Graph API answers"
    return _other_columns(keys)


def _other_table(columns: set[str]) -> str | None:
    if {"date_precision", "date_kind"} <= columns:
        return (
            "the table of papers of a store: build from its sources, or name the store with --reuse"
        )
    if columns in ({"file", "line", "reason", "record"}, {"kind", "key", "ids", "n", "detail"}):
        return "a report of a store about its sources"
    return _other_columns(columns)


def _other_columns(columns: Set[str]) -> str | None:
    if "idea_id" in columns:
        return "a table of ideas, of their scores or matches"
    low = {name.lower().replace("_", " ") for name in columns}
    papers = low & {"abstract", "venue", "year", "doi", "citations", "arxiv id", "authors"}
    ideas = low & {"method", "proposed method", "experiment", "methodology", "approach"}
    if (
        ideas
        and not papers
        and (low & {"problem", "problem statement", "system", "novelty", "name"})
    ):
        return "a file of ideas"
    if low & {"vector", "embedding"} and "title" not in low:
        return "vectors of papers: hand them to embed --from-vectors"
    return None


def refuse(path: Path, what: str) -> DataError:
    """The error that refuses a file for what it is."""
    return DataError(f"{path} is {what}; a source of papers is expected")


def refuse_table(path: Path, what: str) -> DataError:
    """The error that refuses a table for what its columns look like."""
    return DataError(
        f"{path} is {what}; a source of papers is expected (--format own reads any table as one)"
    )
