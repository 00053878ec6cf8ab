"""The graph against the float64 twin, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from hindsight_models import Card, ModelError, load
from hindsight_models.card import FUSED_FILE, GRAPH_FILE, HALF_FILE
from hindsight_models.export import Facts, export
from hindsight_models.session import CpuSession
from hindsight_models.weights import BertConfig, Checkpoint
from reference import bert_vector, load_tensors
from tiny_model import tiny_model, write_config


def computed(folder: Path, graph: str, ids: list[list[int]]) -> NDArray[np.float32]:
    """Vectors of texts of several lengths in one padded batch, by one of the graphs."""
    other = folder.parent / f"{folder.name}-{graph}"
    other.mkdir()
    for path in folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    filled = np.zeros((len(ids), max(map(len, ids))), np.int32)
    mask = np.zeros_like(filled)
    for row, tokens in enumerate(ids):
        filled[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    session = CpuSession(other / graph, other, Card.read(folder), "float32")
    return session.run(filled, mask)


@pytest.mark.parametrize("graph", [GRAPH_FILE, FUSED_FILE, HALF_FILE])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("adapter", [False, True])
@pytest.mark.parametrize("prefix", ["", "bert."])
def test_graph_computes_what_the_twin_does(
    tmp_path: Path, graph: str, pooling: str, adapter: bool, prefix: str
) -> None:
    folder = tiny_model(tmp_path / "m", pooling=pooling, adapter=adapter, prefix=prefix)
    ids = [[2, 3], [2, 40, 41, 42, 3], [2, *range(5, 60), 3]]
    weights = load_tensors(folder / "model.safetensors")
    bottleneck = load_tensors(folder / "adapter.safetensors") if adapter else None
    expected = [
        bert_vector(i, weights, layers=2, heads=4, pooling=pooling, adapter=bottleneck) for i in ids
    ]
    tolerance = 2e-3 if graph == HALF_FILE else 2e-6  # float16 has 11 bits
    assert np.abs(computed(folder, graph, ids) - np.array(expected)).max() < tolerance


def test_the_adapter_is_active(tmp_path: Path) -> None:
    pairs = [("graph", "neural data"), ("a model of language", "we learn")]
    without = load(tiny_model(tmp_path / "without"), device="cpu").encode(pairs)
    active = load(tiny_model(tmp_path / "with", adapter=True), device="cpu").encode(pairs)
    assert np.einsum("nd,nd->n", without, active).max() < 0.999


def test_the_standard_graph_is_standard_and_the_fused_one_is_fused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path, adapter=True)
    checker: Any = onnx.checker
    checker.check_model(str(folder / GRAPH_FILE), full_check=True)
    domains: dict[str, set[str]] = {}
    for name in (GRAPH_FILE, FUSED_FILE, HALF_FILE):
        model = onnx.ModelProto.FromString((folder / name).read_bytes())
        domains[name] = {node.domain for node in model.graph.node}
    assert domains == {
        GRAPH_FILE: {""},
        FUSED_FILE: {"", "com.microsoft"},
        HALF_FILE: {"", "com.microsoft"},
    }


def test_the_graphs_hold_no_weights(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path, dim=64)
    for name in (GRAPH_FILE, FUSED_FILE, HALF_FILE):
        assert (folder / name).stat().st_size < 25_000


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_act", "gelu_new"),
        ("model_type", "mpnet"),
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
        ("hidden_size", 0),
        ("num_hidden_layers", 2.5),
        ("num_attention_heads", 5),
        ("layer_norm_eps", "1e-12"),
        ("vocab_size", None),
    ],
)
def test_a_config_that_is_not_supported_is_refused_by_name(
    tmp_path: Path, key: str, value: object
) -> None:
    write_config(tmp_path / "config.json", 32, 2, **{key: value})
    with pytest.raises(ModelError, match=key):
        BertConfig.read(tmp_path / "config.json")


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "\xff"])
def test_a_config_that_is_no_json_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(ModelError, match="JSON"):
        BertConfig.read(tmp_path / "config.json")


@pytest.mark.parametrize("keep", [0, 4, 8, 100, -1])
def test_cut_weights_are_refused(tmp_path: Path, keep: int) -> None:
    path = tiny_model(tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelError, match=r"cut|not a safetensors"):
        dict(Checkpoint(path))


def test_weights_of_another_shape_type_or_name_are_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    facts = Facts("other", "mean", " ", 64, 0.5, "none", {})
    weights = load_tensors(folder / "model.safetensors")
    key = "encoder.layer.1.output.dense.weight"
    for change, message in (
        ({key: weights[key].T.copy()}, "has shape"),
        ({key: weights[key].astype(np.float16)}, "F16"),
    ):
        save_file(weights | change, folder / "model.safetensors")
        with pytest.raises(ModelError, match=message):
            export(folder, facts)
    save_file({k: v for k, v in weights.items() if k != key}, folder / "model.safetensors")
    with pytest.raises(ModelError, match=f"no tensor {key}"):
        export(folder, facts)


def test_more_tokens_than_positions_are_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    with pytest.raises(ModelError, match="positions"):
        export(folder, Facts("other", "mean", " ", 513, 0.5, "none", {}))


def test_exporting_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = tiny_model(tmp_path / "1"), tiny_model(tmp_path / "2")
    assert json.loads((one / "card.json").read_text()) == json.loads(
        (other / "card.json").read_text()
    )
    assert (one / GRAPH_FILE).read_bytes() == (other / GRAPH_FILE).read_bytes()


def test_a_graph_that_cannot_be_loaded_is_told_and_nothing_is_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_model(tmp_path / "tiny")
    graph = (folder / "model.onnx").read_bytes()
    odd = graph.replace(b"MatMul", b"Mat\xaaul")  # names in its complaint are no UTF-8
    assert odd != graph
    with pytest.raises(ModelError, match="can't be loaded"):
        CpuSession(odd, folder, Card.read(folder), "float32")
    assert capfd.readouterr().out == ""  # onnxruntime would try again, and say so on stdout
