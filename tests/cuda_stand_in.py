"""onnxruntime as it behaves with GPUs, on a machine that has none.

The real onnxruntime computes everything, on the CPU. What differs is only what it says and refuses:
it lists CUDA, places memory "on the device", and fails as the real one does where it is told to.
"""

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from hindsight_models import cuda, session

onnxruntime: Any = import_module("onnxruntime")  # untyped
CUDA = "CUDAExecutionProvider"
NO_MEMORY = (
    "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Gemm "
    "node. onnxruntime::BFCArena::AllocateRawInternal Failed to allocate memory for requested "
    "buffer of size 402653184"
)


class StandIn:
    """A stand-in for the module `onnxruntime`.

    Attributes
    ----------
    falls_back
        Sessions silently run on the CPU.
    refuses
        Sessions can't be made.
    max_tokens, says
        Tokens of a batch, padding included, above which memory runs out, and the words then.
    poison
        A token: texts with it get NaN from a graph in float16.
    stale
        A run with bound buffers gives what the buffers held before.
    shift
        Added to what CUDA computes.
    shapes
        (device, precision, rows, length) of every run on CUDA, in order.
    options
        Provider options of every session on CUDA.
    max_placed
        Bytes of arrays on the device above which memory runs out.
    max_products
        Products of a run between arrays above which it does.
    products
        Of every run between arrays, how many.
    tf32
        Products between arrays are of rounded numbers.
    """

    __file__ = onnxruntime.__file__
    __version__ = "0.0"
    cuda_version = "13.0"

    def __init__(self) -> None:
        self.falls_back = self.refuses = self.stale = False
        self.max_tokens = 1 << 60
        self.says = NO_MEMORY
        self.poison = -1
        self.shift = 0.0
        self.shapes: list[tuple[int, str, int, int]] = []
        self.options: list[dict[str, str]] = []
        self.OrtValue = _OrtValue
        self.max_placed = self.max_products = 1 << 60
        self.tf32 = False
        self.products: list[int] = []
        _OrtValue.world, _OrtValue.placed = self, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(onnxruntime, name)

    def get_available_providers(self) -> list[str]:
        return [CUDA, "CPUExecutionProvider"]

    def preload_dlls(self) -> None:
        print("Failed to load libcublasLt.so.13")  # the real one prints too

    def InferenceSession(
        self, graph: Any, options: Any, providers: list[Any], *, enable_fallback: int
    ) -> Any:
        assert not enable_fallback  # a GPU that fails must not become the CPU
        if isinstance(providers[0], str):
            return onnxruntime.InferenceSession(graph, options, providers=providers)
        if self.refuses:
            raise RuntimeError("CUDA failure 35: CUDA driver version is insufficient")
        if isinstance(graph, bytes):
            return _ArraySession(self, graph, options, providers)
        return _CudaSession(self, graph, options, providers)


class _OrtValue:
    """Memory of the CPU that says it is a GPU's."""

    world: StandIn
    placed = 0

    def __init__(self, inner: Any, device: str, size: int = 0) -> None:
        self.inner, self.device, self.size = inner, device, size

    def __del__(self) -> None:
        _OrtValue.placed -= self.size

    @classmethod
    def ortvalue_from_numpy(cls, array: np.ndarray[Any, Any], device: str, _id: int) -> "_OrtValue":
        if device == "cpu":
            return cls(onnxruntime.OrtValue.ortvalue_from_numpy(array), device)
        if cls.placed + array.nbytes > cls.world.max_placed:
            raise RuntimeError(NO_MEMORY)
        cls.placed += array.nbytes
        held = _rounded(array) if cls.world.tf32 else array.copy()
        return cls(onnxruntime.OrtValue.ortvalue_from_numpy(held), device, array.nbytes)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: list[int], dtype: Any, device: str, _number: int
    ) -> "_OrtValue":
        held = np.full(shape, 7, dtype)
        inner = onnxruntime.OrtValue.ortvalue_from_numpy(held)
        return cls(inner, device)

    def update_inplace(self, array: np.ndarray[Any, Any]) -> None:
        self.inner.update_inplace(array)

    def numpy(self) -> Any:
        return self.inner.numpy()


class _Binding:
    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.values: dict[str, _OrtValue] = {}
        self.synchronised = False

    def bind_ortvalue_input(self, name: str, value: _OrtValue) -> None:
        assert value.device == "cuda"
        self.values[name] = value
        self.inner.bind_ortvalue_input(name, value.inner)

    def bind_ortvalue_output(self, name: str, value: _OrtValue) -> None:
        self.values[name] = value
        self.inner.bind_ortvalue_output(name, value.inner)

    def synchronize_inputs(self) -> None:
        self.synchronised = True

    def synchronize_outputs(self) -> None:
        pass


