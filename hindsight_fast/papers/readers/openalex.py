"""Works of OpenAlex: snapshot shards (JSON lines), pages of the API, single works.

Fields after OpenAlex's description of a work, the older ``host_venue`` included. What needs saying:

- The abstract is put together from its inverted index. One whose places are no whole numbers from
  0 on, or that is mostly holes, is malformed: the paper has no abstract then.
- The venue is where the work was published: the primary location, or another where that is a
  repository and the other none. A work that only repositories hold is a preprint, and a repository
  that is no preprint server of our table (a university's, say) is no venue.
- OpenAlex has no way to say that it knows the year only: it gives 1 January then. So 1 January is
  read as the year.
- ``counts_by_year`` leaves out years without citations. Those between the ones it has are 0; so
  are those from publication on, where all citations have a year.
- Counts are as of the record's last update, which is never after the snapshot.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from hindsight_fast.papers import venues
from hindsight_fast.papers.readers import looks, tables, typed
from hindsight_fast.papers.readers._batch import Batch, Given, Reader
from hindsight_fast.papers.readers.columns import Columns
from hindsight_fast.papers.venues import Table

_MOST_HOLES: Final = 10
"""Places of an inverted index per word, from where on it is malformed."""


_ID: Final = r"^(?:https?://openalex\.org/(?:works/)?)?(W[0-9]+)$"


class _Named(Struct, gc=False):
    display_name: Any = None


class _Source(Struct, gc=False):
    display_name: Any = None
    type: Any = None


class _Location(Struct, gc=False):
    source: _Source | None = None
    landing_page_url: Any = None
    version: Any = None
    license: Any = None


class _HostVenue(Struct, gc=False):
    display_name: Any = None
    type: Any = None
    url: Any = None
    version: Any = None
    license: Any = None


class _Authorship(Struct, gc=False):
    author: _Named | None = None
    raw_author_name: Any = None


class _Topic(Struct, gc=False):
    display_name: Any = None
    subfield: _Named | None = None
    field: _Named | None = None


class _Concept(Struct, gc=False):
    display_name: Any = None
    level: Any = None


class _Year(Struct, gc=False):
    year: int
    cited_by_count: int


class _Abstract:
    """Put together as soon as its index is read, which takes several times its room."""

    __slots__ = ("text", "was_there")

    def __init__(self, text: str | None, was_there: bool) -> None:
        self.text = text
        self.was_there = was_there


class _Work(Struct, gc=False):
    id: Annotated[str, Meta(pattern=_ID)]
    doi: Any = None
    title: Any = None
    display_name: Any = None
    publication_year: Any = None
    publication_date: Any = None
    language: Any = None
    type: Any = None
    type_crossref: Any = None
    is_retracted: Any = None
    is_paratext: Any = None
    cited_by_count: Any = None
    counts_by_year: list[_Year] | None = None
    abstract_inverted_index: _Abstract | None = None
    primary_location: _Location | None = None
    locations: list[_Location | None] | None = None
    host_venue: _HostVenue | None = None
    alternate_host_venues: list[_HostVenue | None] | None = None
    authorships: list[_Authorship | None] | None = None
    primary_topic: _Topic | None = None
    topics: list[_Topic | None] | None = None
    concepts: list[_Concept | None] | None = None
    updated_date: Any = None


def _of_index(_: type, index: Any) -> _Abstract:
    return _Abstract(plain(index), bool(index))


_WANTED = typed.Wanted(_Work, "openalex", lists=("results",), made=_of_index)
_NO_ABSTRACT = _Abstract(None, False)
_NO_SOURCE = _Source()
_NOWHERE = _Location()


def sniff(path: Path, head: bytes) -> bool:
    """Records have an ``id`` at openalex.org, or fields that only a work has."""
    return looks.is_of("openalex", head)


def read(path: Path, head: bytes, given: Given) -> Iterator[Batch]:
    """Read papers from works; see `_batch.Reader`."""
    for some in typed.read(path, tables.json_form(path, head), _WANTED, given.limit):
        yield _batch(some, given.table)


def _batch(some: typed.Some[_Work], table: Table) -> Batch:
    works = some.records
    raw = Columns(some.numbers, some.bad, lambda row: f"id={works[row].id}")
    raw.given("id", raw.texts("id", [work.id for work in works]).str.extract(_ID, 1))
    raw.texts("doi", [work.doi for work in works])
    raw.texts("title", [work.title or work.display_name for work in works])
    abstracts = [work.abstract_inverted_index or _NO_ABSTRACT for work in works]
    raw.texts("abstract", [abstract.text for abstract in abstracts])
    malformed = sum(one.text is None and one.was_there for one in abstracts)
    raw.authors(map(_authors, works))
    raw.texts("year", [work.publication_year for work in works])
    dates = raw.texts("date", [work.publication_date for work in works])
    raw.given("date", dates.set(dates.str.ends_with("-01-01").fill_null(False), None))
    raw.joined("field", map(_fields, works))
    raw.texts("language", [work.language for work in works])
    raw.texts("status", [_status(work) for work in works])
    raw.cited(
        "openalex",
        [work.cited_by_count for work in works],
        as_of=[work.updated_date for work in works],
        dated=[_dated(work) for work in works],
    )
    _add_places(raw, works, table)
    raw.all_are(source="openalex")
    return raw.batch(frozenset(), {"abstract": malformed})


def _add_places(raw: Columns, works: list[_Work], table: Table) -> None:
    """Add what depends on where each work is to be found."""
    places = [_places(work) for work in works]
    published = [next(filter(_is_published, each), None) for each in places]
    first = [each[0] if each else _NOWHERE for each in places]
    in_journals = raw.texts("journal", [_source(at).display_name for at in published])
    in_repositories = [
        next((_source(at).display_name for at in each if _source(at).display_name), None)
        for each in places
    ]
    preprints = raw.texts("repository", in_repositories)
    servers = preprints.set(~venues.is_preprint(venues.resolve(preprints, table), table), None)
    raw.given("venue", servers.zip_with(in_journals.is_null(), in_journals))
    raw.joined(
        "kind",
        [
            [work.type, work.type_crossref, _preprint(work, at, name)]
            for work, at, name in zip(works, published, in_repositories, strict=True)
        ],
    )
    raw.texts("arxiv_id", [_arxiv(each) for each in places])
    raw.texts("url", [at.landing_page_url for at in first])
    raw.texts(
        "license",
        [
            at.license if at and at.license else other.license
            for at, other in zip(published, first, strict=True)
        ],
    )


def _places(work: _Work) -> list[_Location]:
    """Where a work is, its primary location first."""
    locations = [work.primary_location, *(work.locations or ())]
    old = [work.host_venue, *(work.alternate_host_venues or ())]
    return [
        *filter(None, locations),
        *(
            _Location(_Source(at.display_name, at.type), at.url, at.version, at.license)
            for at in old
            if at
        ),
    ]


def _source(location: _Location | None) -> _Source:
    return (location and location.source) or _NO_SOURCE


def _is_published(location: _Location) -> bool:
    source = _source(location)
    return (
        bool(source.display_name)
        and source.type != "repository"
        and location.version != "submittedVersion"
    )


def _preprint(work: _Work, published: _Location | None, repository: Any) -> str | None:
    only_there = published is None and repository and work.type in (None, "article")
    return "preprint" if only_there else None


def _arxiv(places: list[_Location]) -> str | None:
    """The first address that names arXiv: a page there, or a DOI that it gave."""
    urls = (at.landing_page_url for at in places)
    return next((url for url in urls if isinstance(url, str) and "arxiv." in url.lower()), None)


def plain(index: Any) -> str | None:
    """Put a text together from its inverted index: each word, and the places where it stands.

    Returns
    -------
    str or None
        None where there is no word, or the index is malformed: no lists of whole numbers from 0
        on, or more than 10 places per word (and a thousand).
    """
    if not index:
        return None
    try:
        words = {place: word for word, places in index.items() for place in places}
        if min(words) == 0 and max(words) == len(words) - 1:  # no holes, the usual
            return " ".join(map(words.__getitem__, range(len(words))))
        filled = sorted(words)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    whole = all(type(place) is int for place in filled)
    if not whole or filled[0] < 0 or filled[-1] > _MOST_HOLES * len(words) + 1000:
        return None
    return " ".join(map(words.__getitem__, filled))


def _authors(work: _Work) -> list[Any]:
    return [
        (one.author and one.author.display_name) or one.raw_author_name
        for one in work.authorships or ()
        if one
    ]


def _fields(work: _Work) -> list[Any]:
    """Names of the first topic's field and subfield and of all topics; else of wide concepts."""
    topics = [topic for topic in (work.primary_topic, *(work.topics or ())) if topic]
    if not topics:
        concepts = [one for one in work.concepts or () if one and one.level in (0, 1)]
        return [one.display_name for one in concepts]
    first = topics[0]
    wide = [part.display_name for part in (first.field, first.subfield) if part]
    names = [*wide, *(topic.display_name for topic in topics)]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _status(work: _Work) -> str | None:
    if work.is_retracted is True:
        return "retracted"
    return "paratext" if work.is_paratext is True or work.type == "paratext" else None


def _dated(work: _Work) -> str | None:
    """Citations by year, as ``2022:0 2023:5``; None where that is not known."""
    if work.counts_by_year is None:
        return None
    counts = {one.year: one.cited_by_count for one in work.counts_by_year}
    published = work.publication_year
    years = [*counts]
    if sum(counts.values()) == work.cited_by_count and isinstance(published, int):
        years.append(published)
    if not years or min(years) < 1800 or max(years) > 2200 or min(counts.values(), default=0) < 0:
        return None
    return " ".join(f"{year}:{counts.get(year, 0)}" for year in range(min(years), max(years) + 1))


READER = Reader("openalex", sniff, read)
