"""The reward model: what a request earns, alone and in company, and when all else fails."""

import asyncio
import json
import math
import os
import signal
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hindsight_fast import Scorer
from hindsight_fast.encoders import Encoder
from hindsight_fast.encoding import embed_store
from hindsight_fast.errors import EncoderError, UsageError
from hindsight_fast.ideas import Idea, ideas_frame
from hindsight_fast.pool import build_pool
from hindsight_fast.rewards import Request, RewardConfig, RewardModel, RewardResult
from hindsight_fast.store import build_store
from hindsight_models import Encoded, Progress
from paper_tables import paper, table
from scoring_world import E, T, World, made_up_ideas, make_world
from tiny_model import tiny_model

TOPICS: tuple[list[str], ...] = (["a"], ["b"], ["a", "b"], [])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """120 papers a day apart, with topics in turn."""
    folder = tmp_path_factory.mktemp("world")
    bare = make_world(folder / "bare")
    papers = [
        paper(i, citations=i * i % 101, topics=TOPICS[i % 4], venue=None if i % 3 else "NeurIPS")
        for i in range(120)
    ]
    store = build_store(table(papers), folder / "store")
    embed_store(store, bare.encoder)
    pool = build_pool(store, folder / "pool", cutoff=T, until=E, k=5, theta=0.6)
    return World(folder, bare.encoder, store, pool)


@pytest.fixture
def model(world: World) -> RewardModel:
    return RewardModel(world.pool, world.encoder)


def texts(n: int, seed: int = 0) -> list[str]:
    return [
        " ".join(str(v) for k, v in one.items() if k not in ("id", "system"))
        for one in made_up_ideas(n, seed)
    ]


def brute(world: World, text: str, **limits: Any) -> tuple[float, str | None]:
    """Score and best paper by float64 products over the papers that count."""
    one = Scorer(world.pool, world.encoder).score_batch(ideas_frame([Idea(text=text)]))
    papers = world.pool.store.papers(["id", "topics", "date"], world.pool.offset)
    found = list[tuple[float, int, float, str]]()
    products = world.pool.vectors.astype(np.float64) @ one.vectors[0].astype(np.float64)
    for row, (name, topics, day) in enumerate(papers.iter_rows()):
        if world.pool.impact[row] < 0 or name in limits.get("exclude_ids", ()):
            continue
        if "topic" in limits and limits["topic"] not in topics:
            continue
        if "cutoff" in limits and day < date.fromisoformat(limits["cutoff"]):
            continue
        found.append((float(np.float32(products[row])), -row, float(world.pool.impact[row]), name))
    nearest = sorted(found, reverse=True)[: world.pool.k]
    matched = [(h, s, r, name) for s, r, h, name in nearest if s >= np.float32(world.pool.theta)]
    best = max(matched, default=None)
    return (0.0, None) if best is None else (best[0], best[3])


LIMITS: list[dict[str, Any]] = [
    {},
    {"topic": "a"},
    {"cutoff": "2023-08-01"},
    {"exclude_ids": tuple(f"p{i:04d}" for i in range(0, 120, 2))},
    {"topic": "b", "cutoff": "2023-07-10", "exclude_ids": ("p0100", "nobody")},
]


@pytest.mark.parametrize("limits", LIMITS)
def test_what_a_request_earns(world: World, model: RewardModel, limits: dict[str, Any]) -> None:
    given = texts(40)
    found = model.rewards([Request(text, **limits) for text in given])
    right = [brute(world, text, **limits) for text in given]
    assert [(one.score, one.best_paper_id) for one in found] == right
    assert [one.reward for one in found] == [score for score, _ in right]
    assert len({one.score for one in found}) > 3 and all(one.status == "ok" for one in found)
    assert all((one.on_topic is not None) == ("topic" in limits) for one in found)


def test_a_request_earns_the_same_in_any_company(world: World, model: RewardModel) -> None:
    given = [Request(text, **LIMITS[i % len(LIMITS)]) for i, text in enumerate(texts(60))]
    together = model.rewards(given)
    for start in range(0, 60, 7):
        fresh = RewardModel(world.pool, world.encoder)
        some = given[start : start + 7]
        assert fresh.rewards(some[::-1])[::-1] == together[start : start + 7]
        assert fresh.reward(some[0]) == together[start]
        fresh.close()


