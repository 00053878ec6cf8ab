"""A small store, pool and encoder for tests of scoring, runs and the command line."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hindsight_fast.encoders import Encoder, load_encoder
from hindsight_fast.encoding import embed_store
from hindsight_fast.index import IndexConfig
from hindsight_fast.pool import Pool, build_pool
from hindsight_fast.store import Store, build_store
from hindsight_models import Encoded, Progress
from paper_tables import WORDS, paper, table
from tiny_model import tiny_model

T, E = date(2023, 6, 1), date(2025, 12, 31)


@dataclass(frozen=True, slots=True)
class World:
    """What a test needs; `folder` holds models/tiny, store and pool."""

    folder: Path
    encoder: Encoder
    store: Store
    pool: Pool


def make_world(
    folder: Path,
    *,
    n: int = 60,
    index: bool = False,
    theta: float | None = None,
    encoder: Encoder | None = None,
) -> World:
    """Papers 0 ... n - 1 around the cutoff, a third of them at a top venue, some without counts."""
    if encoder is None:
        encoder = load_encoder(tiny_model(folder / "models" / "tiny"), device="cpu", threads=2)
    papers = [paper(i, citations=None if i % 7 == 0 else i * i % 101) for i in range(n)]
    papers.append(paper(9000, date=date(2023, 5, 31), citations=10_000))
    store = build_store(table(papers), folder / "store")
    embed_store(store, encoder)
    pool = build_pool(
        store,
        folder / "pool",
        cutoff=T,
        until=E,
        k=5,
        theta=theta,
        index=IndexConfig() if index else None,
    )
    with pytest.MonkeyPatch.context() as patch:  # who works there made it too
        patch.setenv("HINDSIGHT_HOME", str(folder))
        Pool.open(pool.path, store, trust=True)
    return World(folder, encoder, store, pool)


def made_up_ideas(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Ideas of words that the tiny tokenizer knows, in two systems and of every shape."""
    rng = np.random.default_rng(seed)
    ideas = list[dict[str, Any]]()
    for i in range(n):
        words = [" ".join(rng.choice(WORDS, 8)) for _ in range(3)]
        shapes: list[dict[str, Any]] = [
            {"title": words[0], "problem": words[1], "method": words[2]},
            {"problem": words[0], "method": words[1]},
            {"text": f"{words[0]}. {words[1]}. {words[2]}."},
        ]
        ideas.append({"id": f"i{i}", "system": "ab"[i % 2], **shapes[i % 3]})
    return ideas


class Rounded(Encoder):
    """A real encoder whose vectors are as coarse as those of a lower precision.

    Parameters
    ----------
    steps
        Numbers are rounded to 1 / steps.
    """

    def __init__(self, folder: Path, precision: str, steps: int) -> None:
        super().__init__(folder, device="cpu", threads=2)
        self.precision, self._steps = precision, steps

    def encode_counted(
        self, pairs: Sequence[tuple[str, str]], progress: Progress | None = None
    ) -> Encoded:
        """Like `Encoder.encode_counted`."""
        return self._coarse(super().encode_counted(pairs, progress))

    def encode_chunks(
        self, chunks: Iterable[Sequence[tuple[str, str]]], progress: Progress | None = None
    ) -> Generator[Encoded]:
        """Like `Encoder.encode_chunks`."""
        for part in super().encode_chunks(chunks, progress):
            yield self._coarse(part)

    def _coarse(self, encoded: Encoded) -> Encoded:
        coarse = np.round(encoded.vectors.astype(np.float64) * self._steps)
        coarse /= np.maximum(np.linalg.norm(coarse, axis=1), 1)[:, None]
        return encoded._replace(vectors=coarse.astype(np.float32))
