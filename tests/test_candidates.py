"""How many papers an index nominates: the choice against what is found by trying all, and facts."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hindsight_fast import Scorer
from hindsight_fast.candidates import BEYOND, EXPANSIONS, RESCORING, Choice, choose, recall
from hindsight_fast.config import ScoreConfig
from hindsight_fast.errors import ArtefactError, UsageError
from hindsight_fast.index import Index, IndexConfig, build_index
from hindsight_fast.pool import build_pool
from hindsight_kernels import Matches, exact, match
from scoring_world import World, made_up_ideas, make_world

F32 = NDArray[np.float32]


class OverVectors:
    """A scorer of bare vectors, whose index is poor enough to lose papers."""

    def __init__(self, papers: F32, folder: Path, k: int) -> None:
        config = IndexConfig(connectivity=4, expansion_add=8, variance=0.8, deterministic=True)
        build_index(papers, np.ones(len(papers), bool), folder, config, threads=1)
        self.index, self.papers, self.config = Index.view(folder, config), papers, ScoreConfig(k, 0)
        self.impact = np.linspace(0, 1, len(papers), dtype=np.float32)
        self.tried: list[tuple[int, int]] = []

    def nominate(self, vectors: F32, count: int, expansion: int) -> NDArray[np.int32]:
        return self.index.search(vectors, count, threads=1, expansion=expansion)

    def decide(self, vectors: F32, candidates: NDArray[np.int32]) -> Matches:
        k, theta = self.config.k, self.config.theta
        return match(vectors, self.papers, self.impact, candidates, k, theta, threads=1)

    def match_exactly(self, vectors: F32) -> Matches:
        k, theta = self.config.k, self.config.theta
        return exact(vectors, self.papers, self.impact, k, theta, threads=1)


def unit(rng: np.random.Generator, n: int, d: int = 48) -> F32:
    """Rows that differ most along the first axes."""
    rows = (rng.standard_normal((n, d)) / (1 + np.arange(d))).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> OverVectors:
    folder = tmp_path_factory.mktemp("poor")
    return OverVectors(unit(np.random.default_rng(1), 3000), folder, 10)


@pytest.mark.parametrize("target", [0.3, 0.9, 0.95, 0.97, 1.0])
def test_the_choice_is_the_cheapest_of_all_that_reach_the_target(
    poor: OverVectors, target: float
) -> None:
    ideas = unit(np.random.default_rng(2), 40)
    right = poor.match_exactly(ideas)
    reaching = list[tuple[float, int, int]]()
    for expansion in EXPANSIONS:
        for beyond in BEYOND:
            count = 10 + math.ceil(10 * beyond)
            if count > expansion:
                continue
            found = poor.decide(ideas, poor.nominate(ideas, count, expansion))
            hits = [np.isin(r, f).mean() for r, f in zip(right.rows, found.rows, strict=True)]
            if np.mean(hits) >= target:
                reaching.append((RESCORING * count + expansion, expansion, count))
    choice = choose(poor, ideas, target)
    assert choice.reached == bool(reaching)
    if reaching:
        _, expansion, count = min(reaching)
        assert (choice.expansion, choice.count) == (expansion, count)
        assert choice.recall is not None and choice.recall >= target
    assert choice.target == target and choice.n_sampled == 40
    assert choose(poor, ideas, target) == choice


def test_choices_of_higher_targets_differ_and_cost_more(poor: OverVectors) -> None:
    ideas = unit(np.random.default_rng(2), 40)
    choices = [choose(poor, ideas, target) for target in (0.3, 0.9, 0.97, 0.999)]
    costs = [RESCORING * choice.count + choice.expansion for choice in choices]
    assert costs == sorted(costs) and len(set(costs)) == 4
    low, high = choices[2].recall_interval or (1, 0)
    assert low < (choices[2].recall or 0) < high
    assert f"recall {choices[2].recall:.4f}" in choices[2].in_words()


def test_where_none_reaches_the_target_the_most_is_taken_and_told(
    poor: OverVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindsight_fast.candidates.EXPANSIONS", (16, 32))
    choice = choose(poor, unit(np.random.default_rng(2), 40), 0.999)
    assert (choice.count, choice.expansion, choice.reached) == (30, 32, False)
    assert choice.in_words().endswith("which is below 0.999")


def test_what_costs_too_much_is_not_tried(poor: OverVectors) -> None:
    ideas = unit(np.random.default_rng(2), 40)
    dear = choose(poor, ideas, 0.97)
    cost = RESCORING * dear.count + dear.expansion
    assert choose(poor, ideas, 0.97, most=cost + 0.1) == dear
    cheap = choose(poor, ideas, 0.97, most=cost)
    assert not cheap.reached and RESCORING * cheap.count + cheap.expansion < cost
    assert cheap.recall is not None and cheap.recall < 0.97
    first = choose(poor, ideas, 0.97, most=0)
    assert (first.count, first.expansion, first.reached) == (10, EXPANSIONS[0], False)


def test_no_ideas_to_try(poor: OverVectors) -> None:
    choice = choose(poor, np.empty((0, 48), np.float32))
    assert choice.recall is None and choice.recall_interval is None
    assert choice.equal_scores is None
    assert not choice.reached and choice.n_sampled == 0
    assert choice.expansion == EXPANSIONS[-1]
    assert "no idea" in choice.in_words()
    assert Choice.from_facts(choice.facts()) == choice


@pytest.mark.parametrize("k", [1, 3, 5, 60])
def test_few_papers(tmp_path: Path, k: int) -> None:
    few = OverVectors(unit(np.random.default_rng(3), 5), tmp_path, k)
    choice = choose(few, unit(np.random.default_rng(4), 7))
    assert choice.reached and choice.recall == choice.equal_scores == 1
    assert choice.count == k and choice.expansion >= k


def test_equals_are_as_good_as_each_other(tmp_path: Path) -> None:
    papers = unit(np.random.default_rng(5), 40)
    papers[10:] = papers[10]
    many = OverVectors(papers, tmp_path, 4)
    choice = choose(many, np.repeat(papers[10:11], 3, axis=0))
    assert choice.reached and choice.recall == 1


def matches(rows: list[list[int]], similarities: list[list[float]]) -> Matches:
    n = len(rows)
    none = np.full(n, -1, np.int32), np.full(n, -np.inf, np.float32)
    near = np.array(rows, np.int32), np.array(similarities, np.float32)
    return Matches(*near, np.zeros(n, np.int32), np.zeros(n, np.float32), *none)


def test_recall_counts_what_is_as_near_as_the_last_of_the_nearest() -> None:
    gone = -math.inf
    right = matches(
        [[4, 2, 9], [7, 8, -1], [-1, -1, -1]],
        [[0.9, 0.8, 0.8], [0.5, 0.4, gone], [gone, gone, gone]],
    )
    found = matches(
        [[4, 11, -1], [8, 3, 5], [-1, -1, -1]],
        [[0.9, 0.8, gone], [0.4, 0.3, 0.2], [gone, gone, gone]],
    )
    assert recall(found, right) == 3 / 5
    assert recall(right, right) == 1
    assert recall(matches([[-1]], [[gone]]), matches([[-1]], [[gone]])) is None


def test_facts_that_are_none_are_refused(poor: OverVectors) -> None:
    choice = choose(poor, unit(np.random.default_rng(2), 10), 0.5)
    facts = choice.facts()
    assert Choice.from_facts(facts) == choice
    wrong: list[dict[str, Any]] = [
        {},
        {**facts, "count": "20"},
        {**facts, "expansion": 0},
        {**facts, "recall_interval": [0.5]},
    ]
    for one in wrong:
        with pytest.raises(ArtefactError, match="no choice of candidates"):
            Choice.from_facts(one)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), index=True)


def test_a_scorer_searches_by_its_choice_and_says_so(world: World) -> None:
    scorer = Scorer(world.pool, world.encoder, search="index", theta=0.5)
    assert scorer.signature.count("search=index:candidates=15,ef=512") == 1
    ideas = [(one.get("title", ""), one.get("text", "")) for one in made_up_ideas(30)]
    vectors = world.encoder.encode(ideas)
    choice = choose(scorer, vectors)
    assert choice.reached and choice.equal_scores == 1
    by_default = scorer.match_vectors(vectors)
    scorer.candidates = choice
    assert f"search=index:candidates={choice.count},ef={choice.expansion}" in scorer.signature
    np.testing.assert_array_equal(scorer.match_vectors(vectors).rows, by_default.rows)
    scorer.candidates = replace(choice, count=2)
    assert (scorer.match_vectors(vectors).rows >= 0).sum(axis=1).max() == 2


def test_a_choice_needs_an_index(world: World, tmp_path: Path) -> None:
    bare = build_pool(
        world.store, tmp_path / "bare", cutoff=world.pool.cutoff, until=world.pool.until
    )
    scorer = Scorer(bare, world.encoder)
    with pytest.raises(UsageError, match="has no index"):
        choose(scorer, np.asarray(bare.vectors[:3]))
    before = scorer.signature
    scorer.candidates = choose(Scorer(world.pool), np.asarray(world.pool.vectors[:3]))
    assert scorer.signature == before  # an exact scan has no candidates to choose
