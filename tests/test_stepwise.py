"""Folders filled step by step: what was noted survives a kill at any line."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from hindsight_fast.errors import ArtefactError, StorageError, UsageError
from hindsight_fast.storage import kind_of, publish_stepwise, read_manifest, verify_folder
from killing import die_at_line, in_child

STEPS = 4


def fill(path: Path, log: Path, made_from: str = "this", *, overwrite: bool = False) -> list[int]:
    """Publish a folder of a few files; returns the steps that were noted by earlier processes."""
    with publish_stepwise(
        path, "collection", "mark", {"made from": made_from}, overwrite=overwrite
    ) as work:
        raw = work.folder / "raw"
        raw.mkdir(exist_ok=True)
        found = [int(record["step"]) for record in work.noted]
        for step in range(STEPS):
            if step not in found:
                (raw / f"{step}").write_text("x" * step)
                work.note({"step": step})
                with log.open("a") as file:
                    file.write(f"{step}\n")
        (work.folder / "list").write_text("0 1 2 3")
        work.body["n"] = STEPS
    return found


def test_a_kill_at_any_line_loses_no_step_that_was_noted(tmp_path: Path) -> None:
    point, status = 0, int(signal.SIGKILL)
    while status == signal.SIGKILL:
        path, log = tmp_path / "it", tmp_path / "log"
        log.touch()

        def job(point: int = point, path: Path = path, log: Path = log) -> None:
            die_at_line(point)
            fill(path, log)

        status = os.waitpid(in_child(job), 0)[1]
        done = log.read_text().split()
        if not path.exists():
            found = fill(path, log)
            assert {*map(int, done)} <= {*found}
        assert verify_folder(path, "collection", beside=("raw",)).body == {"n": STEPS}
        assert sorted(f.name for f in (path / "raw").iterdir()) == ["0", "1", "2", "3"]
        # A step whose note was on its way to the disk when the kill came may be told of twice.
        assert len(log.read_text().split()) <= STEPS + 1
        shutil.rmtree(path)
        log.unlink()
        point += 11
    assert point > 50


def test_other_work_is_refused_until_it_may_go(tmp_path: Path) -> None:
    path, log = tmp_path / "it", tmp_path / "log"
    with (
        pytest.raises(RuntimeError),
        publish_stepwise(path, "collection", "mark", {"made from": "this"}) as work,
    ):
        work.note({"step": 0})
        raise RuntimeError
    with pytest.raises(UsageError, match="made from: this, now that"):
        fill(path, log, "that")
    assert fill(path, log, "that", overwrite=True) == []
    with pytest.raises(UsageError, match="already holds just this"):
        fill(path, log)


def test_work_of_which_nothing_was_noted_gives_way(tmp_path: Path) -> None:
    path, log = tmp_path / "it", tmp_path / "log"
    with (
        pytest.raises(RuntimeError),
        publish_stepwise(path, "collection", "mark", {"made from": "this"}),
    ):
        raise RuntimeError
    assert fill(path, log, "that") == []
    assert read_manifest(path).fingerprint == "mark"


def test_damaged_work_is_told(tmp_path: Path) -> None:
    path, log = tmp_path / "it", tmp_path / "log"
    partial = tmp_path / ".it.partial"
    partial.mkdir()
    (partial / ".lock").touch()
    (partial / ".journal").write_text("nonsense\n")
    with pytest.raises(ArtefactError, match=r"damaged .* --overwrite"):
        fill(path, log)
    assert fill(path, log, overwrite=True) == []


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    path, log = tmp_path / "it", tmp_path / "log"
    with (
        pytest.raises(RuntimeError),
        publish_stepwise(path, "collection", "mark", {"made from": "this"}) as work,
    ):
        work.note({"step": 0})
        work.note({"step": 1})
        raise RuntimeError
    journal = tmp_path / ".it.partial/.journal"
    journal.write_bytes(journal.read_bytes()[:-3])
    assert fill(path, log) == [0]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path, log = tmp_path / "it", tmp_path / "log"
    with (
        publish_stepwise(path, "collection", "mark", {"made from": "this"}),
        pytest.raises(StorageError, match="another process is writing"),
    ):
        fill(path, log)


def test_a_finished_one_is_replaced_with_its_answers(tmp_path: Path) -> None:
    path, log = tmp_path / "it", tmp_path / "log"
    fill(path, log)
    with (
        pytest.raises(UsageError, match="other input or settings"),
        publish_stepwise(path, "collection", "other", {"made from": "that"}),
    ):
        pass
    with publish_stepwise(
        path, "collection", "other", {"made from": "that"}, overwrite=True
    ) as work:
        (work.folder / "list").write_text("nothing")
    assert kind_of(path) == "collection"
    assert not (path / "raw").exists()
