"""From files as they are published to a proven model folder, and what is refused on the way."""

import json
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from hindsight_models import Card, ModelError, load, verify
from hindsight_models.export import Facts, export_published
from hindsight_models.folder import sha256_of
from hindsight_models.graph import build_graph
from hindsight_models.proof import TEXTS
from hindsight_models.reading.vocabulary import tokenizer_from_vocabulary
from hindsight_models.twin import unit_vectors
from hindsight_models.weights import BertConfig, read_entries
from reference import bert_vector, load_tensors
from tiny_model import (
    random_adapter,
    random_weights,
    vocabulary,
    write_config,
    write_tokenizer,
)
from torch_writer import save

Arrays = Mapping[str, NDArray[Any]]
FACTS = Facts("tiny", "cls", "[SEP]", 64, 0.9, "none", {"base": "someone/tiny@0123"})
PAIRS = [("graph", "neural data"), ("a model of language", "we learn"), ("x", "")]
SETTINGS: dict[str, object] = {
    "mh_adapter": False,
    "output_adapter": True,
    "reduction_factor": 4,
    "non_linearity": "relu",
    "original_ln_before": True,
}


def weights(seed: int = 0, prefix: str = "") -> dict[str, NDArray[np.float32]]:
    """Tensors of a tiny BERT."""
    return random_weights(np.random.default_rng(seed), 32, 2, prefix)


def publish(folder: Path, tensors: Arrays | None = None, **config: object) -> Path:
    """A checkpoint as a hub has it, its weights as torch.save writes them."""
    folder.mkdir(parents=True)
    write_tokenizer(folder / "tokenizer.json")
    write_config(folder / "config.json", 32, 2, **config)
    save(folder / "pytorch_model.bin", weights() if tensors is None else tensors)
    return folder


def publish_adapter(
    folder: Path,
    tensors: Arrays | None = None,
    top: Mapping[str, object] | None = None,
    settings: Mapping[str, object] | None = None,
) -> Path:
    """An adapter as the adapters library saves it."""
    folder.mkdir(parents=True)
    config = {
        "config": {k: v for k, v in {**SETTINGS, **(settings or {})}.items() if v != "absent"},
        "hidden_size": 32,
        "model_type": "bert",
        "name": "[PRX]",
        **(top or {}),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    save(folder / "pytorch_adapter.bin", adapter_tensors() if tensors is None else tensors)
    return folder


def adapter_tensors() -> dict[str, NDArray[np.float32]]:
    """Tensors of a tiny adapter that changes vectors visibly."""
    tensors = random_adapter(np.random.default_rng(1), 32, 2)
    return {name.replace("some_name", "[PRX]"): 3 * each for name, each in tensors.items()}


def exported(base: Path, out: Path, facts: Facts = FACTS, adapter: Path | None = None) -> Path:
    """The model folder of published files."""
    out.mkdir()
    export_published(base, out, facts, adapter)
    return out


def encoded(folder: Path) -> NDArray[np.float32]:
    """Vectors of a few texts."""
    return load(folder, device="cpu").encode(PAIRS)


# What comes out ----------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "bert."])
@pytest.mark.parametrize("adapted", [False, True])
def test_published_files_become_a_proven_folder(tmp_path: Path, prefix: str, adapted: bool) -> None:
    base = publish(tmp_path / "base", weights(prefix=prefix))
    extra = publish_adapter(tmp_path / "adapter") if adapted else None
    folder = exported(base, tmp_path / "out", adapter=extra)
    proof = verify(folder)
    assert proof.n_golden == len(TEXTS) == 8
    assert proof.worst_cosine is not None and proof.worst_cosine > 0.999999
    assert proof.card.adapter == ("[PRX]" if adapted else None)
    ids = [[2, *range(10, 10 + n), 3] for n in (0, 1, 40)]
    twin = unit_vectors(
        ids,
        BertConfig.read(folder / "config.json"),
        folder / "model.safetensors",
        "cls",
        folder / "adapter.safetensors" if adapted else None,
    )
    slow = [
        bert_vector(
            i,
            weights(),
            layers=2,
            heads=4,
            pooling="cls",
            adapter=adapter_tensors() if adapted else None,
        )
        for i in ids
    ]
    np.testing.assert_allclose(twin, slow, atol=1e-12)


def test_the_card_tells_every_file_that_it_came_from(tmp_path: Path) -> None:
    base, extra = publish(tmp_path / "base"), publish_adapter(tmp_path / "adapter")
    card = Card.read(exported(base, tmp_path / "out", adapter=extra))
    files = {
        "base/config.json": base / "config.json",
        "base/pytorch_model.bin": base / "pytorch_model.bin",
        "base/tokenizer.json": base / "tokenizer.json",
        "adapter/adapter_config.json": extra / "adapter_config.json",
        "adapter/pytorch_adapter.bin": extra / "pytorch_adapter.bin",
    }
    assert card.sources == {
        "base": "someone/tiny@0123",
        "adapter/name": "[PRX]",
        **{role: f"sha256:{sha256_of(path)}" for role, path in files.items()},
    }


def test_the_golden_texts_are_from_one_word_to_more_than_fits(tmp_path: Path) -> None:
    facts = replace(FACTS, max_tokens=512)
    folder = exported(publish(tmp_path / "base"), tmp_path / "out", facts)
    found = load(folder, device="cpu").encode_counted(TEXTS)
    assert found.n_tokens.max() == 512
    assert found.truncated.any()
    assert not found.truncated.all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_safetensors_are_copied_or_widened(tmp_path: Path, dtype: str) -> None:
    tensors = {name: each.astype(dtype) for name, each in weights(prefix="bert.").items()}
    base = publish(tmp_path / "base")
    (base / "pytorch_model.bin").unlink()
    save_file(tensors, base / "model.safetensors")
    folder = exported(base, tmp_path / "out")
    written = folder / "model.safetensors"
    assert (sha256_of(written) == sha256_of(base / "model.safetensors")) == (dtype == "float32")
    found = load_tensors(written)
    name = "encoder.layer.1.output.dense.weight"
    kept = found.get(name, found.get(f"bert.{name}"))
    np.testing.assert_array_equal(kept, tensors[f"bert.{name}"].astype(np.float32))


def test_old_names_of_layer_norms_are_known(tmp_path: Path) -> None:
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("Norm.bias", "Norm.beta"): each
        for name, each in weights().items()
    }
    new = encoded(exported(publish(tmp_path / "new"), tmp_path / "1"))
    np.testing.assert_array_equal(
        encoded(exported(publish(tmp_path / "old", old), tmp_path / "2")), new
    )


