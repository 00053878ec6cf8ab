"""Exports against torch, transformers and the adapters library: `make test-export`.

No real weights are needed: random ones, saved by those libraries themselves in the layout that the
hub has, at the exact shape of SPECTER2. What is printed is the largest absolute difference.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from hindsight_models import ModelError, load, verify
from hindsight_models.card import FUSED_FILE, GRAPH_FILE, WEIGHTS_FILE
from hindsight_models.export import Facts, export, export_published
from hindsight_models.proof import TEXTS
from hindsight_models.reading.intake import take_adapter_folder, take_base
from hindsight_models.reading.torch_file import open_torch
from tiny_model import vocabulary, write_tokenizer

pytestmark = [pytest.mark.export, pytest.mark.filterwarnings("ignore")]

TOLERANCE = 1e-4
LENGTHS = (1, 2, 3, 17, 128, 511, 512)
FACTS = Facts("specter2", "cls", "[SEP]", 512, 0.96, "none", {}, adapter="proximity")
OLD_SETTINGS: dict[str, object] = {
    "adapter_residual_before_ln": False,
    "inv_adapter": None,
    "inv_adapter_reduction_factor": None,
    "leave_out": [],
    "ln_after": False,
    "ln_before": False,
    "mh_adapter": False,
    "non_linearity": "relu",
    "original_ln_after": True,
    "original_ln_before": True,
    "output_adapter": True,
    "reduction_factor": 16,
    "residual_before_ln": True,
}


class Libraries(NamedTuple):
    """What the exports are compared with; untyped."""

    torch: Any
    transformers: Any
    adapters: Any


class Specter2(NamedTuple):
    """A model of SPECTER2's shape: the library's, its published files, our folder of it."""

    model: Any
    base: Path
    adapter: Path
    folder: Path
    tokenizer: Any


@pytest.fixture(scope="module")
def libraries() -> Libraries:
    names = ("torch", "transformers", "adapters")
    return Libraries(*(pytest.importorskip(name) for name in names))


@pytest.fixture(scope="module")
def specter2(libraries: Libraries, tmp_path_factory: pytest.TempPathFactory) -> Specter2:
    torch, transformers, adapters = libraries
    place = tmp_path_factory.mktemp("specter2")
    base, adapter, folder = place / "base", place / "adapter", place / "model"
    base.mkdir()
    folder.mkdir()
    model = random_model(libraries, transformers.BertConfig(vocab_size=31_090))
    model.config.save_pretrained(base)
    torch.save(model.state_dict(), base / "pytorch_model.bin")
    write_vocabulary(base)
    adapters.init(model)
    model.add_adapter("[PRX]", config="seq_bn")
    model.set_active_adapters("[PRX]")
    randomise(torch, {k: v for k, v in model.named_parameters() if "adapters" in k})
    model.save_adapter(str(adapter), "[PRX]")
    export_published(base, folder, FACTS, adapter)
    tokenizer = transformers.BertTokenizerFast(str(base / "vocab.txt"), do_lower_case=True)
    return Specter2(model, base, adapter, folder, tokenizer)


@pytest.fixture(scope="module")
def expected(libraries: Libraries, specter2: Specter2) -> NDArray[np.float64]:
    """[CLS] rows of `random_ids` by torch and the adapters library."""
    return pooled_by_torch(libraries.torch, specter2.model, random_ids(31_090))


def random_model(libraries: Libraries, config: Any, seed: int = 0) -> Any:
    """A model whose every parameter matters: nothing is zero, one or nearly so."""
    torch, transformers, _ = libraries
    torch.manual_seed(seed)
    model = transformers.AutoModel.from_config(config, attn_implementation="eager").eval()
    randomise(torch, dict(model.named_parameters()))
    return model


def randomise(torch: Any, parameters: dict[str, Any]) -> None:
    """Matrices that keep the size of what they multiply; norms and biases that do something."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            deviation = 0.1 if parameter.ndim == 1 else parameter.shape[-1] ** -0.5
            parameter.normal_(0.0, deviation)
            if "norm" in name.lower() and name.endswith("weight"):
                parameter.add_(1.0)


