"""Rewards over HTTP: a real process on loopback, called, overfed, told to end and killed."""

import asyncio
import http.server
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import httpx2 as httpx
import pytest

from hindsight_fast.errors import ServiceError
from hindsight_fast.pool import build_pool
from hindsight_fast.rewards import Request, RewardConfig, RewardModel
from hindsight_fast.rewards.client import RewardClient
from rewards_world import made_up_texts, world_with_topics
from scoring_world import E, T, World

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")

JSON = {"content-type": "application/json"}
TEXTS = made_up_texts(40)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world_with_topics(tmp_path_factory.mktemp("world"))


class Service:
    """A process that serves, and ends with the test."""

    def __init__(self, world: World, *more: str, **environment: str) -> None:
        command = [
            sys.executable, "-m", "hindsight_fast", "serve", "--pool", str(world.pool.path),
            "--encoder", str(world.encoder.folder), "--device", "cpu", "--port", "0", *more,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HINDSIGHT_HOME": str(world.folder), **environment},
        )
        self.lines = list[str]()
        self._heard = threading.Event()
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()
        assert self._heard.wait(60), "".join(self.lines)
        (address,) = (one for one in self.lines if one.startswith("listening on "))
        self.url = address.removeprefix("listening on ").strip()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith("listening on "):
                self._heard.set()
        self._heard.set()

    def client(self, **headers: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def wait_until_ready(self, client: httpx.Client) -> None:
        until = time.monotonic() + 60
        while client.get("/ready").status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.02)

    def end(self, by: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(by)
        code = self.process.wait(60)
        self._listening.join()
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code


@pytest.fixture(scope="module")
def service(world: World) -> Generator[Service]:
    service = Service(world)
    with service.client() as client:
        service.wait_until_ready(client)
    yield service
    service.end(signal.SIGKILL)


def test_the_same_ideas_earn_the_same_by_every_form(world: World, service: Service) -> None:
    limits: list[dict[str, Any]] = [
        {"topic": "a", "exclude_ids": ["p0002"]} if i % 2 else {} for i in range(40)
    ]
    asked = [Request.of(text, None, limit) for text, limit in zip(TEXTS, limits, strict=True)]
    right = RewardModel(world.pool, world.encoder).rewards(asked)
    with service.client() as client:
        batch = [{"completion": text, **limit} for text, limit in zip(TEXTS, limits, strict=True)]
        found = client.post("/rewards", json={"requests": batch}).json()
        assert [one["reward"] for one in found["results"]] == [one.reward for one in right]
        assert [one["signs"] for one in found["results"]] == [one.signs for one in right]
        assert found["signature"] == RewardModel(world.pool, world.encoder).signature
        body = {
            "query": [f"<s>Go! {text}</s>" for text in TEXTS],
            "prompts": ["Go! "] * 40,
            "labels": [json.dumps(limit) for limit in limits],
        }
        assert client.post("/openrlhf", json=body).json()["rewards"] == [
            one.reward for one in right
        ]

        def singly(place: int) -> float:
            sample = {"prompt": "Go!", "response": TEXTS[place], "label": limits[place]}
            return float(client.post("/slime", json=sample).json())

        with ThreadPoolExecutor(16) as threads:
            assert list(threads.map(singly, range(40))) == [one.reward for one in right]


def test_health_numbers_and_description(service: Service) -> None:
    with service.client() as client:
        assert client.get("/health").json() == {"status": "ok"}
        assert "HindSight recipe" in client.get("/ready").json()["signature"]
        client.post("/rewards", json={"requests": [{"completion": ""}]})
        told = client.get("/metrics").text
        assert 'hindsight_rewards_total{status="empty"}' in told
        assert 'hindsight_calls_total{code="200",path="/rewards"}' in told
        assert set(client.get("/openapi.json").json()["paths"]) == {
            "/rewards", "/openrlhf", "/slime", "/health", "/ready", "/metrics",
        }  # fmt: skip
        assert client.get("/nothing").status_code == 404
    assert not any(text[:20] in line for text in TEXTS for line in service.lines)
    assert any('"path": "/rewards"' in line for line in service.lines)


def test_bodies_that_make_no_sense(service: Service) -> None:
    rng = random.Random(0)
    good = json.dumps({"requests": [{"completion": TEXTS[0]}]}).encode()
    bodies = [
        b"", b"{", b"null", b"[]", b"1e999", b'{"requests": 1}', b'{"requests": [1]}',
        b'{"requests": [{}]}', b'{"requests": [{"completion": 1}]}', b"\xff\xfe",
        b'{"requests": [{"completion": "x", "more": 1}]}', b"[" * 100_000,
        b'{"requests": [{"topic": "\\ud800"}]}', b'{"requests": [{"\\ud800": 1}]}',
        b'{"requests": [{"completion": "x", "cutoff": "\\udfff"}], "x": NaN}',
        json.dumps({"requests": [{"completion": "x"}] * 1025}).encode(),
        *(bytes(rng.choice(good) for _ in good) for _ in range(200)),
    ]  # fmt: skip
    with service.client() as client:
        for path in ("/rewards", "/openrlhf", "/slime"):
            for body in bodies:
                answer = client.post(path, content=body, headers=JSON)
                assert answer.status_code in (400, 422), (path, body[:80], answer.text[:200])
        odd = {"query": ["a"], "prompts": [], "labels": []}
        assert client.post("/openrlhf", json=odd).status_code == 422
        assert client.get("/rewards").status_code == 405
        half = b'{"requests": [{"completion": "\\ud800"}]}'
        (found,) = client.post("/rewards", content=half, headers=JSON).json()["results"]
        assert found["status"] == "empty"  # U+FFFD is no letter
        assert client.post("/rewards", content=good * 400_000, headers=JSON).status_code == 413
        assert client.post("/rewards", content=good, headers=JSON).status_code == 200


def test_who_may_call(world: World) -> None:
    service = Service(world, HINDSIGHT_TOKEN="s3cret")
    try:
        with service.client() as client, service.client(authorization="Bearer s3cret") as known:
            service.wait_until_ready(known)
            assert client.get("/health").status_code == 200
            for wrong in ("", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "Bearer \xe9"):
                headers = {b"authorization": wrong.encode("latin-1")} if wrong else None
                for path in ("/ready", "/metrics", "/openapi.json"):
                    assert client.get(path, headers=headers).status_code == 401
            body = {"requests": [{"completion": TEXTS[0]}]}
            assert client.post("/rewards", json=body).status_code == 401
            assert known.post("/rewards", json=body).status_code == 200
    finally:
        assert service.end() in (143, -signal.SIGTERM)
    assert "s3cret" not in "".join(service.lines)


def test_other_machines_only_with_a_token(world: World) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hindsight_fast", "serve", "--pool", str(world.pool.path),
         "--host", "0.0.0.0"],
        env={**os.environ, "HINDSIGHT_HOME": str(world.folder), "HINDSIGHT_TOKEN": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "set HINDSIGHT_TOKEN" in done.stderr


def test_calls_under_way_are_answered_before_the_end(world: World) -> None:
    service = Service(world)
    right = RewardModel(world.pool, world.encoder).rewards(TEXTS)
    with service.client() as client:
        service.wait_until_ready(client)
        n_answered = 0
        begun = threading.Barrier(9)

        def ask(number: int) -> list[float] | None:
            begun.wait()
            fresh = [f"{text} and more of number {number}" for text in TEXTS * 10]
            body = {"requests": [{"completion": text} for text in fresh]}
            with service.client() as own:
                try:
                    answer = own.post("/rewards", json=body)
                except httpx.ConnectError:
                    return None
            assert answer.status_code == 200
            return [one["reward"] for one in answer.json()["results"]]

        with ThreadPoolExecutor(8) as threads:
            calls = [threads.submit(ask, number) for number in range(8)]
            begun.wait()
            time.sleep(0.3)
            assert service.end() in (143, -signal.SIGTERM)
            for number, call in enumerate(calls):
                found = call.result()
                if found is not None:
                    n_answered += 1
                    fresh = [f"{text} and more of number {number}" for text in TEXTS]
                    right = RewardModel(world.pool, world.encoder).rewards(fresh)
                    assert found == [one.reward for one in right] * 10
        assert n_answered > 0


def test_more_than_can_wait_is_sent_away(world: World, service: Service) -> None:
    def ask(number: int) -> tuple[int, list[float]]:
        texts = [f"{TEXTS[i % 40]} for {number} and {i}" for i in range(1000)]
        with service.client() as client:
            answer = client.post("/rewards", json={"requests": [{"completion": t} for t in texts]})
        if answer.status_code == 429:
            assert answer.headers["retry-after"] == "1"
            return 429, []
        right = RewardModel(world.pool, world.encoder).rewards(texts[:20])
        found = [one["reward"] for one in answer.json()["results"]]
        assert found[:20] == [one.reward for one in right]
        return answer.status_code, found

    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(ask, range(12)))
    assert {code for code, _ in answers} == {200, 429}
    assert all(len(found) == 1000 for code, found in answers if code == 200)


