"""Which ideas calibrate looks up, what stands in for them, and their topics."""

from collections.abc import Generator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibration_world import made, own_world
from hindsight_fast import Idea, Scorer
from hindsight_fast.calibration import (
    calibrate,
    sections,
)
from hindsight_fast.calibration._sample import earlier_papers, of_ideas, of_papers
from hindsight_fast.encoding import embed_store
from hindsight_fast.ideas import ideas_frame
from hindsight_fast.papers import topics
from hindsight_fast.papers.choosing import Where
from hindsight_fast.pool import Pool, build_pool
from hindsight_fast.store import build_store
from paper_tables import paper, table
from scoring_world import World, made_up_ideas


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World]:
    with own_world(tmp_path_factory.mktemp("world"), index=True) as world:
        yield world


def test_papers_stand_in_for_ideas(world: World, tmp_path: Path) -> None:
    own = of_papers(
        world.pool, earlier_papers(world.pool)[0], 100
    )  # a single paper is from before T
    assert own.kind == "papers of the pool" and own.n == 60 and "each without itself" in own.words
    found = calibrate(Scorer(world.pool))
    assert found.kind == own.kind and all("empty" not in one.name for one in found.cosines.kinds)
    nearest = {one.name: one for one in found.cosines.kinds}
    assert nearest["stand-ins for ideas to their nearest paper"].mean == pytest.approx(
        nearest["papers to their nearest other"].mean
    )


def test_papers_from_before_stand_in_where_there_are_enough(world: World, tmp_path: Path) -> None:
    papers = [paper(i, date_precision="month" if i == 50 else "day") for i in range(140)]
    store = build_store(table(papers), tmp_path / "store")
    embed_store(store, world.encoder)
    cutoff = date(2023, 7, 26)
    pool = build_pool(store, tmp_path / "pool", cutoff=cutoff, until=world.pool.until)
    assert (pool.offset, pool.n) == (55, 85)
    earlier = of_papers(pool, earlier_papers(pool)[0], 7)
    assert earlier.kind == "earlier papers" and earlier.n == 7
    assert "7 papers of the store that were public before 2023-07-26" in earlier.words
    assert "from 54" in earlier.words  # one is dated by a month that ends later
    assert (earlier.own == -1).all() and (earlier.earlier < pool.offset).all()
    found = calibrate(Scorer(pool))
    chance = {one.method: one for one in found.chance}
    assert set(chance) == {"earlier papers", "random pairs"} and found.n == 54
    assert chance["earlier papers"].n_papers == 54
    # Each stand-in's nearest among the others, not itself: just one of 54 may reach theta, and none
    # does, since the two best are each other's nearest.
    rows = np.delete(np.arange(55), 50)
    vectors = np.asarray(store.vectors("tiny").array[rows], np.float64)
    products = vectors @ vectors.T
    np.fill_diagonal(products, -1)
    theta = chance["earlier papers"].levels[0].theta
    assert theta is not None and chance["earlier papers"].levels[1].theta is None
    reached = np.sort(products.max(1))
    assert reached[-2] == reached[-1] and theta == pytest.approx(reached[-2], abs=1e-6)
    assert (reached.astype(np.float32) >= np.float32(theta)).sum() == 0
    few = build_pool(store, tmp_path / "few", cutoff=date(2023, 6, 20), until=world.pool.until)
    assert (
        of_papers(few, earlier_papers(few)[0], 7).kind == "papers of the pool"
    )  # 19 are too few to stand in for 121


def test_earlier_papers_meet_the_conditions_of_the_pool(world: World, tmp_path: Path) -> None:
    papers = [
        paper(i, date_kind="venue" if i % 5 == 0 else "first_public", topics=["ab"[i % 2]])
        for i in range(200)
    ]
    store = build_store(table(papers), tmp_path / "store")
    embed_store(store, world.encoder)

    def earlier(name: str, **options: Any) -> list[int]:
        pool = build_pool(
            store, tmp_path / name, cutoff=date(2023, 9, 9), until=world.pool.until, **options
        )
        rows, n_bare = earlier_papers(pool)
        assert n_bare == 0
        return [int(row) for row in rows]

    assert earlier("all") == list(range(100))
    assert earlier("public", require_first_public=True) == [i for i in range(100) if i % 5]
    where = Where(("citations >= 40",), ("b",))
    assert earlier("where", where=where) == list(range(41, 100, 2))
    public = Pool.open(tmp_path / "public")
    stand_ins = of_papers(public, earlier_papers(public)[0], 9)
    assert "chosen as the pool's were" in stand_ins.words


