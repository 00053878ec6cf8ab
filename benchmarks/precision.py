"""Speed and error of every precision and engine that could encode on this processor.

    python -m benchmarks.precision [--texts 96] [--json out.json]

Speed: random weights at SPECTER2's exact shape, real abstracts, in blocks, each candidate in turn.
Error: real MiniLM weights (`hindsight-fast models get minilm`), vectors of real abstracts against
this project's float32: cosines, the largest change of a similarity between two texts, and the
share of each text's 10 nearest others that stay. Every candidate gets texts, tokenised within its
time, and batches of equal length, so that none pads; int8 whose scales depend on a whole batch
gets one text a run. What this processor can't do is said instead of a number.
"""

import argparse
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.bare import bare_session
from benchmarks.eight_bits import blocks_of_8_bits, dynamic_int8
from benchmarks.foreign import torch_bert
from benchmarks.measure import in_turn, in_words, machine, processor_flags, table, write_json
from benchmarks.shape import Texts, real_texts, specter2_shape
from hindsight_fast import load_encoder
from hindsight_fast.agreement import compare
from hindsight_fast.errors import EncoderError
from hindsight_fast.model_folders import models_home
from hindsight_models import Card
from hindsight_models.batches import CPU_TOKENS, Batch, fill, plan_cpu
from hindsight_models.card import GRAPH_FILE, TOKENIZER_FILE
from hindsight_models.tokenizing import Tokenizer

BASE = "ours, float32"
TARGET_SPEED, TARGET_ERROR = 1.6, 5e-4
NEAREST = 10

Vectors = NDArray[np.float32]
Encode = Callable[[Texts], Vectors]
Run = Callable[[NDArray[np.int32], NDArray[np.int32]], Vectors]


class CanNotError(Exception):
    """This processor or this installation has no such path; the message says why."""


class Batched:
    """A `run` of ready batches as a call from texts to vectors, several runs at a time."""

    def __init__(self, folder: Path, run: Run, runners: int, tokens: int = CPU_TOKENS) -> None:
        self.tokenizer = Tokenizer(folder / TOKENIZER_FILE, Card.read(folder))
        self.run, self.runners, self.tokens = run, runners, tokens

    def __call__(self, texts: Texts) -> Vectors:
        ids = [each.ids for each in self.tokenizer.many(texts)]
        batches = plan_cpu([len(i) for i in ids], self.tokens)

        def run(batch: Batch) -> Vectors:
            return self.run(*fill(batch, ids))

        with ThreadPoolExecutor(self.runners) as pool:
            given = list(pool.map(run, batches))
        vectors = np.empty((len(texts), given[0].shape[1]), np.float32)
        for batch, rows in zip(batches, given, strict=True):
            vectors[batch.members] = rows
        return vectors


def ours(precision: str, folder: Path, threads: int) -> Encode:
    """The product itself."""
    try:
        encoder = load_encoder(folder, device="cpu", precision=precision, threads=threads)
    except EncoderError as error:
        raise CanNotError(str(error)) from error
    return encoder.encode


def onnxruntime_graph(
    graph: Callable[[Path], bytes], tokens: int, folder: Path, threads: int
) -> Encode:
    session = bare_session(graph(folder), 1)

    def run(ids: NDArray[np.int32], mask: NDArray[np.int32]) -> Vectors:
        vectors: Vectors = session.run(None, {"ids": ids, "mask": mask})[0]
        return vectors

    return Batched(folder, run, threads, tokens)


def openvino(precision: str, folder: Path, threads: int) -> Encode:
    try:
        library: Any = import_module("openvino")
    except ImportError as error:
        raise CanNotError(str(error)) from error
    core = library.Core()
    if precision == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise CanNotError("OpenVINO finds no bfloat16 on this processor")
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": threads,
        "INFERENCE_PRECISION_HINT": precision,
    }
    compiled = core.compile_model(str(folder / GRAPH_FILE), "CPU", settings)

    def run(ids: NDArray[np.int32], mask: NDArray[np.int32]) -> Vectors:
        vectors: Vectors = compiled.create_infer_request().infer({"ids": ids, "mask": mask})[0]
        return vectors

    ones = np.ones((1, 2), np.int32)
    run(ones, ones)  # two threads that bring the first arrays at once would hang (2026.4.1)
    return Batched(folder, run, threads)


def torch(dtype: str, folder: Path, threads: int) -> Encode:
    """transformers' BertModel, its adapter by the adapters library; pooled here."""
    if dtype == "bfloat16" and not processor_flags() & {"avx512_bf16", "amx_bf16"}:
        raise CanNotError("this processor has no bfloat16; torch would imitate it")
    library: Any = import_module("torch")
    library.set_num_threads(threads)
    model = torch_bert(folder).to(getattr(library, dtype))
    first = Card.read(folder).pooling == "cls"

    def run(ids: NDArray[np.int32], mask: NDArray[np.int32]) -> Vectors:
        with library.inference_mode():  # it holds for the thread that it is entered in
            hidden = model(library.from_numpy(ids), library.from_numpy(mask)).last_hidden_state
            pooled = (hidden[:, 0] if first else hidden.mean(dim=1)).float()
            vectors: Vectors = library.nn.functional.normalize(pooled, dim=1).numpy()
        return vectors

    return Batched(folder, run, runners=1)


