"""Rewards: what the model and its batcher cost beside the encoder that they ask.

    python -m benchmarks.rewards --pool POOL [--texts 512] [--json out.json]

The pool's own encoder on made-up texts: the bare encoder, one call of all, single calls of 64
threads and of tasks, each on texts of its own that nobody has asked about, in turns; then all that
is known already, in a batch and singly.
"""

import argparse
import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.measure import machine, median, table, write_json
from hindsight_fast.encoders import load_encoder
from hindsight_fast.planning import typical_texts
from hindsight_fast.pool import Pool
from hindsight_fast.rewards import RewardModel

CALLERS = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    pool = Pool.open(arguments.pool)
    encoder = load_encoder(pool.encoder, device="cpu", threads=arguments.threads)
    model = RewardModel(pool, encoder, threads=arguments.threads)
    made = [f"{head}. {body}" for head, body in typical_texts(encoder, arguments.tokens)]
    number = 0

    def fresh() -> list[str]:
        nonlocal number
        number += 1
        return [f"{made[i % len(made)]} {number} {i}" for i in range(arguments.texts)]

    def threads(texts: list[str]) -> None:
        with ThreadPoolExecutor(CALLERS) as callers:
            list(callers.map(model.reward, texts))

    async def tasks(texts: list[str]) -> None:
        await asyncio.gather(*(model.reward_async(text) for text in texts))

    rivals: dict[str, Callable[[list[str]], object]] = {
        "bare encoder": lambda texts: encoder.encode_counted([("", text) for text in texts]),
        "one call of all": model.rewards,
        f"single calls of {CALLERS} threads": threads,
        "single calls of tasks": lambda texts: asyncio.run(tasks(texts)),
    }
    seconds = dict[str, list[float]]()
    for call in rivals.values():
        call(fresh())
    for _ in range(arguments.repeats):
        for name, call in rivals.items():
            texts = fresh()
            began = time.perf_counter()
            call(texts)
            seconds.setdefault(name, []).append(time.perf_counter() - began)
    known = fresh()
    model.rewards(known)
    again = known * max(1, 20_000 // len(known))
    knowing: dict[str, Callable[[list[str]], object]] = {
        "known, one call": model.rewards,
        "known, single calls": lambda texts: [model.reward(text) for text in texts],
    }
    for name, call in knowing.items():
        began = time.perf_counter()
        call(again)
        seconds[name] = [(time.perf_counter() - began) * len(known) / len(again)]
    rows = [
        {
            "what": name,
            "rewards/s": len(known) / median(times),
            "of one call": median(seconds["one call of all"]) / median(times),
            "of the encoder": median(seconds["bare encoder"]) / median(times),
        }
        for name, times in seconds.items()
    ]
    print(table(rows))
    facts = {
        "machine": machine("numpy", "onnxruntime"),
        "encoder": encoder.name,
        "papers": pool.n_papers,
        "texts": len(known),
        "tokens": arguments.tokens,
        "rows": rows,
    }
    write_json(arguments.json, facts)


if __name__ == "__main__":
    main()
