"""Which tensors an encoder has: their names, as Hugging Face's BERT has them, and their shapes.

RoBERTa's differ by a prefix, DistilBERT's by names; both have one name here.
"""

import re
from collections.abc import Mapping

from hindsight_models.weights import BertConfig

Shapes = Mapping[str, tuple[int, ...]]

_PREFIX = re.compile(r"^(bert|roberta|distilbert)\.")
# The first two are names of 2018, when BERT came from TensorFlow.
_RENAMED = (
    ("LayerNorm.gamma", "LayerNorm.weight"),
    ("LayerNorm.beta", "LayerNorm.bias"),
    ("transformer.layer.", "encoder.layer."),
    (".attention.q_lin.", ".attention.self.query."),
    (".attention.k_lin.", ".attention.self.key."),
    (".attention.v_lin.", ".attention.self.value."),
    (".attention.out_lin.", ".attention.output.dense."),
    (".sa_layer_norm.", ".attention.output.LayerNorm."),
    (".ffn.lin1.", ".intermediate.dense."),
    (".ffn.lin2.", ".output.dense."),
    (".output_layer_norm.", ".output.LayerNorm."),
)


def plain_name(name: str) -> str:
    """A published tensor's name without the model's prefix, as BERT has it."""
    name = _PREFIX.sub("", name)
    for old, new in _RENAMED:
        name = name.replace(old, new)
    return name


def encoder_shapes(config: BertConfig) -> Shapes:
    """Name and shape of every tensor that the graph needs."""
    dim, inner = config.hidden_size, config.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config.vocab_size, dim),
        "embeddings.position_embeddings.weight": (config.max_position_embeddings, dim),
        **_norm("embeddings.LayerNorm", dim),
    }
    if config.type_vocab_size:
        shapes["embeddings.token_type_embeddings.weight"] = (config.type_vocab_size, dim)
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


def adapter_shapes(config: BertConfig, name: str, units: int) -> Shapes:
    """The same of a bottleneck adapter with `units` units in every layer."""
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(config.num_hidden_layers):
        part = f"encoder.layer.{i}.output.adapters.{name}"
        shapes |= _dense(f"{part}.adapter_down.0", units, config.hidden_size)
        shapes |= _dense(f"{part}.adapter_up", config.hidden_size, units)
    return shapes


def _dense(name: str, out: int, into: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def _norm(name: str, dim: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (dim,), f"{name}.bias": (dim,)}
