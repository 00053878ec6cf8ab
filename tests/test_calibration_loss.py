"""What calibrate says is lost: by codes, by the graph, by precision."""

from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from calibration_world import made, own_world, scorer_of
from hindsight_fast import Scorer
from hindsight_fast.calibration import (
    Calibration,
    calibrate,
    sections,
)
from hindsight_fast.calibration._loss import nearest_codes, of_matches
from hindsight_fast.candidates import Choice, choose
from hindsight_fast.pool import Pool, build_pool
from scoring_world import Rounded, World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World]:
    with own_world(tmp_path_factory.mktemp("world"), index=True) as world:
        yield world


@pytest.fixture(scope="module")
def found(world: World) -> Calibration:
    return calibrate(scorer_of(world), made())


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
    scorer.candidates = Choice(3, 1, None, None, None, None, 0, 0.9, False)
    index = calibrate(scorer, made()).loss.index
    assert index is not None and (index.count, index.expansion) == (3, 1)
    assert index.graph.share < 1 and index.index.share < index.codes.share
    assert index.matches is not None and index.matches.share < 1


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
