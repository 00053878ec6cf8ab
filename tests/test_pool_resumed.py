"""A pool whose making ended early is gone on with, and no step is done twice."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from command_line import run
from hindsight_fast import index
from hindsight_fast.errors import ArtefactError, StorageError, UsageError
from hindsight_fast.pool import _identity
from hindsight_fast.storage import _files
from pool_reuse_world import Counts, N, numbered, pool_of, same_as_fresh, small, stored


@pytest.fixture(autouse=True)
def in_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small(monkeypatch, tmp_path)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    return Counts(monkeypatch)


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


def stopping(behind: int) -> Callable[[int, int], None]:
    """Let the making of a pool end when more papers than these are in its index."""

    def stop(done: int, _: int) -> None:
        if done > behind:
            raise Stopped

    return stop


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
    with pytest.raises(Stopped):
        pool_of(store, tmp_path / "pool", progress=stopping(500))
    with monkeypatch.context() as another:
        another.setattr(os, "geteuid", lambda: 1 + os.getuid())
        with pytest.raises(StorageError, match="another user's; remove it"):
            pool_of(store, tmp_path / "pool")
    assert not (tmp_path / "pool").exists()
    pool_of(store, tmp_path / "pool")


def test_other_settings_than_the_unfinished_works_are_refused(tmp_path: Path) -> None:
    store = stored(tmp_path / "store", [numbered(i) for i in range(N)])
    with pytest.raises(Stopped):
        pool_of(store, tmp_path / "pool", progress=stopping(0))
    with pytest.raises(UsageError, match=r"impact: paper, now log.*--overwrite"):
        pool_of(store, tmp_path / "pool", recipe="log")
    with pytest.raises(UsageError, match="K: 5, now 6"):
        pool_of(store, tmp_path / "pool", k=6)
    assert pool_of(store, tmp_path / "pool", k=6, overwrite=True).k == 6


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [(index, "USEARCH_VERSION", "usearch"), (_identity, "__version__", "hindsight-fast")],
)
def test_what_another_version_began_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, words: str
) -> None:
    store = stored(tmp_path / "store", [numbered(i) for i in range(N)])
    with monkeypatch.context() as another:
        another.setattr(module, name, "0.0.9")
        with pytest.raises(Stopped):
            pool_of(store, tmp_path / "pool", progress=stopping(500))
    with pytest.raises(UsageError, match=rf"\({words}: 0\.0\.9, now [\d.]+\).*--overwrite"):
        pool_of(store, tmp_path / "pool")
    assert pool_of(store, tmp_path / "pool", overwrite=True).n_papers == N


def test_an_older_pool_that_is_damaged_since_costs_nothing_of_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: Counts
) -> None:
    monkeypatch.setattr(_files, "SAMPLE_BLOCK", 16)  # so that only a look at all bytes finds it
    old = pool_of(stored(tmp_path / "before", [numbered(i) for i in range(N)]), tmp_path / "old")
    store = stored(tmp_path / "store", [numbered(i) for i in range(N + 250)])
    with pytest.raises(Stopped):
        pool_of(store, tmp_path / "pool", reuse=old.path, progress=stopping(N + 200))
    graph = old.path / index.GRAPH
    good = graph.read_bytes()
    graph.unlink()
    graph.write_bytes(good[:1000] + bytes([good[1000] ^ 1]) + good[1001:])
    with pytest.raises(ArtefactError, match="make it again"):
        pool_of(store, tmp_path / "pool", reuse=old.path)
    graph.write_bytes(good)
    counts.all  # noqa: B018
    pool = pool_of(store, tmp_path / "pool", reuse=old.path)
    added, *others = counts.all
    assert 50 <= added < 60 and others == [0, 0]
    same_as_fresh(pool, tmp_path)


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
