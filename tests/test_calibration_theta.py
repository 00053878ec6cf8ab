"""Thetas that calibrate suggests: by graded pairs, and by chance matches."""

import json
import math
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration_world import own_world
from hindsight_fast import Scorer
from hindsight_fast.calibration import _pairs, calibrate, sections
from hindsight_fast.calibration._chance import interval, least_ideas, least_theta
from hindsight_fast.calibration._f1 import best_f1, by_pairs
from hindsight_fast.errors import DataError, UsageError
from scoring_world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World]:
    with own_world(tmp_path_factory.mktemp("world")) as world:
        yield world


@settings(deadline=None, max_examples=100)
@given(
    pairs=st.lists(
        st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 3)), min_size=1, max_size=25
    )
)
def test_best_f1_is_its_twin(pairs: list[tuple[int, bool, int]]) -> None:
    similarities = np.array([s / 10 for s, _, _ in pairs], np.float32)
    related = np.array([r for _, r, _ in pairs])
    weights = np.array([w for _, _, w in pairs])
    if not (weights * related).any():
        return

    def f1(theta: np.float32) -> float:
        above = similarities >= theta
        hits = int((weights * (above & related)).sum())
        return 2 * hits / int((weights * above).sum() + (weights * related).sum())

    found = best_f1(similarities, related, weights)
    right = max(
        sorted(set(similarities[weights > 0].tolist())),
        key=lambda theta: (f1(np.float32(theta)), -theta),
    )
    assert float(found) == right


@settings(deadline=None)
@given(
    values=st.lists(st.integers(-5, 9), min_size=1, max_size=300),
    share=st.sampled_from([0.05, 0.01, 0.5]),
)
def test_no_more_than_a_share_reach_the_least_theta(values: list[int], share: float) -> None:
    reached = np.array([value / 10 for value in values], np.float32)
    theta = least_theta(reached, share)
    allowed = math.floor((len(values) + 1) * share + 1e-9) - 1  # one place is a further idea's
    if allowed < 0:
        assert theta is None and len(values) < least_ideas(share)
        return
    assert theta is not None and len(values) >= least_ideas(share)
    assert (reached >= np.float32(theta)).sum() <= allowed
    below = np.nextafter(np.float32(theta), np.float32(-2))
    assert (reached >= below).sum() > allowed  # no lower one would do


def test_a_further_idea_reaches_the_least_theta_no_more_often() -> None:
    rng = np.random.default_rng(1)
    for n, share in ((19, 0.05), (100, 0.05), (200, 0.01)):
        draws = [least_theta(rng.random(n).astype(np.float32), share) for _ in range(400)]
        reach = [1 - theta for theta in draws if theta is not None]  # of evenly spread ideas
        assert len(reach) == 400 and sum(reach) / 400 < share * 1.1
    assert least_theta(np.ones(18, np.float32), 0.05) is None


@pytest.mark.parametrize(("n", "share"), [(74, 0.05), (300, 0.05), (380, 0.01)])
def test_intervals_hold_the_theta_of_all_ideas(n: int, share: float) -> None:
    rng = np.random.default_rng(2)
    ends = [interval(rng.random(n).astype(np.float32), share) for _ in range(400)]
    too_low = sum(high is not None and high < 1 - share for _, high in ends)
    too_high = sum(low > 1 - share for low, _ in ends)
    assert too_low <= 18 and too_high <= 18  # 2.5% of 400 are 10


def test_few_ideas_give_an_interval_no_upper_end() -> None:
    low, high = interval(np.linspace(0, 1, 50, dtype=np.float32), 0.05)
    assert 0 < low < 1 and high is None  # of 50 none reaches it in 1 draw of 13


