"""Scores against an independent brute force, and what the table says."""

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from hindsight_fast import Idea, Pool, Scorer, scoring
from hindsight_fast.encoders import load_encoder
from hindsight_fast.errors import ArtefactError, EncoderError, UsageError
from hindsight_fast.ideas import ideas_frame
from hindsight_fast.pool import build_pool
from hindsight_fast.tables import SCORE_SCHEMA, TEXT_COLUMNS, written_dates
from reference import score_ideas
from scoring_world import World, made_up_ideas, make_world
from tiny_model import tiny_model


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), index=True)


def vectors_of(world: World, n: int = 40) -> NDArray[np.float32]:
    return world.encoder.encode([(f"idea {i} of a model", "we learn data") for i in range(n)])


def spread_theta(world: World, vectors: NDArray[np.float32]) -> float:
    """A theta that about half of the ideas reach with some of their neighbours."""
    cosines = np.sort(vectors @ np.asarray(world.pool.vectors).T, axis=1)
    return float(np.median(cosines[:, -3]))


@pytest.mark.parametrize("search", ["exact", "index"])
@pytest.mark.parametrize("k", [1, 5, 200])
def test_scores_are_those_of_the_definition(world: World, search: str, k: int) -> None:
    vectors = vectors_of(world)
    theta = spread_theta(world, vectors)
    table = Scorer(world.pool, k=k, theta=theta, search=search).score_vectors(vectors)
    expected = score_ideas(vectors, world.pool.vectors, world.pool.impact, k, theta)
    ids = world.pool.lookup(np.arange(world.pool.n))["id"].to_list()
    assert 0 < table["matched"].sum() < table.height
    for row, (score, best, n_matches, nearest) in zip(
        table.iter_rows(named=True), expected, strict=True
    ):
        assert row["score"] == score
        assert row["n_matches"] == n_matches
        assert row["best_paper_id"] == (None if best is None else ids[best])
        assert row["nearest_paper_id"] == ids[nearest]
        assert row["saturated"] == (n_matches == k and world.pool.n_papers > k)


def test_the_table_has_its_columns_and_facts(world: World) -> None:
    table = Scorer(world.pool, world.encoder, theta=-1).score(ideas_frame(made()))
    assert dict(table.schema) == SCORE_SCHEMA
    assert table["idea_id"].to_list() == [one["id"] for one in made_up_ideas(12)]
    row = table.row(0, named=True)
    papers = world.store.papers().filter(pl.col("id") == row["best_paper_id"])
    assert row["best_title"] == papers["title"].item()
    assert row["best_citations"] == papers["citations"].item()
    assert row["best_venue"] == papers["venue"].item()
    assert row["best_date"] == str(papers["date"].item())
    assert row["margin"] == np.float32(row["nearest_similarity"]) - np.float32(-1)
    assert row["n_matches"] == 5 and row["saturated"] and row["matched"]
    vectors = Scorer(world.pool).score_vectors(vectors_of(world, 3))
    assert vectors.columns == [name for name in SCORE_SCHEMA if name not in TEXT_COLUMNS]


def made() -> list[Idea]:
    return [Idea(**one) for one in made_up_ideas(12)]


def test_what_can_not_be_scored_has_a_status_and_no_score(world: World) -> None:
    ideas = [*made()[:2], Idea(), Idea(text="too short"), Idea(text="  \n "), *made()[2:4]]
    table = Scorer(world.pool, world.encoder, theta=-1).score(ideas)
    assert table["status"].to_list() == ["ok", "ok", "empty", "too_short", "empty", "ok", "ok"]
    unscored = table.filter(pl.col("status") != "ok")
    for name in ("score", "matched", "n_matches", "best_paper_id", "nearest_paper_id", "margin"):
        assert unscored[name].null_count() == 3, name
    kept = table.filter(pl.col("status") == "ok").drop("idea_id")
    assert kept.equals(
        Scorer(world.pool, world.encoder, theta=-1).score(made()[:4]).drop("idea_id")
    )


def test_an_idea_scores_the_same_alone_and_among_others(world: World) -> None:
    scorer = Scorer(world.pool, world.encoder, theta=0.5)
    together = scorer.score(made())
    alone = pl.concat(scorer.score([one]) for one in made())
    assert together.equals(alone)
    threads = Scorer(world.pool, world.encoder, theta=0.5, threads=1).score(made())
    assert together.equals(threads)


