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
    "best_date_kind": pl.String(),  # first_public, or only a bound on that: venue, year
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

_DATE_LENGTHS = {"year": 4, "month": 7, "day": 10}
_NAMING = ("id", "title", "venue", "date", "date_precision", "date_kind", "citations")


def written_dates(papers: pl.DataFrame) -> pl.Series:
    """Dates of a frame with `date` and `date_precision`, written as precisely as they are known."""
    length = pl.col("date_precision").replace_strict(_DATE_LENGTHS, default=None)
    return papers.select(pl.col("date").cast(pl.String).str.head(length))["date"]


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
    m, nearest_rows = len(scored), matches.rows[:, 0]
    named = named_papers(pool, np.concatenate([matches.best_rows, nearest_rows]))
    best, nearest = named[:m], named[m:]
    similarity = matches.similarities[:, 0]
    is_found, is_matched = pl.Series(nearest_rows >= 0), pl.Series(matches.best_rows >= 0)
    apart = np.abs(matches.similarities.astype(np.float64) - float(np.float32(config.theta)))
    found = pl.DataFrame(
        {
            "score": matches.scores,
            "matched": is_matched,
            "n_matches": matches.n_matches,
            "best_paper_id": best["id"],
            "best_title": best["title"],
            "best_similarity": matches.best_similarities,
            "best_impact": matches.scores,
            "best_citations": best["citations"],
            "best_venue": best["venue"],
            "best_date": best["date"],
            "best_date_kind": best["date_kind"],
            "nearest_paper_id": nearest["id"],
            "nearest_similarity": similarity,
            "margin": similarity - np.float32(config.theta),
            "saturated": (matches.n_matches == config.k) & (pool.n_papers > config.k),
            "near_theta": (apart <= CLOSE).any(axis=1),
        }
    ).with_columns(
        pl.when(is_matched).then(pl.col("best_similarity", "best_impact")),
        pl.when(is_found).then(pl.col("nearest_similarity", "margin")),
    )
    if m < ideas.height:
        places = np.full(ideas.height, m)
        places[scored] = np.arange(m)
        found = _with_nulls(found)[places]
    if pool.n_papers == 0:
        status = ["empty_pool" if one == "ok" else one for one in status]
    given = ideas.with_columns(pl.Series("status", status, dtype=pl.String))
    columns = {**{one.name: one for one in given}, **{one.name: one for one in found}}
    return pl.DataFrame(
        [
            pl.Series(name, columns[name], dtype=kind, strict=False)
            if name in columns
            else pl.Series(name, [None], dtype=kind).new_from_index(0, ideas.height)
            for name, kind in SCORE_SCHEMA.items()
        ]
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
            "paper_id": named_papers(pool, rows, ("id",))["id"],
            "similarity": similarity,
            "impact": np.asarray(pool.impact[rows]),
            "matched": similarity >= np.float32(config.theta),
        },
        schema_overrides=MATCH_SCHEMA,
    )


def named_papers(
    pool: Pool, rows: NDArray[np.int32], columns: Sequence[str] = _NAMING
) -> pl.DataFrame:
    """What is known of pool rows, in that order; all null where a row is -1."""
    unique, places = np.unique(rows, return_inverse=True)
    n_none = int(len(unique) > 0 and unique[0] < 0)
    known = pool.store.lookup(unique[n_none:].astype(np.int64) + pool.offset, columns)
    if "date" in columns:
        known = known.with_columns(written_dates(known).alias("date"))
    if n_none:
        known, places = _with_nulls(known), np.where(rows < 0, known.height, places - 1)
    return known[places]


def _with_nulls(frame: pl.DataFrame) -> pl.DataFrame:
    """The same with a row of nulls at the end, for what is not there."""
    return pl.concat([frame, frame.clear(1)])
