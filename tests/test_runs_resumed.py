"""Runs that end early and go on: what is whole is kept, what isn't is made again, and no other."""

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hindsight_fast import Scorer, runs
from hindsight_fast.errors import ArtefactError, DataError, StorageError, UsageError
from hindsight_fast.storage import working_parts
from runs_world import (
    BATCH,
    FORMS,
    N,
    Stopped,
    Watched,
    flip,
    score,
    small_parts,
    stop_after,
    stopped,
    tables,
    told,
    write_ideas,
)
from scoring_world import World, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), index=True, theta=0.5)


@pytest.fixture
def encoder(world: World) -> Watched:
    return Watched(world.folder / "models" / "tiny", device="cpu", threads=2)


@pytest.fixture(autouse=True)
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)


@pytest.fixture
def ideas(tmp_path: Path) -> Path:
    return write_ideas(tmp_path / "ideas.jsonl")


Quiet = Callable[[str, str], tuple[dict[str, Any], dict[str, bytes]]]


@pytest.fixture(scope="module")
def quiet(world: World, tmp_path_factory: pytest.TempPathFactory) -> Quiet:
    """What a run without interruption says, and its tables, by form and search."""

    @cache
    def run(form: str, search: str) -> tuple[dict[str, Any], dict[str, bytes]]:
        folder = tmp_path_factory.mktemp("quiet")
        ideas = write_ideas(folder / "ideas.jsonl")
        scorer = Scorer(world.pool, world.encoder, search=search)
        return told(score(scorer, ideas, folder / "q", form)), tables(folder / "q")

    return run


@pytest.mark.parametrize("search", ["exact", "index"])
@pytest.mark.parametrize("form", FORMS)
def test_it_goes_on_behind_the_last_whole_part(
    world: World,
    encoder: Watched,
    ideas: Path,
    tmp_path: Path,
    quiet: Quiet,
    form: str,
    search: str,
) -> None:
    work = stopped(Scorer(world.pool, encoder, search=search), ideas, tmp_path / "s", form)
    lines = (work / ".journal").read_text().splitlines()
    noted = [json.loads(line[33:]) for line in lines]
    assert [one["part"] for one in noted[2:]] == [0, 1, 2]
    encoder.n_texts = 0
    again = score(Scorer(world.pool, encoder, search=search), ideas, tmp_path / "s", form)
    assert encoder.n_texts == N - 1 - 3 * BATCH
    assert again["resumed"] == 3 * BATCH and again["parts_lost"] == 0
    assert (told(again), tables(tmp_path / "s")) == quiet(form, search)
    assert again["seconds"]["total"] >= sum(
        one.get("facts", one.get("settled", {}))["spent"]["s total"] for one in noted[1:]
    )
    assert score(Scorer(world.pool, encoder, search=search), ideas, tmp_path / "s", form)[
        "already_done"
    ]


def damage_a_line(work: Path, holding: bytes) -> None:
    lines = (work / ".journal").read_bytes().splitlines(keepends=True)
    (line,) = [i for i, one in enumerate(lines) if holding in one]
    flip(work / ".journal", len(b"".join(lines[:line])) + 40)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": lambda work: flip(work / "scores-000000001", 100),
    "cut": lambda work: (work / "scores-000000001").write_bytes(b"AR"),
    "gone": lambda work: (work / "matches-000000001").unlink(),
    "sample": lambda work: flip(work / "sample-000000001", -1),
    "line": lambda work: damage_a_line(work, b'"part":1}'),
    "last line": lambda work: damage_a_line(work, b'"part":2}'),
    "settled": lambda work: damage_a_line(work, b'{"settled":'),
    "torn": lambda work: (work / ".journal").write_bytes((work / ".journal").read_bytes()[:-9]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_made_again(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path, quiet: Quiet, damage: str
) -> None:
    work = stopped(Scorer(world.pool, encoder, search="index"), ideas, tmp_path / "s")
    DAMAGES[damage](work)
    encoder.n_texts = 0
    again = score(Scorer(world.pool, encoder, search="index"), ideas, tmp_path / "s")
    # All parts depend on what was settled before them.
    kept, lost = (0, 4) if damage == "settled" else (2, 1)
    assert encoder.n_texts == N - 1 - kept * BATCH
    assert again["resumed"] == kept * BATCH and again["parts_lost"] == lost
    assert (told(again), tables(tmp_path / "s")) == quiet("parquet", "index")


OTHERS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"theta": 0.6}, {}, r"\(theta: 0.5, now 0.6\)"),
    ({"k": 3}, {}, r"\(K: 5, now 3\)"),
    ({"search": "index"}, {}, r"search: exact, now index; index: none, now .*recall: none, now "),
    ({}, {"limit": 50}, r"\(limit: none, now 50\)"),
    ({}, {"matches": None}, r"\(matches: True, now False\)"),
]


@pytest.mark.parametrize(("settings", "options", "named"), OTHERS)
def test_unfinished_work_of_something_else_is_refused(
    world: World,
    encoder: Watched,
    ideas: Path,
    tmp_path: Path,
    settings: dict[str, Any],
    options: dict[str, Any],
    named: str,
) -> None:
    work = stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    before = {file.name: file.read_bytes() for file in work.iterdir()}
    other = Scorer(world.pool, encoder, **settings)
    given: dict[str, Any] = {"matches": tmp_path / "m.parquet", **options}
    with pytest.raises(UsageError, match=named):
        runs.score_file(other, ideas, tmp_path / "s.parquet", **given)
    assert {file.name: file.read_bytes() for file in work.iterdir()} == before
    done = runs.score_file(other, ideas, tmp_path / "s.parquet", overwrite=True, **given)
    assert done["resumed"] == 0 and not work.exists()


