"""From published files (config, weights, tokenizer) to a model folder."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hindsight_models.card import (
    ADAPTER_FILE,
    CARD_FILE,
    CONFIG_FILE,
    FUSED_FILE,
    GRAPH_FILE,
    HALF_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    Card,
    Golden,
)
from hindsight_models.errors import ModelError
from hindsight_models.folder import sha256_of
from hindsight_models.graph import Variant, build_graph
from hindsight_models.weights import BertConfig, Checkpoint

_GRAPHS: Mapping[str, Variant] = {GRAPH_FILE: "standard", FUSED_FILE: "fused", HALF_FILE: "half"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a card says beyond what the files tell."""

    name: str
    pooling: Literal["cls", "mean"]
    separator: str
    max_tokens: int
    theta: float
    theta_note: str
    sources: Mapping[str, str]
    adapter: str | None = None
    published_as: tuple[str, ...] = ()


def export(folder: Path, facts: Facts, golden: tuple[Golden, ...] = ()) -> Card:
    """Write the graphs and the card into a folder that holds the published files.

    The folder must have config.json, model.safetensors and tokenizer.json, and
    adapter.safetensors where the facts name an adapter. The card is written last.

    Raises
    ------
    ModelError
        A file is missing, damaged, or not of a supported architecture.
    """
    config = BertConfig.read(folder / CONFIG_FILE)
    if facts.max_tokens > config.longest:
        raise ModelError(
            f"max_tokens {facts.max_tokens} is more than the model's {config.longest} positions"
        )
    names = [CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE, *_GRAPHS]
    weights, adapter = Checkpoint(folder / WEIGHTS_FILE), None
    if facts.adapter is not None:
        adapter = Checkpoint(folder / ADAPTER_FILE)
        names.append(ADAPTER_FILE)
    for name, variant in _GRAPHS.items():
        graph = build_graph(config, weights, facts.pooling, adapter=adapter, variant=variant)
        (folder / name).write_bytes(graph.SerializeToString(deterministic=True))
    card = Card(
        name=facts.name,
        dim=config.hidden_size,
        pooling=facts.pooling,
        separator=facts.separator,
        max_tokens=facts.max_tokens,
        theta=facts.theta,
        theta_note=facts.theta_note,
        files={name: sha256_of(folder / name) for name in names},
        sources=facts.sources,
        adapter=facts.adapter,
        published_as=facts.published_as,
    )
    card = replace(card, golden=golden)
    (folder / CARD_FILE).write_text(card.to_json(), encoding="utf-8")
    return card
