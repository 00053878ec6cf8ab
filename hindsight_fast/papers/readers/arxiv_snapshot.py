"""arXiv's metadata snapshot, as Kaggle hands it out: one JSON object a line.

The first version's day is when a paper was first public, the last one's when it was revised; a
record without versions has an id, whose month says it, and an ``update_date``. Title and abstract
are the last version's. What authors write in comments counts as a venue only where the venue table
knows it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from hindsight_fast.papers.readers import _arxiv, looks, tables, typed
from hindsight_fast.papers.readers._batch import Batch, Given, Reader
from hindsight_fast.papers.readers.columns import Columns
from hindsight_fast.papers.venues import Table


class _Name(Struct, array_like=True, gc=False):
    last: Any = None
    first: Any = None
    suffix: Any = None


class _Version(Struct, gc=False):
    version: Any
    created: Any = None


class _Record(Struct, gc=False):
    id: Any
    title: Any
    categories: Any
    abstract: Any = None
    comments: Any = None
    journal_ref: Any = field(name="journal-ref", default=None)
    doi: Any = None
    license: Any = None
    authors: Any = None
    authors_parsed: list[_Name] | None = None
    versions: list[_Version] | None = None
    update_date: Any = None


_WANTED = typed.Wanted(_Record, "arxiv_snapshot")
_NEVER = (None, None)
_BETWEEN_NAMES = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+")


def sniff(path: Path, head: bytes) -> bool:
    """Records have categories, and versions or the like."""
    return looks.is_of("arxiv_snapshot", head)


def read(path: Path, head: bytes, given: Given) -> Iterator[Batch]:
    """Read papers from the snapshot; see `_batch.Reader`."""
    for some in typed.read(path, tables.json_form(path, head), _WANTED, given.limit):
        yield _batch(some, given.table)


def _batch(some: typed.Some[_Record], table: Table) -> Batch:
    records = some.records
    raw = Columns(some.numbers, some.bad, lambda row: f"id={records[row].id}")
    ids = raw.texts("id", [record.id for record in records]).str.replace("v[0-9]+$", "")
    raw.given("arxiv_id", ids)
    raw.given("id", "arXiv:" + ids)
    raw.given("url", "https://arxiv.org/abs/" + ids)
    raw.texts("title", [record.title for record in records])
    raw.texts("abstract", [record.abstract for record in records])
    raw.texts("doi", [record.doi for record in records])
    raw.texts("license", [record.license for record in records])
    categories = raw.texts("field", [record.categories for record in records])
    raw.given("field", categories.str.strip_chars().str.replace_all(r"\s+", "; "))
    raw.authors(map(_names, records))
    public = [_first_and_last(record.versions) for record in records]
    raw.texts("first_public", [first for first, _ in public])
    revised = [
        last or record.update_date for (_, last), record in zip(public, records, strict=True)
    ]
    raw.texts("revised", revised)
    comments = raw.texts("comments", [record.comments for record in records])
    journals = raw.texts("journal_ref", [record.journal_ref for record in records])
    raw.given("venue", _arxiv.venue(journals, comments, table))
    raw.given("status", raw.where(_arxiv.withdrawn(comments), "withdrawn"))
    raw.all_are(kind="preprint", source="arxiv")
    return raw.batch(frozenset())


def _names(record: _Record) -> list[Any] | None:
    """Names as "First Last Suffix"; of a record that has them in one text only, as they are."""
    if record.authors_parsed:
        try:
            return [
                one.first + " " + (one.last if not one.suffix else one.last + " " + one.suffix)
                for one in record.authors_parsed
            ]
        except TypeError:  # a part is missing
            return [
                " ".join(
                    part
                    for part in (one.first, one.last, one.suffix)
                    if part and isinstance(part, str)
                )
                for one in record.authors_parsed
            ]
    return _BETWEEN_NAMES.split(record.authors) if isinstance(record.authors, str) else None


def _first_and_last(versions: list[_Version] | None) -> tuple[Any, Any]:
    """When version 1 was made, if it is there, and the last one; in whatever order they come."""
    if not versions:
        return _NEVER
    first, last = versions[0], versions[-1]
    if first.version != "v1" or last.version != f"v{len(versions)}":
        first, *_, last = sorted([*versions, *versions], key=lambda one: _number(one.version))
    return first.created if first.version == "v1" else None, last.created


def _number(version: Any) -> int:
    digits = str(version)[1:]
    return int(digits) if digits.isdecimal() and len(digits) < 6 else 0


READER = Reader("arxiv_snapshot", sniff, read)