def test_other_ideas_and_another_pool_are_named(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    ideas.write_text(ideas.read_text() + "\n")
    with pytest.raises(UsageError, match=r"\(ideas: \w+\.\.\., now "):
        score(Scorer(world.pool, encoder), ideas, tmp_path)
    ideas.write_text(ideas.read_text()[:-1])
    other = make_world(tmp_path / "other", n=40, theta=0.5)
    with pytest.raises(UsageError, match=r"\(pool: \w+, now .* vectors of papers: "):
        score(Scorer(other.pool, encoder), ideas, tmp_path)
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["resumed"] == 3 * BATCH


def test_the_same_with_overwrite_goes_on(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    (tmp_path / "s.parquet").write_text("another table")
    with pytest.raises(Stopped):
        score(Scorer(world.pool, encoder), ideas, tmp_path, overwrite=True, progress=stop_after(20))
    assert (tmp_path / "s.parquet").read_text() == "another table"
    done = score(Scorer(world.pool, encoder), ideas, tmp_path, overwrite=True)
    assert done["resumed"] == 3 * BATCH


def test_where_nothing_was_done_it_begins_anew(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError):
        score(Scorer(world.pool, encoder), ideas, tmp_path, limit=N + 2, strict=True)
    work = tmp_path / ".s.parquet.work"
    lines = (work / ".journal").read_bytes().splitlines(keepends=True)
    (work / ".journal").write_bytes(b"".join(lines[:2]))
    assert score(Scorer(world.pool, encoder, k=3), ideas, tmp_path)["resumed"] == 0


def test_a_damaged_header_is_told(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    work = stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    flip(work / ".journal", 50)
    with pytest.raises(ArtefactError, match=r"is damaged .* --overwrite"):
        score(Scorer(world.pool, encoder), ideas, tmp_path)
    assert score(Scorer(world.pool, encoder), ideas, tmp_path, overwrite=True)["resumed"] == 0


def test_two_at_one_table_are_kept_apart(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    work = stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    with working_parts(work, "scores"), pytest.raises(StorageError, match="another process"):
        score(Scorer(world.pool, encoder), ideas, tmp_path)
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["resumed"] == 3 * BATCH


def test_what_is_left_of_finished_work_goes_and_other_work_stays(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    quiet = score(Scorer(world.pool, encoder), ideas, tmp_path)
    work = tmp_path / ".s.parquet.work"
    with working_parts(work, "scores") as parts:
        parts.begin(quiet["made_from"], discard=False)
        parts.add(0, {"scores": b""}, {})
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["already_done"]
    assert not work.exists()
    with working_parts(work, "scores") as parts:
        parts.begin({"theta": 1}, discard=False)
        parts.add(0, {"scores": b""}, {})
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["already_done"]
    assert work.exists()


def test_strict_finds_what_an_earlier_run_passed_over(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    lines = ideas.read_text().splitlines()
    ideas.write_text("\n".join([lines[0], "{broken", *lines[2:]]))
    stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    with pytest.raises(DataError, match="line 2:"):
        score(Scorer(world.pool, encoder), ideas, tmp_path, strict=True)
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["resumed"] == 3 * BATCH


def test_strict_speaks_of_a_finished_table_too(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    scorer = Scorer(world.pool, encoder)
    score(scorer, ideas, tmp_path)
    with pytest.raises(DataError, match=f"line {N + 2}: not JSON"):
        score(scorer, ideas, tmp_path, strict=True)
    assert score(scorer, ideas, tmp_path)["already_done"]
    score(scorer, ideas, tmp_path, limit=N, overwrite=True)
    assert score(scorer, ideas, tmp_path, limit=N, strict=True)["already_done"]


def test_ideas_that_change_meanwhile_are_an_error(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    def add_one(done: int, _: int) -> None:
        if done == BATCH:
            ideas.write_text(ideas.read_text() + '{"text": "one more idea of the model"}\n')

    was = ideas.read_bytes()
    with pytest.raises(DataError, match="changed while it was read"):
        score(Scorer(world.pool, encoder), ideas, tmp_path, progress=add_one)
    assert not (tmp_path / "s.parquet").exists()
    with pytest.raises(UsageError, match=r"\(ideas: "):
        score(Scorer(world.pool, encoder), ideas, tmp_path)
    ideas.write_bytes(was)
    # What was made while the file was another is not there.
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["resumed"] == BATCH


def test_unfinished_work_of_another_user_is_refused(
    world: World,
    encoder: Watched,
    ideas: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    with monkeypatch.context() as another:
        another.setattr(os, "geteuid", lambda: 1 + os.getuid())
        with pytest.raises(StorageError, match="another user's; remove it"):
            score(Scorer(world.pool, encoder), ideas, tmp_path)
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["resumed"] > 0


def test_other_dates_and_venues_are_named(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    """They are columns of the table, though no score depends on them."""
    stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    scorer = Scorer(world.pool, encoder)
    was = world.pool.store.facts_id
    try:
        world.pool.store.facts_id = "another"
        with pytest.raises(UsageError, match="dates, venues and citations: "):
            score(scorer, ideas, tmp_path)
    finally:
        world.pool.store.facts_id = was
