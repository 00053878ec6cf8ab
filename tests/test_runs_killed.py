"""Scoring that is killed anywhere, again and again: the tables are those of one quiet run."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from command_line import environment, start
from paper_tables import paper
from scoring_world import made_up_ideas
from tiny_model import tiny_model

KILLING = Path(__file__).parent / "killing.py"
LINES = 3000  # of runs and storage in a quiet run, about


class Place(NamedTuple):
    """Where the model is, and a folder with a pool and ideas."""

    home: Path
    folder: Path

    def score(self, line: int, out: Path, *options: str) -> "subprocess.Popen[str]":
        """Start the program, which dies at a line."""
        command = ["ideas.jsonl", "--pool", "pool", "--out", str(out), *options]
        return subprocess.Popen(
            [sys.executable, str(KILLING), "score", str(line), *command],
            cwd=self.folder,
            env=environment(self.home),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A pool with an index, and ideas of every sort."""
    made = Place(tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("place"))
    tiny_model(made.home / "models" / "tiny")
    write_lines(made.folder / "papers.jsonl", [paper(i, citations=i) for i in range(40)])
    ideas: list[Any] = [*made_up_ideas(150), {"text": ""}, {"id": "i3", "text": "no"}]
    ideas[7]["knowledge_date"] = "2024"
    write_lines(made.folder / "ideas.jsonl", ideas)
    for command in (
        "build papers.jsonl --out store",
        "embed store --encoder tiny",
        "pool store --out pool --cutoff 2023-06 --until 2025 --theta 0.5 --index",
    ):
        done = start(made.home, made.folder, command)
        assert done.returncode == 0, done.stderr
    return made


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record, default=str) + "\n" for record in records))


CASES = {
    "parquet": ("s.parquet", "--matches", "m.parquet", "--search", "index"),
    "csv": ("s.csv", "--matches", "m.csv"),
    "jsonl": ("s.jsonl", "--matches", "m.jsonl", "--search", "index"),
    "shards": ("s", "--matches", "m", "--search", "index"),
    "scores alone": ("s.parquet", "--search", "exact"),
}


@pytest.mark.parametrize("case", CASES)
def test_killed_once(place: Place, tmp_path: Path, case: str) -> None:
    killed_again_and_again(place, tmp_path, case, 1)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_killed_again_and_again(place: Place, tmp_path: Path, case: str) -> None:
    killed_again_and_again(place, tmp_path, case, 20)


def killed_again_and_again(place: Place, folder: Path, case: str, n_kills: int) -> None:
    quiet, chance = made(place, folder / "quiet", case), random.Random(f"{case} {n_kills}")
    killed = 0
    while killed < n_kills:
        line = chance.randrange(LINES) if chance.random() < 0.6 else -1
        process = place.score(line, *arguments(folder / "killed", case))
        if line < 0:
            die_at_some_time(process, folder / "killed", chance)
        process.communicate(timeout=120)
        assert process.returncode in (0, -signal.SIGKILL)
        killed += process.returncode != 0
        if process.returncode == 0:
            assert made(place, folder / "killed", case) == quiet
            for left in sorted((folder / "killed").rglob("*"), reverse=True):
                left.rmdir() if left.is_dir() else left.unlink()
    assert made(place, folder / "killed", case) == quiet


def die_at_some_time(process: "subprocess.Popen[str]", folder: Path, chance: random.Random) -> None:
    """Kill it once it has begun to work, or is done."""
    while process.poll() is None and not list(folder.glob(".*.work")):
        time.sleep(0.005)
    time.sleep(chance.uniform(0, 0.4))
    process.kill()


def arguments(folder: Path, case: str) -> tuple[Path, *tuple[str, ...]]:
    """The names of a case's tables in a folder."""
    out, *options = CASES[case]
    placed = [str(folder / name) if name[0] == "m" else name for name in options]
    return folder / out, *placed


def made(place: Place, folder: Path, case: str) -> dict[str, object]:
    """Let it come to its end: the bytes of all tables, and what the summary says but for times."""
    process = place.score(-1, *arguments(folder, case), "--json")
    said, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    summary = json.loads(said)
    names = ("signature", "fingerprint", "made_from", "counts", "systems", "notes", "candidates")
    facts: dict[str, object] = {name: summary[name] for name in names}
    facts |= {name: summary.get(name) for name in ("index_quality", "repeated_ids", "precision")}
    tables = {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and not file.name.endswith("manifest.json")
    }
    assert all(name[0] in "sm" for name in tables), tables  # nothing hidden is left
    return facts | tables
