"""Several processes on one pool, and one that goes on while it is replaced, store and all."""

import datetime as dt
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command_line import environment
from hindsight_fast import Pool, Scorer, runs
from hindsight_fast.encoding import embed_store
from hindsight_fast.explanation import explain_idea
from hindsight_fast.ideas import Idea, ideas_frame, read_ideas
from hindsight_fast.index import IndexConfig
from hindsight_fast.pool import build_pool
from hindsight_fast.store import build_store
from paper_tables import paper, table
from scoring_world import E, T, World, made_up_ideas, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), index=True, theta=0.5)


@pytest.fixture
def ideas(tmp_path: Path) -> Path:
    path = tmp_path / "ideas.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in made_up_ideas(90)))
    return path


def test_four_processes_score_on_one_pool_at_once(
    world: World, ideas: Path, tmp_path: Path
) -> None:
    pool = world.folder / "pool"
    command = [sys.executable, "-m", "hindsight_fast", "score", str(ideas), "--pool", str(pool)]
    programs = [
        subprocess.Popen(
            [*command, "--out", f"{i}.parquet", "--matches", f"m{i}.csv", "--search", search],
            cwd=tmp_path,
            env=environment(world.folder),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i, search in enumerate(("exact", "index", "exact", "index"))
    ]
    for program in programs:
        _, errors = program.communicate(timeout=240)
        assert program.returncode == 0, errors
    right = Scorer(Pool.open(pool), world.encoder).score(pl.concat(read_ideas(ideas)))
    for i in range(4):
        assert pl.read_parquet(tmp_path / f"{i}.parquet").equals(right)
        assert (tmp_path / f"m{i}.csv").read_bytes() == (tmp_path / "m0.csv").read_bytes()
    assert not [file for file in tmp_path.iterdir() if file.name[0] == "."]


@pytest.fixture
def own_world(world: World, tmp_path: Path) -> World:
    """A copy, to be replaced."""
    folder = tmp_path / "own"
    shutil.copytree(world.folder, folder)
    pool = Pool.open(folder / "pool")
    return World(folder, world.encoder, pool.store, pool)


def replace(world: World) -> None:
    """Put another store and another pool in the places of those: other titles, dates, counts."""
    day = dt.date(2024, 2, 2)
    papers = [paper(i, title=f"Another title {i}", date=day, citations=1) for i in range(50)]
    store = build_store(table(papers), world.folder / "store", overwrite=True)
    embed_store(store, world.encoder, overwrite=True)
    build_pool(
        store,
        world.folder / "pool",
        cutoff=T,
        until=E,
        k=5,
        theta=0.5,
        index=IndexConfig(),
        overwrite=True,
    )


@pytest.mark.parametrize("search", ["exact", "index"])
def test_who_has_a_pool_open_keeps_it_while_it_is_replaced(own_world: World, search: str) -> None:
    frame = ideas_frame([Idea(**one) for one in made_up_ideas(40)])
    quiet = Scorer(Pool.open(own_world.folder / "pool"), own_world.encoder, search=search)
    right, matches = quiet.score(frame), quiet.matches_table(quiet.score_batch(frame))
    words = explain_idea(quiet, frame.head(1)).text
    scorer = Scorer(own_world.pool, own_world.encoder, search=search)  # has looked at nothing yet
    replace(own_world)
    after = scorer.score_batch(frame)
    assert after.scores.equals(right) and scorer.matches_table(after).equals(matches)
    assert right["best_title"].drop_nulls().str.starts_with("Paper ").all()
    assert explain_idea(scorer, frame.head(1)).text == words
    new = Scorer(Pool.open(own_world.folder / "pool"), own_world.encoder).score(frame)
    assert new["best_title"].drop_nulls().str.starts_with("Another title").all()
    assert set(new["best_date"].drop_nulls()) == {"2024-02-02"}


def test_a_run_ends_on_the_pool_that_it_began_with(
    own_world: World, ideas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindsight_fast.runs._job.BATCH", 16)
    scorer = Scorer(own_world.pool, own_world.encoder, search="index")
    quiet = runs.score_file(scorer, ideas, tmp_path / "quiet.parquet")

    def replaced_under_it(done: int, _: int) -> None:
        if done == 32:
            replace(own_world)

    done = runs.score_file(
        Scorer(Pool.open(own_world.folder / "pool"), own_world.encoder, search="index"),
        ideas,
        tmp_path / "s.parquet",
        progress=replaced_under_it,
    )
    assert done["index_quality"] == quiet["index_quality"]
    names = [tmp_path / f"{name}.parquet" for name in ("quiet", "s")]
    assert names[0].read_bytes() == names[1].read_bytes()
    assert np.isfinite(pl.read_parquet(names[0])["score"].to_numpy()).all()
