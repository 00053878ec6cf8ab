"""Text to unit vectors: model cards, tokenising, ONNX sessions; export and fetch.

Every failure is a `ModelError` whose message says what to do, or, of the file system while a model
is fetched or exported, an OSError. Importing this package imports nothing heavy; each name below
is loaded when first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hindsight_models.card import Card
    from hindsight_models.encoder import CHUNK, Encoded, Encoder, Progress, load
    from hindsight_models.errors import ModelError, TakenError, TextError
    from hindsight_models.export import Facts
    from hindsight_models.fetch import Placed, export_to, get
    from hindsight_models.folder import Proof, verify
    from hindsight_models.known import KNOWN, Hub, Recipe, by_hand
    from hindsight_models.session import engine_facts
    from hindsight_models.told import read_told

__all__ = [
    "CHUNK",
    "KNOWN",
    "Card",
    "Encoded",
    "Encoder",
    "Facts",
    "Hub",
    "ModelError",
    "Placed",
    "Progress",
    "Proof",
    "Recipe",
    "TakenError",
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
    "CHUNK": "encoder",
    "Encoded": "encoder",
    "Encoder": "encoder",
    "Progress": "encoder",
    "load": "encoder",
    "ModelError": "errors",
    "TakenError": "errors",
    "TextError": "errors",
    "Facts": "export",
    "Placed": "fetch",
    "export_to": "fetch",
    "get": "fetch",
    "Proof": "folder",
    "verify": "folder",
    "KNOWN": "known",
    "Hub": "known",
    "Recipe": "known",
    "by_hand": "known",
    "engine_facts": "session",
    "read_told": "told",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
