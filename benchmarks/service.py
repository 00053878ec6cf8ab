"""The service under load: every reward is held against the offline one.

    python -m benchmarks.service --pool POOL [--seconds 600] [--json out.json]

64 clients send 1 to 8 texts a call, as fast as they are answered; then for a minute at half of what
that came to. Latencies hold the clients' own time on the same processors.
"""

import argparse
import asyncio
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np

from benchmarks.measure import machine, table, write_json
from hindsight_fast.encoders import load_encoder
from hindsight_fast.planning import typical_texts
from hindsight_fast.pool import Pool
from hindsight_fast.rewards import RewardModel

CLIENTS = 64


def resident_mib(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return int(found[1]) // 1024 if found else 0


async def load(
    url: str, right: dict[str, float | None], seconds: float, pause: float, process: int
) -> dict[str, Any]:
    """What clients met that wait so many seconds between calls, in the mean."""
    texts, codes = [*right], Counter[int]()
    latencies, memory = list[float](), list[int]()
    n_rewards = n_wrong = 0
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        nonlocal n_rewards, n_wrong
        rng = random.Random(number)
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            while time.monotonic() < end:
                some = [texts[rng.randrange(len(texts))] for _ in range(rng.randint(1, 8))]
                body = {"requests": [{"completion": text} for text in some]}
                began = time.monotonic()
                answer = await client.post("/rewards", json=body)
                latencies.append(time.monotonic() - began)
                codes[answer.status_code] += 1
                if answer.status_code == 200:
                    found = [each["reward"] for each in answer.json()["results"]]
                    n_wrong += found != [right[text] for text in some]
                    n_rewards += len(some)
                if pause:
                    await asyncio.sleep(rng.expovariate(1 / pause))

    async def watch() -> None:
        while time.monotonic() < end:
            memory.append(resident_mib(process))
            await asyncio.sleep(seconds / 8)

    await asyncio.gather(watch(), *(one(number) for number in range(CLIENTS)))
    median, high, most = (1e3 * np.quantile(latencies, [0.5, 0.99, 1])).tolist()
    return {
        "calls/s": len(latencies) / seconds,
        "rewards/s": n_rewards / seconds,
        "rewards": n_rewards,
        "wrong": n_wrong,
        "codes": dict(codes),
        "p50 ms": median,
        "p99 ms": high,
        "max ms": most,
        "MiB at first": memory[1] if len(memory) > 1 else memory[0],
        "MiB at last": resident_mib(process),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=2000, help="distinct ones")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    pool = Pool.open(arguments.pool)
    encoder = load_encoder(pool.encoder, device="cpu")
    made = [f"{head}. {body}" for head, body in typical_texts(encoder, 100)]
    texts = [f"{made[i % len(made)]} {i}" for i in range(arguments.texts)]
    found = RewardModel(pool, encoder).rewards(texts)
    right = {text: one.reward for text, one in zip(texts, found, strict=True)}

    command = [sys.executable, "-m", "hindsight_fast", "serve", "--pool", str(pool.path)]
    process = subprocess.Popen(
        [*command, "--device", "cpu", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HINDSIGHT_TOKEN": ""},
    )
    lines = process.stderr
    assert lines is not None
    address = next(line for line in lines if line.startswith("listening on "))
    threading.Thread(target=lambda: sum(1 for _ in lines), daemon=True).start()  # of its log
    url = address.split()[-1]
    try:
        while httpx.get(f"{url}/ready").status_code != 200:
            time.sleep(0.05)
        full = asyncio.run(load(url, right, arguments.seconds, 0, process.pid))
        pause = CLIENTS / (full["calls/s"] / 2)
        half = asyncio.run(load(url, right, min(60, arguments.seconds), pause, process.pid))
    finally:
        process.terminate()
        process.wait(60)
    rows = [{"load": "full", **full}, {"load": "half", **half}]
    print(table(rows))
    facts = {"machine": machine("numpy", "onnxruntime"), "encoder": encoder.name, "rows": rows}
    write_json(arguments.json, facts)


if __name__ == "__main__":
    main()
