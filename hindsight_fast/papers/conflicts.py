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
``counts_differ``
    one paper whose records count citations tenfold apart: a wrong match, or another paper.
"""

from collections.abc import Callable
from typing import Final

import polars as pl

from hindsight_fast.papers.schema import CONFLICT_SCHEMA

SHOWN: Final = 20
"""Ids that are listed of each conflict."""

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


def of_counts(apart: pl.DataFrame) -> pl.DataFrame:
    """List the papers of which records count citations far apart.

    Parameters
    ----------
    apart : polars.DataFrame
        ``id`` and ``title`` of the paper, ``n`` and ``detail``.
    """
    return apart.select(
        kind=pl.lit("counts_differ"),
        key="title",
        ids=pl.concat_list("id"),
        n="n",
        detail="detail",
    )


def ordered(*conflicts: pl.DataFrame) -> pl.DataFrame:
    """Put conflicts in the order in which they are listed: by kind, key and ids."""
    return pl.concat(conflicts).sort("kind", "key", pl.col("ids").list.join("\n"), "n")
