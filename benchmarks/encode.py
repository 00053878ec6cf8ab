"""The whole encoding pipeline, and the bare onnxruntime session on the same texts.

    python -m benchmarks.encode MODEL_FOLDER [--texts 5000] [--json out.json]

Texts are real titles and abstracts ($HINDSIGHT_SHARED, default ../shared). The bare session gets
ready arrays, tokenised and batched beforehand: once as the pipeline batches, several runs at a
time on one thread each, and once as is usual, padded batches on all threads. Texts are timed in
blocks, each rival in turn on each block; warm-up is apart. Quality: the largest difference of a
sample of vectors to those of the bare session one text at a time, and the share of padding.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.measure import machine, table, write_json
from hindsight_models import Card, load
from hindsight_models.batches import fill, plan_cpu
from hindsight_models.card import GRAPH_FILE, TOKENIZER_FILE
from hindsight_models.tokenizing import Tokenizer

SHARED = Path(os.environ.get("HINDSIGHT_SHARED", Path(__file__).resolve().parents[2] / "shared"))
TARGET = 0.95
PADDED_TOKENS = 4096  # a padded batch of the usual session

Ids = Sequence[NDArray[np.int32]]
Arrays = list[tuple[NDArray[np.int32], NDArray[np.int32]]]


def real_texts(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Title and abstract of papers, drawn with a fixed seed."""
    papers = pl.read_parquet(
        SHARED / "data/papers/paperlists.parquet", columns=["title", "abstract"]
    )
    drawn = papers.drop_nulls().filter(pl.col("abstract") != "").sample(count, seed=seed)
    return [(str(title), str(abstract)) for title, abstract in drawn.iter_rows()]


def bare_session(graph: Path, threads: int) -> Any:
    """A session with its threads set, and nothing else but what helps it."""
    onnxruntime: Any = import_module("onnxruntime")  # untyped
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(str(graph), options, ["CPUExecutionProvider"])