def test_a_pool_is_opened_anew_while_calls_are_answered(world: World, tmp_path: Path) -> None:
    path = tmp_path / "pool"
    build_pool(world.store, path, cutoff=T, until=E, k=5, theta=0.6)
    first = build_pool(world.store, tmp_path / "p2", cutoff=T, until=E, k=5, theta=0.9)
    service = Service(World(world.folder, world.encoder, world.store, first))
    try:
        with service.client() as client:
            service.wait_until_ready(client)
            before = client.get("/ready").json()["signature"]
            ending, seen = threading.Event(), set[str]()

            def ask() -> int:
                n = 0
                with service.client() as own:
                    while not ending.is_set():
                        body = {"requests": [{"completion": f"{TEXTS[n % 40]} and so on {n}"}]}
                        answer = own.post("/rewards", json=body)
                        assert answer.status_code == 200
                        seen.add(answer.json()["signature"])
                        n += 1
                return n

            with ThreadPoolExecutor(4) as threads:
                calls = [threads.submit(ask) for _ in range(4)]
                build_pool(
                    world.store, tmp_path / "p2", cutoff=T, until=E, k=5, theta=0.7, overwrite=True
                )
                service.process.send_signal(signal.SIGHUP)
                until = time.monotonic() + 30
                while client.get("/ready").json()["signature"] == before:
                    assert time.monotonic() < until
                    time.sleep(0.05)
                time.sleep(0.3)
                ending.set()
                assert all(call.result() > 5 for call in calls)
            assert before in seen and len(seen) == 2
    finally:
        service.end()