# The adapter is active ---------------------------------------------------------------------------


def test_an_adapter_changes_the_vectors(tmp_path: Path) -> None:
    base = publish(tmp_path / "base")
    without = encoded(exported(base, tmp_path / "1"))
    extra = publish_adapter(tmp_path / "adapter")
    active = encoded(exported(base, tmp_path / "2", adapter=extra))
    assert np.einsum("nd,nd->n", without, active).max() < 0.999


def test_a_graph_without_its_adapter_is_no_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(*arguments: Any, **named: Any) -> Any:
        return build_graph(*arguments, **{**named, "adapter": None})

    monkeypatch.setattr("hindsight_models.export.build_graph", forgetful)
    with pytest.raises(ModelError, match="adapter not active"):
        exported(
            publish(tmp_path / "base"),
            tmp_path / "out",
            adapter=publish_adapter(tmp_path / "adapter"),
        )


def test_an_adapter_without_effect_is_refused(tmp_path: Path) -> None:
    nothing = {name: 0 * each for name, each in adapter_tensors().items()}
    extra = publish_adapter(tmp_path / "adapter", nothing)
    base = publish(tmp_path / "base")
    with pytest.raises(ModelError, match="of no effect"):
        exported(base, tmp_path / "out", adapter=extra)


def test_facts_that_name_an_adapter_need_its_files(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="needs the files of its adapter prox"):
        exported(publish(tmp_path / "base"), tmp_path / "out", replace(FACTS, adapter="prox"))


# What is refused ---------------------------------------------------------------------------------


def test_specter2s_other_adapters_are_not_taken_for_its_own(tmp_path: Path) -> None:
    base = publish(tmp_path / "base")
    extra = publish_adapter(tmp_path / "adapter")
    with pytest.raises(ModelError, match=r"is the adapter \[PRX\], allenai/specter2; expected"):
        exported(
            base, tmp_path / "a", replace(FACTS, adapter="allenai/specter2_adhoc_query"), extra
        )
    exported(base, tmp_path / "b", replace(FACTS, adapter="allenai/specter2"), extra)


def test_nan_in_a_row_that_no_golden_text_has_is_found(tmp_path: Path) -> None:
    base = publish(tmp_path / "base")
    tensors = weights()
    tensors["embeddings.word_embeddings.weight"][4, 0] = np.nan  # [MASK]
    (base / "pytorch_model.bin").unlink(missing_ok=True)
    save_file(tensors, base / "model.safetensors")
    with pytest.raises(ModelError, match=r"word_embeddings\.weight holds NaN"):
        exported(base, tmp_path / "out")


