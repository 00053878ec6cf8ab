"""A pool whose making ended early is gone on with, and no step is done twice."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import run
from hindsight_fast.errors import StorageError, UsageError
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
