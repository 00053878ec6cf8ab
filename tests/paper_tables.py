"""Small tables of made-up papers, for tests of stores and pools."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from hindsight_fast.papers.schema import PAPER_SCHEMA, REJECT_SCHEMA, PaperTable

WORDS = ("the", "of", "a", "model", "language", "graph", "neural", "learn", "data", "we", "image")


def paper(number: int, **facts: Any) -> dict[str, Any]:
    """One paper: dated 2023-06-01 plus `number` days, with citations, unless told otherwise."""
    words = np.random.default_rng(number).choice(WORDS, 12).tolist()
    row: dict[str, Any] = dict.fromkeys(PAPER_SCHEMA)
    row |= {
        "id": f"p{number:04d}",
        "title": f"Paper {number} on {' '.join(words[:4])}",
        "abstract": f"In {number} words: {' '.join(words)}.",
        "authors": ["A. One", "B. Two"],
        "venue": "NeurIPS" if number % 3 == 0 else None,
        "date": dt.date(2023, 6, 1) + dt.timedelta(days=number),
        "date_precision": "day",
        "date_kind": "first_public",
        "citations": number,
        "citations_source": "somewhere",
        "citations_as_of": dt.date(2025, 11, 1),
        "source": "made up",
        "status": "ok",
        "n_records": 1,
    }
    return row | facts


def table(rows: Sequence[dict[str, Any]], *, n_rejects: int = 0) -> PaperTable:
    """A table of these papers, and rejects."""
    rejects = [
        {"file": "papers.jsonl", "line": i + 1, "reason": "no title", "record": "{}"}
        for i in range(n_rejects)
    ]
    counts = {
        "n_in": len(rows) + n_rejects,
        "n_papers": len(rows),
        "n_merged": 0,
        "n_rejects": n_rejects,
    }
    return PaperTable(
        pl.DataFrame(list(rows), schema=PAPER_SCHEMA),
        pl.DataFrame(rejects, schema=REJECT_SCHEMA),
        counts,
    )