def _lying(header: dict[str, Any], how: str) -> bytes:
    one, other = [name for name in header if "query.weight" in name]
    match how:
        case "overlap":
            header[one]["data_offsets"] = header[other]["data_offsets"]
        case "infinite":
            header[one]["shape"][0] = 1e999
        case "text":
            header[one]["shape"] = [str(n) for n in header[one]["shape"]]
        case "metadata":
            header["__metadata__"] = 3
        case _:
            return b"[" * 100_000
    return json.dumps(header).encode()


@pytest.mark.parametrize("how", ["overlap", "infinite", "text", "metadata", "deep"])
def test_a_header_that_lies_is_refused_with_the_files_name(tmp_path: Path, how: str) -> None:
    path = tmp_path / "model.safetensors"
    save_file(weights(), path)
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    text = _lying(json.loads(raw[8 : 8 + length]), how)
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        read_entries(path)


@pytest.mark.parametrize("more", [b"x", bytes(4096)])
def test_bytes_of_no_tensor_are_refused(tmp_path: Path, more: bytes) -> None:
    path = tmp_path / "model.safetensors"
    save_file(weights(), path)
    path.write_bytes(path.read_bytes() + more)
    with pytest.raises(ModelError, match="are of no tensor"):
        read_entries(path)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("architecture", "lora"),
        ("architecture", "prefix_tuning"),
        ("mh_adapter", True),
        ("mh_adapter", "absent"),
        ("output_adapter", False),
        ("non_linearity", "gelu"),
        ("non_linearity", "swish"),
        ("original_ln_before", False),
        ("original_ln_before", "absent"),
        ("original_ln_after", False),
        ("residual_before_ln", False),
        ("residual_before_ln", "post_add"),
        ("ln_before", True),
        ("ln_after", True),
        ("is_parallel", True),
        ("scaling", 4.0),
        ("scaling", "learned"),
        ("scaling", True),
        ("use_gating", True),
        ("inv_adapter", "nice"),
        ("invertible_adapter", {"block_type": "nice"}),
        ("cross_adapter", True),
        ("leave_out", [0, 1]),
        ("phm_layer", True),
        ("reduction_factor", 0),
        ("reduction_factor", {"default": 16}),
        ("attention_type", "sent-lvl-dynamic"),
    ],
)
def test_another_adapter_is_refused_by_name(tmp_path: Path, setting: str, value: object) -> None:
    base = publish(tmp_path / "base")
    extra = publish_adapter(tmp_path / "adapter", settings={setting: value})
    with pytest.raises(ModelError, match=rf"adapter_config\.json: {setting} is"):
        exported(base, tmp_path / "out", adapter=extra)


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ({"hidden_size": 64}, "hidden_size is 64; the base model's is 32"),
        ({"model_type": "roberta"}, "model_type is 'roberta'; the base model's is 'bert'"),
        ({"config": "pfeiffer"}, "config is 'pfeiffer'"),
        ({"config": None}, "config is None"),
        ({"peft_type": "LORA"}, "PEFT adapter.*LORA"),
    ],
)
def test_an_adapter_for_another_model_is_refused(
    tmp_path: Path, top: Mapping[str, object], message: str
) -> None:
    base, extra = publish(tmp_path / "base"), publish_adapter(tmp_path / "adapter", top=top)
    with pytest.raises(ModelError, match=message):
        exported(base, tmp_path / "out", adapter=extra)


@pytest.mark.parametrize("settings", [{"leave_out": None}, {"inv_adapter": None, "dropout": 0.1}])
def test_settings_that_change_nothing_are_accepted(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    extra = publish_adapter(tmp_path / "adapter", settings=settings)
    exported(publish(tmp_path / "base"), tmp_path / "out", adapter=extra)


PART = "bert.encoder.layer.1.output.adapters.[PRX].adapter_down.0.weight"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({PART: None}, r"no tensor encoder\.layer\.1\..*adapter_down\.0\.weight"),
        ({PART: np.zeros((8, 31), np.float32)}, "adapter_down.*shape"),
        ({PART: np.zeros((16, 32), np.float32)}, "adapter_down.*shape"),
        ({PART: np.zeros((8, 32), np.int64)}, "is int64"),
        ({PART.replace("down", "gate"): np.zeros(8, np.float32)}, "adapter_gate"),
        ({PART.replace("output", "attention.output"): np.zeros(8, np.float32)}, "attention.output"),
        (
            {PART.replace("layer.1", "layer.2"): np.zeros(8, np.float32)},
            "beyond the base model's 2",
        ),
        ({PART.replace("PRX", "QRY"): np.zeros(8, np.float32)}, "2 adapters"),
        ({PART.replace("adapters", "loras"): np.zeros(8, np.float32)}, "loras"),
        ({"prediction_head.weight": np.zeros(8, np.float32)}, "prediction_head"),
    ],
)
def test_wrong_tensors_of_an_adapter_are_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    tensors = {k: v for k, v in (adapter_tensors() | changes).items() if v is not None}
    base, extra = publish(tmp_path / "base"), publish_adapter(tmp_path / "adapter", tensors)
    with pytest.raises(ModelError, match=message):
        exported(base, tmp_path / "out", adapter=extra)


