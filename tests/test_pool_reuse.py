"""Of a pool that was there before, only what changed is computed."""

import datetime as dt
from pathlib import Path

import numpy as np
import pytest

from command_line import run
from hindsight_fast.errors import ArtefactError
from hindsight_fast.index import GRAPH, IndexConfig
from hindsight_fast.pool import Pool, build_pool
from pool_reuse_world import (
    CONFIG,
    KEPT,
    VECTORS,
    Counts,
    E,
    N,
    T,
    linked,
    numbered,
    pool_of,
    same_as_fresh,
    small,
    stored,
)
from test_index import like_an_encoder
from test_index_parts import contents


@pytest.fixture(autouse=True)
def in_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small(monkeypatch, tmp_path)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    return Counts(monkeypatch)


@pytest.fixture
def old(tmp_path: Path) -> Pool:
    store = stored(tmp_path / "store", [numbered(i) for i in range(N)])
    return build_pool(store, tmp_path / "old", cutoff=T, until=E, index=CONFIG, k=5)


def test_fresh_counts(tmp_path: Path, old: Pool, counts: Counts) -> None:
    counted = [numbered(i, citations=i * 17 % 89) for i in range(N)]
    store = stored(tmp_path / "new", counted)
    pool = pool_of(store, tmp_path / "pool", reuse=old.path)
    assert counts.all == (0, 0, 1)
    assert linked(pool, old) == {*old.manifest.files} - {"impact.npy"}
    assert pool.manifest.table("reused") == {
        "projection": True, "n_taken": N, "n_added": 0, "why": ""
    }  # fmt: skip
    assert not np.array_equal(pool.impact, old.impact)
    same_as_fresh(pool, tmp_path)


def test_another_recipe_k_and_theta(tmp_path: Path, old: Pool, counts: Counts) -> None:
    pool = pool_of(old.store, tmp_path / "pool", reuse=old.path, recipe="log", k=7, theta=0.8)
    assert counts.all == (0, 0, 1) and (pool.k, pool.theta, pool.recipe) == (7, 0.8, "log")
    same_as_fresh(pool, tmp_path, recipe="log", k=7, theta=0.8)


def test_fewer_papers_take_part(tmp_path: Path, counts: Counts) -> None:
    rows = [numbered(i, citations=None if i % 5 == 0 else i) for i in range(N)]
    store = stored(tmp_path / "store", rows)
    old = pool_of(store, tmp_path / "old")
    assert counts.all[0] >= N
    pool = pool_of(store, tmp_path / "pool", reuse=old.path, recipe="known")
    added, projections, impacts = counts.all
    assert added < 5 and (projections, impacts) == (0, 1)
    assert pool.n_papers == N - N // 5
    same_as_fresh(pool, tmp_path, recipe="known")
    # And those that were left out come back, though nothing of them is in the graph any more.
    counts.all  # noqa: B018
    again = pool_of(store, tmp_path / "again", reuse=pool.path)
    assert N // 5 <= counts.all[0] < N // 5 + 5
    same_as_fresh(again, tmp_path / "more")


def test_more_papers_and_some_gone(tmp_path: Path, old: Pool, counts: Counts) -> None:
    rows = [numbered(i) for i in range(60, N + 250)]
    rows[5]["date"] = T + dt.timedelta(days=150)  # another row, the same vector
    rows.append(numbered(1999, date=T))
    vectors = VECTORS.copy()
    vectors[100] = vectors[1500]  # of the same paper another text
    vectors[900:910] = vectors[700]  # copies of what is there
    vectors = np.concatenate([vectors, vectors[701:702].repeat(200, axis=0)])
    store = stored(tmp_path / "new", rows, vectors)
    pool = pool_of(store, tmp_path / "pool", reuse=old.path)
    added, projections, impacts = counts.all
    reused = pool.manifest.table("reused")
    # 250 and one more, less ten copies and that of 701; and the one whose text is another.
    # A product may be rounded otherwise among other rows, and a code differ by one.
    assert 241 <= reused["n_added"] < 245 and N - 65 < reused["n_taken"] <= N - 61
    assert reused["n_added"] <= added < reused["n_added"] + 5
    assert (projections, impacts) == (1, 1) and not reused["projection"]
    assert pool.n_papers == len(rows)
    same_as_fresh(pool, tmp_path)


