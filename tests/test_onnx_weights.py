"""Weights out of graphs that onnxruntime quantised: a small one made here, by its own tool."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hindsight_models import KNOWN, ModelError, verify
from hindsight_models.reading.onnx_weights import widen
from make_golden import golden_vectors
from reference import load_tensors
from tiny_model import model_folder

Tensors = dict[str, NDArray[np.float32]]


def weights(rng: np.random.Generator) -> Tensors:
    shapes = {
        "embeddings.word_embeddings.weight": (50, 8),
        "embeddings.LayerNorm.weight": (8,),
        "embeddings.LayerNorm.bias": (8,),
        "encoder.layer.0.intermediate.dense.weight": (16, 8),
        "encoder.layer.0.intermediate.dense.bias": (16,),
        "encoder.layer.0.output.dense.weight": (8, 16),
        "encoder.layer.0.output.dense.bias": (8,),
    }
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def exported(tensors: Tensors, path: Path) -> None:
    """A graph as torch's exporter writes it: linear weights transposed, under numbers."""
    nodes: list[onnx.NodeProto] = []
    stored: Tensors = {}

    def op(kind: str, *inputs: str) -> str:
        nodes.append(helper.make_node(kind, inputs, [f"out_{len(nodes)}"], f"node_{len(nodes)}"))
        return str(nodes[-1].output[0])

    x = "ids"
    for name, value in tensors.items():
        prefix, _, kind = name.rpartition(".")
        if value.ndim == 1:
            stored[name] = value
            x = op("Mul" if kind == "weight" else "Add", name if kind == "bias" else x, x)
            if kind == "weight":
                nodes[-1].input[1] = name
            else:
                nodes[-1].input[0] = name
        elif "embeddings" in prefix:
            stored[name] = value
            x = op("Gather", name, "ids")
        else:
            stored[f"onnx::MatMul_{len(nodes)}"] = np.ascontiguousarray(value.T)
            x = op("MatMul", x, f"onnx::MatMul_{len(nodes)}")
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", "length"])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["n", "length", 8])],
        [numpy_helper.from_array(value, name) for name, value in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
def test_weights_come_back_to_half_a_step(tmp_path: Path, per_channel: bool, kind: str) -> None:
    before = weights(np.random.default_rng(0))
    exported(before, tmp_path / "float.onnx")
    tool: Any = importlib.import_module("onnxruntime.quantization")
    tool.quantize_dynamic(
        tmp_path / "float.onnx",
        tmp_path / "int8.onnx",
        per_channel=per_channel,
        weight_type=tool.QuantType[kind],
    )
    graph = onnx.load_model_from_string((tmp_path / "int8.onnx").read_bytes()).graph
    kinds = {node.op_type for node in graph.node}
    assert "MatMulInteger" in kinds
    widen(tmp_path / "int8.onnx", tmp_path / "model.safetensors")
    after = load_tensors(tmp_path / "model.safetensors")
    assert after.keys() == before.keys()
    for name, value in before.items():
        assert after[name].dtype == np.float32 and after[name].shape == value.shape
        step = 2 * np.abs(value).max() / 254 if value.ndim == 2 else 0.0
        assert np.abs(after[name] - value).max() <= 0.51 * step


def test_what_is_no_such_graph_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\x08\x07garbage")
    with pytest.raises(ModelError, match=r"model\.onnx is not an ONNX file"):
        widen(tmp_path / "model.onnx", tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=r"missing\.onnx can't be read"):
        widen(tmp_path / "missing.onnx", tmp_path / "model.safetensors")


def test_bge_small_is_whole_here() -> None:
    proof = verify(model_folder("bge-small"))
    assert proof.card.golden == KNOWN["bge-small"].golden
    assert proof.worst_cosine is not None and proof.worst_cosine > 0.999999


@pytest.mark.slow
def test_bge_smalls_golden_vectors_are_the_twins() -> None:
    folder = model_folder("bge-small")
    computed = golden_vectors("bge-small", folder)
    for shipped, again in zip(KNOWN["bge-small"].golden, computed, strict=True):
        assert (shipped.head, shipped.body) == (again.head, again.body)
        assert np.abs(np.array(shipped.vector) - np.array(again.vector)).max() < 1e-6
