"""Published files as the hub has them, tiny: a checkpoint saved by torch, and an adapter."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tiny_model import random_adapter, random_weights, write_config, write_tokenizer
from torch_writer import save

ADAPTER_CONFIG: dict[str, Any] = {
    "config": {
        "architecture": None,
        "mh_adapter": False,
        "output_adapter": True,
        "non_linearity": "relu",
        "original_ln_before": True,
        "original_ln_after": True,
        "residual_before_ln": True,
        "adapter_residual_before_ln": False,
        "ln_before": False,
        "ln_after": False,
        "is_parallel": False,
        "reduction_factor": 4,
        "inv_adapter": None,
        "leave_out": [],
    },
    "hidden_size": 32,
    "model_class": "BertAdapterModel",
    "model_name": "allenai/specter_plus_plus",
    "model_type": "bert",
    "name": "[PRX]",
}


def publish_base(folder: Path) -> Path:
    """A checkpoint in the layout of allenai/specter2_base, and a file that nobody needs."""
    folder.mkdir(parents=True)
    write_tokenizer(folder / "tokenizer.json")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    write_config(folder / "config.json", 32, 2)
    save(folder / "pytorch_model.bin", random_weights(np.random.default_rng(0), 32, 2))
    (folder / "README.md").write_text("not needed")
    return folder


def publish_adapter(folder: Path, seed: int = 1, name: str = "[PRX]") -> Path:
    """An adapter in the layout of allenai/specter2."""
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps(ADAPTER_CONFIG | {"name": name}))
    tensors = random_adapter(np.random.default_rng(seed), 32, 2)
    save(folder / "pytorch_adapter.bin", {key: 3 * value for key, value in tensors.items()})
    return folder