def test_more_new_than_old_is_built_anew(tmp_path: Path, old: Pool, counts: Counts) -> None:
    store = stored(tmp_path / "new", [numbered(i) for i in range(2 * N)])
    pool = pool_of(store, tmp_path / "pool", reuse=old.path)
    assert counts.all[0] >= 2 * N
    reused = pool.manifest.table("reused")
    assert reused["n_taken"] == 0 and "of 1,800 papers are not in it" in reused["why"]
    few = stored(tmp_path / "few", [numbered(i) for i in range(N // 2)])
    pool = pool_of(few, tmp_path / "fewer", reuse=old.path)
    assert "are in it no more" in pool.manifest.table("reused")["why"]
    same_as_fresh(pool, tmp_path)


def test_of_other_vectors_nothing_is_taken(tmp_path: Path, old: Pool, counts: Counts) -> None:
    rows = [numbered(i) for i in range(N)]
    other = stored(tmp_path / "other", rows, like_an_encoder(9, N), made_by="y")
    pool = pool_of(other, tmp_path / "pool", reuse=old.path)
    assert counts.all[0] >= N and linked(pool, old) == set()
    why = pool.manifest.table("reused")["why"]
    assert why == "its vectors are of made-up@x in float32, these of made-up@y in float32"
    # The same by name, and yet other vectors.
    moved = stored(tmp_path / "moved", rows, like_an_encoder(9, N))
    pool = pool_of(moved, tmp_path / "second", reuse=old.path)
    added, projections, _ = counts.all
    assert added >= N and projections == 1
    assert pool.manifest.table("reused")["n_taken"] == 0
    same_as_fresh(pool, tmp_path)


def test_other_settings_of_the_index(tmp_path: Path, old: Pool, counts: Counts) -> None:
    other = IndexConfig(connectivity=8, expansion_add=32)
    pool = pool_of(old.store, tmp_path / "pool", reuse=old.path, index=other)
    assert counts.all[0] >= N
    reused = pool.manifest.table("reused")
    assert reused["why"] == "its index was built with other settings" and reused["projection"]
    ef = IndexConfig(expansion_add=32, expansion_search=64)  # no part of the graph
    assert pool_of(old.store, tmp_path / "ef", reuse=old.path, index=ef).n_papers == N
    assert counts.all[0] < 5
    none = pool_of(old.store, tmp_path / "none", reuse=old.path, index=None)
    assert none.index is None and none.projection is not None and counts.all == (0, 0, 1)


def test_of_others_pools_nothing_is_taken(
    tmp_path: Path, old: Pool, monkeypatch: pytest.MonkeyPatch, counts: Counts
) -> None:
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path / "another"))
    pool = pool_of(old.store, tmp_path / "pool", reuse=old.path)
    assert counts.all[0] >= N and linked(pool, old) == set()
    assert pool.manifest.table("reused")["why"] == "others made it, and it isn't trusted"
    Pool.open(old.path, trust=True)
    pool = pool_of(old.store, tmp_path / "second", reuse=old.path)
    assert counts.all[0] == 0 and GRAPH in linked(pool, old)


def test_a_damaged_pool_is_refused(tmp_path: Path, old: Pool) -> None:
    path = old.path / GRAPH
    good = path.read_bytes()
    middle = len(good) // 2 + 40_000
    path.write_bytes(good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :])
    with pytest.raises(ArtefactError, match="make it again"):
        pool_of(old.store, tmp_path / "pool", reuse=old.path)
    with pytest.raises(ArtefactError, match="no folder"):
        pool_of(old.store, tmp_path / "pool", reuse=tmp_path / "nowhere")
    with pytest.raises(ArtefactError, match="not a pool"):
        pool_of(old.store, tmp_path / "pool", reuse=old.store.path)
    assert not [f.name for f in tmp_path.iterdir() if f.name.startswith(".pool")]


def test_a_pool_may_be_replaced_by_one_that_reuses_it(
    tmp_path: Path, old: Pool, counts: Counts
) -> None:
    store = stored(tmp_path / "new", [numbered(i, citations=i) for i in range(N)])
    pool = pool_of(store, old.path, reuse=old.path, overwrite=True)
    assert counts.all == (0, 0, 1) and pool.manifest.table("reused")["n_taken"] == N
    same_as_fresh(pool, tmp_path)


def test_a_grown_deterministic_index_is_the_same_each_time(tmp_path: Path) -> None:
    store = stored(tmp_path / "store", [numbered(i) for i in range(N)])
    old = pool_of(store, tmp_path / "old", index=KEPT)
    new = stored(tmp_path / "new", [numbered(i) for i in range(30, N + 250)])
    for name in ("a", "b"):
        made = pool_of(new, tmp_path / name, index=KEPT, reuse=old.path)
        assert N - 35 < made.manifest.table("reused")["n_taken"] <= N - 30
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_the_command_line_says_what_was_taken_over(tmp_path: Path, old: Pool) -> None:
    stored(tmp_path / "new", [numbered(i) for i in range(20, N + 40)])
    command = "pool new --out pool --cutoff 2023-06 --until 2023-12 --reuse old"
    done = run(tmp_path / "home", tmp_path, command)
    assert done.returncode == 0, done.stderr
    assert "of old: nothing is taken over" in done.stdout
    counted = "pool store --out second --cutoff 2023-06 --until 2023-12 --reuse old --impact log"
    done = run(tmp_path / "home", tmp_path, counted)
    assert "of old: taken over: what the exact scan looks at first" in done.stdout