@pytest.mark.parametrize(
    "option", ["--penalty long", "--penalty x=1", "--shaping x", "--several x", "--timeout -1"]
)
def test_options_that_make_no_sense(world: World, option: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hindsight_fast", "serve", "--pool", str(world.pool.path),
         *option.split()],
        env={**os.environ, "HINDSIGHT_HOME": str(world.folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "expected" in done.stderr, done.stderr


def test_settings_reach_the_model(world: World) -> None:
    service = Service(world, "--penalty", "several=0.5", "--theta", "0.7", "--timeout", "60")
    try:
        config = RewardConfig(theta=0.7, penalties={"several": 0.5})
        two = f"Idea 1: {TEXTS[0]}\nIdea 2: {TEXTS[1]}"
        (right,) = RewardModel(world.pool, world.encoder, config).rewards([two])
        with service.client() as client:
            service.wait_until_ready(client)
            body = {"requests": [{"completion": two}]}
            (found,) = client.post("/rewards", json=body).json()["results"]
        assert (found["reward"], found["score"]) == (right.reward, right.score)
    finally:
        service.end()


async def _asked_at_once(url: str, texts: list[str], **settings: Any) -> list[float | None]:
    async with RewardClient(url, **settings) as client:
        found = await asyncio.gather(*(client.rewards([text]) for text in texts))
    return [one.reward for (one,) in found]


def test_two_thousand_calls_at_once(world: World, service: Service) -> None:
    texts = [f"{TEXTS[i % 40]} of two thousand, {i % 700}" for i in range(2000)]
    found = asyncio.run(_asked_at_once(service.url, texts, concurrency=64))
    assert found == [one.reward for one in RewardModel(world.pool, world.encoder).rewards(texts)]


def test_a_service_that_is_killed_and_started_again(world: World) -> None:
    texts = [f"{TEXTS[i % 40]} that outlives, {i}" for i in range(600)]
    right = [one.reward for one in RewardModel(world.pool, world.encoder).rewards(texts)]
    first = Service(world)
    port = first.url.rpartition(":")[2]
    second = list[Service]()

    def restart() -> None:
        time.sleep(0.3)
        first.end(signal.SIGKILL)
        second.append(Service(world, "--port", port))

    killer = threading.Thread(target=restart)
    killer.start()
    try:
        found = list[float | None]()
        for start in range(0, 600, 60):
            some = texts[start : start + 60]
            found += asyncio.run(_asked_at_once(first.url, some, concurrency=16, tries=12))
            time.sleep(0.1)
    finally:
        killer.join()
        second[0].end(signal.SIGKILL)
    assert found == right


class _Liar(http.server.BaseHTTPRequestHandler):
    """Answers with what the test wants."""

    answers: ClassVar[list[tuple[int, str]]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        code, body = self.answers.pop(0)
        self.send_response(code)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


GOOD: dict[str, Any] = {"reward": 0.5, "score": 0.5, "status": "ok", "signature": "x", "new": 1}


ANSWERS: list[tuple[list[tuple[int, Any]], str | None]] = [
    ([(200, {"results": [GOOD]})], None),
    ([(503, {}), (429, {}), (200, {"results": [GOOD]})], None),
    ([(200, {"results": [GOOD | {"reward": 1e9}]})], "no reward from -1 to 1"),
    ([(200, {"results": [GOOD | {"reward": "high"}]})], "no reward from"),
    ([(200, {"results": [GOOD | {"score": float("nan")}]})], "no reward from"),
    ([(200, {"results": []})], "1 requests have 0 results"),
    ([(200, {"rewards": [0.5]})], "none of this service"),
    ([(200, {"results": [{"reward": 1}]})], "none of this service"),
    ([(422, {"detail": "no"})], "422"),
    ([(401, {})], "401"),
    ([(500, {})] * 3, "500"),
]


@pytest.mark.parametrize(("answers", "told"), ANSWERS)
def test_answers_are_not_believed(answers: list[tuple[int, Any]], told: str | None) -> None:
    _Liar.answers = [(code, json.dumps(body)) for code, body in answers]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Liar) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            if told is None:
                assert asyncio.run(_asked_at_once(url, ["x"])) == [0.5]
            else:
                with pytest.raises(ServiceError, match=told):
                    asyncio.run(_asked_at_once(url, ["x"], tries=3))
        finally:
            server.shutdown()
    assert not _Liar.answers
