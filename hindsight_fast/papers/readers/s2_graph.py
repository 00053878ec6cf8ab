"""Answers of the Semantic Scholar Graph API: searches, batches, single papers, one or many a file.

Fields after the API's own description (api.semanticscholar.org/api-docs/graph). A paper's id is its
corpus id, under which the bulk datasets have it too, else its ``paperId``. The venue is the first
of ``venue``, ``publicationVenue`` and ``journal`` that has a name. Counts of citations have no
date: an answer does not say when it was given.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from hindsight_fast.papers.readers import looks, tables, typed
from hindsight_fast.papers.readers._batch import Batch, Given, Reader
from hindsight_fast.papers.readers.columns import Columns


class _Named(Struct, gc=False):
    name: Any = None


class _Category(Struct, gc=False):
    category: Any = None


class _Tldr(Struct, gc=False):
    text: Any = None


class _ExternalIds(Struct, gc=False):
    DOI: Any = None
    ArXiv: Any = None
    CorpusId: Any = None


class _Paper(Struct, gc=False):
    paperId: Any
    corpusId: Any = None
    externalIds: _ExternalIds | None = None
    url: Any = None
    title: Any = None
    abstract: Any = None
    venue: Any = None
    publicationVenue: _Named | None = None
    journal: _Named | None = None
    year: Any = None
    publicationDate: Any = None
    publicationTypes: list[Any] | None = None
    citationCount: Any = None
    fieldsOfStudy: list[Any] | None = None
    s2FieldsOfStudy: list[_Category | None] | None = None
    tldr: _Tldr | None = None
    authors: list[_Named | None] | None = None


_WANTED = typed.Wanted(_Paper, "s2_graph", lists=("data", "recommendedPapers"))
_NO_IDS = _ExternalIds()
_NOTHING = _Named()


def sniff(path: Path, head: bytes) -> bool:
    """Records have a ``paperId``."""
    return looks.is_of("s2_graph", head)


def read(path: Path, head: bytes, given: Given) -> Iterator[Batch]:
    """Read papers from answers; see `_batch.Reader`."""
    for some in typed.read(path, tables.json_form(path, head), _WANTED, given.limit):
        yield _batch(some)


def _batch(some: typed.Some[_Paper]) -> Batch:
    papers = some.records
    ids = [paper.externalIds or _NO_IDS for paper in papers]
    raw = Columns(some.numbers, some.bad, lambda row: f"paperId={papers[row].paperId}")
    corpus = [
        paper.corpusId if paper.corpusId is not None else found.CorpusId
        for paper, found in zip(papers, ids, strict=True)
    ]
    corpus_ids = raw.texts("corpus_id", corpus)
    paper_ids = raw.texts("id", [paper.paperId for paper in papers])
    known = corpus_ids.str.contains("^[0-9]+$").fill_null(False)
    raw.given("id", ("CorpusId:" + corpus_ids).zip_with(known, paper_ids))
    raw.texts("doi", [found.DOI for found in ids])
    raw.texts("arxiv_id", [found.ArXiv for found in ids])
    raw.texts("url", [paper.url for paper in papers])
    raw.texts("title", [paper.title for paper in papers])
    raw.texts("abstract", [paper.abstract for paper in papers])
    raw.texts("venue", [_venue(paper) for paper in papers])
    raw.texts("year", [paper.year for paper in papers])
    raw.texts("date", [paper.publicationDate for paper in papers])
    raw.joined("kind", (paper.publicationTypes for paper in papers))
    raw.joined("field", map(_fields, papers))
    raw.texts("tldr", [paper.tldr.text if paper.tldr else None for paper in papers])
    raw.authors([one.name for one in paper.authors or () if one] for paper in papers)
    raw.cited("s2", [paper.citationCount for paper in papers])
    raw.all_are(source="s2")
    return raw.batch(frozenset())


def _venue(paper: _Paper) -> Any:
    return (
        paper.venue or (paper.publicationVenue or _NOTHING).name or (paper.journal or _NOTHING).name
    )


def _fields(paper: _Paper) -> list[Any] | None:
    """Each field once: that two classifiers agree on one says no more of the paper."""
    if paper.s2FieldsOfStudy:
        names = (one.category for one in paper.s2FieldsOfStudy if one)
        return list(dict.fromkeys(name for name in names if isinstance(name, str)))
    return paper.fieldsOfStudy


READER = Reader("s2_graph", sniff, read)
