"""What a score on this pool rests on: how much is known, and on what kind of evidence."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers import venues
from hindsight_fast.store import tally

FACTS = (
    "id",
    "title",
    "venue",
    "date_kind",
    "date_origin",
    "citations",
    "citations_source",
    "citations_as_of",
    "status",
)
"""Columns that a pool's papers are counted by."""

_SETS_RANGE = 0.1
"""Share of the range of counts that a paper must span alone to be named for it."""


def coverage(
    papers: pl.DataFrame, impact: NDArray[np.float32], table: venues.Table
) -> dict[str, Any]:
    """Count what is known of the eligible papers.

    Parameters
    ----------
    papers
        n rows with columns `FACTS`.
    impact : ndarray of shape (n,), float32
        -1 where not eligible.
    table
        Of venues.

    Returns
    -------
    dict
        JSON-like: `papers`, `citations_known`, `venue_known`, `both_known`, `top_venue`,
        `date_kind` and `date_origin` (papers and share of all impact, by each), `citations` (min,
        p50, p99, max of the known counts; `low` and `high`, between which they are normalised),
        `top_paper` (the one that sets the maximum, and the share of the range that it alone spans),
        `outliers` (papers that span a tenth of the range or more between them and the next, and
        those above them), `sources` (papers by source of the count) and `as_of` (first and last
        date of a count).
    """
    eligible = impact >= 0
    taken = papers.filter(pl.Series(eligible, dtype=pl.Boolean))
    weights = pl.Series("impact", impact[eligible].astype(np.float64))
    known = taken["citations"].is_not_null()
    published = venues.is_known(taken["venue"], table)
    return {
        "papers": taken.height,
        "citations_known": int(known.sum()),
        "venue_known": int(published.sum()),
        "both_known": int((known & published).sum()),
        "top_venue": int(venues.is_top(taken["venue"], table).sum()),
        "date_kind": _by("date_kind", taken.with_columns(weights)),
        "date_origin": _by("date_origin", taken.with_columns(weights)),
        "citations": _spread(taken["citations"]),
        "top_paper": _top_paper(taken),
        "outliers": _outliers(taken),
        "sources": tally(taken.filter(known)["citations_source"].fill_null("unknown")),
        "as_of": _as_of(taken.filter(known)["citations_as_of"]),
    }


def _by(name: str, taken: pl.DataFrame) -> dict[str, dict[str, float]]:
    total = float(taken["impact"].sum())
    kinds = taken.group_by(pl.col(name).fill_null("unknown")).agg(
        pl.len().alias("n"), pl.col("impact").sum()
    )
    return {
        kind: {
            "papers": n,
            "share_of_papers": n / taken.height,
            "share_of_impact": impact / total if total else 0.0,
        }
        for kind, n, impact in kinds.sort(name).iter_rows()
    }


def _spread(citations: pl.Series) -> dict[str, int | None]:
    known, used = citations.drop_nulls().to_numpy(), citations.fill_null(0).to_numpy()
    spread: dict[str, int | None] = {
        "low": int(used.min()) if used.size else 0,
        "high": int(used.max()) if used.size else 0,
    }
    for name, share in (("min", 0.0), ("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        found = np.quantile(known, share, method="inverted_cdf") if known.size else None
        spread[name] = None if found is None else int(found)
    return spread


def _top_paper(taken: pl.DataFrame) -> dict[str, Any] | None:
    """The paper with the most citations, and the share of the range above the second."""
    cited = taken.filter(pl.col("citations") > 0)
    if not cited.height:
        return None
    best = cited.sort("citations", "id", descending=[True, False])
    counts = np.sort(taken["citations"].fill_null(0).to_numpy())
    spread = int(counts[-1] - counts[0])
    alone = int(counts[-1] - counts[-2]) / spread if spread else 0.0
    first = best.select("id", "title", "venue", "citations").row(0, named=True)
    return first | {"share_of_range": alone}


def _outliers(taken: pl.DataFrame) -> list[dict[str, Any]]:
    """The papers above the lowest large gap among the ten highest counts, each with its gap."""
    counts = np.sort(taken["citations"].fill_null(0).to_numpy())[::-1]
    spread = int(counts[0] - counts[-1]) if counts.size else 0
    if not spread:
        return []
    gaps = (counts[:10] - np.append(counts, 0)[1 : counts[:10].size + 1]) / spread
    above = int(np.flatnonzero(gaps >= _SETS_RANGE).max(initial=-1)) + 1
    best = taken.filter(pl.col("citations") > 0).sort("citations", "id", descending=[True, False])
    named = best.head(above).select("id", "title", "venue", "citations")
    return [
        row | {"share_of_range": float(gap)}
        for row, gap in zip(named.iter_rows(named=True), gaps, strict=False)
    ]


def _as_of(as_of: pl.Series) -> dict[str, str] | None:
    found = as_of.drop_nulls()
    return {"first": str(found.min()), "last": str(found.max())} if len(found) else None
