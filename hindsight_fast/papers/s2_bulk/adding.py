"""What the other datasets add to the papers of a bucket."""

from collections import Counter
from typing import Final

import polars as pl

from hindsight_fast.papers import dates
from hindsight_fast.papers.s2_bulk import rows

DATED_SHARE: Final = 0.9
"""Of a paper's citations, that must be dated for the dated counts to be told. Of a whole release
about 97 in 100 papers have a year; where shards are missing most citations are not dated at all."""

UNKNOWN: Final = -1
"""Month of a citing paper that no shard has."""

_SINCE = f"{dates.EARLIEST.year}:0"  # citations of all time are counted
_SUPERSEDED = ("citations", "field", "kind", *rows.LATER)


def newest(texts: pl.DataFrame) -> pl.DataFrame:
    """Choose one row per corpus id: one that has a text, of these the newest, then the longest.

    Parameters
    ----------
    texts : polars.DataFrame
        ``corpusid``, then the text, then other columns of text, ``updated`` among them.
    """
    several = texts["corpusid"].is_duplicated()
    text = pl.col(texts.columns[1])
    order = [pl.col("corpusid"), text.is_null(), pl.col("updated"), text.str.len_bytes()]
    order += [pl.col(name) for name in texts.columns[1:]]  # whatever order they come in
    descending = [False, False, True, True] + [False] * (texts.width - 1)
    ranked = texts.filter(several).sort(order, descending=descending, nulls_last=True)
    chosen = ranked.unique("corpusid", keep="first", maintain_order=True)
    return pl.concat([texts.filter(~several), chosen])


def with_texts(
    papers: pl.DataFrame, texts: pl.DataFrame, counts: Counter[str], name: str
) -> pl.DataFrame:
    """Join papers that are kept with their texts.

    Parameters
    ----------
    papers : polars.DataFrame
        With columns ``corpusid`` and ``kept``. Where it has a column of `texts` too, the gaps are
        filled.
    texts : polars.DataFrame
        As `newest` takes them.
    counts : Counter of str
        Gets NAME_joined, NAME_repeated and NAME_unknown.
    name : str
    """
    if texts.is_empty():
        more = {column: dtype for column, dtype in texts.schema.items() if column != "updated"}
        return papers.with_columns(
            pl.lit(None, dtype).alias(column)
            for column, dtype in more.items()
            if column not in papers.columns
        )
    chosen = newest(texts)
    counts[f"{name}_repeated"] += texts.height - chosen.height
    counts[f"{name}_unknown"] += chosen.join(papers, on="corpusid", how="anti").height
    kept = papers.filter("kept")
    counts[f"{name}_joined"] += chosen.join(kept, on="corpusid", how="semi").height
    columns = [column for column in chosen.columns if column not in ("corpusid", "updated")]
    joined = papers.join(
        chosen.select("corpusid", pl.col(columns).name.suffix(" more")),
        on="corpusid",
        how="left",
        maintain_order="left",
    )
    return joined.with_columns(
        pl.coalesce(
            *([column] if column in papers.columns else []),
            pl.when("kept").then(pl.col(f"{column} more")),
        ).alias(column)
        for column in columns
    ).select(*papers.columns, *(column for column in columns if column not in papers.columns))


def with_dated(papers: pl.DataFrame, dated: pl.DataFrame, counts: Counter[str]) -> pl.DataFrame:
    """Add ``citations_dated`` to papers that are kept.

    Parameters
    ----------
    papers : polars.DataFrame
        With columns ``corpusid``, ``kept`` and ``citations`` (text).
    dated : polars.DataFrame
        ``corpusid``, ``month`` (of citing: as `rows.month` gives it, or `UNKNOWN`) and ``n``;
        the first two may repeat.
    counts : Counter of str
        Gets ``s2_citations_joined``, ``_unknown`` and ``_undated``, and ``s2_partly_dated``.
    """
    cited = dated.join(papers.filter("kept"), on="corpusid", how="semi")
    cited = cited.group_by("corpusid", "month").agg(pl.col("n").sum())
    counts["s2_citations_joined"] += int(cited["n"].sum())
    for name, month in (("unknown", UNKNOWN), ("undated", rows.UNDATED)):
        counts[f"s2_citations_{name}"] += int(cited.filter(month=month)["n"].sum())
    told = cited.filter(pl.col("month") > 0)
    n = cited.group_by("corpusid").agg(n=pl.col("n").sum())
    n_dated = told.group_by("corpusid").agg(n_dated=pl.col("n").sum())
    joined = papers
    for more in (n, n_dated, rows.months_text(told)):
        joined = joined.join(more, on="corpusid", how="left", maintain_order="left")
    count = pl.col("citations").cast(pl.Int64, strict=False)
    known = pl.col("n").is_not_null() | count.is_not_null()
    n_all = pl.max_horizontal("n", count, pl.lit(0))
    enough = pl.col("n_dated").fill_null(0) >= DATED_SHARE * n_all
    joined = joined.with_columns(
        partly=pl.col("kept") & known & ~enough,
        citations_dated=pl.when(pl.col("kept") & known & enough).then(
            pl.concat_str(pl.lit(_SINCE), "citations_dated", separator=" ", ignore_nulls=True)
        ),
    )
    counts["s2_partly_dated"] += int(joined["partly"].sum())
    return joined.drop("n", "n_dated", "partly")


def newest_first(papers: pl.DataFrame, counts: Counter[str]) -> pl.DataFrame:
    """Leave the counts and texts of a corpus id to the newest of its records.

    Parameters
    ----------
    papers : polars.DataFrame
        Columns of `shards.PAPERS`, and of `rows.LATER`.
    counts : Counter of str
        Gets ``s2_papers_repeated`` and ``s2_papers_superseded``.
    """
    updated = pl.col("updated").fill_null("")
    known = pl.col("corpusid").is_not_null()
    marked = papers.with_columns(
        repeated=known & (pl.len().over("corpusid") > 1),
        superseded=known & (updated < updated.max().over("corpusid")),
    )
    for name in ("repeated", "superseded"):
        counts[f"s2_papers_{name}"] += int(marked[name].sum())
    return marked.with_columns(
        pl.when(~pl.col("superseded")).then(name).alias(name) for name in _SUPERSEDED
    ).select(papers.columns)
