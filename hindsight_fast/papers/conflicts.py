"""What merging could not settle, as a list for a reader to look at.

``same_title``
    papers with equal normalised titles, which did not merge: their first authors differ, or their
    years are apart or unknown;
``generic_title``
    papers with a title that many have ("Preface"), which never merge by it;
``too_many_alike``
    papers that share a title, DOI, arXiv id or corpus id with so many records that it tells
    nothing (`duplicates.LARGEST`);
``volume_doi``
    papers of other titles and authors that share a DOI;
``titles_differ``
    one paper by a number that its records share, whose titles have less than half of their words
    in common: often a title that was changed, now and then a number that is wrong;
``counts_differ``
    one paper whose records count citations tenfold apart, from ten on: a wrong match, or another
    paper.

The last two are about one paper each, the others about several.
"""

from collections.abc import Callable
from typing import Final

import polars as pl

from hindsight_fast.papers.schema import CONFLICT_SCHEMA

SHOWN: Final = 20
"""Ids that are listed of each conflict."""

OF_ONE: Final[dict[str, pl.DataType]] = {
    "group": pl.Int64(),
    "kind": pl.String(),
    "n": pl.Int64(),
    "detail": pl.String(),
}
"""Conflicts within one paper, which ``group`` numbers."""

WITHIN: Final = ("titles_differ", "counts_differ")
"""Kinds of them."""

_NUMBERS: Final = {"doi": "DOI ", "arxiv_id": "arXiv ", "corpus_id": "corpus id ", "title": ""}


def listed(
    shared: pl.DataFrame, ids: pl.DataFrame, texts: Callable[[str, pl.Series], pl.Series]
) -> pl.DataFrame:
    """List the papers that share something.

    Parameters
    ----------
    shared : polars.DataFrame
        Columns of `duplicates.SHARED` and ``group``, the number of the row's paper.
    ids : polars.DataFrame
        ``group`` and ``id``; papers that it lacks are none (witnesses alone).
    texts : callable
        ``texts("title", groups)`` gives the titles of papers by their numbers; ``texts("doi",
        rows)`` (or ``arxiv_id``, ``corpus_id``) what records hold, as text.

    Returns
    -------
    polars.DataFrame
        Columns of `CONFLICT_SCHEMA`, in no particular order.
    """
    by = ["kind", "what", "label"]
    papers = shared.select(*by, "group", "detail").unique().join(ids, on="group").sort("id")
    found = papers.group_by(by).agg(
        pl.col("id").head(SHOWN).alias("ids"),
        pl.len().cast(pl.Int64).alias("n"),
        pl.col("detail", "group").first(),
    )
    found = found.filter(pl.col("n") > 1)
    keyed = [_keyed(found, what, texts) for what in _NUMBERS]
    return pl.concat([pl.DataFrame(schema=CONFLICT_SCHEMA), *keyed])


def _keyed(
    found: pl.DataFrame, what: str, texts: Callable[[str, pl.Series], pl.Series]
) -> pl.DataFrame:
    """Say in words what is shared: the title of the first of the papers, or the number."""
    found = found.filter(pl.col("what") == what)
    keys = texts(what, found["group" if what == "title" else "label"])
    return found.with_columns(key=_NUMBERS[what] + keys).select(list(CONFLICT_SCHEMA))


def titles_apart(ranked: pl.DataFrame) -> pl.DataFrame:
    """Find the papers made of records with different titles.

    Parameters
    ----------
    ranked : polars.DataFrame
        ``group`` and ``title`` of records; the best of each group first.

    Returns
    -------
    polars.DataFrame
        Columns of `OF_ONE`.
    """
    titles = ranked.select("group", "title").unique(maintain_order=True)
    titles = titles.filter(pl.len().over("group") > 1)
    words = pl.col("title").str.to_lowercase().str.extract_all(r"[\p{L}\p{N}\p{M}]+").list.unique()
    best = pl.col("words").first().over("group")
    common = pl.col("words").list.set_intersection("best").list.len()
    either = pl.col("words").list.set_union("best").list.len()
    apart = (
        titles.with_columns(words=words)
        .with_columns(best=best)
        .filter(2 * common < either)
        .group_by("group", maintain_order=True)
        .agg(n=1 + pl.len().cast(pl.Int64), detail=pl.col("title"))
    )
    return _of_one(apart, "titles_differ")


def counts_apart(ranked: pl.DataFrame) -> pl.DataFrame:
    """Find the papers made of records with very different counts of citations.

    Parameters
    ----------
    ranked : polars.DataFrame
        ``group``, ``citations`` and ``citations_source`` of records; the best first.

    Returns
    -------
    polars.DataFrame
        Columns of `OF_ONE`.
    """
    count = pl.col("citations")
    detail = pl.concat_str("citations_source", count, separator=" ", ignore_nulls=True)
    groups = (
        ranked.drop_nulls("citations")
        .group_by("group", maintain_order=True)
        .agg(n=pl.len().cast(pl.Int64), low=count.min(), high=count.max(), detail=detail)
    )
    apart = (pl.col("high") >= 10) & (pl.col("high") >= 10 * pl.col("low"))
    return _of_one(groups.filter(apart), "counts_differ")


def _of_one(found: pl.DataFrame, kind: str) -> pl.DataFrame:
    detail = pl.col("detail").list.join("; ")
    return found.select("group", "n", kind=pl.lit(kind), detail=detail).select(list(OF_ONE))


def within(apart: pl.DataFrame) -> pl.DataFrame:
    """List conflicts within one paper each.

    Parameters
    ----------
    apart : polars.DataFrame
        Columns of `OF_ONE`, and ``id`` and ``title`` of the paper.
    """
    return apart.select(
        "kind", pl.col("title").alias("key"), pl.concat_list("id"), "n", "detail"
    ).rename({"id": "ids"})


def ordered(*conflicts: pl.DataFrame) -> pl.DataFrame:
    """Put conflicts in the order in which they are listed: by kind, key, ids and detail."""
    ids = pl.col("ids").list.join("\n")
    return pl.concat(conflicts).sort("kind", "key", ids, "n", "detail")
