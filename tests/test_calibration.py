"""calibrate: every number against its definition, in a small world."""

import json
import math
from collections.abc import Generator
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hindsight_fast import Idea, Scorer
from hindsight_fast.calibration import (
    Calibration,
    _grid,
    _hubs,
    _size,
    calibrate,
    page,
    sections,
)
from hindsight_fast.calibration._loss import nearest_codes, of_matches
from hindsight_fast.calibration._sample import earlier_papers, of_ideas, of_papers
from hindsight_fast.calibration._search import Near, nearest_of_pool
from hindsight_fast.candidates import Choice, choose
from hindsight_fast.encoding import embed_store
from hindsight_fast.errors import DataError, UsageError
from hindsight_fast.ideas import ideas_frame
from hindsight_fast.impact import RECIPES
from hindsight_fast.papers import topics
from hindsight_fast.papers.choosing import Where
from hindsight_fast.pool import Pool, build_pool
from hindsight_fast.store import build_store
from paper_tables import paper, table
from reference import score_ideas
from scoring_world import Rounded, World, made_up_ideas, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), index=True)


@pytest.fixture(scope="module", autouse=True)
def own_home(world: World) -> Generator[None]:
    """What is trusted here is nobody else's business."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HINDSIGHT_HOME", str(world.folder))
        yield


def made(n: int = 40) -> list[Idea]:
    return [Idea(**one) for one in made_up_ideas(n)]


def scorer_of(world: World, share: float = 0.5, **options: Any) -> Scorer:
    """A scorer whose theta about this share of the ideas reach."""
    near = Scorer(world.pool, world.encoder).score(made())["nearest_similarity"]
    return Scorer(world.pool, world.encoder, theta=near.quantile(1 - share), **options)


@pytest.fixture(scope="module")
def found(world: World) -> Calibration:
    return calibrate(scorer_of(world), made())


def near_of(scorer: Scorer, world: World, n: int = 40, width: int = 60) -> tuple[Any, Near]:
    sample = of_ideas(scorer, ideas_frame(made(n)), n, lambda done, total: None)
    return sample, nearest_of_pool(scorer.pool, sample.vectors, width, sample.own, 2)


def test_at_its_own_settings_it_says_what_scoring_says(world: World, found: Calibration) -> None:
    scores = scorer_of(world).score(made())
    mean = sum(scores["score"].to_list()) / 40
    assert found.mean_score == pytest.approx(mean, abs=1e-15)
    assert found.match_rate == scores["matched"].mean()
    assert 0 < found.match_rate < 1 and found.kind == "ideas" and found.n == 40
    at = found.sensitivity
    assert at.exact and at.theta in at.steps
    assert at.score() == mean and at.rate() == found.match_rate
    assert at.matches() == scores["n_matches"].mean()
    assert found.signature == scorer_of(world, search="exact").signature


def test_other_settings_are_those_of_other_runs(world: World, found: Calibration) -> None:
    at = found.sensitivity
    assert [at.rate(theta) for theta in at.reached] == [0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.025]
    for theta in (at.steps[0], at.steps[-1], at.reached[2], at.thetas[7]):
        for k in at.ks:
            scores = Scorer(world.pool, world.encoder, theta=theta, k=k).score(made())
            assert at.score(theta=theta, k=k) == sum(scores["score"].to_list()) / 40
            assert at.matches(theta=theta, k=k) == scores["n_matches"].mean()
            assert at.rate(theta) == scores["matched"].mean()
    assert at.score(weight=0) in {round(n / 40, 12) for n in range(41)}  # a top venue or none


@pytest.mark.parametrize("recipe", ["paper", "known", "log", "percentile"])
def test_parts_give_the_impact_of_the_pool_to_the_bit(
    world: World, tmp_path: Path, recipe: str
) -> None:
    assert recipe in RECIPES
    pool = build_pool(
        world.store, tmp_path / recipe, cutoff=world.pool.cutoff, until=world.pool.until,
        recipe=recipe,
    )  # fmt: skip
    parts = _grid.Parts.of(pool)
    assert parts.exact and set(parts.v.tolist()) == {0.0, 1.0}
    assert (np.isnan(parts.c) == (pool.impact < 0)).all()


def test_codes_are_compared_exhaustively(world: World) -> None:
    index, rng = world.pool.index, np.random.default_rng(0)
    assert index is not None
    vectors = np.asarray(world.pool.vectors)[rng.integers(0, world.pool.n, 9)]
    eligible = rng.random(world.pool.n) < 0.7
    found = nearest_codes(index, vectors, world.pool.vectors, eligible, 12)
    codes, queries = (index.codes(x).astype(int) for x in (world.pool.vectors, vectors))
    for i, query in enumerate(queries.tolist()):
        apart = {
            row: sum((a - b) ** 2 for a, b in zip(query, codes[row].tolist(), strict=True))
            for row in np.flatnonzero(eligible).tolist()
        }
        right = sorted(apart, key=lambda row: (apart[row], row))[:12]
        assert found.rows[i].tolist() == right and found.last[i] == apart[right[-1]]
    few = nearest_codes(index, vectors, world.pool.vectors, np.arange(world.pool.n) == 3, 2)
    assert few.rows.tolist() == [[3, -1]] * 9


def test_what_the_index_loses(world: World, found: Calibration) -> None:
    index = found.loss.index
    assert index is not None and index.n_sampled == 20 and not index.flatters
    assert index.codes.share >= index.index.share > 0.9  # of a whole graph, nothing more is lost
    for share in (index.codes, index.graph, index.index, index.equal_scores, found.loss.close):
        assert 0 <= share.low <= share.share <= share.high <= 1
    assert found.loss.error is None and found.loss.within_error is None
    scorer = scorer_of(world)
    near = scorer.score(made())
    own = Scorer(world.pool, world.encoder, theta=float(near["nearest_similarity"][3]))
    assert calibrate(own, made()).loss.close.share >= 1 / 40


def test_what_is_lost_of_matches_counts_ideas_that_match() -> None:
    """Each of few ideas that match loses its match in 1 case of 5; the interval holds that."""
    rng, held = np.random.default_rng(3), 0
    exact, nothing = (np.arange(256) < 12).astype(np.int32), np.zeros(256, np.int32)
    for _ in range(400):
        share = of_matches(np.where(rng.random(256) < 0.8, exact, nothing), exact)
        assert share is not None
        held += share.low <= 0.8 <= share.high
    assert held >= 0.92 * 400
    assert of_matches(nothing, nothing) is None


@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_settings_are_judged_on_other_ideas_than_they_were_chosen_on(
    world: World, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    chosen_on = list[NDArray[np.float32]]()

    def chosen(scorer: Scorer, vectors: NDArray[np.float32]) -> Choice:
        chosen_on.append(vectors)
        return choose(scorer, vectors)

    monkeypatch.setattr("hindsight_fast.calibration._loss.choose", chosen)
    found = calibrate(Scorer(world.pool, world.encoder), made(n))
    index = found.loss.index
    assert index is not None and index.n_sampled == max(n // 2, 1)
    assert index.flatters == (n == 1)
    assert any("they flatter" in note for note in sections(found)[0].notes) == (n == 1)
    assert len(chosen_on[0]) == n - (n // 2)


def test_a_graph_that_is_hardly_searched_loses_papers_that_codes_find(world: World) -> None:
    scorer = scorer_of(world)
    scorer.candidates = Choice(5, 1, None, None, None, None, 0, 0.9, False)
    index = calibrate(scorer, made()).loss.index
    assert index is not None and (index.count, index.expansion) == (5, 1)
    assert index.graph.share < 1 and index.index.share < index.codes.share
    assert index.matches is not None and index.matches.share < 1


def test_impact_that_is_not_made_again_to_the_bit_is_told_of(world: World) -> None:
    pool = Pool.open(world.folder / "pool")
    pool.impact = pool.impact * np.float32(0.999)
    found = calibrate(Scorer(pool), limit=9)
    assert not found.sensitivity.exact
    assert any("not the pool's to the bit" in note for s in sections(found) for note in s.notes)


def test_a_precision_moves_ideas_next_to_theta(world: World) -> None:
    coarse = Rounded(world.folder / "models" / "tiny", "float16", 50)
    near = Scorer(world.pool, coarse).score(made())["nearest_similarity"]
    loss = calibrate(Scorer(world.pool, coarse, theta=float(near.to_numpy()[7])), made()).loss
    assert loss.error is not None and loss.error > 1e-4 and loss.within_error is not None
    assert loss.within_error.share > loss.close.share


def test_an_index_of_others_is_not_measured(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path))
    found = calibrate(Scorer(Pool.open(world.folder / "pool")), limit=9)
    assert found.loss.index is None and found.loss.set_aside
    assert "made by somebody else" in sections(found)[0].notes[0]


def test_a_pool_without_an_index_says_so(world: World, tmp_path: Path) -> None:
    bare = build_pool(
        world.store, tmp_path / "bare", cutoff=world.pool.cutoff, until=world.pool.until
    )
    found = calibrate(Scorer(bare), limit=20)
    assert found.loss.index is None
    assert "no index" in sections(found)[0].notes[0]


def test_distributions_of_cosines(world: World, found: Calibration) -> None:
    kinds = {one.name: one for one in found.cosines.kinds}
    assert len(kinds) == 4
    vectors = np.asarray(world.pool.vectors, np.float64)
    products = vectors @ vectors.T
    np.fill_diagonal(products, -1)
    nearest = kinds["papers to their nearest other"]
    assert nearest.mean == pytest.approx(products.max(1).mean(), abs=1e-6) and nearest.n == 60
    pairs = kinds["random pairs of papers"]
    off = products[~np.eye(60, dtype=bool)]
    assert pairs.mean == pytest.approx(off.mean(), abs=5 * off.std() / math.sqrt(pairs.n))
    ideas = kinds["ideas to their nearest paper"]
    assert ideas.at_theta == found.match_rate
    empty = world.encoder.encode([("", "")])[0].astype(np.float64)
    said = kinds["the empty text to papers"]
    assert said.mean == pytest.approx((vectors @ empty).mean(), abs=1e-6)
    for one in kinds.values():
        assert sum(one.shares) == pytest.approx(1) and one.quantiles == sorted(one.quantiles)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), width=st.sampled_from([6, 12, 60]))
def test_a_thinned_pool_scores_as_one_of_those_papers_alone(
    world: World, seed: int, width: int
) -> None:
    rng = np.random.default_rng(seed)
    scorer = scorer_of(world, float(rng.choice([0.3, 0.9])))
    sample, near = near_of(scorer, world, width=width)
    left = rng.random(world.pool.n) < rng.choice([0.1, 0.5])
    scores, scanned = _size.score_among(scorer, sample, near, left)
    impact = np.where(left, world.pool.impact, np.float32(-1))
    if (impact >= 0).any():
        right = score_ideas(sample.vectors, world.pool.vectors, impact, 5, scorer.config.theta)
        assert scores.tolist() == [-1 if best is None else score for score, best, _, _ in right]
    assert scanned == 0 if width == 60 else scanned <= 40


def test_sizes_of_the_pool(world: World, found: Calibration) -> None:
    whole, *parts = found.sizes
    assert (whole.score, whole.rate) == (found.mean_score, found.match_rate)
    assert [one.n_papers for one in found.sizes] == [60, 30, 15, 8, 4]
    assert whole.score_spread is None and all(one.score_spread is not None for one in parts)
    rates = [one.rate for one in found.sizes]
    assert rates == sorted(rates, reverse=True)  # each part is within the one before


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.3, 0.9]), k=st.integers(1, 6))
def test_without_any_one_paper(world: World, seed: int, share: float, k: int) -> None:
    scorer = scorer_of(world, share, k=k)
    sample, near = near_of(scorer, world, n=12, width=7)
    hubs = _hubs.examine(scorer, near)
    theta = scorer.config.theta

    def scores(impact: NDArray[np.float32]) -> list[Any]:
        return score_ideas(sample.vectors, world.pool.vectors, impact, k, theta)

    now = scores(world.pool.impact)
    assert hubs.mean == pytest.approx(sum(float(s) for s, *_ in now) / 12)
    without: dict[str, float] = {}
    ids = world.pool.lookup(np.arange(world.pool.n))["id"].to_list()
    for row in {int(r) for r in near.rows[:, :k].ravel()}:
        impact = np.array(world.pool.impact)
        impact[row] = -1
        without[ids[row]] = sum(float(s) for s, *_ in scores(impact)) / 12
    if hubs.lowest is None:
        assert min(without.values()) >= hubs.mean - 1e-12
    else:
        assert hubs.lowest.mean_without == pytest.approx(min(without.values()), abs=1e-12)
        assert hubs.lowest.mean_without < hubs.mean
    for one in hubs.top:
        assert one.mean_without == pytest.approx(without[one.paper_id], abs=1e-12)
    best = [best for _, best, _, _ in now if best is not None]
    assert hubs.n_best == len(best) and hubs.n_matches == sum(m for _, _, m, _ in now)
    assert sum(h.n_best for h in hubs.top) == sum(ids[b] in {h.paper_id for h in hubs.top}
                                                  for b in best)  # fmt: skip


def test_no_paper_is_named_where_the_mean_hangs_on_none(world: World) -> None:
    pool = Pool.open(world.folder / "pool")
    pool.impact = np.minimum(pool.impact, np.float32(0))
    found = calibrate(Scorer(pool, world.encoder, theta=0), made(9))
    assert found.hubs.lowest is None and found.hubs.n_matches > 0
    hubs = sections(found)[-1]
    assert "is no lower than now" in hubs.notes[1] and len(hubs.rows) == len(found.hubs.top)


def test_thetas_are_rounded_so_that_what_is_said_is_true(world: World) -> None:
    scorer = Scorer(world.pool, world.encoder)
    nearest = scorer.score(made(9))["nearest_similarity"].to_numpy()
    rates = {one.name: one for one in sections(calibrate(scorer, made(9)))}["rates"]
    assert [row[0] for row in rates.rows] == ["90%", "75%", "50%", "25%", "10%", "5%", "1%"]
    for share, theta, *_ in rates.rows:  # the last three are equal, and told of all the same
        reach = (nearest >= np.float32(theta)).mean()
        assert reach >= float(share.rstrip("%")) / 100


def test_hubs_are_named(found: Calibration) -> None:
    hubs = found.hubs
    assert len(hubs.top) == min(10, hubs.n_papers)
    counts = [one.n_matches for one in hubs.top]
    assert counts == sorted(counts, reverse=True) and hubs.share_of_matches is not None
    assert hubs.top[0].title.startswith("Paper ")
    assert hubs.share_of_matches == sum(counts) / hubs.n_matches


def test_papers_stand_in_for_ideas(world: World, tmp_path: Path) -> None:
    own = of_papers(world.pool, 100)  # a single paper is from before T
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
    earlier = of_papers(pool, 7)
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
    assert of_papers(few, 7).kind == "papers of the pool"  # 19 are too few to stand in for 121


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
        return [int(row) for row in earlier_papers(pool)]

    assert earlier("all") == list(range(100))
    assert earlier("public", require_first_public=True) == [i for i in range(100) if i % 5]
    where = Where(("citations >= 40",), ("b",))
    assert earlier("where", where=where) == list(range(41, 100, 2))
    stand_ins = of_papers(Pool.open(tmp_path / "public"), 9)
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


def test_a_single_paper_and_nothing_beside_it(world: World, tmp_path: Path) -> None:
    store = build_store(table([paper(1)]), tmp_path / "store")
    embed_store(store, world.encoder)
    pool = build_pool(store, tmp_path / "pool", cutoff=world.pool.cutoff, until=world.pool.until)
    found = calibrate(Scorer(pool))
    assert found.kind == "papers of the pool" and not found.cosines.kinds
    json.dumps(found.facts(), allow_nan=False)
    notes = [note for one in sections(found) for note in one.notes]
    assert "a single paper has nothing to be compared with" in notes and page(found)


def test_a_pool_without_papers_or_ideas_without_text_are_refused(
    world: World, tmp_path: Path
) -> None:
    empty = build_pool(
        world.store, tmp_path / "empty", cutoff=world.pool.until, until=world.pool.until
    )
    with pytest.raises(UsageError, match="no papers"):
        calibrate(Scorer(empty, world.encoder), made())
    with pytest.raises(DataError, match="none of 2 ideas can be scored"):
        calibrate(Scorer(world.pool, world.encoder), [Idea(), Idea(text="short")])
    with pytest.raises(UsageError, match="need an encoder"):
        calibrate(Scorer(world.pool), made())
    with pytest.raises(UsageError, match="limit = 0"):
        calibrate(Scorer(world.pool), limit=0)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_pools_of_hardly_any_papers(world: World, tmp_path: Path, n: int) -> None:
    until = world.pool.cutoff.replace(day=n)
    pool = build_pool(world.store, tmp_path / "few", cutoff=world.pool.cutoff, until=until)
    assert pool.n_papers == n
    for found in (
        calibrate(Scorer(pool, world.encoder, k=20, theta=-1), made(5)),
        calibrate(Scorer(pool)),
    ):
        json.dumps(found.facts(), allow_nan=False)
        assert sections(found) and page(found)
    assert found.n == n
    assert found.sizes[0].n_papers == n


def test_a_draw_of_ideas_is_fair_and_the_same_again(world: World) -> None:
    scorer = Scorer(world.pool, world.encoder)
    frame = ideas_frame(made(40))
    some = of_ideas(scorer, frame, 10, lambda done, total: None)
    again = of_ideas(scorer, frame, 10, lambda done, total: None)
    assert some.n == 10 and "drawn at random from 40" in some.words
    assert (some.vectors == again.vectors).all()
    places = [int(name[1:]) for name in some.texts["idea_id"].to_list()]
    assert places == sorted(places) and max(places) > 20


def test_facts_are_plain_values(found: Calibration) -> None:
    facts = json.loads(json.dumps(found.facts(), allow_nan=False))
    assert facts["loss"]["index"]["codes"]["share"] == found.loss.index.codes.share  # type: ignore[union-attr] # pyright: ignore
    assert facts == json.loads(json.dumps(asdict(found)))


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


def test_the_pool_may_be_opened_anew(world: World) -> None:
    pool = Pool.open(world.folder / "pool")
    assert calibrate(Scorer(pool), limit=9).n == 9
