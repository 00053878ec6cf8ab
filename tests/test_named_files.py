"""Of a pool only the files count that its manifest names, as it names them."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forging import facts, forge
from hindsight_fast import index, projection
from hindsight_fast.codes import ToCode
from hindsight_fast.errors import ArtefactError
from hindsight_fast.index import GRAPH, ROWS, STRAYS, IndexConfig
from hindsight_fast.index._graph import Graph
from hindsight_fast.pool import Pool, build_pool
from hindsight_fast.pool import _build as building
from hindsight_fast.pool._taking import look_at
from hindsight_fast.storage import FileFacts, link_known
from hindsight_fast.store import Store
from scoring_world import E, T, World, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "FEWEST", 20)
        patch.setattr(projection, "RESCORING", 1)
        patch.setattr(projection, "PAIR", 1)
        return make_world(tmp_path_factory.mktemp("world"), n=400, index=True)


@pytest.fixture
def path(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the pool, which this user trusts."""
    monkeypatch.setenv("HINDSIGHT_HOME", str(world.folder))
    shutil.copytree(world.store.path, tmp_path / "store")
    shutil.copytree(world.pool.path, tmp_path / "pool")
    return tmp_path / "pool"


def older(path: Path) -> Pool:
    """Make its index one of an older version: keys are rows, and no files of rows and strays."""
    pool = Pool.open(path)
    rows = np.flatnonzero(np.asarray(pool.impact) >= 0)
    to_code = ToCode(np.load(path / index.MEAN), np.load(path / index.AXES))
    graph = Graph(to_code.axes.shape[1], IndexConfig())
    graph.add(rows, to_code(np.ascontiguousarray(pool.vectors[rows])), 1)
    graph.save(path / GRAPH)
    for name in (ROWS, STRAYS):
        (path / name).unlink()
    named = {file.name: facts(file) for file in path.iterdir() if file.name != "manifest.json"}
    forge(path, files=named)
    return Pool.open(path, trust=True)


def found(pool: Pool) -> Any:
    assert pool.index is not None
    return pool.index.search(np.ascontiguousarray(pool.vectors[:50]), 5, threads=1).tolist()


@pytest.mark.parametrize("config", [IndexConfig(), IndexConfig(expansion_search=256)])
def test_files_that_are_not_named_are_not_used(path: Path, config: IndexConfig) -> None:
    right = found(older(path))
    np.save(path / ROWS, np.zeros(400, np.int32))  # each key would be the first paper
    np.save(path / STRAYS, np.zeros(0, np.int32))
    assert found(Pool.open(path)) == right
    store = Store.open(path.parent / "store")
    new = path.parent / "new"
    made = build_pool(store, new, cutoff=T, until=E, k=5, index=config, reuse=path)
    assert made.manifest.body["reused"]["n_taken"] > 200
    assert (ROWS in made.manifest.files) == (config != IndexConfig())
    assert len({row[0] for row in found(made)}) > 40


@pytest.mark.parametrize("name", ["impact.npy", "scan-bounds.npy", "index-axes.npy", STRAYS])
def test_what_is_needed_must_be_named(path: Path, name: str) -> None:
    named = {n: facts(path / n) for n in Pool.open(path).manifest.files if n != name}
    forge(path, files=named)
    with pytest.raises(ArtefactError, match=f"doesn't name {name}"):
        Pool.open(path, trust=True)
    from hindsight_fast.storage import read_manifest, trust

    trust(read_manifest(path).hash)
    store = Store.open(path.parent / "store")
    with pytest.raises(ArtefactError, match=f"doesn't name {name}"):
        build_pool(store, path.parent / "new", cutoff=T, until=E, reuse=path)


@pytest.mark.parametrize("config", [IndexConfig(), IndexConfig(expansion_search=256), None])
def test_an_older_pool_that_changes_meanwhile_is_not_taken_over(
    path: Path, monkeypatch: pytest.MonkeyPatch, config: IndexConfig | None
) -> None:
    changed = "scan-bounds.npy" if config is None else GRAPH

    def look(*arguments: Any) -> Any:
        seen = look_at(*arguments)
        raw = bytearray((path / changed).read_bytes())
        raw[-5] ^= 1
        (path / changed).unlink()
        (path / changed).write_bytes(raw)
        return seen

    monkeypatch.setattr(building, "look_at", look)
    store, new = Store.open(path.parent / "store"), path.parent / "new"
    with pytest.raises(ArtefactError, match="changed or replaced meanwhile"):
        build_pool(store, new, cutoff=T, until=E, k=5, index=config, reuse=path)
    monkeypatch.undo()
    assert not new.exists()


def test_a_link_to_another_file_is_taken_back(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"one")
    known = FileFacts(**facts(source))
    source.write_bytes(b"two")
    with pytest.raises(ArtefactError, match="meanwhile"):
        link_known(source, target, known)
    assert not target.exists()
    source.write_bytes(b"one")
    link_known(source, target, known)
    assert target.read_bytes() == b"one"
