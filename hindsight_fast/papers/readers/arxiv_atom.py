"""Papers in answers of the arXiv API: Atom feeds, of a query or of ids asked for."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindsight_fast.errors import DataError
from hindsight_fast.papers.readers import _arxiv, _raw, lines
from hindsight_fast.papers.readers._batch import Batch, Given, Reader
from hindsight_fast.papers.readers._xml import Element, Root, elements, root
from hindsight_fast.papers.venues import Table

_ATOM: Final = "http://www.w3.org/2005/Atom}"
_ARXIV: Final = "http://arxiv.org/schemas/atom}"

_ADDRESS = re.compile(r"https?://(?:[a-z]+\.)?arxiv\.org/abs/(?P<id>.+?)(?:v[0-9]+)?")
_ERRORS = "arxiv.org/api/errors"


def sniff(path: Path, head: bytes) -> bool:
    """An Atom feed that speaks of arXiv."""
    found = root(head)
    return found is not None and _is_feed(found) and b"arxiv.org" in head


def _is_feed(found: Root) -> bool:
    return found.name.rpartition("}")[2] == "feed"


def read(path: Path, head: bytes, given: Given) -> Iterator[Batch]:
    """Read the entries of a feed; see `_batch.Reader`.

    Raises
    ------
    DataError
        Where the file is no whole feed, or one without entries.
    """
    n = 0
    for batch in _raw.batches(_records(path), given.limit, partial(_finish, table=given.table)):
        n += batch.records.height + batch.rejects.height
        yield batch
    if not n:
        raise DataError(f"{path} is an answer of the arXiv API without entries: leave it out")


def _records(path: Path) -> Iterator[lines.Record]:
    entries = frozenset([f"{_ATOM}entry"])
    for _, entry in elements(path, entries, "an Atom <feed> of the arXiv API", _is_feed):
        title, summary = entry.text_of(f"{_ATOM}title"), entry.text_of(f"{_ATOM}summary")
        address = (entry.text_of(f"{_ATOM}id") or "").strip()
        known = _ADDRESS.fullmatch(address)
        content: Mapping[str, Any] | lines.Bad
        if _ERRORS in address:
            said = " ".join((summary or "").split())
            content = lines.Bad(f"an error of the arXiv API: {said[:200]}", address[:200])
        elif known is None:
            content = lines.Bad(
                f"its id is no address at arxiv.org: {address[:200]!r}", title or ""
            )
        else:
            content = {"title": title, "abstract": summary, **_paper(entry, known["id"])}
        yield lines.Record(entry.line, len(title or "") + len(summary or ""), content)


def _paper(entry: Element, arxiv_id: str) -> dict[str, Any]:
    authors = (author.text_of(f"{_ATOM}name") for author in entry.children(f"{_ATOM}author"))
    return {
        "id": f"arXiv:{arxiv_id}",
        "arxiv_id": arxiv_id,
        "authors": _raw.BETWEEN.join(filter(None, authors)) or None,
        "field": _categories(entry),
        "first_public": entry.text_of(f"{_ATOM}published"),
        "revised": entry.text_of(f"{_ATOM}updated"),
        "doi": entry.text_of(f"{_ARXIV}doi"),
        "url": f"https://arxiv.org/abs/{arxiv_id}",
        "kind": "preprint",
        "source": "arxiv",
        "comment": entry.text_of(f"{_ARXIV}comment"),
        "journal": entry.text_of(f"{_ARXIV}journal_ref"),
    }


def _categories(entry: Element) -> str | None:
    """Categories, the primary one first."""
    elements = (*entry.children(f"{_ARXIV}primary_category"), *entry.children(f"{_ATOM}category"))
    terms = dict.fromkeys(element.attributes.get("term", "") for element in elements)
    return "; ".join(filter(None, terms)) or None


def _finish(records: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Put in what the free words say."""
    comments = records["comment"]
    status = pl.when(_arxiv.withdrawn(comments)).then(pl.lit("withdrawn")).alias("status")
    return records.with_columns(_arxiv.venue(records["journal"], comments, table), status)


READER = Reader("arxiv_atom", sniff, read)
