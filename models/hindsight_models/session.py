"""The only file that knows onnxruntime."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight_models.card import FUSED_FILE, GRAPH_FILE
from hindsight_models.errors import ModelError

_DEVICE = re.compile(r"auto|cpu|cuda(?::(\d{1,3}))?")
_FATAL, _WARNING = 4, 2  # onnxruntime's severities


class Session:
    """A model graph loaded on a device.

    Parameters
    ----------
    folder
        Model folder.
    device
        "cpu", "cuda", "cuda:1", or "auto": CUDA where it works, else the CPU.

    Attributes
    ----------
    device
        What is really used: "cpu" or "cuda:N".

    Raises
    ------
    ModelError
        No onnxruntime, a graph that can't be loaded, or CUDA asked for and not to be had.
    """

    def __init__(self, folder: Path, device: str) -> None:
        match = _DEVICE.fullmatch(device)
        if match is None:
            raise ModelError(f"device is {device!r}; expected auto, cpu, cuda or cuda:N")
        self._runtime = _import()
        self.device = "cpu"
        if device != "cpu":
            number = int(match[1] or 0)
            session = self._on_cuda(folder, number, required=device != "auto")
            if session is not None:
                self._session, self.device = session, f"cuda:{number}"
                return
        self._session = self._open(folder / GRAPH_FILE, ["CPUExecutionProvider"])

    def run(self, ids: NDArray[np.int32], mask: NDArray[np.int32]) -> NDArray[np.float32]:
        """Vectors of a batch, float32 of shape (n, dim); callable from several threads at once."""
        try:
            vectors: NDArray[np.float32] = self._session.run(
                ["vectors"], {"ids": ids, "mask": mask}
            )[0]
        except Exception as error:  # onnxruntime's own classes share no public root
            raise ModelError(f"the model failed on a batch of {ids.shape}: {error}") from error
        return vectors

    def _on_cuda(self, folder: Path, number: int, *, required: bool) -> Any | None:
        provider = "CUDAExecutionProvider"
        if provider not in self._runtime.get_available_providers():
            if required:
                raise ModelError(
                    "CUDA was asked for, but this onnxruntime is built for the CPU only; "
                    "pip uninstall onnxruntime, then pip install 'hindsight-fast[gpu]'"
                )
            return None
        options = {"device_id": str(number), "arena_extend_strategy": "kSameAsRequested"}
        try:
            session = self._open(folder / FUSED_FILE, [(provider, options), "CPUExecutionProvider"])
        except ModelError:
            if required:
                raise
            return None
        # Only the session knows: without its libraries the provider silently becomes the CPU.
        if session.get_providers()[0] == provider:
            return session
        if required:
            raise ModelError(
                f"CUDA device {number} was asked for, but onnxruntime could not use it: the "
                "NVIDIA driver, CUDA or cuDNN is missing or of another major version; "
                "nvidia-smi shows the driver, and pip install 'hindsight-fast[gpu]' brings "
                "the libraries"
            )
        return None

    def _open(self, graph: Path, providers: list[Any]) -> Any:
        runtime = self._runtime
        options = runtime.SessionOptions()
        # One thread a run: several runs go at once, which is faster than one run on several
        # threads, and no result depends on the number of threads.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.enable_mem_pattern = False  # it remembers every shape, and shapes are many
        options.log_severity_level = _FATAL
        runtime.set_default_logger_severity(_FATAL)
        try:
            return runtime.InferenceSession(str(graph), options, providers=providers)
        except Exception as error:  # see run
            raise ModelError(f"{graph} can't be loaded by onnxruntime: {error}") from error
        finally:
            runtime.set_default_logger_severity(_WARNING)


def _import() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelError(
            "onnxruntime is not installed; pip install 'hindsight-fast[cpu]', or with an NVIDIA "
            f"GPU 'hindsight-fast[gpu]' ({error})"
        ) from error
    return onnxruntime
