"""One of each artefact, twice: what is alike in kind and other in content."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from collect_world import gather, services
from hindsight_fast import Scorer, projection, runs
from hindsight_fast.encoders import load_encoder
from hindsight_fast.encoding import VectorCache, embed_store
from hindsight_fast.encoding._cache import vector_keys
from hindsight_fast.index import IndexConfig
from hindsight_fast.pool import Pool, build_pool
from hindsight_fast.store import build_store
from hindsight_models import Encoded
from paper_tables import paper, table
from scoring_world import E, T, made_up_ideas
from tiny_model import tiny_model
from using import PAIRS, Known

N = 240
KINDS = {
    "store": "store",
    "pool": "pool",
    "scores.parquet": "scores",
    "shards": "scores",
    "collection": "collection",
    "models/tiny": "model",
    "cache": "cache",
}
"""How `using` calls what lies in a build."""


@dataclass(frozen=True, slots=True)
class Build:
    """A folder of artefacts."""

    folder: Path

    def files(self) -> Iterator[Path]:
        """All files of artefacts, relative to the folder."""
        for name in KINDS:
            path = self.folder / name
            found = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (one.relative_to(self.folder) for one in found if one.is_file())
        yield from (Path("scores.parquet.manifest.json"), Path("matches.parquet"))


def owner(file: Path) -> str:
    """The artefact that a file belongs to."""
    names = [name for name in KINDS if file.is_relative_to(name)]
    return names[0] if names else "scores.parquet"


def make_build(folder: Path, seed: int) -> Build:
    """Make one of each."""
    encoder = load_encoder(
        tiny_model(folder / "models" / "tiny", seed=seed), device="cpu", threads=2
    )
    papers = [
        paper(i + 1000 * seed, date=T + timedelta(days=i), citations=(i * i + seed) % 101)
        for i in range(N)
    ]
    store = build_store(table(papers, n_rejects=2), folder / "store")
    embed_store(store, encoder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HINDSIGHT_HOME", str(folder))
        patch.setattr(projection, "FEWEST", 20)
        patch.setattr(projection, "RESCORING", 1)
        patch.setattr(projection, "PAIR", 1)
        patch.setattr(projection, "PREPARING", 0)
        pool = build_pool(
            store, folder / "pool", cutoff=T, until=E, k=5, theta=0.5, index=IndexConfig()
        )
        assert pool.projection is not None and pool.index is not None
        ideas = folder / "ideas.jsonl"
        ideas.write_text("\n".join(map(json.dumps, made_up_ideas(30, seed))))
        scorer = Scorer(pool, encoder)
        runs.score_file(
            scorer, ideas, folder / "scores.parquet", matches=folder / "matches.parquet"
        )
        runs.score_file(scorer, ideas, folder / "shards")
        for _ in services(patch):
            gather(folder / "collection")
    cache = VectorCache(folder / "cache")
    vectors = np.random.default_rng(seed).normal(size=(2, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    none = np.zeros(2, bool)
    cache.add(vector_keys(Known(), PAIRS), Encoded(vectors, np.ones(2, np.int32), none, none))
    cache.close()
    return Build(folder)


def copy(build: Build, folder: Path) -> Build:
    """The same at another place, where the user is the same."""
    shutil.copytree(build.folder, folder)
    return Build(folder)


def trusting(build: Build) -> bool:
    """Whether its pool is trusted by who lives there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HINDSIGHT_HOME", str(build.folder))
        return Pool.open(build.folder / "pool").trusted