def test_single_calls_are_answered_together(world: World) -> None:
    calls = list[int]()

    class Counting(Encoder):
        def encode_counted(
            self, pairs: Sequence[tuple[str, str]], progress: Progress | None = None
        ) -> Encoded:
            calls.append(len(pairs))
            return super().encode_counted(pairs, progress)

    encoder = Counting(world.encoder.folder, device="cpu", threads=1)
    given, right = texts(512), RewardModel(world.pool, world.encoder).rewards(texts(512))
    model = RewardModel(world.pool, encoder)

    async def all_of_them() -> list[RewardResult]:
        return await asyncio.gather(*(model.reward_async(text) for text in given))

    assert asyncio.run(all_of_them()) == right
    assert sum(calls) == len(set(given)) and sum(calls) / len(calls) >= 32
    threaded = RewardModel(world.pool, encoder)
    calls.clear()
    with ThreadPoolExecutor(64) as threads:
        assert list(threads.map(threaded.reward, given)) == right
    assert sum(calls) == len(set(given)) and len(calls) < 100
    for one in (model, threaded):
        one.close()


def test_what_was_asked_before_costs_nothing(world: World) -> None:
    model = RewardModel(world.pool, world.encoder, RewardConfig(remembered=2))
    first, second, third = texts(3)
    known = model.rewards([first, second])
    assert model.rewards([second, first])[0] is known[1]
    model.rewards([third])
    assert model.rewards([first])[0] is known[0]  # the second was not used for longest
    assert model.rewards([second])[0] is not known[1]
    assert model.rewards([second])[0] == known[1]


class Failing(Encoder):
    """Raises whenever a text holds the word."""

    word = "graph"

    def encode_counted(
        self, pairs: Sequence[tuple[str, str]], progress: Progress | None = None
    ) -> Encoded:
        if any(self.word in " ".join(pair) for pair in pairs):
            raise EncoderError("the device fell off the bus")
        return super().encode_counted(pairs, progress)


@pytest.mark.parametrize(("errors", "reward"), [("none", None), ("value", -1.0)])
def test_what_cannot_be_answered_is_told_and_not_kept(
    world: World, errors: str, reward: float | None
) -> None:
    config = RewardConfig(errors=errors, error_value=-1.0, timeout_s=60)
    encoder = Failing(world.encoder.folder, device="cpu")
    model = RewardModel(world.pool, encoder, config)
    bad = "we learn a graph of an image and a model of the data"
    failed, empty = model.rewards([bad, ""])
    assert (failed.reward, failed.score, failed.status) == (reward, None, "error")
    assert "fell off the bus" in failed.error
    assert (empty.reward, empty.status) == (0.0, "empty")
    assert failed.components().keys() == empty.components().keys()
    encoder.word = "nothing at all"
    assert model.reward(bad).status == "ok"
    model.close()


def test_errors_are_raised_where_that_is_wanted(world: World) -> None:
    encoder = Failing(world.encoder.folder, device="cpu")
    model = RewardModel(world.pool, encoder, RewardConfig(errors="raise"))
    good, bad = "we learn the model of an image from data", "we learn a graph of an image and data"
    with pytest.raises(EncoderError, match="fell off"):
        model.rewards([bad])
    with pytest.raises(EncoderError, match="fell off"):
        model.reward(bad)
    assert model.rewards([good])[0].status == "ok"
    with pytest.raises(UsageError, match="'c': the papers have a, b"):
        model.rewards([Request(good, topic="c")])
    with pytest.raises(UsageError, match="cutoff 'soon'"):
        model.rewards([Request(good, cutoff="soon")])
    model.close()


def test_requests_that_leave_no_papers(model: RewardModel) -> None:
    text = texts(1)[0]
    (none,) = model.rewards([Request(text, cutoff="2031")])
    assert (none.status, none.reward, none.score, none.similarity) == ("no_papers", 0.0, 0.0, None)
    config_fault, fine = model.rewards([Request(text, topic="c"), Request(text)])
    assert config_fault.status == "error" and "the papers have a, b" in config_fault.error
    assert fine.status == "ok"


class Slow(Encoder):
    """Waits before each batch."""

    def encode_counted(
        self, pairs: Sequence[tuple[str, str]], progress: Progress | None = None
    ) -> Encoded:
        threading.Event().wait(0.2)
        return super().encode_counted(pairs, progress)


