"""Raw records to typed papers: cleaning, one vectorised rule per column, and what was malformed."""

from collections.abc import Callable
from datetime import date
from typing import NamedTuple

import numpy as np
import polars as pl

from hindsight_fast.papers import (
    citations,
    dates,
    identifiers,
    kinds,
    languages,
    text,
    topics,
    venues,
)
from hindsight_fast.papers.schema import PAPER_SCHEMA
from hindsight_fast.papers.topics import Topic
from hindsight_fast.papers.venues import Table

RAW_SCHEMA: dict[str, pl.DataType] = {
    "line": pl.Int64(),
    **{
        name: pl.List(pl.String()) if name == "authors" else pl.String()
        for name in PAPER_SCHEMA
        if name not in ("date_precision", "date_kind", "date_origin", "topics", "n_records")
    },
    "first_public": pl.String(),
}
"""What readers give: the columns as text, and where each record stood.

``date`` is when the record says that it was published; ``first_public`` when its first version was
public, where the source knows that (arXiv). ``status`` is what the source says: retracted,
withdrawn, paratext, or nothing; other words mean nothing.
"""

_REPEATED = ("citations_source", "field", "license", "source")  # few distinct values
_STATUSES = ("retracted", "withdrawn", "paratext")
_YEAR = r"^([0-9]{4})(?:\.0*)?$"
_AS_VENUE = (
    r"(?i)^(?:arxiv|corr)\b[\w\s(),.-]{0,40}?[\s,:(]*\b(?:arxiv\s*:\s*(?:abs/)?|abs/)"
    r"((?:[a-z.-]+/)?[0-9.]{7,10}(?:v[0-9]{1,3})?)(?:\b.*)?$"
)
_LIKE_ARXIV = r"(?i)arxiv|[0-9]{4}\.[0-9]{4}|/[0-9]{7}"  # each arXiv id has it, few others do


class Rules(NamedTuple):
    """What cleaning depends on besides the record.

    Attributes
    ----------
    today : datetime.date
        Dates far after it are not believed.
    venues : Table
    topics : tuple of Topic
        Papers are tagged with those that hold.
    """

    today: date
    venues: Table
    topics: tuple[Topic, ...] = ()


class Cleaned(NamedTuple):
    """Papers of one batch, with what was refused.

    Attributes
    ----------
    papers : polars.DataFrame
        Columns of `PAPER_SCHEMA`; ids may be null or repeat.
    rejects : polars.DataFrame
        Columns of `REJECT_SCHEMA` but for ``file``.
    malformed : dict of str to int
        Per column, how many values were neither empty nor what they should be; they count as
        unknown, the paper stays.
    """

    papers: pl.DataFrame
    rejects: pl.DataFrame
    malformed: dict[str, int]


def clean(raw: pl.DataFrame, rules: Rules) -> Cleaned:
    """Clean a batch of raw records.

    Parameters
    ----------
    raw : polars.DataFrame
        Columns of `RAW_SCHEMA`.
    rules : Rules

    Returns
    -------
    Cleaned
    """
    titles = _text(raw["title"])
    bad = titles.is_null()
    rejects = _rejects(raw.filter(bad))
    if bad.any():
        raw, titles = raw.filter(~bad), titles.filter(~bad)
    today = rules.today
    malformed: dict[str, int] = {}

    def noted(name: str, parsed: pl.Series) -> pl.Series:
        """Count what nothing could be made of."""
        malformed[name] = int(_not_understood(raw[name], parsed).sum())
        return parsed.alias(name)

    def dated(name: str) -> pl.DataFrame:
        parsed = dates.parse(raw[name], today)
        wrong = raw[name].filter(parsed["malformed"])
        malformed[name] = len(wrong) - text.missing_to_null(wrong).null_count()
        return parsed

    abstracts = _text(raw["abstract"])
    abstracts = abstracts.set(text.no_abstract(abstracts), None)
    counts, wrong_counts = citations.parse(text.missing_to_null(raw["citations"]))
    malformed["citations"] = int(wrong_counts.sum())
    dois = identifiers.doi(raw["doi"])
    wrong_dois = raw["doi"].filter(_not_understood(raw["doi"], dois))
    malformed["doi"] = _arxiv(wrong_dois, today).null_count()
    arxiv_ids = noted("arxiv_id", _arxiv(raw["arxiv_id"], today))
    for name in ("id", "doi", "url"):
        arxiv_ids = _filled(arxiv_ids, raw[name], lambda texts: _arxiv(texts, today))
    arxiv_ids = _filled(arxiv_ids, raw["venue"], lambda texts: _arxiv_as_venue(texts, today))
    papers = pl.DataFrame(
        [
            titles.alias("title"),
            abstracts.alias("abstract"),
            _status(text.missing_to_null(raw["status"]), text.status(titles, abstracts)),
            kinds.kind(_each(raw["kind"], _text), titles),
            languages.language(_each(raw["language"], _text), titles, abstracts),
            topics.tag(rules.topics, titles, abstracts),
            pl.repeat(1, len(titles), dtype=pl.Int32, eager=True).alias("n_records"),
            noted("citations_dated", _dated_counts(raw["citations_dated"], today)),
            _authors(raw["authors"]),
            venues.within_volume(
                venues.resolve(_each(raw["venue"], _text), rules.venues),
                *(raw[name] for name in ("url", "doi", "id")),
            ).alias("venue"),
            noted("year", _year(raw["year"], today)),
            counts.alias("citations"),
            dated("revised")["start"].alias("revised"),
            dated("citations_as_of")["start"].alias("citations_as_of"),
            noted("corpus_id", _number(raw["corpus_id"])),
            _filled(dois, raw["url"], identifiers.doi_in_url).alias("doi"),
            arxiv_ids.alias("arxiv_id"),
            *(_text(raw[name]) for name in ("id", "tldr", "url")),
            *(_each(raw[name], _text) for name in _REPEATED),
        ]
    )
    explicit, first = dated("date"), dated("first_public")
    date = _date(papers, explicit, first, raw["venue"], rules)
    # Conditions on the year find records, too, that say it by a date alone.
    year = _first(papers["year"], explicit["start"].dt.year(), first["start"].dt.year())
    papers = papers.with_columns(date, year=year).select(
        pl.col(name).cast(dtype) for name, dtype in PAPER_SCHEMA.items()
    )
    return Cleaned(papers, rejects, malformed)


