"""The two tables that scoring gives: one row per idea, and the long one of its K nearest papers."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.config import ScoreConfig
from hindsight_fast.pool import Pool
from hindsight_kernels import Matches

SCORE_SCHEMA: dict[str, pl.DataType] = {
    "idea_id": pl.String(),
    "system": pl.String(),
    "topic": pl.String(),
    "score": pl.Float32(),  # null: not scored, which is not 0
    "matched": pl.Boolean(),
    "n_matches": pl.Int32(),  # of the K nearest
    "best_paper_id": pl.String(),
    "best_title": pl.String(),
    "best_similarity": pl.Float32(),
    "best_impact": pl.Float32(),
    "best_citations": pl.Int64(),
    "best_venue": pl.String(),
    "best_date": pl.String(),  # as precise as it is known
    "nearest_paper_id": pl.String(),
    "nearest_similarity": pl.Float32(),
    "margin": pl.Float32(),  # nearest similarity - theta
    "n_tokens": pl.Int32(),
    "truncated": pl.Boolean(),
    "saturated": pl.Boolean(),  # all K match: a higher impact may lie beyond
    "near_theta": pl.Boolean(),  # one of the K nearest lies within CLOSE of theta
    "status": pl.String(),  # ok | empty_pool | empty | too_short | unreadable
    "extra": pl.String(),  # fields of the idea that mean nothing here, as a JSON object
}
"""Columns of the score table, one row per idea in input order."""

TEXT_COLUMNS = ("system", "topic", "n_tokens", "truncated", "extra")
"""Columns that ready vectors have nothing to say about."""

CLOSE = 1e-4
"""A similarity so near theta may lie on its other side by other rounding of the vectors."""

MATCH_SCHEMA: dict[str, pl.DataType] = {
    "idea_id": pl.String(),
    "rank": pl.Int32(),
    "paper_id": pl.String(),
    "similarity": pl.Float32(),
    "impact": pl.Float32(),
    "matched": pl.Boolean(),
}
"""Columns of the long table: the K nearest papers of each idea, best first."""

_DATE_FORMATS = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d"}


def written_dates(papers: pl.DataFrame) -> pl.Series:
    """Dates of a frame with `date` and `date_precision`, written as precisely as they are known."""
    text = pl.lit(None, dtype=pl.String)
    for precision, pattern in _DATE_FORMATS.items():
        is_it = pl.col("date_precision") == precision
        text = pl.when(is_it).then(pl.col("date").dt.strftime(pattern)).otherwise(text)
    return papers.select(text.alias("date"))["date"]


def score_table(
    ideas: pl.DataFrame,
    status: Sequence[str],
    scored: NDArray[np.int64],
    matches: Matches,
    pool: Pool,
    config: ScoreConfig,
) -> pl.DataFrame:
    """Rows of `SCORE_SCHEMA` for n ideas, m of which (`scored`, ascending places) were matched.

    `ideas` gives the columns that describe an idea (idea_id, system, ..., n_tokens, truncated);
    those it lacks are null.
    """
    nearest_rows = matches.rows[:, 0]
    nearest = named_papers(pool, nearest_rows)
    best = named_papers(pool, matches.best_rows)
    similarity = pl.Series(matches.similarities[:, 0])
    impact = np.where(matches.best_rows >= 0, matches.scores, np.float32(0))
    is_found = pl.Series(nearest_rows >= 0)
    is_matched = pl.Series(matches.best_rows >= 0)
    full = matches.n_matches == config.k
    apart = np.abs(matches.similarities.astype(np.float64) - float(np.float32(config.theta)))
    found = pl.DataFrame(
        {
            "place": scored,
            "score": matches.scores,
            "matched": is_matched,
            "n_matches": matches.n_matches,
            "best_paper_id": best["id"],
            "best_title": best["title"],
            "best_similarity": matches.best_similarities,
            "best_impact": impact,
            "best_citations": best["citations"],
            "best_venue": best["venue"],
            "best_date": best["date"],
            "nearest_paper_id": nearest["id"],
            "nearest_similarity": similarity,
            "margin": similarity - np.float32(config.theta),
            "saturated": full & (pool.n_papers > config.k),
            "near_theta": (apart <= CLOSE).any(axis=1),
        }
    ).with_columns(
        pl.when(is_matched).then(pl.col("best_similarity", "best_impact")),
        pl.when(is_found).then(pl.col("nearest_similarity", "margin")),
    )
    if pool.n_papers == 0:
        status = ["empty_pool" if one == "ok" else one for one in status]
    table = (
        ideas.with_columns(pl.Series("status", status, dtype=pl.String))
        .with_row_index("place")
        .with_columns(pl.col("place").cast(pl.Int64))
        .join(found, on="place", how="left", maintain_order="left")
    )
    missing = [
        pl.lit(None, dtype=kind).alias(n)
        for n, kind in SCORE_SCHEMA.items()
        if n not in table.columns
    ]
    return table.with_columns(missing).select(
        pl.col(name).cast(kind) for name, kind in SCORE_SCHEMA.items()
    )


def matches_table(
    idea_ids: pl.Series, matches: Matches, pool: Pool, config: ScoreConfig
) -> pl.DataFrame:
    """Rows of `MATCH_SCHEMA`: the neighbours in `matches` of the m ideas named by `idea_ids`."""
    idea, rank = np.nonzero(matches.rows >= 0)
    rows = matches.rows[idea, rank]
    similarity = matches.similarities[idea, rank]
    return pl.DataFrame(
        {
            "idea_id": idea_ids.gather(idea),
            "rank": rank + 1,
            "paper_id": named_papers(pool, rows)["id"],
            "similarity": similarity,
            "impact": np.asarray(pool.impact[rows]),
            "matched": similarity >= np.float32(config.theta),
        },
        schema_overrides=MATCH_SCHEMA,
    )


def named_papers(pool: Pool, rows: NDArray[np.int32]) -> pl.DataFrame:
    """What is known of pool rows, in that order; all null where a row is -1."""
    unique, inverse = np.unique(rows[rows >= 0], return_inverse=True)
    known = pool.lookup(unique)
    known = known.with_columns(written_dates(known).alias("date"))
    places: NDArray[np.int64] = np.full(len(rows), -1, dtype=np.int64)
    places[rows >= 0] = inverse
    at = pl.Series(places).replace({-1: None}) if len(rows) else pl.Series([], dtype=pl.Int64)
    return known.select(pl.all().gather(at))
