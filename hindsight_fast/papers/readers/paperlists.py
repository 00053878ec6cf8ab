"""Proceedings lists as paperlists has them: a JSON array per venue and year.

The file's name says venue and year (``iclr2024.json``), else the BibTeX of a paper does. Track
and status come after the venue's name, so that a workshop paper, one of a Findings volume, or a
rejected or withdrawn submission is not taken for the main track. The month is that of the BibTeX,
which is the conference's, in the year of the venue: the proceedings may be a year late. Citations
are Google Scholar's; -1 is not found.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from msgspec import Struct

from hindsight_fast.papers import text, venues
from hindsight_fast.papers.readers import looks, tables, typed
from hindsight_fast.papers.readers._batch import Batch, Given, Reader
from hindsight_fast.papers.readers.columns import Columns, split_names
from hindsight_fast.papers.venues import Table


class _Paper(Struct, gc=False):
    title: Any
    author: Any
    id: Any = None
    abstract: Any = None
    tldr: Any = None
    site: Any = None
    pdf: Any = None
    track: Any = None
    status: Any = None
    primary_area: Any = None
    gs_citation: Any = None
    bibtex: Any = None


_WANTED = typed.Wanted(_Paper, "paperlists")
_NAME = re.compile(r"^([a-z0-9]*?[a-z]+)[-_ ]?((?:19|20)[0-9]{2})(?![0-9])", re.IGNORECASE)
_WORD = re.compile("[a-z]+")
_ACCEPTED = frozenset(
    _WORD.findall(
        "accept accepted award best candidate conference equivalent full highlight honorable long "
        "main mention notable oral outstanding paper poster presentation regular runner short "
        "spotlight talk top up"
    )
)
_FATES = (
    (re.compile("reject"), ", rejected submission"),
    (re.compile("withdr[ae]w"), ", withdrawn submission"),
    (re.compile("^(?:active|pending|submitted|(?:under|in) review)"), ", submission under review"),
)
_MAIN = ("", "main", "main track", "main conference", "conference")


def sniff(path: Path, head: bytes) -> bool:
    """Records have an author in one text, a track and a status, or Google's citations."""
    return looks.is_of("paperlists", head)


def read(path: Path, head: bytes, given: Given) -> Iterator[Batch]:
    """Read papers from a list; see `_batch.Reader`."""
    named = _NAME.match(path.name)
    stem, year = named.groups() if named else (None, None)
    for some in typed.read(path, tables.json_form(path, head), _WANTED, given.limit):
        yield _batch(some, stem, year, given.table)


def _batch(some: typed.Some[_Paper], stem: str | None, year: str | None, table: Table) -> Batch:
    papers = some.records
    raw = Columns(some.numbers, some.bad, lambda row: f"title={papers[row].title}"[:200])
    ids = text.missing_to_null(raw.texts("id", [paper.id for paper in papers]))
    raw.given("id", "paperlists:" + ids)
    raw.texts("title", [paper.title for paper in papers])
    raw.texts("abstract", [paper.abstract for paper in papers])
    raw.texts("tldr", [paper.tldr for paper in papers])
    raw.texts("field", [paper.primary_area for paper in papers])
    raw.texts("url", [paper.site or paper.pdf for paper in papers])
    raw.given("authors", split_names(raw.texts("authors", [paper.author for paper in papers])))
    raw.cited("google_scholar", [paper.gs_citation for paper in papers])
    entries = raw.texts("bibtex", [paper.bibtex for paper in papers])
    years = _field(entries, "year").str.extract("([0-9]{4})", 1)
    if year is not None:
        years = pl.repeat(year, len(papers), dtype=pl.String, eager=True)
    raw.given("year", years)
    raw.given("date", _dates(_field(entries, "month"), years))
    raw.given("doi", _field(entries, "doi"))
    names = _names(stem, _field(entries, "booktitle"), table)
    after = pl.Series([_after(paper.track, paper.status) for paper in papers], dtype=pl.String)
    frame = pl.DataFrame([names.alias("name"), years.fill_null("").alias("year"), after])
    raw.given("venue", frame.select(pl.format("{} {}{}", *frame.columns)).to_series())
    raw.all_are(source="paperlists")
    return raw.batch(frozenset())


def _field(entries: pl.Series, name: str) -> pl.Series:
    """A field of each BibTeX entry, up to the first brace, quote or line end in it."""
    found = entries.str.extract(rf'(?im)^\s*{name}\s*=\s*[{{"]*([^}}"\n]*)', 1).str.strip_chars(
        " \t,"
    )
    return text.missing_to_null(found)


def _dates(months: pl.Series, years: pl.Series) -> pl.Series:
    frame = pl.DataFrame([months.alias("month"), years.alias("year")])
    with_year = pl.col("month").str.contains(r"\b(?:19|20)[0-9]{2}\b")
    both = pl.format("{} {}", "month", "year")
    return frame.select(pl.when(with_year).then("month").otherwise(both).alias("date"))["date"]


def _names(stem: str | None, books: pl.Series, table: Table) -> pl.Series:
    """The venue that the file's name says, else that of each BibTeX entry."""
    names = pl.repeat(stem, len(books), dtype=pl.String, eager=True)
    if stem is not None and venues.is_known(venues.resolve(names[:1], table), table).all():
        return names
    return books.zip_with(books.is_not_null(), names)


def _after(track: Any, status: Any) -> str:
    """What follows the venue's name: whatever makes a paper none of its main track."""
    track, status = (
        text.without_surrogates(value.strip()) if isinstance(value, str) else ""
        for value in (track, status)
    )
    where, fate = track.lower(), status.lower()
    said = "" if where in _MAIN else f" {track}"
    for pattern, words in _FATES:
        if pattern.search(fate):
            return said + words
    return said if set(_WORD.findall(fate)) <= _ACCEPTED else f"{said} {status}"


READER = Reader("paperlists", sniff, read)
