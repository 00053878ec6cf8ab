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
from hindsight_models.reading import layout
from hindsight_models.reading.layout import Shapes
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


def bert_shapes(config: BertConfig) -> Shapes:
    """Tensors of a BERT checkpoint in Hugging Face's layout."""
    dim = config.hidden_size
    pooler = {"pooler.dense.weight": (dim, dim), "pooler.dense.bias": (dim,)}
    return {**layout.encoder_shapes(config), **pooler}


def adapter_shapes(config: BertConfig) -> Shapes:
    """Tensors of a bottleneck adapter, named as the adapters library does."""
    shapes = layout.adapter_shapes(config, "shape", UNITS)
    return {f"bert.{name}": shape for name, shape in shapes.items()}


def linear_layers(config: BertConfig, units: int) -> list[tuple[int, int]]:
    """(columns in, columns out) of the linear layers of one transformer layer.

    `units` of the adapter are 0 where there is none.
    """
    dim, inner = config.hidden_size, config.intermediate_size
    bottleneck = [(dim, units), (units, dim)] if units else []
    return [*[(dim, dim)] * 4, (dim, inner), (inner, dim), *bottleneck]


def random_tensor(
    rng: np.random.Generator, name: str, shape: tuple[int, ...]
) -> NDArray[np.float32]:
    """Numbers such that every token of a text and every layer moves the vector."""
    values = rng.standard_normal(shape, np.float32)
    values *= np.float32(0.1 if len(shape) == 1 else shape[-1] ** -0.5)
    return values + np.float32(name.endswith("LayerNorm.weight"))


def _save_once(path: Path, shapes: Shapes, rng: np.random.Generator) -> None:
    if path.exists():
        return
    tensors = {name: random_tensor(rng, name, shape) for name, shape in shapes.items()}
    whole = path.with_suffix(".partial")
    save_file(tensors, whole, metadata={"format": "pt"})  # transformers wants that word
    whole.replace(path)
