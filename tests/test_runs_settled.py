"""What a run finds once, before its first idea: how an index is searched, what precision costs."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hindsight_fast import Scorer, scoring
from hindsight_fast.errors import DataError, UsageError
from hindsight_fast.ideas import read_ideas
from hindsight_fast.runs import _settled
from hindsight_fast.storage import Parts
from runs_world import (
    N,
    Stopped,
    Watched,
    score,
    small_parts,
    stop_after,
    stopped,
    tables,
    told,
    write_ideas,
)
from scoring_world import Rounded, World, make_world


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


def not_again(*_: object) -> None:
    pytest.fail("it is not to be called")


def half(*_: object) -> float:
    return 0.5


def test_how_an_index_is_searched_is_chosen_once(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_settled, "FEWEST", N)
    quiet = score(Scorer(world.pool, encoder, search="index"), ideas, tmp_path / "q", recall=0.99)
    choice = quiet["candidates"]
    assert choice["target"] == 0.99 and choice["reached"]
    assert f"candidates={choice['count']},ef={choice['expansion']}" in quiet["signature"]
    with pytest.raises(Stopped):
        score(
            Scorer(world.pool, encoder, search="index"),
            ideas,
            tmp_path / "s",
            recall=0.99,
            progress=stop_after(20),
        )
    monkeypatch.setattr(_settled, "choose", not_again)
    scorer, lines = Scorer(world.pool, encoder, search="index"), list[str]()
    with pytest.raises(UsageError, match=r"\(recall: 0.99, now 0.9\)"):
        score(scorer, ideas, tmp_path / "s", recall=0.9)
    again = score(scorer, ideas, tmp_path / "s", recall=0.99, tell=lines.append)
    assert told(again) == told(quiet) and tables(tmp_path / "s") == tables(tmp_path / "q")
    assert scorer.candidates is None and "candidates an idea, ef" in lines[0]


def test_a_recall_that_is_not_reached_is_noted(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_settled, "FEWEST", N)
    monkeypatch.setattr("hindsight_fast.candidates.recall", half)
    done = score(Scorer(world.pool, encoder, search="index"), ideas, tmp_path)
    assert not done["candidates"]["reached"]
    (note,) = [one for one in done["notes"] if "--search exact misses none" in one]
    assert "was to find 0.999 of the nearest papers and on a sample found 0.5000" in note


def test_ideas_are_scanned_exactly_where_the_index_must_search_as_long(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_settled, "FEWEST", N)
    monkeypatch.setattr(scoring, "CANDIDATE_FLOPS", 0.01)
    monkeypatch.setattr(scoring, "AUTO_EXACT_SHARE", 0.0)
    right = score(Scorer(world.pool, encoder, search="exact"), ideas, tmp_path / "e")
    fast, lines = score(Scorer(world.pool, encoder), ideas, tmp_path / "i"), list[str]()
    assert fast["search"] == "index" and fast["candidates"]["reached"]
    with monkeypatch.context() as patch:
        patch.setattr("hindsight_fast.candidates.recall", half)
        with pytest.raises(Stopped):
            score(Scorer(world.pool, encoder), ideas, tmp_path / "s", progress=stop_after(20))
    monkeypatch.setattr(_settled, "choose", not_again)
    scorer = Scorer(world.pool, encoder)
    done = score(scorer, ideas, tmp_path / "s", tell=lines.append)
    assert done["search"] == "exact" and "scanned exactly" in lines[0]
    assert done["signature"] == right["signature"] and "index_quality" not in done
    assert tables(tmp_path / "s") == tables(tmp_path / "e") and scorer.search == "index"
    assert score(scorer, ideas, tmp_path / "s")["already_done"]
    asked_for = Scorer(world.pool, encoder, search="index")
    with pytest.raises(UsageError, match=r"search: index or exact, now index"):
        score(asked_for, ideas, tmp_path / "s")


def test_what_was_found_on_other_ideas_is_not_kept(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed_meanwhile(*given: Any) -> _settled.Settled:
        ideas.write_text(ideas.read_text() + "\n")
        return _settled.settle(*given)

    monkeypatch.setattr("hindsight_fast.runs._job.settle", changed_meanwhile)
    monkeypatch.setattr(Parts, "settle", not_again)
    with pytest.raises(DataError, match="changed while it was read"):
        score(Scorer(world.pool, encoder), ideas, tmp_path)


def test_what_a_precision_costs_is_measured_once(
    world: World, ideas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coarse = Rounded(world.folder / "models" / "tiny", "float16", 50)
    frame = pl.concat(read_ideas(ideas))
    nearest = Scorer(world.pool, coarse).score(frame)["nearest_similarity"]
    theta = float(nearest.drop_nulls()[0])
    quiet = score(Scorer(world.pool, coarse, theta=theta), ideas, tmp_path / "q")
    assert quiet["precision"]["costs"] and quiet["precision"]["near_theta"]["any_of_k"]
    stopped(Scorer(world.pool, coarse, theta=theta), ideas, tmp_path / "s")
    monkeypatch.setattr(_settled, "measure", not_again)
    again = score(Scorer(world.pool, coarse, theta=theta), ideas, tmp_path / "s")
    assert told(again) == told(quiet)
