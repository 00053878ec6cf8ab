"""calibrate: every number against its definition, in a small world."""

import json
import math
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from calibration_world import made, near_of, own_world, scorer_of
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
from hindsight_fast.encoding import embed_store
from hindsight_fast.errors import DataError, UsageError
from hindsight_fast.impact import RECIPES
from hindsight_fast.pool import Pool, build_pool
from hindsight_fast.store import build_store
from paper_tables import paper, table
from reference import score_ideas
from scoring_world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World]:
    with own_world(tmp_path_factory.mktemp("world"), index=True) as world:
        yield world


@pytest.fixture(scope="module")
def found(world: World) -> Calibration:
    return calibrate(scorer_of(world), made())


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


def test_impact_that_is_not_made_again_to_the_bit_is_told_of(world: World) -> None:
    pool = Pool.open(world.folder / "pool")
    pool.impact = pool.impact * np.float32(0.999)
    found = calibrate(Scorer(pool), limit=9)
    assert not found.sensitivity.exact
    assert any("not the pool's to the bit" in note for s in sections(found) for note in s.notes)


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


def test_facts_are_plain_values(found: Calibration) -> None:
    facts = json.loads(json.dumps(found.facts(), allow_nan=False))
    assert facts["loss"]["index"]["codes"]["share"] == found.loss.index.codes.share  # type: ignore[union-attr] # pyright: ignore
    assert facts == json.loads(json.dumps(asdict(found)))


def test_the_pool_may_be_opened_anew(world: World) -> None:
    pool = Pool.open(world.folder / "pool")
    assert calibrate(Scorer(pool), limit=9).n == 9
