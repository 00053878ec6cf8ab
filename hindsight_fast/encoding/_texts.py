"""The vectors of a batch of texts."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

import hindsight_models as models


class CountingEncoder(Protocol):
    """What encoding asks of an encoder."""

    def encode_counted(
        self, pairs: Sequence[tuple[str, str]], progress: models.Progress | None = None
    ) -> models.Encoded: ...


def encode_texts(encoder: CountingEncoder, pairs: Sequence[tuple[str, str]]) -> models.Encoded:
    """Encode texts, equal ones once; every row is its own text's.

    Raises
    ------
    EncoderError
        The model failed.
    """
    place = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    encoded = encoder.encode_counted(list(place))
    if len(place) == len(pairs):
        return encoded
    rows = np.array([place[pair] for pair in pairs], np.int64)
    return encoded.rows(rows)