@pytest.mark.parametrize(("n", "are_enough"), [(150, True), (190, False)])
def test_few_earlier_papers_are_no_ceiling(
    world: World, tmp_path: Path, n: int, are_enough: bool
) -> None:
    store = build_store(table([paper(i) for i in range(n)]), tmp_path / "store")
    embed_store(store, world.encoder)
    pool = build_pool(store, tmp_path / "pool", cutoff=date(2023, 7, 31), until=world.pool.until)
    found = calibrate(Scorer(pool, world.encoder), made())
    notes = " ".join({one.name: one for one in sections(found)}["chance"].notes)
    assert ("no ceiling" in notes) != are_enough
    assert ("on the high side" in notes) == ("no sign of foresight" in notes) == are_enough
    assert "with vectors" not in notes


def test_why_no_earlier_papers_were_looked_up(world: World, tmp_path: Path) -> None:
    cutoff = date(2023, 7, 31)
    store = build_store(table([paper(i) for i in range(150)]), tmp_path / "store")
    embed_store(store, world.encoder, since=cutoff)
    pool = build_pool(store, tmp_path / "pool", cutoff=cutoff, until=world.pool.until)
    found = calibrate(Scorer(pool, world.encoder), made())
    assert (found.n_earlier, found.n_earlier_bare) == (0, pool.offset)
    notes = " ".join({one.name: one for one in sections(found)}["chance"].notes)
    assert f"0 with vectors ({pool.offset} more have none" in notes and "without --since" in notes


def test_a_draw_of_ideas_is_fair_and_the_same_again(world: World) -> None:
    scorer = Scorer(world.pool, world.encoder)
    frame = ideas_frame(made(40))
    some = of_ideas(scorer, frame, 10, lambda done, total: None)
    again = of_ideas(scorer, frame, 10, lambda done, total: None)
    assert some.n == 10 and "drawn at random from 40" in some.words
    assert (some.vectors == again.vectors).all()
    places = [int(name[1:]) for name in some.texts["idea_id"].to_list()]
    assert places == sorted(places) and max(places) > 20


def test_topics_of_ideas_and_papers_meet(world: World, tmp_path: Path) -> None:
    names = ["graph learning", "reasoning"]
    assert set(names) <= {one.name for one in topics.load()}
    papers = [paper(i, topics=[names[i % 2]] if i < 120 else []) for i in range(150)]
    store = build_store(table(papers), tmp_path / "store")
    embed_store(store, world.encoder)
    pool = build_pool(
        store, tmp_path / "pool", cutoff=world.pool.cutoff, until=world.pool.until, k=5
    )
    ideas = [
        Idea(**{**one, "topic": ["Graph_Learning", "reasoning", "cooking"][i % 3]})
        for i, one in enumerate(made_up_ideas(90))
    ]
    found = calibrate(Scorer(pool, world.encoder), ideas)
    method = found.chance[0]
    assert method.method == "other topics" and method.n_ideas == 60 and method.n_papers == 60
    assert {name: n for name, (n, _) in method.topics.items()} == dict.fromkeys(names, 30)
    by_words = of_ideas(
        Scorer(pool, world.encoder),
        ideas_frame([Idea(text="We reason about graph representation learning. It helps a lot.")]),
        5,
        lambda done, total: None,
    )
    assert by_words.topics.tolist() == [1 << by_words.topic_names.index("graph learning")]
    # Each idea's nearest among the papers of the other topic.
    encoded = world.encoder.encode(
        [(row["a"], row["b"]) for row in _texts(ideas).iter_rows(named=True)]
    ).astype(np.float64)
    has = np.array([i % 2 if i < 120 else -1 for i in range(150)])
    reached = [
        max((np.asarray(pool.vectors[has == 1 - i % 3], np.float64) @ encoded[i]).tolist())
        for i in range(90)
        if i % 3 < 2
    ]
    level = method.levels[0]
    assert level.theta is not None
    assert sum(np.float32(one) >= np.float32(level.theta) for one in reached) == 2
    assert level.low is not None and level.low <= level.theta
    assert level.high is None  # none of 60 ideas may reach the theta that 5% of all do
    notes = {one.name: one.notes for one in sections(found)}
    assert "a theta for 1% takes 99 ideas, and can't be said of fewer" in notes["chance"]
    assert '"or more": no upper end from so few ideas' in notes["topics"]


def _texts(ideas: list[Idea]) -> pl.DataFrame:
    from hindsight_fast.scoring import encoded_pairs

    return pl.DataFrame(encoded_pairs(ideas_frame(ideas)), schema=["a", "b"], orient="row")