def test_no_ideas(world: World) -> None:
    assert dict(Scorer(world.pool, world.encoder).score([]).schema) == SCORE_SCHEMA
    none = np.empty((0, world.pool.vectors.shape[1]), np.float32)
    assert Scorer(world.pool).score_vectors(none).height == 0


def test_a_pool_of_no_papers_scores_zero(world: World, tmp_path: Path) -> None:
    empty = build_pool(
        world.store, tmp_path / "empty", cutoff=world.pool.until, until=world.pool.until
    )
    table = Scorer(empty, world.encoder).score([*made()[:2], Idea()])
    assert table["status"].to_list() == ["empty_pool", "empty_pool", "empty"]
    assert table["score"].to_list() == [0, 0, None]
    assert table["nearest_paper_id"].null_count() == 3


def test_what_does_not_belong_together_is_refused(world: World, tmp_path: Path) -> None:
    other = load_encoder(tiny_model(tmp_path / "tiny", seed=1), device="cpu")
    with pytest.raises(EncoderError, match="were made by tiny@"):
        Scorer(world.pool, other)
    settings = [("k", 0), ("theta", 1.5), ("theta", float("nan")), ("search", "fast")]
    wrong: list[dict[str, Any]] = [{name: value} for name, value in settings]
    for options in wrong:
        with pytest.raises(UsageError):
            Scorer(world.pool, **options)
    with pytest.raises(UsageError, match="has no encoder"):
        Scorer(world.pool).score([Idea(text="a text of some more words than five")])
    bare = build_pool(
        world.store, tmp_path / "bare", cutoff=world.pool.cutoff, until=world.pool.until
    )
    with pytest.raises(UsageError, match="no index"):
        Scorer(bare, search="index")
    bare.text_version += 1
    with pytest.raises(ArtefactError, match="cleaned by rule"):
        Scorer(bare, world.encoder)


def test_vectors_that_are_not_unit_rows_are_refused(world: World) -> None:
    good = vectors_of(world, 3)
    with_nan = good.copy()
    with_nan[1, 2] = np.nan
    wrong: list[Any] = [good.astype(np.float64), good[0], good[:, :-1], good * np.float32(1.01)]
    for vectors in [*wrong, with_nan, np.zeros_like(good)]:
        with pytest.raises(UsageError):
            Scorer(world.pool).score_vectors(vectors)


def test_auto_scans_exactly_while_that_costs_little(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Scorer(world.pool, world.encoder).search == "exact"
    assert Scorer(world.pool).search == "exact"  # an index would take as long among so few
    monkeypatch.setattr(scoring, "CANDIDATE_FLOPS", 0.01)
    assert Scorer(world.pool, world.encoder).search == "exact"
    assert Scorer(world.pool).search == "index"  # nothing but search takes time then
    assert "search=exact" in Scorer(world.pool, world.encoder).signature
    assert "search=index" in Scorer(world.pool).signature


def test_several_threads_may_score_at_once(world: World) -> None:
    scorer = Scorer(world.pool, world.encoder, theta=0.5)
    expected, found = scorer.score(made()), list[pl.DataFrame]()
    workers = [
        threading.Thread(target=lambda: found.append(scorer.score(made()))) for _ in range(6)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 6
    assert all(table.equals(expected) for table in found)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_says_why_it_does_not_score(world: World) -> None:
    scorer = Scorer(world.pool, world.encoder, theta=0.5)
    scorer.score(made())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            scorer.score(made())
        except UsageError as error:
            code = 0 if "'spawn'" in str(error) else 2
        os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_dates_are_written_as_precisely_as_they_are_known() -> None:
    frame = pl.DataFrame(
        {
            "date": pl.Series(["2023-01-01", "2023-06-01", "2023-06-09", None]).str.to_date(),
            "date_precision": ["year", "month", "day", None],
        }
    )
    assert written_dates(frame).to_list() == ["2023", "2023-06", "2023-06-09", None]


def test_the_pool_is_the_one_that_was_opened(world: World) -> None:
    again = Pool.open(world.folder / "pool")
    assert Scorer(again).signature == Scorer(world.pool).signature
