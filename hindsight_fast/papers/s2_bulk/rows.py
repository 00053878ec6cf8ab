"""What a record of the papers dataset says, in the columns that cleaning takes."""

import re
from pathlib import Path
from typing import Final

import polars as pl

from hindsight_fast.papers.records import RAW_SCHEMA

LATER: Final[dict[str, pl.DataType]] = {
    name: pl.String()
    for name in ("abstract", "license", "tldr", "citations_as_of", "citations_dated")
}
"""Columns that are known once texts are joined, and null before."""

UNDATED: Final = 0
"""Month of a paper that has neither date nor year."""

_DASHED = re.compile(r"(?<![0-9])(20[0-9]{2})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])(?![0-9])")
_PLAIN = re.compile(r"(?<![0-9])(20[0-9]{2})(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])(?![0-9])")
_FOLDERS = 3


def raw(papers: pl.DataFrame) -> pl.DataFrame:
    """Bring records into the columns of `RAW_SCHEMA`.

    Parameters
    ----------
    papers : polars.DataFrame
        Columns of `shards.PAPERS`, with what is known of `LATER`.

    Returns
    -------
    polars.DataFrame
    """
    number = pl.col("corpusid").cast(pl.String)
    counted = pl.col("citations").is_not_null()
    given = {name: pl.col(name) for name in papers.columns} | {
        "id": "CorpusId:" + number,
        "corpus_id": number,
        "source": pl.lit("s2"),
        "citations_source": pl.when(counted).then(pl.lit("s2")),
    }
    return papers.select(
        given.get(name, pl.lit(None)).cast(dtype).alias(name) for name, dtype in RAW_SCHEMA.items()
    )


def with_venues(papers: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Name the venues that only their ids tell, then those that only the journal does.

    Parameters
    ----------
    papers : polars.DataFrame
        Columns of `shards.PAPERS`.
    names : polars.DataFrame
        ``venue_id`` and ``venue_name``, one row per id.
    """
    told = [
        pl.when(pl.col(name).str.strip_chars() != "").then(name)
        for name in ("venue", "venue_name", "journal")
    ]
    named = papers.join(names, on="venue_id", how="left", maintain_order="left")
    return named.with_columns(venue=pl.coalesce(told)).select(papers.columns)


def month(papers: pl.DataFrame) -> pl.Series:
    """Tell when papers were published: year * 100 + month, month 0 where only the year is known.

    Returns
    -------
    polars.Series of Int32
        `UNDATED` where there is neither.
    """
    parts = pl.col("date").str.extract_groups(r"^([0-9]{4})-(0[1-9]|1[0-2])")
    dated = parts.struct[0].cast(pl.Int32) * 100 + parts.struct[1].cast(pl.Int32)
    years = [pl.col(name).str.extract(r"^([0-9]{4})", 1) for name in ("date", "year")]
    year = pl.coalesce(years).cast(pl.Int32) * 100
    return papers.select(month=pl.coalesce(dated, year, pl.lit(UNDATED))).to_series()


def months_text(dated: pl.DataFrame) -> pl.DataFrame:
    """Write down dated counts: ``2023:5 2023-04:1``.

    Parameters
    ----------
    dated : polars.DataFrame
        ``corpusid``, ``month`` (as `month` gives it) and ``n``; one row per pair of the first two.

    Returns
    -------
    polars.DataFrame
        ``corpusid`` and ``citations_dated``, in order of time.
    """
    year = (pl.col("month") // 100).cast(pl.String)
    in_year = (pl.col("month") % 100).cast(pl.String).str.zfill(2)
    when = pl.when(pl.col("month") % 100 == 0).then(year).otherwise(year + "-" + in_year)
    return (
        dated.sort("corpusid", "month")
        .select("corpusid", text=pl.format("{}:{}", when, "n"))
        .group_by("corpusid", maintain_order=True)
        .agg(pl.col("text").str.join(" ").alias("citations_dated"))
    )


def release_day(path: Path) -> str | None:
    """Day (YYYY-MM-DD) in the name of a shard or of one of the three folders above it.

    Releases are named by a day, ``2024-03-12``; shards may have it as ``20240312`` too.
    """
    names = [path.name, *(folder.name for folder in list(path.absolute().parents)[:_FOLDERS])]
    for pattern, where in ((_DASHED, names), (_PLAIN, names[:1])):
        for name in where:
            if found := pattern.search(name):
                return "-".join(found.groups())
    return None