class _CudaSession:
    def __init__(self, world: StandIn, graph: str, options: Any, providers: list[Any]) -> None:
        self._world, self._options = world, providers[0][1]
        world.options.append(self._options)
        self._half = "half" in graph
        self._inner = onnxruntime.InferenceSession(
            graph, options, providers=["CPUExecutionProvider"]
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get_providers(self) -> list[str]:
        used = [CUDA, "CPUExecutionProvider"]
        return used[1:] if self._world.falls_back else used

    def io_binding(self) -> _Binding:
        return _Binding(self._inner.io_binding())

    def run(self, outputs: list[str], feeds: dict[str, Any]) -> list[Any]:
        self._check(feeds["ids"])
        (vectors,) = self._inner.run(outputs, feeds)
        return [self._changed(vectors, feeds["ids"])]

    def run_with_iobinding(self, binding: _Binding) -> None:
        assert binding.synchronised, "the device may not have the inputs yet"
        binding.synchronised = False
        ids = binding.values["ids"].numpy()
        self._check(ids)
        if self._world.stale:
            return
        self._inner.run_with_iobinding(binding.inner)
        out = binding.values["vectors"]
        out.update_inplace(self._changed(out.numpy().copy(), ids))

    def _check(self, ids: np.ndarray[Any, Any]) -> None:
        rows, length = ids.shape
        precision = "float16" if self._half else "float32"
        self._world.shapes.append((int(self._options["device_id"]), precision, rows, length))
        if ids.size > self._world.max_tokens:
            raise RuntimeError(self._world.says)

    def _changed(self, vectors: np.ndarray[Any, Any], ids: np.ndarray[Any, Any]) -> Any:
        vectors += np.float32(self._world.shift)
        if self._half:
            vectors[(ids == self._world.poison).any(axis=1)] = np.nan
        return vectors


class _ArraySession:
    def __init__(self, world: StandIn, graph: bytes, options: Any, providers: list[Any]) -> None:
        self._world = world
        world.options.append(providers[0][1])
        self._inner = onnxruntime.InferenceSession(
            graph, options, providers=["CPUExecutionProvider"]
        )

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"] if self._world.falls_back else [CUDA]

    def get_outputs(self) -> Any:
        return self._inner.get_outputs()

    def io_binding(self) -> "_ArrayBinding":
        return _ArrayBinding(self._world)

    def run_with_iobinding(self, binding: "_ArrayBinding") -> None:
        assert binding.synchronised, "the device may not have the inputs yet"
        feeds = binding.feeds
        self._world.products.append(len(feeds["queries"]) * len(feeds["papers"]))
        if self._world.products[-1] > self._world.max_products:
            raise RuntimeError(self._world.says)
        binding.results = self._inner.run(binding.outputs, feeds)
        binding.results[0] += np.float32(self._world.shift)


class _ArrayBinding:
    def __init__(self, world: StandIn) -> None:
        self._world = world
        self.feeds: dict[str, Any] = {}
        self.outputs: list[str] = []
        self.results: list[Any] = []
        self.synchronised = False

    def bind_ortvalue_input(self, name: str, value: _OrtValue) -> None:
        assert value.device == "cuda"
        self.feeds[name] = value.inner.numpy()

    def bind_cpu_input(self, name: str, array: np.ndarray[Any, Any]) -> None:
        rounds = self._world.tf32 and array.dtype == np.float32
        self.feeds[name] = _rounded(array) if rounds else array

    def bind_output(self, name: str) -> None:
        self.outputs.append(name)

    def synchronize_inputs(self) -> None:
        self.synchronised = True

    def copy_outputs_to_cpu(self) -> list[Any]:
        return self.results


def _rounded(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers with the eleven bits that TF32 keeps."""
    bits = array.view(np.uint32) + np.uint32(1 << 12)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


def install(monkeypatch: pytest.MonkeyPatch, gpus: int = 1) -> StandIn:
    """Put the stand-in where onnxruntime is imported, with some GPUs and all libraries."""
    world = StandIn()

    def nothing_missing(_major: str) -> None: ...

    def free(_number: int) -> int:
        return 1 << 34

    monkeypatch.setattr(session, "_import", lambda: world)
    monkeypatch.setattr(cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(cuda, "missing_library", nothing_missing)
    monkeypatch.setattr(cuda, "free_memory", free)
    return world
