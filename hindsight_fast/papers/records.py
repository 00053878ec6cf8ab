"""Raw records to typed papers: cleaning, one vectorised rule per column, and what was malformed."""

from datetime import date
from typing import NamedTuple

import polars as pl

from hindsight_fast.papers import citations, dates, identifiers, text, venues
from hindsight_fast.papers.schema import PAPER_SCHEMA, REJECT_SCHEMA

RAW_SCHEMA: dict[str, pl.DataType] = {
    "line": pl.Int64(),
    **{
        name: pl.List(pl.String()) if name == "authors" else pl.String()
        for name in PAPER_SCHEMA
        if name not in ("date_precision", "date_kind", "status")
    },
}
"""What readers give: the columns as text, and where each record stood."""

_PLAIN = ("id", "citations_source", "field", "kind", "language", "license", "url", "source")
_YEAR = r"^([0-9]{4})(?:\.0*)?$"


class Cleaned(NamedTuple):
    """Papers of one batch, with what was refused.

    Attributes
    ----------
    papers : polars.DataFrame
        Columns of `PAPER_SCHEMA`; ids may be null or repeat.
    rejects : polars.DataFrame
        Columns of `REJECT_SCHEMA`.
    malformed : dict of str to int
        Per column, how many values were neither empty nor what they should be; they count as
        unknown, the paper stays.
    """

    papers: pl.DataFrame
    rejects: pl.DataFrame
    malformed: dict[str, int]


def clean(raw: pl.DataFrame, file: str, today: date) -> Cleaned:
    """Clean a batch of raw records.

    Parameters
    ----------
    raw : polars.DataFrame
        Columns of `RAW_SCHEMA`.
    file : str
        Named in rejects.
    today : datetime.date
        Dates far after it are not believed.

    Returns
    -------
    Cleaned
    """
    titles = text.missing_to_null(text.clean(raw["title"]))
    bad = titles.is_null()
    rejects = _rejects(raw.filter(bad), file)
    raw, titles = raw.filter(~bad), titles.filter(~bad)
    malformed: dict[str, int] = {}

    def noted(name: str, parsed: pl.Series) -> pl.Series:
        given = text.missing_to_null(raw[name]).is_not_null()
        malformed[name] = int((given & parsed.is_null()).sum())
        return parsed.alias(name)

    def plain(name: str) -> pl.Series:
        return text.missing_to_null(text.clean(raw[name]))

    abstracts = text.missing_to_null(text.clean(raw["abstract"]))
    abstracts = abstracts.set(text.no_abstract(abstracts), None)
    counts, wrong_counts = citations.parse(text.missing_to_null(raw["citations"]))
    malformed["citations"] = int(wrong_counts.sum())
    papers = pl.DataFrame(
        [
            titles.alias("title"),
            abstracts.alias("abstract"),
            text.status(titles, abstracts),
            _authors(raw["authors"]),
            venues.resolve(plain("venue")).alias("venue"),
            noted("year", _year(raw["year"], today)),
            counts,
            noted("citations_as_of", dates.parse(raw["citations_as_of"], today)["start"]),
            noted("corpus_id", raw["corpus_id"].str.strip_chars().cast(pl.Int64, strict=False)),
            noted("doi", _doi(raw)),
            noted("arxiv_id", _arxiv(raw)),
            *(plain(name) for name in _PLAIN),
        ]
    )
    parsed = dates.parse(text.missing_to_null(raw["date"]), today)
    malformed["date"] = int(parsed["malformed"].sum())
    dated = _date(papers, parsed, venues.year_in(raw["venue"]))
    papers = papers.with_columns(dated).select(
        pl.col(name).cast(dtype) for name, dtype in PAPER_SCHEMA.items()
    )
    return Cleaned(papers, rejects, malformed)


def _rejects(raw: pl.DataFrame, file: str) -> pl.DataFrame:
    shown = pl.format("id={} abstract={}", *(pl.col(c).fill_null("") for c in ("id", "abstract")))
    return raw.select(
        pl.lit(file).alias("file"),
        pl.col("line"),
        pl.lit("no title").alias("reason"),
        shown.str.slice(0, 200).alias("record"),
    ).cast(REJECT_SCHEMA)  # type: ignore[arg-type]


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


def _doi(raw: pl.DataFrame) -> pl.Series:
    return _first(identifiers.doi(raw["doi"]), identifiers.doi_in_url(raw["url"]))


def _arxiv(raw: pl.DataFrame) -> pl.Series:
    return _first(*(identifiers.arxiv(raw[name]) for name in ("arxiv_id", "id", "doi", "url")))


def _first(*columns: pl.Series) -> pl.Series:
    frame = pl.DataFrame([column.alias(str(place)) for place, column in enumerate(columns)])
    return frame.select(pl.coalesce(pl.all())).to_series()


def _date(papers: pl.DataFrame, explicit: pl.DataFrame, year_in_venue: pl.Series) -> pl.DataFrame:
    """One date per paper, chosen by `dates.choose` from all that its record says."""
    group = pl.int_range(papers.height, dtype=pl.Int64, eager=True)
    from_arxiv = dates.arxiv_month(papers["arxiv_id"])
    at_venue = venues.is_known(papers["venue"]) & from_arxiv.is_null()
    kinds = at_venue.replace_strict({True: "venue", False: "first_public"}, return_dtype=pl.String)
    only_year = papers["year"].cast(pl.String)
    nothing_else = only_year.is_null() & explicit["start"].is_null() & from_arxiv.is_null()
    only_year = only_year.zip_with(~nothing_else, year_in_venue)
    evidence: list[dict[str, pl.Series | str]] = [
        {"start": from_arxiv, "precision": "month", "kind": "first_public"},
        {"start": explicit["start"], "precision": explicit["precision"], "kind": kinds},
        {"start": (only_year + "-01-01").str.to_date(), "precision": "year", "kind": "year"},
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
    )