def test_a_call_ends_when_its_time_is_over(world: World) -> None:
    encoder = Slow(world.encoder.folder, device="cpu")
    model = RewardModel(world.pool, encoder, RewardConfig(timeout_s=0.5))
    found = model.rewards(texts(400))
    statuses = [one.status for one in found]
    assert "ok" in statuses and statuses[-1] == "timeout"
    done = statuses.count("ok")
    assert found[:done] == RewardModel(world.pool, world.encoder).rewards(texts(done))
    late = RewardModel(world.pool, encoder, RewardConfig(timeout_s=0.01))
    assert late.reward(texts(1, seed=3)[0]).status == "timeout"

    async def ask() -> RewardResult:
        return await late.reward_async(texts(1, seed=4)[0])

    assert asyncio.run(ask()).status == "timeout"
    late.close()


def test_several_ideas(world: World) -> None:
    one, two = texts(2)
    listed = json.dumps([{"text": one}, {"text": two}, {"text": "no"}])
    first, second = RewardModel(world.pool, world.encoder).rewards([one, two])

    def earned(several: str) -> RewardResult:
        config = RewardConfig(several=several, invalid_value=-1)
        return RewardModel(world.pool, world.encoder, config).rewards([listed])[0]

    assert earned("first").reward == first.reward and earned("first").n_ideas == 3
    assert first.reward is not None and second.reward is not None
    assert earned("mean").reward == pytest.approx((first.reward + second.reward - 1) / 3)
    rejected = earned("reject")
    assert (rejected.status, rejected.reward, rejected.score) == ("several", -1.0, None)


def test_shapes(world: World) -> None:
    given = texts(60)
    nearest = [one.similarity or 0 for one in RewardModel(world.pool, world.encoder).rewards(given)]
    theta = float(np.median(nearest))
    plain = RewardModel(world.pool, world.encoder, RewardConfig(theta=theta)).rewards(given)
    least = min(float(h) for h in world.pool.impact if h > 0)

    def shaped(shape: str, **more: Any) -> list[RewardResult]:
        config = RewardConfig(shaping=shape, theta=theta, **more)
        return RewardModel(world.pool, world.encoder, config).rewards(given)

    broken = shaped("tie_breaker")
    assert [one.score for one in broken] == [one.score for one in plain]
    misses = sorted((one.similarity or 0, one.reward or 0) for one in broken if not one.matched)
    assert len(misses) > 5
    assert all(a[1] < b[1] for a, b in pairwise(misses) if a[0] < b[0])
    assert all(0 < reward < least for _, reward in misses)
    assert all(one.reward == one.score for one in broken if one.score)
    soft = shaped("soft_threshold", softness=1e-6)
    for one, other in zip(soft, plain, strict=True):
        assert one.reward == pytest.approx(other.score, abs=1e-6)
        assert "shaping=soft_threshold" in one.signature and one.score == other.score


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"errors": "ignore"}, "none, value, raise"),
        ({"several": "last"}, "first, mean, reject"),
        ({"shaping": "x"}, "published"),
        ({"invalid_value": math.nan}, "finite"),
        ({"error_value": math.inf}, "finite"),
        ({"softness": 0}, "between"),
        ({"timeout_s": 0}, "more than 0"),
        ({"max_chars": 0}, "too few"),
    ],
)
def test_settings_that_make_no_sense(setting: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        RewardConfig(**setting)


def test_a_model_is_opened_by_its_folders(world: World, tmp_path: Path) -> None:
    tiny_model(tmp_path / "tiny")
    model = RewardModel.open(world.pool.path, encoder=str(tmp_path / "tiny"), cache=tmp_path / "c")
    again = RewardModel.open(world.pool.path, encoder=str(tmp_path / "tiny"), cache=tmp_path / "c")
    given = texts(5)
    assert model.rewards(given) == again.rewards(given)
    assert world.pool.pool_hash[:8] in model.signature == model.rewards(given)[0].signature


def test_the_child_of_a_fork_is_told_and_does_not_wait(world: World) -> None:
    model = RewardModel(world.pool, world.encoder)
    first, second = texts(2)
    model.reward(first)  # the thread that joins calls is the parent's alone
    ask, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own about threads
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        found = [model.reward(first), model.reward(second), *model.rewards([first])]
        found.append(asyncio.run(model.reward_async(second)))
        os.write(tell, json.dumps([(one.status, one.error) for one in found]).encode())
        os._exit(0)
    os.close(tell)
    with os.fdopen(ask, "rb") as pipe:
        told = json.loads(pipe.read())
    assert os.waitpid(child, 0)[1] == 0
    assert len(told) == 4 and all(status == "error" for status, _ in told)
    assert all("spawn" in error for _, error in told)
    model.close()
