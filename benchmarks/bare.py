"""The bare onnxruntime session on ready arrays: what a pipeline around it can reach at most."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight_models.batches import Batch, fill, plan_cpu

PADDED_TOKENS = 4096  # a padded batch of the usual session

Ids = Sequence[NDArray[np.int32]]
Arrays = list[tuple[NDArray[np.int32], NDArray[np.int32]]]


def bare_session(graph: Path | bytes, threads: int) -> Any:
    """A session with its threads set, and nothing else but what helps it."""
    onnxruntime: Any = import_module("onnxruntime")  # untyped
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    model = graph if isinstance(graph, bytes) else str(graph)
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])


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
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    arrays: Arrays = []
    while order:
        longest = len(ids[order[0]])
        rows = max(1, PADDED_TOKENS // longest)
        part, order = order[:rows], order[rows:]
        arrays.append(fill(Batch(part, len(part), longest), ids))
    return arrays
