"""A tiny model in which one word overflows float16, and nothing else does."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from reference import load_tensors
from tiny_model import tiny_model, vocabulary

WORD = "image"


def overflowing_model(folder: Path) -> Path:
    """Write the model; returns its folder.

    Of all words only `WORD` has a large first number, which one unit of the first layer multiplies
    beyond float16's 65,504; in float32 the text is like any other.
    """
    weights = load_tensors(tiny_model(folder / "as-it-was") / "model.safetensors")
    for name in ("word", "position", "token_type"):
        weights[f"embeddings.{name}_embeddings.weight"][:, 0] = 0.0
    weights["embeddings.word_embeddings.weight"][vocabulary().index(WORD), 0] = 100.0
    layer = "encoder.layer.0"
    weights[f"{layer}.attention.output.dense.weight"][0] = 0.0
    weights[f"{layer}.attention.output.dense.bias"][0] = 0.0
    inner = weights[f"{layer}.intermediate.dense.weight"]
    inner[0] = np.eye(1, inner.shape[1], dtype=np.float32) * 20_000.0
    weights[f"{layer}.output.dense.weight"][:, 0] *= np.float32(1e-4)
    save_file(weights, folder / "overflowing.safetensors")
    return tiny_model(folder / "model", weights=folder / "overflowing.safetensors")
