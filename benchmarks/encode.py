"""The whole encoding pipeline, and the bare onnxruntime session on the same texts.

    python -m benchmarks.encode [--model FOLDER] [--texts 384] [--json out.json]

The model has random weights and SPECTER2's exact shape unless another folder is named; texts are
real titles and abstracts. The bare session gets ready arrays, tokenised and batched beforehand:
once as the pipeline batches, several runs at a time on one thread each, and once as is usual,
padded batches on all threads. Texts are timed in blocks, each rival in turn on each block; warm-up
is apart. Quality: the largest difference of a sample of vectors to those of the bare session one
text at a time. Then what needs no model: padding, and tokenising alone, both on more texts.
"""

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bare import Arrays, Ids, bare_session, equal_lengths, padded, run_bare
from benchmarks.measure import in_turn, in_words, interleaved, machine, median, table, write_json
from benchmarks.shape import Texts, real_texts, specter2_shape
from hindsight_models import Card, load
from hindsight_models.batches import plan_cpu, plan_cuda
from hindsight_models.card import GRAPH_FILE, TOKENIZER_FILE
from hindsight_models.encoder import CPU_CHUNK, CUDA_CHUNK
from hindsight_models.tokenizing import Tokenizer

TARGET = 0.97
PADDING_TARGET = 0.03
WORKERS = 16  # sessions that tokenising must feed
MORE_TEXTS = 4096
ALONE = 40  # texts that are also encoded one at a time


class Timed:
    """Rivals timed block by block, and what they were given."""

    def __init__(self, folder: Path, threads: int) -> None:
        start = time.perf_counter()
        self.encoder = load(folder, device="cpu", threads=threads)
        self.load_seconds = time.perf_counter() - start
        self.tokenizer = Tokenizer(folder / TOKENIZER_FILE, Card.read(folder))
        self.single = bare_session(folder / GRAPH_FILE, 1)
        self.multiple = bare_session(folder / GRAPH_FILE, threads)
        self.threads = threads
        self.seconds: dict[str, list[float]] = {}
        self.tokens = 0

    def ids(self, texts: Texts) -> Ids:
        return [each.ids for each in self.tokenizer.many(texts)]

    def warm_up(self, texts: Texts) -> None:
        ids = self.ids(texts)
        self.encoder.encode(texts)
        run_bare(self.single, equal_lengths(ids), self.threads)
        run_bare(self.multiple, padded(ids), 1)

    def block(self, number: int, texts: Texts) -> None:
        threads, ids = self.threads, self.ids(texts)
        even, uneven = equal_lengths(ids), padded(ids)
        self.tokens += sum(map(len, ids))
        rivals: dict[str, Callable[[], object]] = {
            "pipeline": partial(self.encoder.encode, texts),
            f"bare session, {threads} runs at once": partial(run_bare, self.single, even, threads),
            f"bare session, {threads} threads, padded": partial(run_bare, self.multiple, uneven, 1),
        }
        in_turn(rivals, number, self.seconds)

    def difference_to_alone(self, texts: Texts) -> float:
        """Largest difference of a component to the bare session on one text at a time."""
        alone = [run_bare(self.single, equal_lengths([i]), 1)[0] for i in self.ids(texts)]
        return float(np.abs(self.encoder.encode(texts) - np.concatenate(alone)).max())

    def summary(self, texts: Texts) -> dict[str, Any]:
        """Speeds, and the pipeline's share of the fastest bare session."""
        seconds = self.seconds
        bare = [name for name in seconds if name.startswith("bare")]
        fastest = min(bare, key=lambda name: sum(seconds[name]))
        pairs = zip(seconds[fastest], seconds["pipeline"], strict=True)
        return {
            "texts": len(texts),
            "tokens": self.tokens,
            "results": [
                {
                    "what": name,
                    "seconds": sum(taken),
                    "tokens/s": self.tokens / sum(taken),
                    "texts/s": len(texts) / sum(taken),
                }
                for name, taken in seconds.items()
            ],
            "fastest_bare": fastest,
            "of_bare_session": sum(seconds[fastest]) / sum(seconds["pipeline"]),
            "of_bare_session_by_block": [b / p for b, p in pairs],
            "target": TARGET,
            "max_difference_to_alone": self.difference_to_alone(texts[:ALONE]),
            "seconds": seconds,
        }


