"""The only file that knows onnxruntime."""

import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight_models.card import FUSED_FILE, GRAPH_FILE
from hindsight_models.errors import ModelError

_DEVICE = re.compile(r"auto|cpu|cuda(?::(\d{1,3}))?")
_CUDA = "CUDAExecutionProvider"
_FATAL, _WARNING = 4, 2  # onnxruntime's severities


class Session:
    """A model graph loaded on a device.

    Parameters
    ----------
    folder
        Model folder.
    device
        "cpu", "cuda", "cuda:1", or "auto": CUDA where it works, else the CPU.
    dim
        Columns that the graph must give.
    fused
        Take the graph with onnxruntime's own operators on the CPU too.

    Attributes
    ----------
    device
        What is really used: "cpu" or "cuda:N".

    Raises
    ------
    ModelError
        No onnxruntime, a graph that can't be loaded, or CUDA asked for and not to be had.
    """

    def __init__(self, folder: Path, device: str, dim: int, *, fused: bool = False) -> None:
        match = _DEVICE.fullmatch(device)
        if match is None:
            raise ModelError(f"device is {device!r}; expected auto, cpu, cuda or cuda:N")
        self._runtime, self._dim = _import(), dim
        self.device = "cpu"
        if device != "cpu":
            number = int(match[1] or 0)
            session = self._on_cuda(folder, number, required=device != "auto")
            if session is not None:
                self._session, self.device = session, f"cuda:{number}"
                return
        graph = folder / (FUSED_FILE if fused else GRAPH_FILE)
        self._session = self._open(graph, ["CPUExecutionProvider"])

    def run(self, ids: NDArray[np.int32], mask: NDArray[np.int32]) -> NDArray[np.float32]:
        """Vectors of a batch, float32 of shape (n, dim); callable from several threads at once."""
        return _run(self._session, ids, mask)

    def _on_cuda(self, folder: Path, number: int, *, required: bool) -> Any | None:
        """A session that really runs on CUDA; None where it can't, unless it is required."""
        try:
            return self._open_cuda(folder, number)
        except ModelError:
            if required:
                raise
            return None

    def _open_cuda(self, folder: Path, number: int) -> Any:
        if _CUDA not in self._runtime.get_available_providers():
            raise ModelError(
                "CUDA was asked for, but this onnxruntime is built for the CPU only; "
                "pip uninstall onnxruntime, then pip install 'hindsight-fast[gpu]'"
            )
        _preload(self._runtime)
        options = {"device_id": str(number), "arena_extend_strategy": "kSameAsRequested"}
        providers = [(_CUDA, options), "CPUExecutionProvider"]
        session = self._open(folder / FUSED_FILE, providers)
        # Only the session knows: without its libraries the provider silently becomes the CPU.
        if session.get_providers()[0] != _CUDA:
            raise ModelError(
                f"CUDA device {number} was asked for, but onnxruntime could not use it: the "
                "NVIDIA driver, CUDA or cuDNN is missing or of another major version; nvidia-smi "
                "shows the driver, and pip install 'hindsight-fast[gpu]' brings the libraries"
            )
        ones = np.ones((2, 8), np.int32)
        _run(session, ones, ones)  # a device that is listed may still not compute
        return session

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
            session = runtime.InferenceSession(str(graph), options, providers=providers)
        except Exception as error:  # see _run
            raise ModelError(f"{graph} can't be loaded by onnxruntime: {error}") from error
        finally:
            runtime.set_default_logger_severity(_WARNING)
        inputs = {each.name for each in session.get_inputs()}
        outputs = {each.name: each.shape[-1] for each in session.get_outputs()}
        if inputs != {"ids", "mask"} or outputs != {"vectors": self._dim}:
            raise ModelError(
                f"{graph} takes {sorted(inputs)} and gives {outputs}; expected ids, mask, "
                f"and vectors with {self._dim} columns"
            )
        return session


def engine_facts() -> str:
    """The version of onnxruntime, and the devices that it was built for.

    Raises
    ------
    ModelError
        It is not installed.
    """
    runtime = _import()
    built = [p.removesuffix("ExecutionProvider") for p in runtime.get_available_providers()]
    return f"onnxruntime {runtime.__version__}, built for {', '.join(built)}"


def _run(session: Any, ids: NDArray[np.int32], mask: NDArray[np.int32]) -> NDArray[np.float32]:
    try:
        vectors: NDArray[np.float32] = session.run(["vectors"], {"ids": ids, "mask": mask})[0]
    except Exception as error:  # onnxruntime's own classes share no public root
        raise ModelError(f"the model failed on a batch of {ids.shape}: {error}") from error
    return vectors


def _preload(runtime: Any) -> None:
    """Load the CUDA libraries that pip installed, where there are any."""
    # It prints what it doesn't find; the session tells that better.
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        if hasattr(runtime, "preload_dlls"):
            runtime.preload_dlls()


def _import() -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise ModelError(
            "onnxruntime is not installed; pip install 'hindsight-fast[cpu]', or with an NVIDIA "
            f"GPU 'hindsight-fast[gpu]' ({error})"
        ) from error
    return onnxruntime
