"""The only file that knows OpenVINO: bfloat16 on processors that have it.

It computes the standard graph, with products of bfloat16 numbers (8 bits of precision) summed in
float32. Vectors are divided by their length again here, in float64: the graph's own division may
run in bfloat16 and leave lengths that are off by 1/256.
"""

import importlib
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight_models.card import GRAPH_FILE, Card
from hindsight_models.errors import ModelError

_LENGTH_TOLERANCE = 0.02  # of the graph's own division; beyond it, something overflowed


class OpenvinoSession:
    """The standard graph on the CPU, in bfloat16.

    Parameters
    ----------
    folder, card
        Model folder and its card.
    threads
        Batches computed at once, each on one thread.
    hint
        OpenVINO's name of the precision.

    Raises
    ------
    ModelError
        No OpenVINO, a processor without that precision, or a graph that can't be loaded.
    """

    device, precision = "cpu", "bfloat16"

    def __init__(self, folder: Path, card: Card, threads: int, *, hint: str = "bf16") -> None:
        openvino = _import()
        core = openvino.Core()
        reason = _why_not(core, hint)
        if reason is not None:
            raise ModelError(reason)
        settings = {
            "INFERENCE_PRECISION_HINT": hint,
            "NUM_STREAMS": threads,
            "INFERENCE_NUM_THREADS": threads,
        }
        graph = folder / GRAPH_FILE
        try:
            compiled = core.compile_model(core.read_model(graph), "CPU", settings)
        except RuntimeError as error:
            raise ModelError(f"{graph} can't be loaded by OpenVINO: {error}") from error
        self._dim = card.dim
        self._idle: SimpleQueue[Any] = SimpleQueue()
        for _ in range(threads):
            self._idle.put(compiled.create_infer_request())
        # One run first: two threads that bring the first arrays at once wait for each other
        # forever, and hold the interpreter's lock (seen in the binding of 2026.4.1).
        ones = np.ones((1, 2), np.int32)
        self.run(ones, ones)

    def run(self, ids: NDArray[np.int32], mask: NDArray[np.int32]) -> NDArray[np.float32]:
        """Vectors of a batch, float32 of shape (n, dim); callable from several threads at once.

        Raises
        ------
        ModelError
            The graph failed.
        """
        request = self._idle.get()
        try:
            request.infer({"ids": ids, "mask": mask}, share_inputs=True)
            found = np.array(request.get_output_tensor(0).data, np.float64)
        except RuntimeError as error:
            raise ModelError(f"OpenVINO failed on a batch of {ids.shape}: {error}") from error
        finally:
            self._idle.put(request)
        if found.shape != (len(ids), self._dim):
            raise ModelError(
                f"OpenVINO gave vectors of shape {found.shape}; expected {(len(ids), self._dim)}"
            )
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        near = np.abs(lengths - 1.0) < _LENGTH_TOLERANCE
        return (found / np.where(near, lengths, 1.0)).astype(np.float32)


def openvino_facts() -> str:
    """The version of OpenVINO, and that this processor has bfloat16.

    Raises
    ------
    ModelError
        It is not installed, or the processor has no bfloat16.
    """
    openvino = _import()
    reason = _why_not(openvino.Core(), "bf16")
    if reason is not None:
        raise ModelError(reason)
    return f"OpenVINO {openvino.__version__}"


def _why_not(core: Any, hint: str) -> str | None:
    if hint != "bf16" or "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        return None
    name = str(core.get_property("CPU", "FULL_DEVICE_NAME")).strip()
    return (
        f"this processor ({name}) computes no bfloat16: that takes the AVX512_BF16 or AMX_BF16 "
        "instructions; take float32"
    )


def _import() -> Any:
    try:
        return importlib.import_module("openvino")
    except ImportError as error:
        raise ModelError(
            f"bfloat16 needs OpenVINO; pip install 'hindsight-fast[openvino]' ({error})"
        ) from error
