"""Pools of made-up vectors for tests of what is taken over and gone on with."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from hindsight_fast import Scorer, projection
from hindsight_fast.index import IndexConfig
from hindsight_fast.index import _build as building
from hindsight_fast.index._graph import Graph
from hindsight_fast.pool import Pool, build_pool
from hindsight_fast.pool import _build as pools
from hindsight_fast.storage import create_array, publish
from hindsight_fast.store import Store, build_store
from paper_tables import paper, table
from test_index import DIM, F32, like_an_encoder

T, E = dt.date(2023, 6, 1), dt.date(2023, 12, 31)
N = 900
VECTORS = like_an_encoder(1, 2 * N)
IDEAS = like_an_encoder(2, 80)
CONFIG = IndexConfig(expansion_add=32)
KEPT = IndexConfig(expansion_add=32, deterministic=True)


def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is made for many papers is made for few, in small steps; nobody's trust is touched."""
    monkeypatch.setattr(projection, "FEWEST", 20)
    monkeypatch.setattr(projection, "RESCORING", 1)
    monkeypatch.setattr(projection, "PAIR", 1)
    monkeypatch.setattr(building, "SMALLEST_PART", 200)
    monkeypatch.setattr(building, "CHUNK", 64)
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path / "home"))


def numbered(number: int, **facts: Any) -> dict[str, Any]:
    """A paper whose day has nothing to do with its number."""
    day = T + dt.timedelta(days=number * 7919 % 200)
    return paper(number, **({"date": day, "citations": number * 31 % 97} | facts))


def stored(
    path: Path, rows: list[dict[str, Any]], vectors: F32 = VECTORS, made_by: str = "x"
) -> Store:
    """A store whose papers have the vector of their number."""
    store = build_store(table(rows), path)
    numbers = store.papers(["id"])["id"].str.slice(1).cast(pl.Int64).to_numpy()
    with publish(store.vectors_folder("made-up"), "vectors", "made-up") as staging:
        array = create_array(staging.folder / "vectors.npy", np.float32, (len(numbers), DIM))
        array[:] = vectors[numbers]
        staging.body |= {
            "n": len(numbers),
            "dim": DIM,
            "content_id": store.content_id,
            "encoder": "made-up",
            "encoder_fingerprint": made_by,
            "precision": "float32",
            "theta": 0.9,
        }
    return Store.open(path)


class Counts:
    """What was computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.added = self.projections = self.impacts = 0
        add, project, members = Graph.add, projection.build_projection, pools._members  # pyright: ignore[reportPrivateUsage]

        def counted_add(graph: Graph, keys: Any, codes: Any, threads: int) -> None:
            self.added += len(keys)
            add(graph, keys, codes, threads)

        def counted_projection(*arguments: Any) -> Any:
            self.projections += 1
            return project(*arguments)

        def counted_members(*arguments: Any) -> Any:
            self.impacts += 1
            return members(*arguments)

        monkeypatch.setattr(Graph, "add", counted_add)
        monkeypatch.setattr(pools, "build_projection", counted_projection)
        monkeypatch.setattr(pools, "_members", counted_members)

    @property
    def all(self) -> tuple[int, int, int]:
        """Papers added to a graph, projections and impacts made since the last look."""
        found = self.added, self.projections, self.impacts
        self.added = self.projections = self.impacts = 0
        return found


def pool_of(store: Store, out: Path, **settings: Any) -> Pool:
    """A pool of all papers of a store, by the settings of these tests."""
    chosen: dict[str, Any] = {"index": CONFIG, "k": 5, **settings}
    return build_pool(store, out, cutoff=T, until=E, **chosen)


def same_as_fresh(pool: Pool, tmp_path: Path, **settings: Any) -> None:
    """Exact scores and matches to the bit, and an index that finds as many."""
    fresh = pool_of(pool.store, tmp_path / "fresh", **settings)
    np.testing.assert_array_equal(pool.impact, fresh.impact)
    assert pool.pool_hash == fresh.pool_hash and pool.n_papers == fresh.n_papers
    for theta in (0.5, 0.95):
        tables = [
            Scorer(p, search="exact", theta=theta).score_vectors(IDEAS) for p in (pool, fresh)
        ]
        assert tables[0].equals(tables[1])
    right = np.argsort(-(IDEAS @ pool.vectors.T) + 9.0 * (np.asarray(pool.impact) < 0), axis=1)
    for one in (pool, fresh):
        assert one.index is not None and one.index.n_papers == one.n_papers
        found = one.index.search(IDEAS, 40, threads=2)
        assert found.min() >= 0 and (np.asarray(one.impact)[found] >= 0).all()
        assert all(len(set(row.tolist())) == 40 for row in found)
        hits = [
            len({*a.tolist()} & {*b.tolist()}) for a, b in zip(found, right[:, :10], strict=True)
        ]
        assert np.mean(hits) > 9.8


def linked(pool: Pool, old: Pool) -> set[str]:
    """Files that are one with the older pool's."""
    both = {*pool.manifest.files} & {*old.manifest.files}
    return {name for name in both if (pool.path / name).samefile(old.path / name)}
