"""Impact of a paper, h(p): the published recipe, and variants by name.

All are h = 0.6 c + 0.4 v with v = 1 for a main-track paper of a top venue, else 0; they differ in
c, between 0 and 1, and in what becomes of a paper whose count is unknown. A recipe's name goes into
the pool's identity and the signature of every score, so a variant is a new name in `RECIPES` and
never a changed one.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import UsageError
from hindsight_fast.papers.citations import counted_on

NOT_ELIGIBLE = np.float32(-1)
CITATION_WEIGHT = 0.6
VENUE_WEIGHT = 0.4

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Recipe(NamedTuple):
    """How citations count.

    Attributes
    ----------
    formula : str
        c in words.
    columns : tuple of str
        Of the papers, that `counts` looks at.
    counts : callable
        ``counts(papers)`` gives the n counts (float64), nan where unknown.
    share : callable
        ``share(counts, papers)`` makes c of the known counts of the papers that take part.
    unknown_is_zero : bool
        Whether a paper whose count is unknown has none; else it takes no part.
    """

    formula: str
    columns: tuple[str, ...]
    counts: Callable[[pl.DataFrame], Floats]
    share: Callable[[Floats, pl.DataFrame], Floats]
    unknown_is_zero: bool = False


class Impact(NamedTuple):
    """Impact of n papers.

    Attributes
    ----------
    values : ndarray of shape (n,), float32
        Between 0 and 1; -1 where not eligible or dropped.
    dropped : ndarray of shape (n,), bool
        Eligible, but with a count that is unknown and that the recipe does not take for 0.
    """

    values: NDArray[np.float32]
    dropped: Mask


def paper_impact(
    citations: NDArray[np.int64], top_venue: NDArray[np.bool_], eligible: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Return h = 0.6 c + 0.4 v (arXiv 2603.15164).

    c is the citation count, min-max normalised over the eligible papers, and 0 for all of them
    where maximum and minimum are equal; a paper whose count is unknown is taken to have none. v is
    1 for a main-track paper of a top venue, else 0. Computed in float64, rounded once.

    Parameters
    ----------
    citations : ndarray of shape (n,), int64
        -1 (any negative number) where unknown.
    top_venue, eligible : ndarray of shape (n,), bool

    Returns
    -------
    ndarray of shape (n,), float32
        Between 0 and 1; -1 where not eligible.
    """
    h = CITATION_WEIGHT * _share_of_most(citations, eligible) + VENUE_WEIGHT * top_venue
    return np.where(eligible, h, NOT_ELIGIBLE).astype(np.float32)


def _share_of_most(citations: NDArray[np.int64], eligible: Mask) -> Floats:
    """c of the published recipe."""
    counts = np.maximum(citations, 0)
    known = counts[eligible]
    low, high = (int(known.min()), int(known.max())) if known.size else (0, 0)
    return np.asarray((counts - low) / max(high - low, 1), np.float64)


def impact(recipe: str, papers: pl.DataFrame, top_venue: Mask, eligible: Mask) -> Impact:
    """Return the impact of each paper by the named recipe.

    Parameters
    ----------
    recipe
        A name in `RECIPES`.
    papers
        n rows with the recipe's columns.
    top_venue, eligible : ndarray of shape (n,), bool

    Raises
    ------
    UsageError
        There is no such recipe.
    """
    c = citation_part(recipe, papers, eligible)
    h = CITATION_WEIGHT * c + VENUE_WEIGHT * top_venue
    values = np.where(np.isnan(c), NOT_ELIGIBLE, h).astype(np.float32)
    return Impact(values, eligible & np.isnan(c))


def citation_part(recipe: str, papers: pl.DataFrame, eligible: Mask) -> Floats:
    """Return c of each paper by the named recipe; nan where it takes no part.

    Parameters and errors are those of `impact`.
    """
    by = find(recipe)
    if recipe == "paper":
        citations = papers["citations"].fill_null(-1).to_numpy()
        return np.where(eligible, _share_of_most(citations, eligible), np.nan)
    counts = by.counts(papers)
    taken = eligible & ~np.isnan(counts)
    c = np.full(len(eligible), np.nan)
    c[taken] = by.share(counts[taken], papers.filter(pl.Series(taken, dtype=pl.Boolean)))
    return c


def find(recipe: str) -> Recipe:
    """Return the recipe of this name.

    Raises
    ------
    UsageError
        There is none.
    """
    if recipe not in RECIPES:
        raise UsageError(f"no impact recipe {recipe!r}; known are {', '.join(RECIPES)}")
    return RECIPES[recipe]


def _citations(papers: pl.DataFrame) -> Floats:
    counts = papers["citations"].cast(pl.Float64).fill_null(np.nan)
    return np.asarray(counts.to_numpy(), np.float64)


def _min_max(counts: Floats, _: pl.DataFrame) -> Floats:
    """(x - min) / (max - min); 0 where these are equal."""
    if not counts.size or counts.max() == counts.min():
        return np.zeros(counts.size)
    low, high = float(counts.min()), float(counts.max())
    return (counts - low) / (high - low)


def _logarithm(counts: Floats, papers: pl.DataFrame) -> Floats:
    return _min_max(np.log1p(counts), papers)


def _percentile(counts: Floats, papers: pl.DataFrame) -> Floats:
    """Share of the other papers of the same month that have fewer citations; 0 where alone.

    Papers dated by no more than a year are compared among themselves.
    """
    coarse = papers["date_precision"] == "year"
    of_month = pl.DataFrame(
        {"month": papers["date"].dt.truncate("1mo"), "coarse": coarse, "count": counts}
    ).select(
        fewer=pl.col("count").rank("min").over("month", "coarse") - 1,
        others=pl.len().over("month", "coarse") - 1,
    )
    fewer, others = of_month["fewer"].to_numpy(), of_month["others"].to_numpy()
    return np.asarray(fewer / np.maximum(others, 1), np.float64)


