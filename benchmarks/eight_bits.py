"""A model folder's graph with weights in 8 bits: candidates for a faster path on the CPU."""

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from hindsight_models.card import GRAPH_FILE

BLOCK = 32  # weights that share a scale
_ZERO = 128  # what MatMulNBits takes for 0 where no zero points are given
_INT8_ACTIVATIONS = 4  # MatMulNBits' accuracy_level at which it multiplies int8 by int8


def dynamic_int8(folder: Path, *, reduce_range: bool) -> bytes:
    """onnxruntime's own dynamic quantisation of the linear layers, a scale for each output.

    `reduce_range` leaves 7 bits, for processors whose products of bytes overflow (no VNNI).
    """
    quantization: Any = import_module("onnxruntime.quantization")
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "int8.onnx"
        quantization.quantize_dynamic(
            _with_matmuls(_load(folder)),
            out,
            op_types_to_quantize=["MatMul"],
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
            reduce_range=reduce_range,
        )
        return out.read_bytes()


def blocks_of_8_bits(folder: Path) -> bytes:
    """Every linear layer as MatMulNBits: blocks of 8-bit weights, each with a scale."""
    model = _load(folder)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    weights = {each.name: each for each in model.graph.initializer}
    for node in _linear(model):
        x, name, bias = node.input
        matrix = numpy_helper.to_array(weights[name])
        quantised, scales = _in_blocks(matrix)
        for suffix, array in (("8bit", quantised), ("scales", scales)):
            model.graph.initializer.append(numpy_helper.from_array(array, f"{name}.{suffix}"))
        model.graph.initializer.remove(weights[name])
        replacement = helper.make_node(
            "MatMulNBits",
            [x, f"{name}.8bit", f"{name}.scales", "", "", bias],
            node.output,
            domain="com.microsoft",
            K=matrix.shape[1],
            N=matrix.shape[0],
            bits=8,
            block_size=BLOCK,
            accuracy_level=_INT8_ACTIVATIONS,
        )
        node.CopyFrom(replacement)
    serialised: bytes = model.SerializeToString()
    return serialised


def _load(folder: Path) -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.ModelProto.FromString((folder / GRAPH_FILE).read_bytes())
    onnx.load_external_data_for_model(model, str(folder))
    return model


def _linear(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type == "Gemm"]


def _with_matmuls(model: onnx.ModelProto) -> onnx.ModelProto:
    """x W^T + b as MatMul and Add, which is what the quantiser knows."""
    weights = {each.name: each for each in model.graph.initializer}
    for node in _linear(model):
        x, name, bias = node.input
        turned = np.ascontiguousarray(numpy_helper.to_array(weights[name]).T)
        weights[name].CopyFrom(numpy_helper.from_array(turned, name))
        product = f"{node.output[0]}_product"
        at = [*model.graph.node].index(node)
        model.graph.node.insert(at, helper.make_node("MatMul", [x, name], [product]))
        node.CopyFrom(helper.make_node("Add", [product, bias], node.output))
    return model


def _in_blocks(
    matrix: NDArray[np.float32],
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """(out, into) weights as uint8 of shape (out, blocks, BLOCK), and scales (out, blocks)."""
    out, into = matrix.shape
    count = -(-into // BLOCK)
    blocks = np.zeros((out, count * BLOCK), np.float32)
    blocks[:, :into] = matrix
    blocks = blocks.reshape(out, count, BLOCK)
    scales = np.abs(blocks).max(axis=2) / np.float32(_ZERO - 1)
    safe = np.where(scales > 0, scales, np.float32(1))
    quantised = np.rint(blocks / safe[:, :, None]) + _ZERO
    return quantised.astype(np.uint8), scales
