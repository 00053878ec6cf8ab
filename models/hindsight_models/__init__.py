"""Text to unit vectors: model cards, tokenising, sessions; export and fetch.

Every failure is a `ModelError` whose message says what to do, or, of the file system while a model
is fetched or exported, an OSError. Importing this package imports nothing heavy; each name below
is loaded when first used.

From texts to vectors: `encoder` (texts by chunks) uses `tokenizing`, `batches` (which texts go
together) and `running` (batches on sessions); `engines` chooses among `session` (onnxruntime;
`cuda` and `int8` beside it) and `openvino`. A model folder: `card`, `folder` (its files), `proof`
(its vectors). From published files to one: `reading` (config, tensors, adapter, tokenizer),
`weights`, `graph`, `twin` (the same computation in float64), `export`. From elsewhere: `fetching`.
From vectors to those nearest to them: on a GPU `nearest`, by `products`; `integers` multiplies
bytes for a scan on the CPU.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hindsight_models.card import Card
    from hindsight_models.encoder import Encoded, Encoder, Progress, load
    from hindsight_models.errors import ModelError, OutOfMemoryError, RequestError, TextError
    from hindsight_models.export import Facts
    from hindsight_models.fetching.known import KNOWN, Hub, Recipe, by_hand
    from hindsight_models.fetching.making import Placed, export_to, get
    from hindsight_models.integers import IntegerProducts
    from hindsight_models.nearest import Nearest, Nominated
    from hindsight_models.proof import Proof, verify
    from hindsight_models.reading.told import read_told
    from hindsight_models.session import engine_facts

__all__ = [
    "KNOWN",
    "Card",
    "Encoded",
    "Encoder",
    "Facts",
    "Hub",
    "IntegerProducts",
    "ModelError",
    "Nearest",
    "Nominated",
    "OutOfMemoryError",
    "Placed",
    "Progress",
    "Proof",
    "Recipe",
    "RequestError",
    "TextError",
    "by_hand",
    "engine_facts",
    "export_to",
    "get",
    "load",
    "read_told",
    "verify",
]

_HOMES = {
    "Card": "card",
    "Encoded": "encoder",
    "Encoder": "encoder",
    "Progress": "encoder",
    "load": "encoder",
    "ModelError": "errors",
    "OutOfMemoryError": "errors",
    "RequestError": "errors",
    "TextError": "errors",
    "Facts": "export",
    "Placed": "fetching.making",
    "export_to": "fetching.making",
    "get": "fetching.making",
    "IntegerProducts": "integers",
    "Nearest": "nearest",
    "Nominated": "nearest",
    "Proof": "proof",
    "verify": "proof",
    "KNOWN": "fetching.known",
    "Hub": "fetching.known",
    "Recipe": "fetching.known",
    "by_hand": "fetching.known",
    "engine_facts": "session",
    "read_told": "reading.told",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
