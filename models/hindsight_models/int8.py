"""The standard graph with its linear layers in 8 bits, derived in memory from the float32 weights.

A weight matrix is rounded to 255 steps for each of its outputs, the input of a layer for each of
its rows, while it runs::

    x[i, k] ~ s[i] q[i, k]      s[i] = max |x[i, :]| / 127       q in -127 .. 127
    W[j, k] ~ t[j] p[j, k]      t[j] = max |W[j, :]| / 127       p in -127 .. 127
    y[i, j] = s[i] t[j] sum_k q[i, k] p[j, k] + b[j]

The sums are whole numbers and exact, and each row has its own scale, so that a text's vector
depends neither on its neighbours nor on the processor. Dynamic quantisation as commonly done takes
one scale for all rows: one large number anywhere costs the precision of every text.

Queries, keys and values are a quarter of the work and stay in float32: rounded, they cost more
than all other layers together (all-MiniLM-L6-v2 on abstracts: a mean cosine error of 2e-3, and
7e-4 without).
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hindsight_models.card import GRAPH_FILE

_KEPT = ".attention.self."
_STEPS = 127
_ZERO = 128  # stored numbers are 1 .. 255 around it
_LEAST = 1e-30  # a scale, where a row is all zeros


def quantised_graph(folder: Path) -> bytes:
    """The graph of a model folder in 8 bits, serialised; what stays float32 is read from there."""
    model = onnx.ModelProto.FromString((folder / GRAPH_FILE).read_bytes())
    graph = model.graph
    stored = {each.name: each for each in graph.initializer}
    layers = _Layers(signed=has_vnni())
    for node in graph.node:
        if node.op_type == "Gemm" and _KEPT not in node.input[1]:
            x, weight, bias = node.input
            layers.dense(x, weight, _numbers(folder, stored[weight]), bias, node.output[0])
        else:
            layers.nodes.append(node)
    used = {name for node in layers.nodes for name in node.input}
    kept = [each for each in graph.initializer if each.name in used]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(layers.nodes)
    graph.initializer.extend([*kept, *layers.initializers.values()])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    serialised: bytes = model.SerializeToString()
    return serialised


def quantised(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Whole numbers p of the shape of a weight (out, in), and scales t of shape (out,)."""
    scales = np.maximum(np.abs(weight).max(axis=1), _LEAST) / _STEPS
    return np.rint(weight / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def has_vnni() -> bool:
    """Whether the processor multiplies unsigned by signed bytes without saturating.

    Others saturate at 16 bits; there weights are stored unsigned, which is exact and slower.
    """
    try:
        words = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return False  # not Linux
    return bool(words & {"avx512_vnni", "avx_vnni"})


class _Layers:
    """Nodes of the new graph; the input of several layers is rounded once."""

    def __init__(self, *, signed: bool) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self._signed = signed
        self._rounded: dict[str, tuple[str, str]] = {}

    def dense(self, x: str, name: str, weight: NDArray[np.float32], bias: str, output: str) -> None:
        """Append x W^T + b in whole numbers."""
        whole, scales = quantised(weight)
        stored = whole if self._signed else (whole.astype(np.int16) + _ZERO).astype(np.uint8)
        zeros = np.full(len(scales), 0 if self._signed else _ZERO, stored.dtype)
        q, s = self._rows(x)
        product = self._op(
            "MatMulIntegerToFloat",
            q,
            self._constant(f"{name}.whole", np.ascontiguousarray(stored.T)),
            self._constant("one", np.array(1.0, np.float32)),
            self._constant(f"{name}.scales", scales),
            self._constant("zero_of_rows", np.array(_ZERO, np.uint8)),
            self._constant(f"{name}.zeros", zeros),
            domain="com.microsoft",
        )
        self._op("Add", self._op("Mul", product, s), bias, output=output)

    def _rows(self, x: str) -> tuple[str, str]:
        """Names of q, uint8 of the shape of x, and of s, float32 of shape (rows, 1)."""
        if x not in self._rounded:
            axis = self._constant("axis", np.array([1], np.int64))
            largest = self._op("ReduceMax", self._op("Abs", x), axis, keepdims=1)
            scale = self._op("Mul", largest, self._constant("step", np.float32(1 / _STEPS)))
            scale = self._op("Max", scale, self._constant("least", np.float32(_LEAST)))
            flat = self._op("Squeeze", scale, axis)
            zero = helper.make_tensor("zero", TensorProto.UINT8, [1], [_ZERO])
            zeros = self._op("ConstantOfShape", self._op("Shape", flat), value=zero)
            self._rounded[x] = self._op("QuantizeLinear", x, flat, zeros, axis=0), scale
        return self._rounded[x]

    def _op(self, kind: str, *inputs: str, output: str = "", domain: str = "", **more: Any) -> str:
        name = output or f"int8_{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, domain=domain, **more))
        return name

    def _constant(self, name: str, array: NDArray[np.generic] | np.float32) -> str:
        self.initializers.setdefault(name, numpy_helper.from_array(np.asarray(array), name))
        return name


def _numbers(folder: Path, tensor: onnx.TensorProto) -> NDArray[np.float32]:
    place = {entry.key: entry.value for entry in tensor.external_data}
    shape = tuple(tensor.dims)
    return np.fromfile(
        folder / place["location"], "<f4", int(np.prod(shape)), offset=int(place["offset"])
    ).reshape(shape)
