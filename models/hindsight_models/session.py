"""The only file that knows onnxruntime: sessions on the CPU and on CUDA."""

import re
import threading
from collections import defaultdict
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight_models import cuda
from hindsight_models.card import FUSED_FILE, GRAPH_FILE, HALF_FILE, Card
from hindsight_models.errors import ModelError, OutOfMemoryError

Ids = NDArray[np.int32]
Vectors = NDArray[np.float32]
Shape = tuple[int, int]

_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
_FATAL, _WARNING = 4, 2  # onnxruntime's severities
_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
# What onnxruntime's arena, CUDA, cuBLAS and cuDNN say, each in its own words.
_OUT_OF_MEMORY = re.compile(
    r"Failed to allocate memory|smaller than requested bytes|CUDA failure 2\b|out of memory"
    r"|cudaErrorMemoryAllocation|STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)
_SAME = {"float32": 1e-4, "float16": 2e-3}  # between numbers that the same kernels gave twice
_NEAR = {"float32": 1e-3, "float16": 5e-2}  # between unit vectors of a GPU and the CPU


class CpuSession:
    """A graph on the CPU.

    Parameters
    ----------
    graph
        A graph file, or a graph whose weights lie in `folder`.
    folder
        Model folder.
    card
        The folder's card.
    precision
        What the graph computes with.

    Raises
    ------
    ModelError
        No onnxruntime, or a graph that can't be loaded.
    """

    device = "cpu"

    def __init__(self, graph: Path | bytes, folder: Path, card: Card, precision: str) -> None:
        self.precision = precision
        self._session = _open(_import(), graph, [_CPU], folder)
        _check_encoder(self._session, graph, card.dim)

    def run(self, ids: Ids, mask: Ids) -> Vectors:
        """Vectors of a batch, float32 of shape (n, dim); callable from several threads at once."""
        return _run(self._session, ids, mask)


class CudaSession:
    """A graph on one GPU.

    Each shape gets buffers on the device, bound once; a new binding's first result is compared
    with a run without any. Several threads may call: while one computes, others fill and copy.

    Parameters
    ----------
    folder, card
        Model folder and its card.
    number
        Of the GPU among those that the process may use.
    precision
        "float32" (without TF32) or "float16".
    gpu_mem
        Bytes that the engine may take; None: all.
    bound
        Bind buffers; else plain runs.

    Raises
    ------
    ModelError
        CUDA can't be used, with what is missing; or it computes other vectors than the CPU.
    """

    def __init__(
        self,
        folder: Path,
        card: Card,
        number: int,
        precision: str,
        gpu_mem: int | None = None,
        *,
        bound: bool = True,
    ) -> None:
        self.device, self.precision = f"cuda:{number}", precision
        self._number, self._dim, self._bound = number, card.dim, bound
        self._runtime = _usable_runtime()
        graph = folder / (HALF_FILE if precision == "float16" else FUSED_FILE)
        self._session = _open_on_gpu(self._runtime, graph, number, gpu_mem, folder)
        _check_encoder(self._session, graph, card.dim)
        self._computing = threading.Lock()
        self._free: defaultdict[Shape, list[_Buffers]] = defaultdict(list)
        self._prove(CpuSession(folder / GRAPH_FILE, folder, card, "float32"))

    def run(self, ids: Ids, mask: Ids) -> Vectors:
        """Vectors of a batch, float32 of shape (n, dim); callable from several threads at once.

        Raises
        ------
        OutOfMemoryError
            The GPU's memory, or what is allowed of it, can't hold the batch.
        ModelError
            Anything else.
        """
        if not self._bound:
            with self._computing:
                return _run(self._session, ids, mask)
        shape = (ids.shape[0], ids.shape[1])
        try:
            buffers = self._free[shape].pop()
        except IndexError:
            return self._run_first(ids, mask)
        return self._run_bound(buffers, ids, mask)

    def _run_first(self, ids: Ids, mask: Ids) -> Vectors:
        try:
            buffers = _Buffers(self._runtime, self._session, ids.shape, self._dim, self._number)
        except Exception as error:  # see _run
            raise _failure(error, f"the model failed on a batch of {ids.shape}") from error
        vectors = self._run_bound(buffers, ids, mask)
        with self._computing:
            expected = _run(self._session, ids, mask)
        if not np.allclose(vectors, expected, rtol=0, atol=_SAME[self.precision], equal_nan=True):
            raise ModelError(
                f"bound buffers gave other vectors than a plain run on {self.device}; "
                "--device cpu computes without them"
            )
        return vectors

    def _run_bound(self, buffers: "_Buffers", ids: Ids, mask: Ids) -> Vectors:
        try:
            buffers.fill(ids, mask)
            with self._computing:
                self._session.run_with_iobinding(buffers.binding)
            vectors = buffers.vectors()
        except Exception as error:  # see _run
            raise _failure(error, f"the model failed on a batch of {ids.shape}") from error
        self._free[ids.shape[0], ids.shape[1]].append(buffers)
        return vectors

    def _prove(self, reference: CpuSession) -> None:
        """A device that is listed may still not compute, or wrongly: try it beside the CPU."""
        ids = np.arange(4 * 32, dtype=np.int32).reshape(4, 32) % 16
        mask = (np.arange(32) < np.array([[32], [17], [5], [2]])).astype(np.int32)
        expected, found = reference.run(ids, mask), self.run(ids, mask)
        apart = float(np.linalg.norm(found - expected, axis=1).max())
        if not apart < _NEAR[self.precision]:  # NaN is not
            raise ModelError(
                f"{self.device} computes other vectors than the CPU in {self.precision}, "
                f"{apart:.2g} apart; use --precision float32 or --device cpu"
            )


class _Buffers:
    """Inputs and output of one shape on a device, and their binding; all live together."""

    def __init__(
        self, runtime: Any, session: Any, shape: tuple[int, ...], dim: int, number: int
    ) -> None:
        def on_device(sizes: tuple[int, ...], dtype: type) -> Any:
            make = runtime.OrtValue.ortvalue_from_shape_and_type
            return make(list(sizes), dtype, "cuda", number)

        self._ids, self._mask = on_device(shape, np.int32), on_device(shape, np.int32)
        self._vectors = on_device((shape[0], dim), np.float32)
        self.binding = session.io_binding()
        self.binding.bind_ortvalue_input("ids", self._ids)
        self.binding.bind_ortvalue_input("mask", self._mask)
        self.binding.bind_ortvalue_output("vectors", self._vectors)

    def fill(self, ids: Ids, mask: Ids) -> None:
        """Copy a batch to the device, and wait until it is there."""
        self._ids.update_inplace(np.ascontiguousarray(ids))
        self._mask.update_inplace(np.ascontiguousarray(mask))
        self.binding.synchronize_inputs()

    def vectors(self) -> Vectors:
        """The result, in memory of its own."""
        self.binding.synchronize_outputs()
        return np.array(self._vectors.numpy(), np.float32)


class ArraySession:
    """A small graph between arrays, some of which stay on the device from run to run.

    Parameters
    ----------
    graph
        An ONNX model.
    number
        Of the GPU among those that the process may use; None: the CPU.
    gpu_mem
        Bytes that runs may take beside the arrays that were placed; None: all.

    Raises
    ------
    ModelError
        No onnxruntime, a graph that it can't load, or CUDA can't be used, with what is missing.
    """

    def __init__(self, graph: bytes, number: int | None, gpu_mem: int | None = None) -> None:
        self._number = number
        if number is None:
            self._runtime = _import()
            self._session = _open(self._runtime, graph, [_CPU])
        else:
            self._runtime = _usable_runtime()
            self._session = _open_on_gpu(self._runtime, graph, number, gpu_mem)
        self._outputs = [each.name for each in self._session.get_outputs()]

    def place(self, array: NDArray[Any]) -> Any:
        """An array on the device, to run with; on the CPU it is the array itself, not a copy.

        Raises
        ------
        OutOfMemoryError
            It does not fit there.
        ModelError
            Anything else.
        """
        device = ("cpu", 0) if self._number is None else ("cuda", self._number)
        try:
            return self._runtime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), *device)
        except Exception as error:  # see _run
            raise _failure(error, f"an array of {array.shape} could not be placed") from error

    def run(self, placed: dict[str, Any], given: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Outputs in the graph's order, of inputs that were placed and inputs that are given now.

        Raises
        ------
        OutOfMemoryError
            The device's memory, or what is allowed of it, can't hold the results.
        ModelError
            Anything else.
        """
        shapes = {name: array.shape for name, array in given.items()}
        try:
            if not placed and self._number is None:  # without a copy of what comes out
                plain: list[NDArray[Any]] = self._session.run(None, given)
                return plain
            binding = self._session.io_binding()
            for name, value in placed.items():
                binding.bind_ortvalue_input(name, value)
            for name, array in given.items():
                binding.bind_cpu_input(name, array)
            for name in self._outputs:
                binding.bind_output(name)
            binding.synchronize_inputs()
            self._session.run_with_iobinding(binding)
            outputs: list[NDArray[Any]] = binding.copy_outputs_to_cpu()
        except Exception as error:  # see _run
            raise _failure(error, f"the graph failed on {shapes}") from error
        return outputs


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


def check_cuda() -> int:
    """Number of GPUs that onnxruntime should be able to use; only a session really knows.

    Raises
    ------
    ModelError
        There is none, with what is missing.
    """
    count = cuda.device_count()
    missing = cuda.missing_library(cuda.major_of(_usable_runtime()))
    if missing is not None:
        raise ModelError(cuda.how_to_install(missing))
    return count


def _usable_runtime() -> Any:
    runtime = _import()
    if _CUDA not in runtime.get_available_providers():
        raise ModelError(
            "this onnxruntime is built for the CPU only; "
            "pip uninstall onnxruntime, then pip install 'hindsight-fast[gpu]'"
        )
    # Loads what pip installed; it prints what it doesn't find, and we tell that better.
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        runtime.preload_dlls()
    return runtime


def _open_on_gpu(
    runtime: Any, graph: Path | bytes, number: int, gpu_mem: int | None, folder: Path | None = None
) -> Any:
    options = {
        "device_id": str(number),
        "arena_extend_strategy": "kSameAsRequested",
        "use_tf32": "0",  # float32 that is asked for has 24 bits, not 11
        # Without it, sums of layer normalisation over a row are kept in float16.
        "enable_skip_layer_norm_strict_mode": "1",
    }
    if gpu_mem is not None:
        options["gpu_mem_limit"] = str(gpu_mem)
    session = _open(runtime, graph, [(_CUDA, options), _CPU], folder)
    # Only the session knows: without its libraries the provider silently becomes the CPU.
    if session.get_providers()[0] != _CUDA:
        raise ModelError(f"onnxruntime could not use GPU {number}: {cuda.why_not_used(runtime)}")
    return session


def _open(
    runtime: Any, graph: Path | bytes, providers: list[Any], folder: Path | None = None
) -> Any:
    options = runtime.SessionOptions()
    # One thread a run: several runs go at once, which is faster than one run on several
    # threads, and no result depends on the number of threads.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # it remembers every shape, and shapes are many
    options.log_severity_level = _FATAL
    source = str(graph) if isinstance(graph, Path) else graph
    if folder is not None:
        options.add_session_config_entry(_WEIGHTS_FOLDER, str(folder))
    runtime.set_default_logger_severity(_FATAL)
    try:
        # What fails is told, and not tried again on the CPU with words on stdout.
        return runtime.InferenceSession(source, options, providers=providers, enable_fallback=0)
    except Exception as error:  # see _run
        raise ModelError(f"{_named(graph)} can't be loaded by onnxruntime: {error}") from error
    finally:
        runtime.set_default_logger_severity(_WARNING)


def _named(graph: Path | bytes) -> str:
    return str(graph) if isinstance(graph, Path) else "its graph"


def _check_encoder(session: Any, graph: Path | bytes, dim: int) -> None:
    inputs = {each.name for each in session.get_inputs()}
    outputs = {each.name: each.shape[-1] for each in session.get_outputs()}
    if inputs != {"ids", "mask"} or outputs != {"vectors": dim}:
        raise ModelError(
            f"{_named(graph)} takes {sorted(inputs)} and gives {outputs}; expected ids, mask, "
            f"and vectors with {dim} columns"
        )


def _run(session: Any, ids: Ids, mask: Ids) -> Vectors:
    try:
        vectors: Vectors = session.run(["vectors"], {"ids": ids, "mask": mask})[0]
    except Exception as error:  # onnxruntime's own classes share no public root
        raise _failure(error, f"the model failed on a batch of {ids.shape}") from error
    return vectors


def _failure(error: Exception, what: str) -> ModelError:
    kind = OutOfMemoryError if _OUT_OF_MEMORY.search(str(error)) else ModelError
    return kind(f"{what}: {error}")


def _import() -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise ModelError(
            "onnxruntime is not installed; pip install 'hindsight-fast[cpu]', or with an NVIDIA "
            f"GPU 'hindsight-fast[gpu]' ({error})"
        ) from error
    return onnxruntime
