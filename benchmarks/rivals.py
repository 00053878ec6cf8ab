"""Encoding real abstracts, and what else people would use for it: same model, texts and threads.

    python -m benchmarks.rivals sentence-transformers [--texts 512] [--json out.json]
    python -m benchmarks.rivals fastembed [--texts 256] [--json out.json]

Random weights at SPECTER2's exact shape. sentence-transformers computes in torch, float32, with
its default batches (32 texts, after sorting a call's texts by characters); the adapter is brought
in by the adapters library (--base: a model without adapter, on both sides). fastembed computes the
same ONNX graph by onnxruntime, with int64 inputs as it sends them, and its default batches (256
texts in the order given). Each gets texts joined by the model's rule. Texts are timed in blocks of
a call, each rival in turn; warm-up is apart. Quality: the largest difference of a component of
any vector.
"""

import argparse
import logging
import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.foreign import INT64_FILE, activate_adapter, foreign_tokenizer, int64_graph
from benchmarks.measure import in_turn, in_words, machine, table, write_json
from benchmarks.shape import DIM, MAX_TOKENS, SEPARATOR, real_texts, specter2_shape
from hindsight_models import load

TARGETS = {"sentence-transformers": 1.15, "fastembed": 1.3}
DIFFERENCE = 1e-4
BLOCK = 256  # a batch of fastembed's; sentence-transformers pads less than 2% less in longer calls

Encode = Callable[[list[str]], NDArray[np.float32]]


def open_sentence_transformers(folder: Path, threads: int) -> Encode:
    torch: Any = import_module("torch")
    library: Any = import_module("sentence_transformers")
    modules: Any = import_module("sentence_transformers.sentence_transformer.modules")
    torch.set_num_threads(threads)
    bert = modules.Transformer(str(folder), max_seq_length=MAX_TOKENS)
    activate_adapter(bert.auto_model, folder)
    pooling = modules.Pooling(DIM, "cls")
    model = library.SentenceTransformer(modules=[bert, pooling, modules.Normalize()], device="cpu")

    def encode(texts: list[str]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = model.encode(texts, show_progress_bar=False)
        return vectors

    return encode


def open_fastembed(folder: Path, threads: int) -> Encode:
    library: Any = import_module("fastembed")
    description: Any = import_module("fastembed.common.model_description")
    int64_graph(folder)
    library.TextEmbedding.add_custom_model(
        model=f"local/{folder.name}",
        pooling=description.PoolingType.DISABLED,
        normalization=False,  # the graph does both
        sources=description.ModelSource(hf=f"local/{folder.name}"),
        dim=DIM,
        model_file=INT64_FILE,
    )
    model = library.TextEmbedding(
        f"local/{folder.name}", threads=threads, specific_model_path=str(folder), cuda=False
    )
    return lambda texts: np.array(list(model.embed(texts)))


OPEN = {"sentence-transformers": open_sentence_transformers, "fastembed": open_fastembed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rival", choices=[*OPEN])
    parser.add_argument("--texts", type=int, help="default: 512, and 256 for fastembed")
    parser.add_argument("--base", action="store_true", help="a model without adapter")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    logging.disable(logging.WARNING)  # advice of libraries to their users
    rival, threads = str(arguments.rival), int(arguments.threads)
    folder = specter2_shape(adapter=not arguments.base)
    foreign_tokenizer(folder, MAX_TOKENS)
    texts = real_texts(arguments.texts or (256 if rival == "fastembed" else 512))
    joined = [SEPARATOR.join(text) for text in texts]
    ours, theirs = load(folder, device="cpu", threads=threads), OPEN[rival](folder, threads)
    ours.encode(texts[:16])  # warm-up
    theirs(joined[:16])

    seconds: dict[str, list[float]] = {}
    difference = 0.0
    for number, at in enumerate(range(0, len(texts), BLOCK)):
        part = slice(at, at + BLOCK)
        given = in_turn(
            {"ours": partial(ours.encode, texts[part]), rival: partial(theirs, joined[part])},
            number,
            seconds,
        )
        difference = max(difference, float(np.abs(given["ours"] - given[rival]).max()))

    tokens = int(ours.count_tokens(texts).sum())
    times = sum(seconds[rival]) / sum(seconds["ours"])
    facts = machine(rival, "torch", "transformers", "adapters", "onnxruntime", "tokenizers")
    print(f"{ours.name}, {threads} threads; {in_words(facts)}")
    rows: list[dict[str, Any]] = []
    for name, taken in seconds.items():
        total = sum(taken)
        rows.append(
            {
                "what": name,
                "seconds": total,
                "texts/s": len(texts) / total,
                "tokens/s": tokens / total,
            }
        )
    print(table(rows))
    print(
        f"ours: {times:.2f} times {rival} {facts['versions'][rival]} (target {TARGETS[rival]}); "
        f"vectors differ by at most {difference:.2g} (target {DIFFERENCE})"
    )
    write_json(
        arguments.json,
        {
            "benchmark": f"rivals {rival}",
            "model": ours.name,
            "texts": len(texts),
            "tokens": tokens,
            "threads": threads,
            "results": rows,
            "times": times,
            "target": TARGETS[rival],
            "max_difference": difference,
            "max_difference_target": DIFFERENCE,
            "seconds": seconds,
            "machine": facts,
        },
    )


if __name__ == "__main__":
    main()
