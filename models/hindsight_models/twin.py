"""The encoder once more, slow and plain, in float64: the vectors that an export has to match.

It shares nothing with the graph: the safetensors library reads the weights, the layers are written
as their formulas are (hindsight_models.graph has them), and no text is padded.
"""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from hindsight_models.reading.layout import plain_name
from hindsight_models.weights import BertConfig

Rows = NDArray[np.float64]  # of shape (tokens, hidden_size), the texts' one after another
_Weights = Callable[[str], NDArray[np.float32]]


def unit_vectors(
    texts: Sequence[Sequence[int]],
    config: BertConfig,
    weights: Path,
    pooling: str,
    adapter: Path | None = None,
) -> Rows:
    """Unit vectors of texts given as token ids, float64 of shape (n, hidden_size).

    `weights` and `adapter` are safetensors files of a model folder. The weights of one layer are
    in memory at a time.
    """
    table = _reader(weights)
    extra = None if adapter is None else _reader(adapter)
    ends = np.cumsum([len(ids) for ids in texts]).tolist()
    spans = [slice(end - len(ids), end) for end, ids in zip(ends, texts, strict=True)]
    x = _embedded(texts, config, table)
    for i in range(config.num_hidden_layers):
        x = _layer(f"encoder.layer.{i}", x, spans, config, table, extra)
    pooled = np.array([x[at][0] if pooling == "cls" else x[at].mean(0) for at in spans])
    unit: Rows = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    return unit


def _reader(path: Path) -> _Weights:
    """Tensors by BERT's names for them, without an adapter's own name."""
    opened: Any = safe_open(path, framework="np")
    with opened as file:
        names: list[str] = list(file.keys())
    plain = {re.sub(r"(\.adapters)\.[^.]+", r"\1", plain_name(name)): name for name in names}

    def read(name: str) -> NDArray[np.float32]:
        opened: Any = safe_open(path, framework="np")
        with opened as file:
            array: NDArray[np.float32] = file.get_tensor(plain[name])
        return array

    return read


def _embedded(texts: Sequence[Sequence[int]], config: BertConfig, table: _Weights) -> Rows:
    words, positions = (
        table(f"embeddings.{part}_embeddings.weight") for part in ("word", "position")
    )
    first = config.first_position
    x = np.concatenate([words[list(ids)] for ids in texts]).astype(np.float64)
    x += np.concatenate([positions[first : first + len(ids)] for ids in texts])
    if config.type_vocab_size:
        x += table("embeddings.token_type_embeddings.weight")[0]
    return _norm("embeddings.LayerNorm", x, table, config)


def _layer(
    name: str,
    x: Rows,
    spans: Sequence[slice],
    config: BertConfig,
    table: _Weights,
    extra: _Weights | None,
) -> Rows:
    q, k, v = (_dense(f"{name}.attention.self.{n}", x, table) for n in ("query", "key", "value"))
    context = np.concatenate([_attention(q[at], k[at], v[at], config.head_size) for at in spans])
    attended = _dense(f"{name}.attention.output.dense", context, table)
    a = _norm(f"{name}.attention.output.LayerNorm", x + attended, table, config)
    inner = _gelu(_dense(f"{name}.intermediate.dense", a, table))
    total = _dense(f"{name}.output.dense", inner, table) + a
    normed = _norm(f"{name}.output.LayerNorm", total, table, config)
    if extra is None:
        return normed
    adapted = _bottleneck(f"{name}.output.adapters", normed, extra) + total
    return _norm(f"{name}.output.LayerNorm", adapted, table, config)


def _bottleneck(name: str, x: Rows, extra: _Weights) -> Rows:
    narrow = np.maximum(_dense(f"{name}.adapter_down.0", x, extra), 0.0)
    return _dense(f"{name}.adapter_up", narrow, extra)


def _dense(name: str, x: Rows, table: _Weights) -> Rows:
    y: Rows = x @ table(f"{name}.weight").astype(np.float64).T + table(f"{name}.bias")
    return y


def _norm(name: str, x: Rows, table: _Weights, config: BertConfig) -> Rows:
    centred = x - x.mean(1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(1, keepdims=True) + config.layer_norm_eps)
    y: Rows = centred / deviation * table(f"{name}.weight") + table(f"{name}.bias")
    return y


def _attention(query: Rows, key: Rows, value: Rows, size: int) -> Rows:
    context = np.empty_like(value)
    for start in range(0, value.shape[1], size):
        head = slice(start, start + size)
        scores = query[:, head] @ key[:, head].T / math.sqrt(size)
        shares = np.exp(scores - scores.max(1, keepdims=True))
        context[:, head] = shares / shares.sum(1, keepdims=True) @ value[:, head]
    return context


def _gelu(x: Rows) -> Rows:
    erf = np.fromiter(map(math.erf, (x.ravel() / math.sqrt(2.0)).tolist()), np.float64, x.size)
    return x * (1.0 + erf.reshape(x.shape)) / 2.0