REDUCED = not processor_flags() & {"avx512_vnni", "avx_vnni", "amx_int8"}
CANDIDATES: dict[str, Callable[[Path, int], Encode]] = {
    BASE: partial(ours, "float32"),
    "ours, bfloat16": partial(ours, "bfloat16"),
    "ours, int8": partial(ours, "int8"),
    f"onnxruntime dynamic int8{', 7 bits' if REDUCED else ''}": partial(
        onnxruntime_graph, partial(dynamic_int8, reduce_range=REDUCED), 1
    ),
    "onnxruntime 8-bit blocks": partial(onnxruntime_graph, blocks_of_8_bits, CPU_TOKENS),
    "OpenVINO float32": partial(openvino, "f32"),
    "OpenVINO bfloat16": partial(openvino, "bf16"),
    "torch float32": partial(torch, "float32"),
    "torch bfloat16": partial(torch, "bfloat16"),
}


def opened(folder: Path, threads: int, refused: dict[str, str]) -> dict[str, Encode]:
    """The candidates that can be had on a model; why the others can't goes into `refused`."""
    encoders: dict[str, Encode] = {}
    for name, candidate in CANDIDATES.items():
        try:
            encoders[name] = candidate(folder, threads)
        except CanNotError as error:
            refused[name] = str(error)
    return encoders


def speeds(encoders: dict[str, Encode], texts: Texts, block: int) -> dict[str, list[float]]:
    """Seconds of each candidate on each block."""
    seconds: dict[str, list[float]] = {}
    for encode in encoders.values():
        encode(texts[:4])  # warm-up
    for number, at in enumerate(range(0, len(texts), block)):
        part = texts[at : at + block]
        in_turn({n: partial(e, part) for n, e in encoders.items()}, number, seconds)
    return seconds


def overlap(reference: Vectors, other: Vectors) -> float:
    """Share of each text's nearest others in float32 that are its nearest in the other, too."""
    nearest: list[NDArray[np.intp]] = []
    for vectors in (reference, other):
        similarities = vectors.astype(np.float64) @ vectors.T
        np.fill_diagonal(similarities, -np.inf)
        nearest.append(np.argsort(-similarities, axis=1)[:, :NEAREST])
    pairs = zip(*nearest, strict=True)
    return float(np.mean([len(np.intersect1d(a, b)) / NEAREST for a, b in pairs]))


def errors(folder: Path, threads: int, count: int) -> dict[str, dict[str, float | None]]:
    """What each candidate's vectors are off by, on real weights."""
    texts, theta = real_texts(count, seed=1), Card.read(folder).theta
    vectors = {n: encode(texts) for n, encode in opened(folder, threads, {}).items()}
    found: dict[str, dict[str, float | None]] = {}
    for name, other in vectors.items():
        unit = other / np.linalg.norm(other, axis=1, keepdims=True)
        agreement = compare(vectors[BASE], unit, theta)
        found[name] = {
            "1 - mean cosine": 1 - agreement.cosine_mean,
            "1 - min cosine": 1 - agreement.cosine_min,
            "similarity error": agreement.similarity_error,
            f"top-{NEAREST} overlap": overlap(vectors[BASE], unit),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=96)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--error-texts", type=int, default=220)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    logging.disable(logging.WARNING)  # advice of libraries to their users
    shape, real, threads = specter2_shape(), models_home() / "minilm", arguments.threads
    texts, refused = real_texts(arguments.texts), dict[str, str]()
    off = errors(real, threads, arguments.error_texts)
    encoders = opened(shape, threads, refused)
    seconds = speeds(encoders, texts, arguments.block)
    tokens = int(load_encoder(shape, device="cpu").count_tokens(texts).sum())

    rows: list[dict[str, Any]] = [
        {
            "what": name,
            "tokens/s": tokens / sum(seconds[name]) if name in seconds else None,
            "times float32": sum(seconds[BASE]) / sum(seconds[name]) if name in seconds else None,
            **off.get(name, dict.fromkeys(off[BASE])),
        }
        for name in CANDIDATES
    ]
    packages = ("onnxruntime", "openvino", "torch", "transformers", "adapters", "numpy")
    facts = machine(*packages)
    print(f"{shape.name}, error on {real.name}, {threads} threads; {in_words(facts)}")
    print(table(rows))
    for name, reason in refused.items():
        print(f"{name}: {reason}")
    print(f"wanted where there is bfloat16: {TARGET_SPEED} times float32, error < {TARGET_ERROR}")
    write_json(
        arguments.json,
        {
            "benchmark": "precision",
            "texts": len(texts),
            "tokens": tokens,
            "error_texts": arguments.error_texts,
            "threads": threads,
            "results": rows,
            "refused": refused,
            "target": {"times float32": TARGET_SPEED, "1 - mean cosine": TARGET_ERROR},
            "seconds": seconds,
            "machine": facts | {"flags": sorted(processor_flags())},
        },
    )


if __name__ == "__main__":
    main()