def test_a_pair_that_was_not_drawn_is_no_threshold() -> None:
    similarities = np.array([0.9, 0.8, 0.5], np.float32)
    related = np.array([True, False, False])
    assert best_f1(similarities, related, np.array([1, 0, 1])) == np.float32(0.9)


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_sides_are_papers_of_the_store_papers_or_texts(world: World, tmp_path: Path) -> None:
    scorer = Scorer(world.pool, world.encoder)
    title, abstract = "A graph of the model", "We learn the language of data."
    records: list[dict[str, Any]] = [
        {"a_id": "p0003", "b_id": "p0004", "grade": 3, "topic": "one"},
        {"a_id": "p0003", "b_title": title, "b_abstract": abstract, "grade": "2"},
        {"a_text": f"{title}. {abstract}", "b_id": "p0005", "label": False},
        {"a_text": f"{title}. {abstract}", "b_id": "p0005", "label": "yes"},
        {"a_id": "p9999", "b_id": "p0001", "grade": 1},  # unknown
        {"a_id": "p0001", "b_id": "p0001", "grade": 3},  # the same
        {"a_id": "p0001", "b_id": "p0002"},  # no grade
        {"a_id": "p0001", "b_text": "short", "grade": 1},
    ]
    found = _pairs.read(write(tmp_path / "pairs.jsonl", records), scorer)
    assert found.grades.tolist() == [3, 2, 0, 1] and found.n_left_out == 4
    assert found.groups.tolist() == [0, 0, 1, 1] and found.topics == ["one", "", "", ""]
    rows = {name: i for i, name in enumerate(world.store.papers(["id"])["id"].to_list())}
    stored = np.asarray(world.store.vectors("tiny").array, np.float64)
    text = world.encoder.encode([(title, abstract)])[0].astype(np.float64)
    right = [stored[rows["p0003"]] @ stored[rows["p0004"]], stored[rows["p0003"]] @ text]
    np.testing.assert_allclose(found.similarities[:2], right, atol=1e-6)
    same = world.encoder.encode([(f"{title}.", abstract)])[0].astype(np.float64)
    assert found.similarities[2] == pytest.approx(same @ stored[rows["p0005"]], abs=1e-6)
    frame = pl.DataFrame(records[:2], schema={"a_id": str, "b_id": str, "grade": str}, strict=False)
    frame[:1].write_csv(tmp_path / "pairs.csv")
    frame[:1].write_parquet(tmp_path / "pairs.parquet")
    for name in ("pairs.csv", "pairs.parquet"):
        again = _pairs.read(tmp_path / name, Scorer(world.pool))  # ids need no encoder
        assert again.similarities[0] == found.similarities[0] and again.grades[0] == 3


def test_files_without_pairs_are_refused(world: World, tmp_path: Path) -> None:
    scorer = Scorer(world.pool)
    with pytest.raises(DataError, match="none of 1 records is a graded pair; a pair needs a_id"):
        _pairs.read(write(tmp_path / "ideas.jsonl", [{"title": "x"}]), scorer)
    (tmp_path / "no.bin").write_bytes(b"\0\1\2")
    with pytest.raises(DataError, match="no table of pairs"):
        _pairs.read(tmp_path / "no.bin", scorer)
    with pytest.raises(DataError):
        _pairs.read(tmp_path / "missing.jsonl", scorer)
    texts = {"a_text": "of the model and data we learn", "b_id": "p0001", "grade": 1}
    with pytest.raises(UsageError, match="need an encoder"):
        _pairs.read(write(tmp_path / "texts.jsonl", [texts]), scorer)


def test_thetas_by_pairs() -> None:
    similarities = np.array([0.9, 0.8, 0.8, 0.7, 0.6, 0.5], np.float32)
    grades = np.array([3, 2, 1, 2, 0, 0.0])
    topics = ["a", "a", "b", "b", "", ""]
    pairs = _pairs.Pairs(similarities, grades, np.array([0, 0, 1, 1, 2, 2]), topics, 4)
    found = by_pairs(pairs, 0.65, None)
    assert found.related_from == 2 and found.n_groups == 3 and found.n_left_out == 4
    assert found.best.theta == float(np.float32(0.7)) and found.best.recall == 1
    assert found.best.precision == 0.75 and found.best.f1 == 6 / 7
    assert found.own.n_pairs == 6 and found.own.precision == 0.75
    assert found.auc == pytest.approx((3 + 2.5 + 2) / 9)
    assert found.best.low is not None and found.best.high is not None
    assert 0.5 <= found.best.low <= found.best.high <= 0.9 + 1e-6
    assert found.topics["a"].theta is None  # both are related
    assert found.topics["b"].theta == float(np.float32(0.7))
    assert by_pairs(pairs, 0.65, 3).best.n_related == 1
    none = by_pairs(pairs, 0.65, 9)
    assert none.best.theta is None and none.auc is None


def test_calibrate_takes_pairs(world: World, tmp_path: Path) -> None:
    records = [
        {"a_id": f"p{i:04d}", "b_id": f"p{i + 7:04d}", "label": i % 3 == 0} for i in range(1, 50)
    ]
    found = calibrate(Scorer(world.pool), pairs=write(tmp_path / "pairs.jsonl", records))
    assert found.pairs is not None and found.pairs.best.n_pairs == 49
    assert found.pairs.best.n_related == 16 and found.pairs.related_from == 1
    notes = next(one.notes for one in sections(found) if one.name == "pairs")
    assert notes[0] == (
        "grades of 1 and more, above half of the largest seen, count as related; "
        "--related says otherwise"
    )