def _text(texts: pl.Series) -> pl.Series:
    """Cleaned texts, null where they say nothing."""
    return texts if _is_empty(texts) else text.missing_to_null(text.clean(texts))


def _is_empty(column: pl.Series) -> bool:
    return column.null_count() == len(column)


def _each(texts: pl.Series, rule: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Apply a rule to the distinct values of a column, where they are few."""
    distinct = texts.unique().drop_nulls()
    if len(distinct) > len(texts) / 2:
        return rule(texts)
    return texts.replace_strict(
        distinct, rule(distinct.clone()), default=None, return_dtype=pl.String
    )


def _filled(
    found: pl.Series, others: pl.Series, rule: Callable[[pl.Series], pl.Series]
) -> pl.Series:
    """Fill nulls by what a rule finds in another column."""
    rows = (found.is_null() & others.is_not_null()).arg_true()
    return found.clone().scatter(rows, rule(others.gather(rows))) if len(rows) else found


def _not_understood(texts: pl.Series, parsed: pl.Series) -> pl.Series:
    """Tell where there is a text and nothing was made of it."""
    wrong = parsed.is_null() & texts.is_not_null()
    return wrong & text.missing_to_null(texts).is_not_null() if wrong.any() else wrong


def _status(said: pl.Series, shown: pl.Series) -> pl.Series:
    """What the source says of a record, else what its text shows."""
    said = said.str.to_lowercase()
    return shown.zip_with(~said.is_in(_STATUSES).fill_null(False), said).alias("status")


def _rejects(raw: pl.DataFrame) -> pl.DataFrame:
    shown = pl.format("id={} abstract={}", *(pl.col(c).fill_null("") for c in ("id", "abstract")))
    return raw.select(
        pl.col("line"),
        pl.lit("no title").alias("reason"),
        shown.str.slice(0, 200).alias("record"),
    )


def _authors(lists: pl.Series) -> pl.Series:
    """Names cleaned, empty ones dropped; null where none is left."""
    if _is_empty(lists):
        return lists
    was = lists.explode()  # a null stays one null, an empty list vanishes
    lengths = lists.list.len().fill_null(1)
    row = pl.Series(np.repeat(np.arange(len(lists)), lengths))
    flat = pl.DataFrame({"row": row, "was": was, "name": _text(was)})
    changed = flat.filter(pl.col("name").ne_missing("was") | pl.col("name").is_null())["row"]
    kept = (lengths > 0).scatter(changed, False)
    if kept.all():
        return lists
    names = (
        flat.filter(pl.col("row").is_in(changed.unique().implode()))
        .drop_nulls("name")
        .group_by("row", maintain_order=True)
        .agg("name")
    )
    again = pl.DataFrame({"row": pl.int_range(len(lists), eager=True)}).join(
        names, on="row", how="left", maintain_order="left"
    )
    return lists.zip_with(kept, again["name"]).alias("authors")


def _dated_counts(texts: pl.Series, today: date) -> pl.Series:
    return citations.parse_dated(text.missing_to_null(texts), today + dates.FUTURE)


def _year(years: pl.Series, today: date) -> pl.Series:
    numbers = years.str.strip_chars().str.extract(_YEAR, 1).cast(pl.Int32)
    believed = numbers.is_between(dates.EARLIEST.year, (today + dates.FUTURE).year)
    return numbers.set(~believed, None)


def _number(texts: pl.Series) -> pl.Series:
    whole = texts.str.strip_chars().str.replace(r"\.0*$", "")
    return whole.cast(pl.Int64, strict=False)


def _arxiv(texts: pl.Series, today: date) -> pl.Series:
    """arXiv ids, but for those of a month to come."""
    like = texts.str.contains(_LIKE_ARXIV).fill_null(False)
    ids = identifiers.arxiv(texts.filter(like))
    ids = ids.set((dates.arxiv_month(ids) > today + dates.FUTURE).fill_null(False), None)
    return _at(like, ids)


def _arxiv_as_venue(texts: pl.Series, today: date) -> pl.Series:
    """arXiv ids of papers cited as of arXiv: ``arXiv preprint arXiv:X``, ``CoRR abs/X``."""
    return _arxiv(texts.str.strip_chars().str.extract(_AS_VENUE, 1), today)


def _at(rows: pl.Series, values: pl.Series) -> pl.Series:
    """A column with these values where `rows` is true, null elsewhere."""
    column = pl.repeat(None, len(rows), dtype=values.dtype, eager=True)
    return column.scatter(rows.arg_true(), values)


def _first(*columns: pl.Series) -> pl.Series:
    frame = pl.DataFrame([column.alias(str(place)) for place, column in enumerate(columns)])
    return frame.select(pl.coalesce(pl.all())).to_series()


def _date(
    papers: pl.DataFrame,
    explicit: pl.DataFrame,
    first: pl.DataFrame,
    venue_as_written: pl.Series,
    rules: Rules,
) -> pl.DataFrame:
    """One date per paper, chosen by `dates` from all that its record says.

    A year that is written as a date, or as the 1 January that catalogues make of it, is a year.
    """
    start, venue = explicit["start"], papers["venue"]
    arxiv = dates.arxiv_month(papers["arxiv_id"])
    is_year = (explicit["precision"] == "year") | (start == start.dt.truncate("1y"))
    is_year = is_year.fill_null(False)
    day, years = start.set(is_year, None), start.set(~is_year, None).dt.year()
    # A date in the month of the arXiv id, or later, may be that of the first version.
    at_venue = day.is_not_null() & ~(day >= arxiv).fill_null(False)
    at_venue = _at(at_venue, venues.is_named(venue.filter(at_venue), rules.venues)).fill_null(False)
    public = _first(first["start"], arxiv)
    in_name, month = _of_venue(
        _first(papers["year"], years), day, public, venue, venue_as_written, rules
    )
    evidence = [
        dates.Evidence(first["start"], first["precision"], "first_public", "first_version"),
        dates.Evidence(arxiv, "month", "first_public", "arxiv_id"),
        dates.Evidence(
            day.set(at_venue, None), explicit["precision"], "first_public", "publication_date"
        ),
        dates.Evidence(day.set(~at_venue, None), explicit["precision"], "venue", "venue_date"),
        dates.Evidence(month, "month", "venue", "venue_month"),
        dates.Evidence(_new_year(papers["year"]), "year", "year", "year"),
        dates.Evidence(_new_year(years), "year", "year", "year"),
        dates.Evidence(_new_year(in_name), "year", "year", "venue_year"),
    ]
    chosen = dates.choose_each(
        [each for each in evidence if not _is_empty(each.start)] or evidence[:1]
    )
    return chosen.select(
        pl.col("start").alias("date"),
        *(pl.col(name).alias(f"date_{name}") for name in ("precision", "kind", "origin")),
    )


def _of_venue(
    years: pl.Series,
    day: pl.Series,
    public: pl.Series,
    venue: pl.Series,
    written: pl.Series,
    rules: Rules,
) -> tuple[pl.Series, pl.Series]:
    """Years in the venues' names where there is no other date; months in which they were held.

    A month is told only where no date but that year's is known, or one of a later year (as books
    of proceedings have). A year in the venue's name that is earlier than the record's is the year
    it was held in; where it is later, no month is told.
    """
    only_name = years.is_null() & day.is_null() & public.is_null() & written.is_not_null()
    in_name = _at(only_name, _year(venues.year_in(written.filter(only_name)), rules.today))
    years = _first(years, in_name, day.dt.year())
    held_at_all = venue.is_in({name for name, _ in rules.venues.months}) & public.is_null()
    asked = held_at_all.fill_null(False)
    own = _at(asked, _year(venues.year_in(written.filter(asked)), rules.today))
    years = years.set(asked & (own > years).fill_null(False), None)
    years = years.zip_with(~(own < years).fill_null(False), own)
    held = venues.month_held(venue, years, rules.venues)
    told = asked & ~(day.dt.year() <= years).fill_null(False)
    return in_name, held.set(~told, None)


def _new_year(years: pl.Series) -> pl.Series:
    return pl.DataFrame({"year": years}).select(pl.date("year", 1, 1)).to_series()
