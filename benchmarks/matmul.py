"""Encoding's linear layers, and the matrix products of numpy on the same shapes.

    python -m benchmarks.matmul [--rounds 6] [--json out.json]

Model of SPECTER2's exact shape, real abstracts. Encoding's rate counts the multiplications and
additions of its linear layers only, over its whole time: tokenising, attention and all else are in
the time. numpy multiplies M rows by the weights of each linear layer of one transformer layer, as
often as the layer holds them, into arrays that are ready; BLAS threads as many as the encoder's.
Batches of the encoder have up to 512 rows. Each round times all, one after another.
"""

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import (  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs]
    threadpool_limits,  # pyright: ignore[reportUnknownVariableType]
)

from benchmarks.measure import in_turn, in_words, machine, table, write_json
from benchmarks.shape import UNITS, linear_layers, real_texts, specter2_shape
from hindsight_models import load
from hindsight_models.card import CONFIG_FILE
from hindsight_models.weights import BertConfig

TARGET = 0.90
ROWS = (128, 256, 512, 1024, 2048, 4096)
SECONDS = 1.5  # of numpy at each M in each round, about
GFLOPS = 100.0  # guess from which the repetitions follow


def products(m: int, layers: list[tuple[int, int]], repeats: int) -> Callable[[], None]:
    """A call that multiplies m rows by every linear layer's weights, so many times."""
    rng = np.random.default_rng(m)
    ready = [
        (
            rng.standard_normal((m, into), np.float32),
            rng.standard_normal((out, into), np.float32).T,
            np.empty((m, out), np.float32),
        )
        for into, out in layers
    ]

    def multiply() -> None:
        for _ in range(repeats):
            for x, weights, result in ready:
                np.matmul(x, weights, out=result)

    return multiply


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--texts", type=int, default=64, help="encoded in each round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    folder = specter2_shape()
    config = BertConfig.read(folder / CONFIG_FILE)
    layers = linear_layers(config, UNITS)
    per_row = sum(2 * into * out for into, out in layers)
    encoder = load(folder, device="cpu", threads=arguments.threads)
    texts = real_texts(arguments.rounds * arguments.texts)
    tokens = int(encoder.count_tokens(texts).sum())

    repeats = {m: max(1, round(SECONDS * GFLOPS * 1e9 / (m * per_row))) for m in ROWS}
    numpy = {f"numpy, M = {m}": products(m, layers, repeats[m]) for m in ROWS}
    seconds: dict[str, list[float]] = {}
    with threadpool_limits(arguments.threads, "blas"):
        encoder.encode(texts[:8])  # warm-up
        for call in numpy.values():
            call()
        for number in range(arguments.rounds):
            block = texts[number * arguments.texts : (number + 1) * arguments.texts]
            rivals: dict[str, Callable[[], object]] = {"encoding": partial(encoder.encode, block)}
            in_turn(rivals | numpy, number, seconds)

    flops = {"encoding": tokens * per_row * config.num_hidden_layers}
    for m in ROWS:
        flops[f"numpy, M = {m}"] = arguments.rounds * repeats[m] * m * per_row
    rates = {name: flops[name] / sum(taken) / 1e9 for name, taken in seconds.items()}
    best = max(numpy, key=lambda name: rates[name])
    facts = machine("numpy", "onnxruntime")
    print(f"{encoder.name}, {arguments.threads} threads; {in_words(facts)}")
    print(
        table(
            [
                {"what": name, "GFLOP/s": rate, "encoding's share of it": rates["encoding"] / rate}
                for name, rate in rates.items()
            ]
        )
    )
    print(f"encoding: {rates['encoding'] / rates[best]:.3f} of '{best}' (target {TARGET})")
    write_json(
        arguments.json,
        {
            "benchmark": "matmul",
            "texts": len(texts),
            "tokens": tokens,
            "tokens/s": tokens / sum(seconds["encoding"]),
            "threads": arguments.threads,
            "linear_layers": layers,
            "GFLOP/s": rates,
            "best": best,
            "of_best": rates["encoding"] / rates[best],
            "target": TARGET,
            "seconds": seconds,
            "machine": facts,
        },
    )


if __name__ == "__main__":
    main()
