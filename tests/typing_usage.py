"""The public names as a user's program calls them; only type-checked, never run."""

from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast import HindsightError, Idea, Pool, Scorer, Store, load_encoder
from hindsight_fast.encoding import VectorCache


def score(folder: Path, ideas: list[Idea]) -> pl.DataFrame:
    encoder = load_encoder("minilm", device="cpu", threads=1)
    vectors: NDArray[np.float32] = encoder.encode([("title", "abstract")])
    pool: Pool = Pool.open(folder)
    day: date = pool.cutoff
    cache = VectorCache(folder / "cache", limit=1 << 30)
    scorer = Scorer(
        pool, encoder, k=20, theta=0.96, search="exact", threads=2, cache=cache, allow=["int8"]
    )
    store: Store = pool.store
    signature: str = scorer.signature
    try:
        ready: pl.DataFrame = scorer.score_vectors(vectors)
    except HindsightError as error:
        raise SystemExit(error.exit_code) from error
    print(day, store.n, signature, ready.height)
    return scorer.score(ideas)