def padding(ids: Ids, longest: int) -> dict[str, float]:
    """Shares of padding among the tokens that a session is given."""

    def chunks(size: int) -> list[Ids]:
        return [ids[start : start + size] for start in range(0, len(ids), size)]

    shapes = {
        "cpu": [b for chunk in chunks(CPU_CHUNK) for b in plan_cpu([len(i) for i in chunk])],
        "cuda": [
            b for chunk in chunks(CUDA_CHUNK) for b in plan_cuda([len(i) for i in chunk], longest)
        ],
    }
    usual: Arrays = [batch for chunk in chunks(CPU_CHUNK) for batch in padded(chunk)]
    sent = {name: sum(b.rows * b.length for b in plan) for name, plan in shapes.items()}
    sent["usual batches"] = sum(batch.size for batch, _ in usual)
    return {name: 1 - sum(map(len, ids)) / tokens for name, tokens in sent.items()}


def tokenising(tokenizer: Tokenizer, texts: Texts, tokens: int) -> dict[str, float]:
    """Tokens per second of tokenising alone."""
    ways = {
        "1 thread": partial(tokenizer.many, texts),
        "all processors": partial(tokenizer.many, texts, parallel=True),
    }
    seconds = interleaved(ways, repeats=3)
    return {name: tokens / median(taken) for name, taken in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--texts", type=int, default=384)
    parser.add_argument("--block", type=int, default=128)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    folder, threads = arguments.model or specter2_shape(), arguments.threads
    timed, texts = Timed(folder, threads), real_texts(arguments.texts)
    timed.warm_up(texts[:16])
    for number, at in enumerate(range(0, len(texts), arguments.block)):
        timed.block(number, texts[at : at + arguments.block])
    result = timed.summary(texts)

    more = real_texts(MORE_TEXTS)
    ids = timed.ids(more)
    shares = padding(ids, timed.encoder.card.max_tokens)
    speeds = tokenising(timed.tokenizer, more, sum(map(len, ids)))
    worker = next(r["tokens/s"] for r in result["results"] if r["what"] == "pipeline") / threads
    facts = machine("onnxruntime", "tokenizers", "numpy")
    print(f"{timed.encoder.name}, {threads} threads; {in_words(facts)}")
    print(table(result["results"]))
    print(
        f"pipeline: {result['of_bare_session']:.3f} of '{result['fastest_bare']}' "
        f"(by block: {', '.join(f'{r:.3f}' for r in result['of_bare_session_by_block'])}; "
        f"target {TARGET})\n"
        f"to one text at a time: max difference {result['max_difference_to_alone']:.3g}\n"
        f"padding: {', '.join(f'{name} {share:.2%}' for name, share in shares.items())} "
        f"(target on cpu: under {PADDING_TARGET:.0%})\n"
        f"tokenising alone: {', '.join(f'{n} {s:,.0f} tokens/s' for n, s in speeds.items())}; "
        f"{WORKERS} workers of one thread need {WORKERS * worker:,.0f}"
    )
    result |= {
        "benchmark": "encode",
        "model": timed.encoder.name,
        "fingerprint": timed.encoder.fingerprint,
        "threads": threads,
        "load_seconds": timed.load_seconds,
        "padding": shares,
        "padding_target_cpu": PADDING_TARGET,
        "tokenising_tokens_per_s": speeds,
        "worker_tokens_per_s": worker,
        "workers": WORKERS,
        "machine": facts,
    }
    write_json(arguments.json, result)


if __name__ == "__main__":
    main()
