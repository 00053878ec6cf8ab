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

from benchmarks.measure import machine, median, table, write_json
from hindsight_models import Card, load
from hindsight_models.batches import fill, plan_cpu
from hindsight_models.card import GRAPH_FILE, TOKENIZER_FILE
from hindsight_models.tokenizing import Tokenizer

SHARED = Path(os.environ.get("HINDSIGHT_SHARED", Path(__file__).resolve().parents[2] / "shared"))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--texts", type=int, default=5000)
    parser.add_argument("--block", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    threads, folder = arguments.threads, arguments.model

    start = time.perf_counter()
    encoder = load(folder, device="cpu", threads=threads)
    load_seconds = time.perf_counter() - start
    tokenizer = Tokenizer(folder / TOKENIZER_FILE, Card.read(folder))
    single = bare_session(folder / GRAPH_FILE, 1)
    multiple = bare_session(folder / GRAPH_FILE, threads)
    texts = real_texts(arguments.texts)

    seconds: dict[str, list[float]] = {}

    def timed(name: str, call: Callable[[], object]) -> None:
        start = time.perf_counter()
        call()
        seconds.setdefault(name, []).append(time.perf_counter() - start)

    tokens, padding = 0, 0
    warm = [t.ids for t in tokenizer.many(texts[:50])]
    encoder.encode(texts[:50])
    run_bare(single, equal_lengths(warm), threads)
    run_bare(multiple, padded(warm), 1)
    for at in range(0, len(texts), arguments.block):
        block = texts[at : at + arguments.block]
        ids = [t.ids for t in tokenizer.many(block)]
        even, uneven = equal_lengths(ids), padded(ids)
        tokens += sum(map(len, ids))
        padding += sum(mask.size - int(mask.sum()) for _, mask in uneven)
        rivals: dict[str, Callable[[], object]] = {
            "pipeline": partial(encoder.encode_counted, block),
            f"bare session, {threads} runs at once": partial(run_bare, single, even, threads),
            f"bare session, {threads} threads, padded": partial(run_bare, multiple, uneven, 1),
            "tokenising alone": partial(tokenizer.many, block),
        }
        # Turn about, so that no rival is always first.
        turn = at // arguments.block % len(rivals)
        for name in [*rivals][turn:] + [*rivals][:turn]:
            timed(name, rivals[name])

    sample = texts[:: max(1, len(texts) // 200)]
    alone = np.concatenate(
        [run_bare(single, equal_lengths([tokenizer(*text).ids]), 1)[0] for text in sample]
    )
    differences = np.abs(encoder.encode(sample) - alone)
    bare = [name for name in seconds if name.startswith("bare")]
    fastest = min(bare, key=lambda name: sum(seconds[name]))
    ratios = [b / p for b, p in zip(seconds[fastest], seconds["pipeline"], strict=True)]
    rows = [
        {"what": name, "seconds": sum(taken), "tokens/s": tokens / sum(taken)}
        for name, taken in seconds.items()
    ]
    ratio = sum(seconds[fastest]) / sum(seconds["pipeline"])
    result: dict[str, Any] = {
        "benchmark": "encode",
        "model": encoder.name,
        "fingerprint": encoder.fingerprint,
        "texts": len(texts),
        "tokens": tokens,
        "threads": threads,
        "load_seconds": load_seconds,
        "results": rows,
        "fastest_bare": fastest,
        "of_bare_session": ratio,
        "of_bare_session_by_block": ratios,
        "target": 0.95,
        "tokenising_share": sum(seconds["tokenising alone"]) / sum(seconds["pipeline"]) / threads,
        "max_difference_to_alone": float(differences.max()),
        "bitwise_as_alone": bool((differences == 0).all()),
        "padding_share": 0.0,
        "padding_share_usual": padding / (tokens + padding),
        "seconds": seconds,
        "machine": machine("onnxruntime", "tokenizers", "numpy"),
    }
    print(table(rows))
    print(
        f"pipeline: {ratio:.3f} of '{fastest}' (by block: median {median(ratios):.3f}, "
        f"{min(ratios):.3f} to {max(ratios):.3f}; target 0.95)\n"
        f"to one text at a time: max difference {differences.max():.3g} over {len(sample)} texts\n"
        f"padding: none (usual batches: {result['padding_share_usual']:.1%}); tokenising: "
        f"{result['tokenising_share']:.1%} of {threads} processors' time"
    )
    write_json(arguments.json, result)


if __name__ == "__main__":
    main()
