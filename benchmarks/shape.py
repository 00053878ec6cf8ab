"""What encoders are measured on: a model of SPECTER2's exact shape, and real abstracts.

The weights are random, so that the model needs no network; no speed depends on them. Tokenizer
(SciBERT's) and papers are read under $HINDSIGHT_SHARED (default ../shared).
"""

import os
import shutil
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from hindsight_models.card import ADAPTER_FILE, CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE
from hindsight_models.export import Facts, export
from hindsight_models.weights import BertConfig

SHARED = Path(os.environ.get("HINDSIGHT_SHARED", Path(__file__).resolve().parents[2] / "shared"))
MODELS = Path("bench-out/models")
SEED = 0

CONFIG = """{
  "model_type": "bert", "hidden_act": "gelu", "hidden_size": 768, "num_hidden_layers": 12,
  "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 31090,
  "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
  "pad_token_id": 0
}
"""
DIM = 768
UNITS = 48  # of the adapter
MAX_TOKENS = 512
SEPARATOR = "[SEP]"

Tensors = dict[str, NDArray[np.float32]]
Texts = list[tuple[str, str]]


def real_texts(count: int, seed: int = SEED) -> Texts:
    """Title and abstract of papers, drawn with a fixed seed."""
    papers = pl.read_parquet(
        SHARED / "data/papers/paperlists.parquet", columns=["title", "abstract"]
    )
    drawn = papers.drop_nulls().filter(pl.col("abstract") != "").sample(count, seed=seed)
    return [(str(title), str(abstract)) for title, abstract in drawn.iter_rows()]


def specter2_shape(*, adapter: bool = True) -> Path:
    """The model folder, with or without the adapter; its weights are made once."""
    folder = MODELS / ("specter2-shape" if adapter else "specter2-base-shape")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG_FILE).write_text(CONFIG)
    shutil.copyfile(SHARED / "data/scivocab/tokenizer.json", folder / TOKENIZER_FILE)
    config, rng = BertConfig.read(folder / CONFIG_FILE), np.random.default_rng(SEED)
    _save_once(folder / WEIGHTS_FILE, bert_shapes(config), rng)
    if adapter:
        _save_once(folder / ADAPTER_FILE, adapter_shapes(config), rng)
    facts = Facts(
        name=folder.name,
        pooling="cls",
        separator=SEPARATOR,
        max_tokens=MAX_TOKENS,
        theta=0.96,
        theta_note="Random weights have no meaningful theta.",
        sources={"weights": f"random, seed {SEED}"},
        adapter="bottleneck" if adapter else None,
    )
    export(folder, facts)
    return folder


def bert_shapes(config: BertConfig) -> dict[str, tuple[int, ...]]:
    """Tensors of a BERT checkpoint in Hugging Face's layout."""
    dim, inner = config.hidden_size, config.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config.vocab_size, dim),
        "embeddings.position_embeddings.weight": (config.max_position_embeddings, dim),
        "embeddings.token_type_embeddings.weight": (config.type_vocab_size, dim),
        **_norm("embeddings.LayerNorm", dim),
        **_dense("pooler.dense", dim, dim),
    }
    for i in range(config.num_hidden_layers):
        layer = f"encoder.layer.{i}"
        for part in ("query", "key", "value"):
            shapes |= _dense(f"{layer}.attention.self.{part}", dim, dim)
        shapes |= _dense(f"{layer}.attention.output.dense", dim, dim)
        shapes |= _norm(f"{layer}.attention.output.LayerNorm", dim)
        shapes |= _dense(f"{layer}.intermediate.dense", inner, dim)
        shapes |= _dense(f"{layer}.output.dense", dim, inner)
        shapes |= _norm(f"{layer}.output.LayerNorm", dim)
    return shapes


def adapter_shapes(config: BertConfig) -> dict[str, tuple[int, ...]]:
    """Tensors of a bottleneck adapter, named as the adapters library does."""
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(config.num_hidden_layers):
        part = f"bert.encoder.layer.{i}.output.adapters.shape"
        shapes |= _dense(f"{part}.adapter_down.0", UNITS, config.hidden_size)
        shapes |= _dense(f"{part}.adapter_up", config.hidden_size, UNITS)
    return shapes


def linear_layers(config: BertConfig, units: int) -> list[tuple[int, int]]:
    """(columns in, columns out) of the linear layers of one transformer layer.

    `units` of the adapter are 0 where there is none.
    """
    dim, inner = config.hidden_size, config.intermediate_size
    bottleneck = [(dim, units), (units, dim)] if units else []
    return [*[(dim, dim)] * 4, (dim, inner), (inner, dim), *bottleneck]


def _dense(name: str, out: int, into: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def _norm(name: str, dim: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (dim,), f"{name}.bias": (dim,)}


def _save_once(path: Path, shapes: dict[str, tuple[int, ...]], rng: np.random.Generator) -> None:
    """Random tensors such that every token of a text and every layer moves the vector."""
    if path.exists():
        return
    tensors: Tensors = {}
    for name, shape in shapes.items():
        values = rng.standard_normal(shape, np.float32)
        values *= np.float32(0.1 if len(shape) == 1 else shape[-1] ** -0.5)
        tensors[name] = values + np.float32(name.endswith("LayerNorm.weight"))
    whole = path.with_suffix(".partial")
    save_file(tensors, whole, metadata={"format": "pt"})  # transformers wants that word
    whole.replace(path)
