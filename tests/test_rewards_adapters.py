"""The same ideas through every door earn the same, as each library calls."""

import asyncio
import importlib.util
import inspect
import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from hindsight_fast import rewards
from hindsight_fast.encoders import Encoder
from hindsight_fast.errors import EncoderError, ServiceError, UsageError
from hindsight_fast.rewards import Request, RewardConfig, RewardModel, openrlhf, slime, trl, verl
from hindsight_fast.rewards import verifiers as vf
from hindsight_fast.rewards._groups import dead_groups
from hindsight_models import Encoded, Progress
from rewards_world import made_up_texts, world_with_topics
from scoring_world import World

PROMPT = "An idea, please:"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world_with_topics(tmp_path_factory.mktemp("world"))


@pytest.fixture
def model(world: World) -> Generator[RewardModel]:
    model = RewardModel(world.pool, world.encoder)
    rewards.use(model)
    yield model
    rewards.use(None)
    model.close()


TEXTS = made_up_texts(24)
LIMITS: list[dict[str, Any]] = [
    {"topic": "ab"[i % 2], "cutoff": "2023-06-20"} if i % 3 else {} for i in range(24)
]


def expected(world: World) -> list[float | None]:
    fresh = RewardModel(world.pool, world.encoder)
    asked = [Request(text, **limits) for text, limits in zip(TEXTS, LIMITS, strict=True)]
    return [one.reward for one in fresh.rewards(asked)]


def columns() -> dict[str, Any]:
    return {name: [one.get(name) for one in LIMITS] for name in ("topic", "cutoff")}


def by_trl() -> list[float | None]:
    return trl.hindsight_reward(
        prompts=[PROMPT] * 24, completions=TEXTS, completion_ids=[[1]] * 24, **columns()
    )


def by_trl_chat() -> list[float | None]:
    chats = [[{"role": "assistant", "content": text}] for text in TEXTS]
    prompts = [[{"role": "user", "content": PROMPT}]] * 24
    return trl.hindsight_reward(
        prompts=prompts, completions=chats, trainer_state=None, environments=None, **columns()
    )


def by_verl() -> list[float | None]:
    def one(text: str, limits: dict[str, Any]) -> float:
        return verl.compute_score("ideas", text, limits, {"index": 3}, reward_router_address=None)[
            "score"
        ]

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(one, TEXTS, LIMITS))


def by_verl_async() -> list[float | None]:
    async def all_of_them() -> list[float | None]:
        calls = [
            verl.compute_score_async("ideas", text, "", {"prompt": PROMPT, **limits})
            for text, limits in zip(TEXTS, LIMITS, strict=True)
        ]
        return [one["score"] for one in await asyncio.gather(*calls)]

    return asyncio.run(all_of_them())


def by_verl_batch() -> list[float | None]:
    found = verl.compute_score_batch(
        data_sources=["x"] * 24, solution_strs=TEXTS, ground_truths=LIMITS, extra_infos=[None] * 24
    )
    return [one["score"] for one in found]


def by_openrlhf() -> list[float | None]:
    def one(text: str, limits: dict[str, Any]) -> float:
        query, label = f"<s>{PROMPT} {text}</s>", json.dumps(limits)
        (reward,) = openrlhf.reward_func([query], [PROMPT], [label])["rewards"]
        return reward

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(one, TEXTS, LIMITS))


def by_openrlhf_lists() -> list[float | None]:
    queries = [f"{PROMPT}{text}" for text in TEXTS]
    return [*openrlhf.reward_func(queries, [PROMPT] * 24, LIMITS)["rewards"]]


@dataclass
class Sample:
    """Slime's own, as far as it's looked at."""

    prompt: object
    response: str
    label: object
    metadata: object


def by_slime() -> list[float | None]:
    async def all_of_them() -> list[float | None]:
        samples = [
            Sample(PROMPT, text, json.dumps(limits), {})
            for text, limits in zip(TEXTS, LIMITS, strict=True)
        ]
        singly = await asyncio.gather(*(slime.reward(None, one) for one in samples))
        assert singly == await slime.group_reward(None, samples)
        return list(singly)

    return asyncio.run(all_of_them())


def by_verifiers() -> list[float | None]:
    async def all_of_them() -> list[float | None]:
        traces = [SimpleNamespace(last_reply=text) for text in TEXTS]
        tasks = [SimpleNamespace(info=limits, answer="") for limits in LIMITS]
        return list(await asyncio.gather(*map(vf.hindsight, tasks, traces)))

    return asyncio.run(all_of_them())


def by_rubric() -> list[float | None]:
    async def all_of_them() -> list[float | None]:
        calls = [
            vf.hindsight_rubric(
                completion=[{"role": "assistant", "content": text}], prompt=[], answer="", info=one
            )
            for text, one in zip(TEXTS, LIMITS, strict=True)
        ]
        return list(await asyncio.gather(*calls))

    return asyncio.run(all_of_them())


@pytest.mark.parametrize(
    "door",
    [
        by_trl, by_trl_chat, by_verl, by_verl_async, by_verl_batch, by_openrlhf, by_openrlhf_lists,
        by_slime, by_verifiers, by_rubric,
    ],
)  # fmt: skip
@pytest.mark.usefixtures("model")
def test_every_door_leads_to_the_same(world: World, door: Callable[[], list[float | None]]) -> None:
    right = expected(world)
    assert len(set(right)) > 3
    assert door() == right


