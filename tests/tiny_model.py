"""A random BERT and a small WordPiece tokenizer as a whole model folder, for tests."""

import json
import shutil
import string
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from hindsight_models.export import Facts, export

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("the", "of", "model", "language", "graph", "neural", "learn", "data", "we", "image")


def tiny_model(
    folder: Path,
    *,
    dim: int = 32,
    layers: int = 2,
    seed: int = 0,
    name: str = "tiny",
    pooling: str = "mean",
    max_tokens: int = 64,
    adapter: bool = False,
    prefix: str = "",
    weights: Path | None = None,
) -> Path:
    """Write a model folder whose vectors depend on every token of a text; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder / "tokenizer.json")
    write_config(folder / "config.json", dim, layers)
    rng = np.random.default_rng(seed)
    if weights is None:
        save_file(random_weights(rng, dim, layers, prefix), folder / "model.safetensors")
    else:
        shutil.copy(weights, folder / "model.safetensors")
    if adapter:
        save_file(random_adapter(rng, dim, layers), folder / "adapter.safetensors")
    facts = Facts(
        name=name,
        pooling="cls" if pooling == "cls" else "mean",
        separator=" [SEP] " if pooling == "cls" else ". ",
        max_tokens=max_tokens,
        theta=0.9,
        theta_note="A random model has no meaningful theta.",
        sources={"weights": f"random, seed {seed}"},
        adapter="bottleneck" if adapter else None,
    )
    export(folder, facts)
    return folder


def minilm_folder() -> Path:
    """The real minilm, where it was fetched; skips the test where not."""
    return model_folder("minilm")


def model_folder(name: str) -> Path:
    """A real model, where it was fetched; skips the test where not."""
    from hindsight_fast.storage import home

    folder = home() / "models" / name
    if not (folder / "card.json").is_file():
        pytest.skip(f"no {folder}; hindsight-fast models get {name} fetches it")
    return folder


def vocabulary() -> list[str]:
    """Special tokens, letters and digits (also as continuations), and a few words."""
    characters = string.ascii_lowercase + string.digits
    return [*SPECIAL, *characters, *(f"##{c}" for c in characters), *".,:-()", *WORDS]


def write_tokenizer(path: Path) -> None:
    """A tokenizer.json like BERT's, which pads and cuts on its own, as published ones may."""
    words = vocabulary()
    tokenizer = Tokenizer(WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(SPECIAL))  # pyright: ignore[reportUnknownMemberType]
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_padding(length=16)  # pyright: ignore[reportUnknownMemberType]
    tokenizer.enable_truncation(16)  # pyright: ignore[reportUnknownMemberType]
    tokenizer.save(str(path))


def write_config(path: Path, dim: int, layers: int, **changes: object) -> None:
    """A config.json in Hugging Face's form."""
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": dim,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 2 * dim,
        "vocab_size": len(vocabulary()),
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
    }
    path.write_text(json.dumps(config | changes))


def random_weights(
    rng: np.random.Generator, dim: int, layers: int, prefix: str = ""
) -> dict[str, NDArray[np.float32]]:
    """Tensors of a BERT checkpoint in Hugging Face's layout."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(vocabulary()), dim),
        "embeddings.position_embeddings.weight": (512, dim),
        "embeddings.token_type_embeddings.weight": (2, dim),
        "pooler.dense.weight": (dim, dim),
        **_norm("embeddings.LayerNorm", dim),
    }
    for i in range(layers):
        layer = f"encoder.layer.{i}"
        for part in ("query", "key", "value"):
            shapes |= _dense(f"{layer}.attention.self.{part}", dim, dim)
        shapes |= _dense(f"{layer}.attention.output.dense", dim, dim)
        shapes |= _norm(f"{layer}.attention.output.LayerNorm", dim)
        shapes |= _dense(f"{layer}.intermediate.dense", 2 * dim, dim)
        shapes |= _dense(f"{layer}.output.dense", dim, 2 * dim)
        shapes |= _norm(f"{layer}.output.LayerNorm", dim)
    return {prefix + name: _random(rng, name, shape) for name, shape in shapes.items()}


def random_adapter(
    rng: np.random.Generator, dim: int, layers: int, units: int = 8
) -> dict[str, NDArray[np.float32]]:
    """Tensors of a bottleneck adapter, named as the adapters library does."""
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(layers):
        part = f"bert.encoder.layer.{i}.output.adapters.some_name"
        shapes |= _dense(f"{part}.adapter_down.0", units, dim)
        shapes |= _dense(f"{part}.adapter_up", dim, units)
    return {name: _random(rng, name, shape) for name, shape in shapes.items()}


def _dense(name: str, out: int, into: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def _norm(name: str, dim: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (dim,), f"{name}.bias": (dim,)}


def _random(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    values = rng.standard_normal(shape) * (0.1 if len(shape) == 1 else shape[-1] ** -0.5)
    if name.endswith("LayerNorm.weight"):
        values += 1.0
    return values.astype(np.float32)
