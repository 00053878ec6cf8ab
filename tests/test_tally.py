"""What is counted over a run: part by part, from a journal or at once, always the same."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from hindsight_fast import Scorer
from hindsight_fast.ideas import Idea, ideas_frame
from hindsight_fast.storage._manifests import MANIFEST_LIMIT
from hindsight_fast.tally import (
    MOST_SYSTEMS,
    OTHERS,
    Counted,
    Sample,
    SystemTally,
    Tally,
    sample_places,
)
from scoring_world import World, made_up_ideas, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), theta=0.5)


def tally(world: World) -> Tally:
    return Tally(world.pool.cutoff, sampling=True, theta=world.pool.theta, error=1e-3)


def test_what_a_journal_holds_counts_as_the_ideas_themselves(world: World) -> None:
    ideas = [Idea(**one) for one in made_up_ideas(90)]
    ideas[5], ideas[40] = Idea(), Idea(text="no", system="c")
    ideas[7] = Idea(text="we learn the model of an image", knowledge_date="2024")
    scorer, direct, restored = Scorer(world.pool, world.encoder), tally(world), tally(world)
    for start in range(0, 90, 20):
        frame = ideas_frame(ideas[start : start + 20])
        counted = direct.add(frame, scorer.score_batch(frame))
        restored.take(Counted(json.loads(json.dumps(counted.facts)), counted.vectors.copy()))
        np.testing.assert_array_equal(restored.sample(32), direct.sample(32))
    assert restored.facts() == direct.facts() and restored.near_theta() == direct.near_theta()
    at_once, frame = tally(world), ideas_frame(ideas)
    at_once.add(frame, scorer.score_batch(frame))
    for one, other in zip(at_once.facts()["systems"], direct.facts()["systems"], strict=True):
        means = [facts.pop("mean_score") or 0.0 for facts in (one, other)]
        assert means[0] == pytest.approx(means[1], rel=1e-14)
        assert one == other
    assert at_once.facts()["counts"] == direct.facts()["counts"]


def test_a_manifest_has_room_for_any_number_of_systems(world: World) -> None:
    one = asdict(SystemTally(n=1, n_scored=1, sum_score=0.5, shapes={"one text": 1}))
    names = [f"{i} {'é' * 300}" for i in range(40_000)]

    def systems(*parts: Sequence[str | None]) -> list[dict[str, Any]]:
        counted = tally(world)
        for part in parts:
            listed = [(name, one) for name in part]
            facts: dict[str, Any] = {"counts": {}, "statuses": {}, "systems": listed}
            counted.take(Counted({**facts, "sampled": []}, np.zeros((0, 0), np.float32)))
        return list(counted.facts()["systems"])

    found = systems(names[:1500], names)
    assert [system["n"] for system in found] == [2] * MOST_SYSTEMS + [41_500 - 2 * MOST_SYSTEMS]
    assert found[-1]["system"] == OTHERS
    assert len(json.dumps(found, indent=1)) < MANIFEST_LIMIT / 4
    found = systems([None, OTHERS], names)  # one that has that very name
    assert len(found) == MOST_SYSTEMS and found[0]["system"] is None
    assert found[1]["system"] == OTHERS and found[1]["n"] == 1 + 40_000 - (MOST_SYSTEMS - 2)


def test_a_sample_depends_on_places_alone() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.random((5000, 3), np.float32)
    places = np.flatnonzero(rng.random(9000) < 5000 / 9000)[:4900]
    whole = Sample(256)
    whole.offer(places, vectors[: len(places)])
    for step in (1, 7, 300, 2048):
        sample, taken = Sample(256), list[int]()
        for start in range(0, len(places), step):
            some = slice(start, start + step)
            taken += (start + sample.offer(places[some], vectors[some])).tolist()
        np.testing.assert_array_equal(sample.vectors, whole.vectors)
        kept = Sample(256)  # of those alone that were in it at some time
        kept.offer(places[taken], vectors[taken])
        np.testing.assert_array_equal(kept.vectors, whole.vectors)
    assert not len(Sample(0).offer(places, vectors))


def test_places_are_drawn_fairly() -> None:
    drawn = sorted(sample_places(3_000_000, 256))
    assert len(set(drawn)) == 256 and drawn[-1] < 3_000_000
    assert 0.4 < np.mean(drawn) / 3_000_000 < 0.6
    assert sample_places(9, 256) == frozenset(range(9)) and sample_places(0, 256) == frozenset()
    assert sample_places(3_000_000, 10) < set(drawn)


def test_it_needs_no_more_than_it_holds() -> None:
    sample = Sample(4)
    batch = np.ones((1000, 8), np.float32)
    sample.offer(np.arange(1000), batch)
    assert sample.vectors.base is None and sample.vectors.shape == (4, 8)
