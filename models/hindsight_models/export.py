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
from hindsight_models.proof import golden_vectors, prove
from hindsight_models.reading.intake import take_adapter_folder, take_base
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
    return _written(folder, replace(card, golden=golden))


def export_published(base: Path, out: Path, facts: Facts, adapter: Path | None = None) -> Card:
    """Make a model folder from the files of a published checkpoint, and prove it.

    Parameters
    ----------
    base
        Folder with config.json, the weights (model.safetensors or pytorch_model.bin) and the
        tokenizer (tokenizer.json or vocab.txt). BERT, RoBERTa and DistilBERT are known.
    out
        An empty folder. It is whole when this returns; where it doesn't, it is rubbish.
    facts
        Its sources are added to: the SHA-256 of every file that was used, by role and name.
    adapter
        Folder of a published bottleneck adapter, to be applied in every layer.

    Returns
    -------
    Card
        With golden vectors, which the graphs were found to give on this machine's CPU.

    Raises
    ------
    ModelError
        Something of the files is missing, damaged or not supported, each by its name; or the
        graphs give other vectors than a float64 computation.
    OSError
        The file system refuses to write.
    """
    if adapter is None and facts.adapter is not None:
        raise ModelError(f"{facts.name} needs the files of its adapter {facts.adapter}")
    sources = {**facts.sources, **take_base(base, out)}
    label = facts.adapter
    if adapter is not None:
        name, used = take_adapter_folder(adapter, out, facts.adapter)
        sources |= {"adapter/name": name, **used}
        label = label or name or "bottleneck"
    card = export(out, replace(facts, sources=sources, adapter=label))
    card = _written(out, replace(card, golden=golden_vectors(out, card)))
    prove(out, card)
    return card


def _written(folder: Path, card: Card) -> Card:
    (folder / CARD_FILE).write_text(card.to_json(), encoding="utf-8")
    return card