def _within(months: int) -> Callable[[pl.DataFrame], Floats]:
    """Citations in the first months of a paper: see `citations_within`."""
    return lambda papers: citations_within(papers, months)


def citations_within(papers: pl.DataFrame, months: int) -> Floats:
    """Estimate how often each paper was cited in its first months, from counts by year or month.

    The citations of a year (month) are taken to be spread evenly over its days from the paper's
    date on, and up to the day on which they were counted (see `papers.citations`); all of them
    count where the year (month) ends before the paper's date. Unknown where the paper is dated by
    no more than a year, counts by time are not known, or they end before its first `months` do.

    Parameters
    ----------
    papers
        n rows with columns date, date_precision, citations_dated, citations_as_of.
    months
        How many, at least 1.

    Returns
    -------
    ndarray of shape (n,), float64
        Not rounded; nan where unknown.
    """
    date, start, end = pl.col("date"), pl.col("start"), pl.col("end")
    year = date.dt.year()
    by_month = pl.col("token").str.contains(r"^\d{4}-\d{2}:\d+$")
    rows = (
        papers.lazy()
        .select("date", "date_precision", "citations_dated", "citations_as_of")
        .with_row_index("row")
        .filter(pl.col("date_precision").is_in(("day", "month")))
        .with_columns(counted_on(), until=date.dt.offset_by(f"{months}mo"))
        .filter(pl.col("until") <= pl.col("counted_on"))
        .with_columns(token=pl.col("citations_dated").str.split(" "))
        .filter(pl.col("token").list.first().str.slice(0, 4).cast(pl.Int32, strict=False) <= year)
        .explode("token")
        .filter(pl.col("token").str.contains(r"^\d{4}(?:-\d{2})?:\d+$"))
        .with_columns(
            count=pl.col("token").str.extract(r":(\d+)$", 1).cast(pl.Float64),
            start=pl.col("token").str.slice(0, 4)
            + pl.when(by_month).then(pl.col("token").str.slice(4, 3)).otherwise(pl.lit("-01")),
        )
        .with_columns(start=(start + "-01").str.to_date(strict=False))
        .with_columns(
            end=pl.when(by_month)
            .then(start.dt.offset_by("1mo"))
            .otherwise(start.dt.offset_by("1y"))
        )
        # Nothing was counted after the day of counting, nor, it is taken, cited before the date.
        .with_columns(end=pl.min_horizontal(end, pl.col("counted_on").dt.offset_by("1d")))
        .with_columns(low=pl.max_horizontal(start, date))
    )
    inside = (pl.min_horizontal(end, "until") - pl.col("low")).dt.total_days().clip(0)
    whole = (end - pl.col("low")).dt.total_days()
    part = pl.when(whole > 0).then(inside / whole).otherwise((start < pl.col("until")).cast(float))
    found = rows.group_by("row").agg((pl.col("count") * part).sum().alias("count")).collect()
    counts = np.full(papers.height, np.nan)
    counts[found["row"].to_numpy()] = found["count"].to_numpy()
    return counts


_DATED = ("date", "date_precision", "citations_dated", "citations_as_of")

RECIPES: Mapping[str, Recipe] = {
    "paper": Recipe(
        "citations, min-max normalised over the pool; unknown = 0 (arXiv 2603.15164)",
        ("citations",),
        _citations,
        _min_max,
        unknown_is_zero=True,
    ),
    "known": Recipe(
        "citations, min-max normalised over the pool; unknown left out",
        ("citations",),
        _citations,
        _min_max,
    ),
    "log": Recipe(
        "log(1 + citations), min-max normalised over the pool; unknown left out",
        ("citations",),
        _citations,
        _logarithm,
    ),
    "percentile": Recipe(
        "share of the month's other papers with fewer citations; unknown left out",
        ("citations", "date", "date_precision"),
        _citations,
        _percentile,
    ),
    "12-months": Recipe(
        "citations within 12 months, min-max normalised over the pool; unknown left out",
        _DATED,
        _within(12),
        _min_max,
    ),
    "24-months": Recipe(
        "citations within 24 months, min-max normalised over the pool; unknown left out",
        _DATED,
        _within(24),
        _min_max,
    ),
}
"""All have the same weights; only c differs."""


def in_words(recipe: str, citations: int | None, impact: float, low: int, high: int) -> str:
    """Say how an impact by the recipe `paper` came about; of others, what c is.

    Parameters
    ----------
    citations
        The paper's count; None if unknown.
    low, high
        Between which counts were normalised.
    """
    if recipe != "paper":
        formula = find(recipe).formula
        return f"{impact:.4f} = {CITATION_WEIGHT} c + {VENUE_WEIGHT} for a top venue; c: {formula}"
    share = (max(citations or 0, 0) - low) / max(high - low, 1)
    counted = "an unknown number of" if citations is None else f"{citations:,}"
    venue = "a top venue" if impact - CITATION_WEIGHT * share > VENUE_WEIGHT / 2 else "no top venue"
    weight = VENUE_WEIGHT if venue == "a top venue" else 0
    return (
        f"{CITATION_WEIGHT} x {share:.4f} for {counted} citations (in this pool from {low:,} to "
        f"{high:,}) + {weight} for {venue} = {impact:.4f}"
    )