def run_bare(session: Any, arrays: Arrays, runners: int) -> list[NDArray[np.float32]]:
    """Vectors of ready arrays, several runs at a time."""

    def run(batch: tuple[NDArray[np.int32], NDArray[np.int32]]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = session.run(None, {"ids": batch[0], "mask": batch[1]})[0]
        return vectors

    with ThreadPoolExecutor(runners) as pool:
        return list(pool.map(run, arrays))


def equal_lengths(ids: Ids) -> Arrays:
    """The pipeline's own batches."""
    return [fill(batch, ids) for batch in plan_cpu([len(i) for i in ids])]


def padded(ids: Ids) -> Arrays:
    """Sorted by length and padded to the longest of a batch, as is usual."""
    order = sorted(ids, key=len, reverse=True)
    arrays: Arrays = []
    while order:
        rows = max(1, PADDED_TOKENS // len(order[0]))
        part, order = order[:rows], order[rows:]
        batch = np.zeros((len(part), len(part[0])), np.int32)
        mask = np.zeros_like(batch)
        for row, tokens in enumerate(part):
            batch[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
        arrays.append((batch, mask))
    return arrays


class Timed:
    """Rivals timed block by block, each in its turn, and what they were given."""

    def __init__(self, folder: Path, threads: int) -> None:
        start = time.perf_counter()
        self.encoder = load(folder, device="cpu", threads=threads)
        self.load_seconds = time.perf_counter() - start
        self.tokenizer = Tokenizer(folder / TOKENIZER_FILE, Card.read(folder))
        self.single = bare_session(folder / GRAPH_FILE, 1)
        self.multiple = bare_session(folder / GRAPH_FILE, threads)
        self.threads = threads
        self.seconds: dict[str, list[float]] = {}
        self.tokens = self.padding = 0

    def warm_up(self, texts: list[tuple[str, str]]) -> None:
        ids = [t.ids for t in self.tokenizer.many(texts)]
        self.encoder.encode(texts)
        run_bare(self.single, equal_lengths(ids), self.threads)
        run_bare(self.multiple, padded(ids), 1)

    def block(self, number: int, texts: list[tuple[str, str]]) -> None:
        threads, ids = self.threads, [t.ids for t in self.tokenizer.many(texts)]
        even, uneven = equal_lengths(ids), padded(ids)
        self.tokens += sum(map(len, ids))
        self.padding += sum(mask.size - int(mask.sum()) for _, mask in uneven)
        rivals: dict[str, Callable[[], object]] = {
            "pipeline": partial(self.encoder.encode_counted, texts),
            f"bare session, {threads} runs at once": partial(run_bare, self.single, even, threads),
            f"bare session, {threads} threads, padded": partial(run_bare, self.multiple, uneven, 1),
            "tokenising alone": partial(self.tokenizer.many, texts),
        }
        turn = number % len(rivals)  # so that no rival is always first
        for name in [*rivals][turn:] + [*rivals][:turn]:
            start = time.perf_counter()
            rivals[name]()
            self.seconds.setdefault(name, []).append(time.perf_counter() - start)

    def difference_to_alone(self, texts: list[tuple[str, str]]) -> float:
        """Largest difference of a component to the bare session on one text at a time."""
        alone = [
            run_bare(self.single, equal_lengths([self.tokenizer(*text).ids]), 1)[0]
            for text in texts
        ]
        return float(np.abs(self.encoder.encode(texts) - np.concatenate(alone)).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--texts", type=int, default=5000)
    parser.add_argument("--block", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    texts, timed = real_texts(arguments.texts), Timed(arguments.model, arguments.threads)
    timed.warm_up(texts[:50])
    for number, at in enumerate(range(0, len(texts), arguments.block)):
        timed.block(number, texts[at : at + arguments.block])
    result = summary(timed, texts)
    print(table(result["results"]))
    print(
        f"pipeline: {result['of_bare_session']:.3f} of '{result['fastest_bare']}' "
        f"(by block: {', '.join(f'{r:.3f}' for r in result['of_bare_session_by_block'])}; "
        f"target {TARGET})\n"
        f"to one text at a time: max difference {result['max_difference_to_alone']:.3g}\n"
        f"padding: none (usual batches: {result['padding_share_usual']:.1%}); tokenising: "
        f"{result['tokenising_share']:.1%} of {timed.threads} processors' time"
    )
    write_json(arguments.json, result)


def summary(timed: Timed, texts: list[tuple[str, str]]) -> dict[str, Any]:
    seconds, tokens = timed.seconds, timed.tokens
    bare = [name for name in seconds if name.startswith("bare")]
    fastest = min(bare, key=lambda name: sum(seconds[name]))
    pairs = zip(seconds[fastest], seconds["pipeline"], strict=True)
    pipeline = sum(seconds["pipeline"])
    return {
        "benchmark": "encode",
        "model": timed.encoder.name,
        "fingerprint": timed.encoder.fingerprint,
        "texts": len(texts),
        "tokens": tokens,
        "threads": timed.threads,
        "load_seconds": timed.load_seconds,
        "results": [
            {
                "what": name,
                "seconds": sum(taken),
                "tokens/s": tokens / sum(taken),
                "texts/s": len(texts) / sum(taken),
            }
            for name, taken in seconds.items()
        ],
        "fastest_bare": fastest,
        "of_bare_session": sum(seconds[fastest]) / pipeline,
        "of_bare_session_by_block": [b / p for b, p in pairs],
        "target": TARGET,
        "tokenising_share": sum(seconds["tokenising alone"]) / pipeline / timed.threads,
        "max_difference_to_alone": timed.difference_to_alone(texts[:: max(1, len(texts) // 200)]),
        "padding_share_usual": timed.padding / (tokens + timed.padding),
        "seconds": seconds,
        "machine": machine("onnxruntime", "tokenizers", "numpy"),
    }


if __name__ == "__main__":
    main()