QUERY = "encoder.layer.1.attention.self.query.weight"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({QUERY: None}, f"no tensor {QUERY}"),
        ({QUERY: np.zeros((31, 32), np.float32)}, "has shape"),
        ({QUERY: np.zeros((32, 32))}, "is float64"),
        ({QUERY: np.full((32, 32), np.inf, np.float32)}, "NaN or infinity"),
        ({QUERY.replace("layer.1", "layer.2"): np.zeros((32, 32), np.float32)}, "no part"),
        ({PART: np.zeros((8, 32), np.float32)}, "no part"),  # it would be lost without a word
        ({f"bert.{QUERY}": np.zeros((32, 32), np.float32)}, "two tensors"),
    ],
)
def test_wrong_weights_are_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    tensors = {k: v for k, v in (weights() | changes).items() if v is not None}
    with pytest.raises(ModelError, match=message):
        exported(publish(tmp_path / "base", tensors), tmp_path / "out")


def test_heads_and_buffers_are_left_behind(tmp_path: Path) -> None:
    more: dict[str, NDArray[Any]] = {
        "embeddings.position_ids": np.arange(512)[None],
        "cls.predictions.decoder.weight": np.zeros((3, 32), np.float32),
    }
    folder = exported(publish(tmp_path / "base", weights() | more), tmp_path / "out")
    assert not any(name in load_tensors(folder / "model.safetensors") for name in more)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "config.json can't be read"),
        ("pytorch_model.bin", "none of model.safetensors, pytorch_model.bin"),
        ("tokenizer.json", "neither tokenizer.json nor vocab.txt"),
    ],
)
def test_a_missing_file_is_named(tmp_path: Path, name: str, message: str) -> None:
    base = publish(tmp_path / "base")
    (base / name).unlink()
    with pytest.raises(ModelError, match=message):
        exported(base, tmp_path / "out")


def test_weights_in_several_files_are_refused(tmp_path: Path) -> None:
    base = publish(tmp_path / "base")
    (base / "pytorch_model.bin").rename(base / "pytorch_model.bin.index.json")
    with pytest.raises(ModelError, match="several files"):
        exported(base, tmp_path / "out")


# Tokenizers --------------------------------------------------------------------------------------


def write_vocabulary(base: Path, *words: str) -> None:
    """Replace a checkpoint's tokenizer.json by vocab.txt."""
    (base / "tokenizer.json").unlink(missing_ok=True)
    (base / "vocab.txt").write_text("".join(f"{w}\n" for w in (*vocabulary(), *words)))


def test_a_vocabulary_alone_will_do(tmp_path: Path) -> None:
    base = publish(tmp_path / "base")
    expected = encoded(exported(base, tmp_path / "1"))
    write_vocabulary(base)
    folder = exported(base, tmp_path / "2")
    np.testing.assert_array_equal(encoded(folder), expected)
    assert "base/vocab.txt" in Card.read(folder).sources


@pytest.mark.parametrize("cased", [False, True])
def test_a_vocabulary_splits_as_bert_does(tmp_path: Path, cased: bool) -> None:
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "naive",
        "na",
        "##ive",
        "Naive",
        ",",
        "学",
    ]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    settings = tmp_path / "tokenizer_config.json"
    settings.write_text(json.dumps({"do_lower_case": not cased, "model_max_length": 1e30}))
    tokenizer = tokenizer_from_vocabulary(tmp_path / "vocab.txt", settings)
    found = tokenizer.encode("Naïve,Naive naive\x00学学 [SEP] other").tokens
    first = "[UNK]" if cased else "naive"
    again = "Naive" if cased else "naive"
    assert found == ["[CLS]", first, ",", again, "naive", "学", "学", "[SEP]", "[UNK]", "[SEP]"]