@pytest.mark.usefixtures("model")
def test_what_trl_logs() -> None:
    extras, metrics = dict[str, list[object]](), dict[str, float]()
    found = trl.hindsight_reward(
        prompts=["a", "a", "b", "b"],
        completions=[TEXTS[0], TEXTS[0], TEXTS[1], ""],
        log_extra=extras.__setitem__,
        log_metric=metrics.__setitem__,
    )
    assert extras["hindsight_status"] == ["ok", "ok", "ok", "empty"]
    assert metrics["hindsight/scored"] == 0.75
    assert metrics["hindsight/dead_groups"] == (0.5 if found[2] != found[3] else 1.0)
    assert all(math.isfinite(value) for value in metrics.values())
    assert trl.hindsight_reward(prompts=[], completions=[], log_metric=metrics.__setitem__) == []


def test_functions_are_what_libraries_take() -> None:
    plain: list[Callable[..., object]] = [
        trl.hindsight_reward, verl.compute_score, openrlhf.reward_func,
    ]  # fmt: skip
    for function in plain:
        assert pickle.loads(pickle.dumps(function)) is function
        assert not inspect.iscoroutinefunction(function) and function.__name__
    for task in (verl.compute_score_async, slime.reward, slime.group_reward, vf.hindsight):
        assert inspect.iscoroutinefunction(task)
    spec = importlib.util.spec_from_file_location("custom_module", str(verl.__file__))
    assert spec is not None and spec.loader is not None  # as verl loads it
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert callable(module.compute_score)


class Broken(Encoder):
    """Has lost its device."""

    def encode_counted(
        self, pairs: Sequence[tuple[str, str]], progress: Progress | None = None
    ) -> Encoded:
        raise EncoderError("no device")


@pytest.mark.parametrize("errors", ["none", "value", "raise"])
def test_errors_by_policy_through_each_door(world: World, errors: str) -> None:
    encoder = Broken(world.encoder.folder, device="cpu")
    config = RewardConfig(errors=errors, error_value=-0.5)
    model = RewardModel(world.pool, encoder, config)
    rewards.use(model)
    try:
        if errors == "raise":
            for call in (
                lambda: trl.hindsight_reward(completions=TEXTS),
                lambda: verl.compute_score(solution_str=TEXTS[0]),
                lambda: openrlhf.reward_func(TEXTS[:1], [""], [""]),
            ):
                with pytest.raises(EncoderError, match="no device"):
                    call()
            return
        assert trl.hindsight_reward(completions=[TEXTS[0], ""]) == [
            None if errors == "none" else -0.5,
            0.0,
        ]
        broken = verl.compute_score(solution_str=TEXTS[0])
        assert broken["score"] == -0.5 and broken["hindsight_failed"] == 1
        assert broken.keys() == verl.compute_score(solution_str="").keys()
        if errors == "none":
            with pytest.raises(ServiceError, match="no device"):
                openrlhf.reward_func(TEXTS[:1], [""], [""])
        else:
            assert openrlhf.reward_func(TEXTS[:1], [""], [""])["rewards"] == [-0.5]
    finally:
        rewards.use(None)
        model.close()


def test_odd_limits_are_answered() -> None:
    odd = {"topic": {"a": 1}, "cutoff": 3.5, "exclude_ids": 7, "prompt_id": None}
    assert Request.of("x", None, "label", odd) == Request(
        "x", topic="{'a': 1}", cutoff="3.5", exclude_ids=("7",)
    )
    assert Request.of("x", None, {"topic": "a"}, {"topic": "b", "cutoff": "2023"}) == Request(
        "x", topic="a", cutoff="2023"
    )
    assert openrlhf.limits_of('{"topic": ') is None and openrlhf.limits_of("label") == "label"


def test_groups_without_a_gradient() -> None:
    assert dead_groups("aabbc", [0.0, 0.0, 0.0, 0.5, 0.0]) == 0.5
    assert dead_groups("aab", [None, 0.5, 0.5]) == dead_groups("", []) == 0.0


WORKER = """
import json, sys
from hindsight_fast.rewards.verl import compute_score
texts = json.load(sys.stdin)
print(json.dumps([compute_score("ideas", text, None, None)["score"] for text in texts]))
"""


def test_a_worker_opens_what_the_environment_names(world: World) -> None:
    settings = {"encoder": str(world.encoder.folder), "device": "cpu", "theta": 0.6}

    def worker(**environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", WORKER],
            input=json.dumps(TEXTS[:3]),
            env={**os.environ, "HINDSIGHT_HOME": str(world.folder), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    done = worker(HINDSIGHT_POOL=str(world.pool.path), HINDSIGHT_REWARD=json.dumps(settings))
    assert done.returncode == 0, done.stderr
    right = RewardModel(world.pool, world.encoder).rewards(TEXTS[:3])
    assert json.loads(done.stdout) == [one.reward for one in right]
    assert "set HINDSIGHT_POOL" in worker(HINDSIGHT_POOL="").stderr


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("{", "is no JSON"),
        ("[1]", "expected a JSON object"),
        ('{"thetta": 1}', "has thetta"),
        ('{"errors": "no"}', "expected one of"),
        ('{"theta": "high"}', "theta"),
    ],
)
def test_settings_of_the_environment(
    written: str, told: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDSIGHT_POOL", str(world.pool.path))
    monkeypatch.setenv("HINDSIGHT_HOME", str(world.folder))
    monkeypatch.setenv("HINDSIGHT_REWARD", written)
    with pytest.raises(UsageError, match=told):
        rewards.shared()
