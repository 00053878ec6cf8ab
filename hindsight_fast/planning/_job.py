"""What is asked about: how many papers and ideas, which encoder, which search."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hindsight_fast.config import PAPER_K
from hindsight_fast.encoders import flops
from hindsight_fast.errors import EncoderError, UsageError
from hindsight_fast.model_folders import find_model

# config.json of models that can be fetched, for where they aren't here (yet).
_BERT: Final = {"vocab_size": 30_522, "max_position_embeddings": 512}
KNOWN_SHAPES: Final[Mapping[str, Mapping[str, int]]] = {
    "specter2": {
        **_BERT,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "intermediate_size": 3072,
        "vocab_size": 31_090,
    },
    "minilm": {
        **_BERT,
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "intermediate_size": 1536,
    },
    "bge-small": {
        **_BERT,
        "hidden_size": 384,
        "num_hidden_layers": 12,
        "intermediate_size": 1536,
    },
}

MAX_PAPERS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Job:
    """What to plan for.

    Attributes
    ----------
    papers, ideas : int
    encoder : str
        A model's name, or its folder.
    device, precision : str
        As for `load_encoder`.
    k : int
        Neighbours looked at per idea.
    index : bool or None
        Whether the pool has an index; None: where the exact scan would be noticed.
    connectivity : int
        Links per paper of the index (M).
    tokens : int
        Of a typical text, a paper's or an idea's.
    votes : int
        Of the judge, per idea.
    """

    papers: int
    ideas: int = 200
    encoder: str = "specter2"
    device: str = "auto"
    precision: str = "auto"
    k: int = PAPER_K
    index: bool | None = None
    connectivity: int = 16
    tokens: int = 230
    votes: int = 3

    def __post_init__(self) -> None:
        for name, low, high in (
            ("papers", 1, MAX_PAPERS),
            ("ideas", 1, 10**12),
            ("k", 1, 1000),
            ("connectivity", 2, 512),
            ("tokens", 1, 100_000),
            ("votes", 0, 1000),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"{name} = {value:,}: expected {low:,} to {high:,}")


@dataclass(frozen=True, slots=True)
class Shape:
    """Of an encoder: what its speed and memory depend on.

    Attributes
    ----------
    dim : int
        Of a vector.
    weights : int
        How many there are.
    longest : int
        Tokens that it can take.
    installed : bool
        Whether the model is here, so that it can be tried.
    """

    config: Mapping[str, Any]
    installed: bool

    @property
    def dim(self) -> int:
        return int(self.config["hidden_size"])

    @property
    def longest(self) -> int:
        return int(self.config.get("max_position_embeddings", 512))

    @property
    def weights(self) -> int:
        width, layers = self.dim, int(self.config["num_hidden_layers"])
        inner, words = int(self.config["intermediate_size"]), int(self.config["vocab_size"])
        return layers * (4 * width**2 + 2 * width * inner) + (words + self.longest) * width

    def flops(self, tokens: float) -> float:
        """Floating-point operations of a text."""
        return flops(self.config, min(tokens, self.longest))


def shape_of(encoder: str) -> Shape:
    """The shape of a model by its name or folder.

    Raises
    ------
    EncoderError
        It is neither here nor one that is known.
    """
    try:
        folder = find_model(encoder)
    except EncoderError:
        if encoder in KNOWN_SHAPES:
            return Shape(KNOWN_SHAPES[encoder], installed=False)
        raise
    try:
        shape = Shape(json.loads((folder / "config.json").read_bytes()), installed=True)
        if not shape.flops(1) * shape.weights > 0:
            raise ValueError("a size is 0")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EncoderError(
            f"{folder / 'config.json'} tells no shape of a model: {error}"
        ) from error
    return shape
