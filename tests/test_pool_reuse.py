"""Only what changed of a pool is computed: after a kill, and of an older pool."""

import datetime as dt
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from command_line import run
from hindsight_fast import Scorer, projection
from hindsight_fast.errors import ArtefactError, StorageError, UsageError
from hindsight_fast.index import GRAPH, IndexConfig
from hindsight_fast.index import _build as building
from hindsight_fast.index._graph import Graph
from hindsight_fast.pool import Pool, build_pool
from hindsight_fast.pool import _build as pools
from hindsight_fast.storage import create_array, publish
from hindsight_fast.store import Store, build_store
from paper_tables import paper, table
from test_index import DIM, F32, like_an_encoder
from test_index_parts import contents

T, E = dt.date(2023, 6, 1), dt.date(2023, 12, 31)
N = 900
VECTORS = like_an_encoder(1, 2 * N)
IDEAS = like_an_encoder(2, 80)
CONFIG = IndexConfig(expansion_add=32)
KEPT = IndexConfig(expansion_add=32, deterministic=True)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(projection, "FEWEST", 20)
    monkeypatch.setattr(projection, "RESCORING", 1)
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


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    return Counts(monkeypatch)


@pytest.fixture
def old(tmp_path: Path) -> Pool:
    store = stored(tmp_path / "store", [numbered(i) for i in range(N)])
    return build_pool(store, tmp_path / "old", cutoff=T, until=E, index=CONFIG, k=5)


def pool_of(store: Store, out: Path, **settings: Any) -> Pool:
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


@pytest.mark.parametrize("reuse", ["no", "yes"])
def test_a_killed_build_goes_on_to_the_same_bytes(tmp_path: Path, reuse: str) -> None:
    script = Path(__file__).with_name("killing_pools.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "8", reuse],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["wrong"] == [] and found["killed"] >= 8


class Stopped(Exception):
    """In place of a kill."""


def test_no_step_is_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: Counts
) -> None:
    store = stored(tmp_path / "store", [numbered(i) for i in range(N)])

    def stop(done: int, total: int) -> None:
        assert total == N
        if done > 500:
            raise Stopped

    with pytest.raises(Stopped):
        pool_of(store, tmp_path / "pool", progress=stop)
    assert counts.all[1:] == (1, 1)
    seen = list[int]()

    def watch(done: int, _: int) -> None:
        seen.append(done)

    pool = pool_of(store, tmp_path / "pool", progress=watch)
    added, *others = counts.all
    assert others == [0, 0] and seen[0] == 400 and N - 400 <= added < N - 395 and seen[-1] == N
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith(".")] == []
    same_as_fresh(pool, tmp_path)


def test_what_others_began_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stored(tmp_path / "store", [numbered(i) for i in range(N)])

    def stop(done: int, _: int) -> None:
        if done > 500:
            raise Stopped

    with pytest.raises(Stopped):
        pool_of(store, tmp_path / "pool", progress=stop)
    with monkeypatch.context() as another:
        another.setattr(os, "geteuid", lambda: 1 + os.getuid())
        with pytest.raises(StorageError, match="another user's; remove it"):
            pool_of(store, tmp_path / "pool")
    assert not (tmp_path / "pool").exists()
    pool_of(store, tmp_path / "pool")


def test_other_settings_than_the_unfinished_works_are_refused(tmp_path: Path) -> None:
    store = stored(tmp_path / "store", [numbered(i) for i in range(N)])

    def stop(done: int, _: int) -> None:
        if done:
            raise Stopped

    with pytest.raises(Stopped):
        pool_of(store, tmp_path / "pool", progress=stop)
    with pytest.raises(UsageError, match=r"impact: paper, now log.*--overwrite"):
        pool_of(store, tmp_path / "pool", recipe="log")
    with pytest.raises(UsageError, match="K: 5, now 6"):
        pool_of(store, tmp_path / "pool", k=6)
    assert pool_of(store, tmp_path / "pool", k=6, overwrite=True).k == 6


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_keeps_what_is_done(tmp_path: Path, number: int) -> None:
    stored(tmp_path / "store", [numbered(i) for i in range(N)])
    code = (
        "import time; from hindsight_fast.index import _build as building\n"
        "from hindsight_fast.index._graph import Graph; from hindsight_fast.cli import main\n"
        "building.SMALLEST_PART, building.CHUNK, add = 200, 64, Graph.add\n"
        "def slow(*a):\n"
        "    add(*a); print('added', flush=True); time.sleep(0.05)\n"
        "Graph.add = slow; main()"
    )
    command = "pool store --out pool --cutoff 2023-06 --until 2023-12 --index"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command.split()],
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "what is done is kept, but for the part of the index under way" in told
    done = run(tmp_path / "home", tmp_path, command)
    assert done.returncode == 0 and f"a pool of {N} papers" in done.stdout


def test_the_command_line_says_what_was_taken_over(tmp_path: Path, old: Pool) -> None:
    stored(tmp_path / "new", [numbered(i) for i in range(20, N + 40)])
    command = "pool new --out pool --cutoff 2023-06 --until 2023-12 --reuse old"
    done = run(tmp_path / "home", tmp_path, command)
    assert done.returncode == 0, done.stderr
    assert "of old: nothing is taken over" in done.stdout
    counted = "pool store --out second --cutoff 2023-06 --until 2023-12 --reuse old --impact log"
    done = run(tmp_path / "home", tmp_path, counted)
    assert "of old: taken over: what the exact scan looks at first" in done.stdout
