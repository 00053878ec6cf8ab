"""Raw records to typed papers: cleaning, one vectorised rule per column, and what was malformed."""

from datetime import date
from typing import NamedTuple

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

_PLAIN = ("id", "citations_source", "field", "license", "tldr", "url", "source")
_STATUSES = ("retracted", "withdrawn", "paratext")
_YEAR = r"^([0-9]{4})(?:\.0*)?$"


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
    today = rules.today
    titles = text.missing_to_null(text.clean(raw["title"]))
    bad = titles.is_null()
    rejects = _rejects(raw.filter(bad))
    raw, titles = raw.filter(~bad), titles.filter(~bad)
    malformed: dict[str, int] = {}

    def noted(name: str, parsed: pl.Series, *elsewhere: pl.Series) -> pl.Series:
        """Count what neither this column nor another could make of its values."""
        wrong = text.missing_to_null(raw[name]).is_not_null() & parsed.is_null()
        for understood in elsewhere:
            wrong &= understood.is_null()
        malformed[name] = int(wrong.sum())
        return parsed.alias(name)

    def plain(name: str) -> pl.Series:
        return text.missing_to_null(text.clean(raw[name]))

    abstracts = text.missing_to_null(text.clean(raw["abstract"]))
    abstracts = abstracts.set(text.no_abstract(abstracts), None)
    counts, wrong_counts = citations.parse(text.missing_to_null(raw["citations"]))
    malformed["citations"] = int(wrong_counts.sum())
    dois = noted("doi", identifiers.doi(raw["doi"]), identifiers.arxiv(raw["doi"]))
    arxiv_ids = noted("arxiv_id", _arxiv(raw["arxiv_id"], today))
    papers = pl.DataFrame(
        [
            titles.alias("title"),
            abstracts.alias("abstract"),
            _status(text.missing_to_null(raw["status"]), text.status(titles, abstracts)),
            kinds.kind(plain("kind"), titles),
            languages.language(plain("language"), titles, abstracts),
            topics.tag(rules.topics, titles, abstracts),
            pl.repeat(1, len(titles), dtype=pl.Int32, eager=True).alias("n_records"),
            text.missing_to_null(raw["citations_dated"]),
            _authors(raw["authors"]),
            venues.resolve(plain("venue"), rules.venues).alias("venue"),
            noted("year", _year(raw["year"], today)),
            counts,
            noted("revised", dates.parse(raw["revised"], today)["start"]),
            noted("citations_as_of", dates.parse(raw["citations_as_of"], today)["start"]),
            noted("corpus_id", _number(raw["corpus_id"])),
            _first(dois, identifiers.doi_in_url(raw["url"])).alias("doi"),
            _first(arxiv_ids, *(_arxiv(raw[name], today) for name in ("id", "doi", "url"))).alias(
                "arxiv_id"
            ),
            *(plain(name) for name in _PLAIN),
        ]
    )
    parsed = dates.parse(text.missing_to_null(raw["date"]), today)
    malformed["date"] = int(parsed["malformed"].sum())
    dated = _date(papers, parsed, _year(venues.year_in(raw["venue"]), today), rules.venues)
    papers = papers.with_columns(dated).select(
        pl.col(name).cast(dtype) for name, dtype in PAPER_SCHEMA.items()
    )
    return Cleaned(papers, rejects, malformed)


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
    if lists.null_count() == lists.len():
        return lists
    rows = pl.DataFrame({"row": pl.int_range(lists.len(), eager=True), "name": lists})
    flat = rows.drop_nulls("name").explode("name")
    flat = flat.with_columns(name=text.missing_to_null(text.clean(flat["name"]))).drop_nulls()
    names = flat.group_by("row", maintain_order=True).agg(pl.col("name").alias("authors"))
    joined = rows.select("row").join(names, on="row", how="left", maintain_order="left")
    return joined["authors"]


def _year(years: pl.Series, today: date) -> pl.Series:
    numbers = years.str.strip_chars().str.extract(_YEAR, 1).cast(pl.Int32)
    believed = numbers.is_between(dates.EARLIEST.year, (today + dates.FUTURE).year)
    return numbers.set(~believed, None)


def _number(texts: pl.Series) -> pl.Series:
    whole = texts.str.strip_chars().str.replace(r"\.0*$", "")
    return whole.cast(pl.Int64, strict=False)


def _arxiv(texts: pl.Series, today: date) -> pl.Series:
    """arXiv ids, but for those of a month to come."""
    ids = identifiers.arxiv(texts)
    return ids.set((dates.arxiv_month(ids) > today + dates.FUTURE).fill_null(False), None)


def _first(*columns: pl.Series) -> pl.Series:
    frame = pl.DataFrame([column.alias(str(place)) for place, column in enumerate(columns)])
    return frame.select(pl.coalesce(pl.all())).to_series()


def _date(
    papers: pl.DataFrame, explicit: pl.DataFrame, venue_year: pl.Series, table: Table
) -> pl.DataFrame:
    """One date per paper, chosen by `dates.choose` from all that its record says."""
    group = pl.int_range(papers.height, dtype=pl.Int64, eager=True)
    from_arxiv = dates.arxiv_month(papers["arxiv_id"])
    at_venue = venues.is_named(papers["venue"], table) & from_arxiv.is_null()
    kinds = at_venue.replace_strict({True: "venue", False: "first_public"}, return_dtype=pl.String)
    only_year = papers["year"].cast(pl.String)
    nothing_else = only_year.is_null() & explicit["start"].is_null() & from_arxiv.is_null()
    only_year = only_year.zip_with(~nothing_else, venue_year.cast(pl.String))
    evidence: list[dict[str, pl.Series | str]] = [
        {
            "start": from_arxiv,
            "precision": "month",
            "kind": "first_public",
            "origin": "arxiv_id",
        },
        {
            "start": explicit["start"],
            "precision": explicit["precision"],
            "kind": kinds,
            "origin": "publication_date",
        },
        {
            "start": (only_year + "-01-01").str.to_date(),
            "precision": "year",
            "kind": "year",
            "origin": "year",
        },
    ]
    known = pl.concat(
        pl.DataFrame({"group": group, **columns}, schema=dates.EVIDENCE_SCHEMA)
        for columns in evidence
    ).drop_nulls("start")
    chosen = pl.DataFrame({"group": group}).join(
        dates.choose(known), on="group", how="left", maintain_order="left"
    )
    return chosen.select(
        pl.col("start").alias("date"),
        pl.col("precision").alias("date_precision"),
        pl.col("kind").alias("date_kind"),
        pl.col("origin").alias("date_origin"),
    )