def write_vocabulary(base: Path) -> None:
    """SciBERT's where it is at hand, else a small one; as published, with a lower-casing config."""
    shared = Path(os.environ.get("HINDSIGHT_SHARED", "../shared")) / "data/scivocab/vocab.txt"
    words = shared.read_text() if shared.is_file() else "\n".join(vocabulary())
    (base / "vocab.txt").write_text(words)
    (base / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))


def random_ids(vocabulary_size: int, lengths: Sequence[int] = LENGTHS) -> list[NDArray[np.int64]]:
    rng = np.random.default_rng(1)
    return [rng.integers(5, vocabulary_size, length) for length in lengths]


def padded(ids: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ids and mask of several texts as one batch; 1 is RoBERTa's padding, and anybody's."""
    filled = np.ones((len(ids), max(map(len, ids))), np.int64)
    mask = np.zeros_like(filled)
    for row, tokens in enumerate(ids):
        filled[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return filled, mask


def pooled_by_torch(
    torch: Any, model: Any, ids: Sequence[NDArray[np.int64]], pooling: str = "cls"
) -> NDArray[np.float64]:
    filled, mask = padded(ids)
    with torch.no_grad():
        found = model(input_ids=torch.tensor(filled), attention_mask=torch.tensor(mask))
    hidden: NDArray[np.float64] = found.last_hidden_state.double().numpy()
    if pooling == "cls":
        return hidden[:, 0]
    return np.array([row[: len(i)].sum(0) for row, i in zip(hidden, ids, strict=True)])


class Graph:
    """A graph of ours that gives the pooled rows too, before they become unit vectors."""

    def __init__(self, folder: Path, name: str) -> None:
        runtime: Any = pytest.importorskip("onnxruntime")
        model = onnx.ModelProto.FromString((folder / name).read_bytes())
        last = next(node for node in model.graph.node if "vectors" in node.output)
        kind: Any = onnx.helper.make_tensor_value_info(last.input[0], onnx.TensorProto.FLOAT, None)
        model.graph.output.append(kind)
        (folder / f"pooled.{name}").write_bytes(model.SerializeToString())
        path = str(folder / f"pooled.{name}")
        self._session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self._pooled = last.input[0]

    def __call__(self, ids: Sequence[NDArray[np.int64]]) -> tuple[Any, Any]:
        filled, mask = (each.astype(np.int32) for each in padded(ids))
        vectors, rows = self._session.run(["vectors", self._pooled], {"ids": filled, "mask": mask})
        return vectors, rows


def differences(graph: Graph, ids: Sequence[NDArray[np.int64]], expected: Any) -> list[float]:
    """Largest difference of unit vectors and of pooled rows."""
    vectors, pooled = graph(ids)
    unit = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    return [float(np.abs(vectors - unit).max()), float(np.abs(pooled - expected).max())]


# SPECTER2's shape --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [GRAPH_FILE, FUSED_FILE])
def test_random_ids_at_the_exact_shape(
    specter2: Specter2, expected: NDArray[np.float64], name: str
) -> None:
    graph, ids = Graph(specter2.folder, name), random_ids(31_090)
    alone = [differences(graph, [i], expected[[row]]) for row, i in enumerate(ids)]
    together = differences(graph, ids, expected)
    unit, rows = np.max([*alone, together], axis=0)
    print(f"\n{name}: unit vectors {unit:.1e}, [CLS] rows {rows:.1e} (tokens {LENGTHS})")
    assert unit <= TOLERANCE
    assert rows <= TOLERANCE


def test_texts_at_the_exact_shape(libraries: Libraries, specter2: Specter2) -> None:
    texts = ["[SEP]".join(part for part in text if part) for text in TEXTS]
    ids = [
        np.array(specter2.tokenizer(text, truncation=True, max_length=512)["input_ids"])
        for text in texts
    ]
    expected = pooled_by_torch(libraries.torch, specter2.model, ids)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = load(specter2.folder, device="cpu").encode(TEXTS)
    worst = np.abs(found - expected).max()
    print(f"\ntexts of {[len(i) for i in ids]} tokens: unit vectors {worst:.1e}")
    assert worst <= TOLERANCE


def test_the_adapter_matters_and_the_base_is_right_too(
    libraries: Libraries, specter2: Specter2, tmp_path: Path
) -> None:
    for path in specter2.folder.iterdir():
        (tmp_path / path.name).hardlink_to(path)
    for name in (*(path.name for path in tmp_path.glob("*.onnx")), "card.json"):
        (tmp_path / name).unlink()
    export(tmp_path, replace(FACTS, adapter=None))
    ids = random_ids(31_090, (3, 17, 128))
    adapted = pooled_by_torch(libraries.torch, specter2.model, ids)
    specter2.model.set_active_adapters(None)
    plain = pooled_by_torch(libraries.torch, specter2.model, ids)
    specter2.model.set_active_adapters("[PRX]")
    unit, rows = differences(Graph(tmp_path, GRAPH_FILE), ids, plain)
    norms = np.linalg.norm(adapted, axis=1) * np.linalg.norm(plain, axis=1)
    cosines = np.einsum("nd,nd->n", adapted, plain) / norms
    print(
        f"\nwithout adapter: unit vectors {unit:.1e}, [CLS] rows {rows:.1e}; "
        f"cosine with to without {cosines.min():.3f} to {cosines.max():.3f}"
    )
    assert max(unit, rows) <= TOLERANCE
    assert cosines.max() < 0.999


def test_prefixed_weights_and_an_older_adapter_give_the_same_files(
    libraries: Libraries, specter2: Specter2, tmp_path: Path
) -> None:
    """As BertForPreTraining and adapter-transformers wrote them."""
    torch = libraries.torch
    base, adapter, out = (tmp_path / name for name in ("base", "adapter", "out"))
    for folder in (base, adapter, out):
        folder.mkdir()
    for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
        (base / name).write_bytes((specter2.base / name).read_bytes())
    state = torch.load(specter2.base / "pytorch_model.bin", weights_only=True)
    torch.save({f"bert.{name}": each for name, each in state.items()}, base / "pytorch_model.bin")
    config: dict[str, object] = {"config": OLD_SETTINGS, "hidden_size": 768}
    config |= {"model_class": "BertAdapterModel", "model_type": "bert", "name": "[PRX]"}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    published = (specter2.adapter / "pytorch_adapter.bin").read_bytes()
    (adapter / "pytorch_adapter.bin").write_bytes(published)
    take_base(base, out)
    take_adapter_folder(adapter, out)
    for name in (WEIGHTS_FILE, "adapter.safetensors"):
        assert (out / name).read_bytes() == (specter2.folder / name).read_bytes()


# Other models, small -----------------------------------------------------------------------------

SMALL = {
    "vocab_size": 500,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
ROBERTA = {**SMALL, "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
DISTILBERT = {"vocab_size": 500, "dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 128}


@pytest.mark.parametrize(
    ("kind", "sizes", "safe", "pooling"),
    [
        ("BertConfig", SMALL, False, "mean"),
        ("BertConfig", SMALL, True, "cls"),
        ("RobertaConfig", ROBERTA, False, "cls"),
        ("XLMRobertaConfig", ROBERTA, True, "mean"),
        ("CamembertConfig", ROBERTA, True, "cls"),
        ("DistilBertConfig", DISTILBERT, False, "cls"),
        ("DistilBertConfig", DISTILBERT, True, "mean"),
    ],
)
def test_families_as_transformers_saves_them(
    libraries: Libraries, tmp_path: Path, kind: str, sizes: dict[str, Any], safe: bool, pooling: str
) -> None:
    model = random_model(libraries, getattr(libraries.transformers, kind)(**sizes))
    base, out = tmp_path / "base", tmp_path / "out"
    model.save_pretrained(base, safe_serialization=safe)
    out.mkdir()
    write_tokenizer(base / "tokenizer.json")
    facts = Facts("small", "cls" if pooling == "cls" else "mean", " ", 64, 0.5, "none", {})
    export_published(base, out, facts)
    assert verify(out).n_golden == 8
    ids = random_ids(500, (1, 3, 40, 512))
    expected = pooled_by_torch(libraries.torch, model, ids, pooling)
    unit = [differences(Graph(out, name), ids, expected)[0] for name in (GRAPH_FILE, FUSED_FILE)]
    print(f"\n{kind}, {pooling}: unit vectors {max(unit):.1e}")
    assert max(unit) <= TOLERANCE


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("safe", [False, True])
def test_half_weights_are_widened_without_loss(
    libraries: Libraries, tmp_path: Path, half: str, safe: bool
) -> None:
    torch, transformers, _ = libraries
    model = random_model(libraries, transformers.BertConfig(**SMALL)).to(getattr(torch, half))
    model.save_pretrained(tmp_path / "base", safe_serialization=safe)
    write_tokenizer(tmp_path / "base" / "tokenizer.json")
    (tmp_path / "out").mkdir()
    export_published(tmp_path / "base", tmp_path / "out", Facts("s", "cls", " ", 64, 0.5, "n", {}))
    ids = random_ids(500, (1, 3, 40))
    expected = pooled_by_torch(torch, model.float(), ids)
    assert max(differences(Graph(tmp_path / "out", GRAPH_FILE), ids, expected)) <= TOLERANCE


@pytest.mark.parametrize(
    "options", [{}, {"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}]
)
def test_every_form_of_torch_save_is_read(
    libraries: Libraries, tmp_path: Path, options: dict[str, Any]
) -> None:
    torch = libraries.torch
    row = torch.arange(24.0)
    state = torch.nn.Linear(3, 4).state_dict()  # an OrderedDict with metadata
    state |= {"t": row.view(4, 6).t(), "p": row[5:11], "h": row.half(), "b": row.bfloat16()}
    state |= {"parameter": torch.nn.Parameter(row * 2), "ids": torch.arange(5).expand((1, -1))}
    torch.save(state, tmp_path / "m.bin", **options)
    found = open_torch(tmp_path / "m.bin")
    assert {name: each.shape for name, each in found.items()} == {
        name: tuple(each.shape) for name, each in state.items()
    }
    for name in state:
        if name != "ids":
            expected = state[name].detach().float().numpy()
            np.testing.assert_array_equal(found[name].floats(), expected)


# What these libraries save and the graph does not compute ----------------------------------------


def test_a_whole_model_is_refused_by_name(libraries: Libraries, tmp_path: Path) -> None:
    torch = libraries.torch
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        torch.save(torch.nn.Linear(2, 2), tmp_path / "m.bin", **options)
        with pytest.raises(ModelError, match=r"asks for torch\.nn\.modules\.linear\.Linear"):
            open_torch(tmp_path / "m.bin")


@pytest.mark.parametrize(
    ("kind", "changes", "named"),
    [
        ("lora", {}, "architecture is 'lora'"),
        ("ia3", {}, "architecture is 'lora'"),
        ("prefix_tuning", {}, "architecture is 'prefix_tuning'"),
        ("loreft", {}, "architecture is 'reft'"),
        ("mam", {}, "architecture is 'union'"),
        ("double_seq_bn", {}, "mh_adapter is True"),
        ("par_bn", {}, "original_ln_before is False"),
        ("compacter++", {"reduction_factor": 4}, "non_linearity is 'gelu'"),
        ("seq_bn_inv", {}, "inv_adapter is 'nice'"),
        ("seq_bn", {"leave_out": [1]}, r"leave_out is \[1\]"),
        ("seq_bn", {"non_linearity": "tanh"}, "non_linearity is 'tanh'"),
        ("seq_bn", {"ln_after": True}, "ln_after is True"),
        ("seq_bn", {"residual_before_ln": False}, "residual_before_ln is False"),
        ("seq_bn", {"use_gating": True}, "use_gating is True"),
        ("seq_bn", {"phm_layer": True, "reduction_factor": 4}, "phm_layer is True"),
    ],
)
def test_other_adapters_of_the_library_are_refused_by_name(
    libraries: Libraries, tmp_path: Path, kind: str, changes: dict[str, object], named: str
) -> None:
    torch, transformers, adapters = libraries
    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(**SMALL))
    adapters.init(model)
    config = adapters.AdapterConfig.load(kind)
    model.add_adapter("other", config=config.replace(**changes) if changes else config)
    model.save_adapter(str(tmp_path / "adapter"), "other")
    (tmp_path / "out").mkdir()
    model.config.save_pretrained(tmp_path / "out")
    with pytest.raises(ModelError, match=named):
        take_adapter_folder(tmp_path / "adapter", tmp_path / "out")
