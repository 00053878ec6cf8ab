"""What a score on this pool rests on: how much is known, and on what kind of evidence."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers import venues
from hindsight_fast.store import tally


def coverage(papers: pl.DataFrame, impact: NDArray[np.float32]) -> dict[str, Any]:
    """Count what is known of the eligible papers.

    Parameters
    ----------
    papers
        n rows with columns id, title, venue, date_kind, citations, citations_source,
        citations_as_of.
    impact : ndarray of shape (n,), float32
        -1 where not eligible.

    Returns
    -------
    dict
        JSON-like: `papers`, `citations_known`, `venue_known`, `both_known`, `top_venue`,
        `date_kind` (papers and share of all impact, by kind), `citations` (min, p50, p99, max of
        the known counts; `low` and `high`, between which they are normalised), `top_paper` (the one
        that sets the maximum, and the share of the range that it alone spans), `sources` (papers by
        source of the count) and `as_of` (first and last date of a count).
    """
    eligible = impact >= 0
    taken = papers.filter(pl.Series(eligible, dtype=pl.Boolean))
    weights = pl.Series("impact", impact[eligible].astype(np.float64))
    known = taken["citations"].is_not_null()
    published = venues.is_known(taken["venue"], venues.table())
    return {
        "papers": taken.height,
        "citations_known": int(known.sum()),
        "venue_known": int(published.sum()),
        "both_known": int((known & published).sum()),
        "top_venue": int(venues.is_top(taken["venue"], venues.table()).sum()),
        "date_kind": _by_date_kind(taken.with_columns(weights)),
        "citations": _spread(taken["citations"]),
        "top_paper": _top_paper(taken),
        "sources": tally(taken.filter(known)["citations_source"].fill_null("unknown")),
        "as_of": _as_of(taken.filter(known)["citations_as_of"]),
    }


def _by_date_kind(taken: pl.DataFrame) -> dict[str, dict[str, float]]:
    total = float(taken["impact"].sum())
    kinds = taken.group_by(pl.col("date_kind").fill_null("unknown")).agg(
        pl.len().alias("n"), pl.col("impact").sum()
    )
    return {
        kind: {
            "papers": n,
            "share_of_papers": n / taken.height,
            "share_of_impact": impact / total if total else 0.0,
        }
        for kind, n, impact in kinds.sort("date_kind").iter_rows()
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


def _as_of(as_of: pl.Series) -> dict[str, str] | None:
    found = as_of.drop_nulls()
    return {"first": str(found.min()), "last": str(found.max())} if len(found) else None