@pytest.mark.parametrize("cased", [False, True])
def test_the_tokenizers_config_has_the_last_word_as_in_transformers(
    tmp_path: Path, cased: bool
) -> None:
    base = publish(tmp_path / "base")
    raw = json.loads((base / "tokenizer.json").read_text())
    raw["normalizer"]["lowercase"] = cased
    (base / "tokenizer.json").write_text(json.dumps(raw))
    (base / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": not cased}))
    folder = exported(base, tmp_path / "out")
    lower, upper = load(folder, device="cpu").encode([("the model", ""), ("The MODEL", "")])
    assert np.array_equal(lower, upper) is not cased
    assert "base/tokenizer_config.json" in Card.read(folder).sources


def test_a_tokenizer_that_agrees_with_its_config_is_copied(tmp_path: Path) -> None:
    base = publish(tmp_path / "base")
    (base / "tokenizer_config.json").write_text(
        json.dumps({"do_lower_case": True, "strip_accents": None})
    )
    folder = exported(base, tmp_path / "out")
    assert (folder / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()


def test_the_real_vocabulary_gives_its_published_ids(shared: Path) -> None:
    from tokenizers import Tokenizer

    folder = shared / "data" / "scivocab"
    ours = tokenizer_from_vocabulary(folder / "vocab.txt", folder / "none.json")
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    texts = [f"{head}[SEP]{body}" for head, body in TEXTS] + [
        "",
        "[CLS]",
        "x" * 300,
        "\u3000é\u0301",
    ]
    for text in texts:
        assert ours.encode(text).ids == theirs.encode(text).ids


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tokenizer_class": "RobertaTokenizer"}, "RobertaTokenizer"),
        ({"do_lower_case": "yes"}, "do_lower_case is 'yes'"),
        ({"sep_token": "</s>"}, "no token </s>"),
        ({"sep_token": {"content": "</s>"}}, "no token </s>"),
    ],
)
def test_another_tokenizer_is_refused(
    tmp_path: Path, settings: dict[str, object], message: str
) -> None:
    base = publish(tmp_path / "base")
    write_vocabulary(base)
    (base / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match=message):
        exported(base, tmp_path / "out")


def test_more_tokens_than_the_model_has_are_refused(tmp_path: Path) -> None:
    base = publish(tmp_path / "base")
    write_vocabulary(base, "extra")
    with pytest.raises(ModelError, match="has tokens up to"):
        exported(base, tmp_path / "out")
    (base / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="is not a tokenizer"):
        exported(base, tmp_path / "2")


# Other families: each is a BERT in other clothes -------------------------------------------------


def test_roberta_is_a_bert_whose_positions_start_later(tmp_path: Path) -> None:
    bert = weights()
    table = "embeddings.position_embeddings.weight"
    shifted = np.concatenate([np.full((2, 32), 9.0, np.float32), bert[table]])
    renamed = {f"roberta.{name}": each for name, each in (bert | {table: shifted}).items()}
    config = {"model_type": "xlm-roberta", "pad_token_id": 1, "max_position_embeddings": 514}
    expected = encoded(exported(publish(tmp_path / "bert"), tmp_path / "1"))
    folder = exported(publish(tmp_path / "roberta", renamed, **config), tmp_path / "2")
    np.testing.assert_allclose(encoded(folder), expected, atol=1e-6)
    assert BertConfig.read(folder / "config.json").longest == 512


def test_distilbert_is_a_bert_of_other_names_without_token_types(tmp_path: Path) -> None:
    bert = weights()
    types = "embeddings.token_type_embeddings.weight"
    bert[types] = np.zeros_like(bert[types])
    names = {
        "encoder.layer": "transformer.layer",
        "attention.self.query": "attention.q_lin",
        "attention.self.key": "attention.k_lin",
        "attention.self.value": "attention.v_lin",
        "attention.output.dense": "attention.out_lin",
        "attention.output.LayerNorm": "sa_layer_norm",
        "intermediate.dense": "ffn.lin1",
        "output.dense": "ffn.lin2",
        "output.LayerNorm": "output_layer_norm",
    }
    renamed: dict[str, NDArray[np.float32]] = {}
    for name, each in bert.items():
        if name == types:
            continue
        for old, new in names.items():
            name = name.replace(old, new)
        renamed[f"distilbert.{name}"] = each
    base = publish(tmp_path / "distilbert", renamed)
    sizes = {
        "dim": 32,
        "n_layers": 2,
        "n_heads": 4,
        "hidden_dim": 64,
        "vocab_size": len(vocabulary()),
    }
    (base / "config.json").write_text(
        json.dumps({"model_type": "distilbert", "max_position_embeddings": 512, **sizes})
    )
    expected = encoded(exported(publish(tmp_path / "bert", bert), tmp_path / "1"))
    np.testing.assert_allclose(encoded(exported(base, tmp_path / "2")), expected, atol=1e-6)
