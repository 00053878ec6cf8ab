"""The vectors of a batch of texts."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

import hindsight_models as models
from hindsight_fast.encoding._cache import Identified, VectorCache, vector_keys
from hindsight_fast.errors import EncoderError


class CountingEncoder(Identified, Protocol):
    """What encoding asks of an encoder."""

    @property
    def dim(self) -> int: ...

    @property
    def chunk_size(self) -> int: ...

    def encode_counted(
        self, pairs: Sequence[tuple[str, str]], progress: models.Progress | None = None
    ) -> models.Encoded: ...

    def encode_chunks(
        self,
        chunks: Iterable[Sequence[tuple[str, str]]],
        progress: models.Progress | None = None,
    ) -> Generator[models.Encoded]: ...


def encode_texts(
    encoder: CountingEncoder,
    pairs: Sequence[tuple[str, str]],
    cache: VectorCache | None = None,
) -> models.Encoded:
    """Encode texts, equal ones once; every row is its own text's.

    Parameters
    ----------
    cache
        Texts that are there are not encoded; others are put there as soon as they are.

    Raises
    ------
    EncoderError
        The model failed; where at a text, it is told how that begins.
    """
    place = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    texts = list(place)
    if cache is None:
        with _named(texts):
            encoded = encoder.encode_counted(texts)
    else:
        encoded = _encode_missing(encoder, texts, cache)
    if len(place) == len(pairs):
        return encoded
    rows = np.array([place[pair] for pair in pairs], np.int64)
    return encoded.rows(rows)


def _encode_missing(
    encoder: CountingEncoder, texts: Sequence[tuple[str, str]], cache: VectorCache
) -> models.Encoded:
    """Chunk by chunk, so that a kill loses a few of the texts that are encoded by then."""
    out = models.Encoded.empty(len(texts), encoder.dim)
    keys = vector_keys(encoder, texts)
    missing = cache.fill(keys, out)
    size = encoder.chunk_size
    chunks = [missing[i : i + size] for i in range(0, len(missing), size)]
    encoded = encoder.encode_chunks([texts[i] for i in chunk] for chunk in chunks)
    with _named([texts[i] for i in missing]):
        for at, part in zip(chunks, encoded, strict=True):
            for whole, piece in zip(out, part, strict=True):
                whole[at] = piece
            cache.add([keys[i] for i in at], part)
    return out


@contextmanager
def _named(texts: Sequence[tuple[str, str]]) -> Generator[None]:
    """Tell how a text that got no vector begins: its number among these says nothing to others."""
    try:
        yield
    except EncoderError as error:
        if isinstance(error.__cause__, models.TextError):
            head, body = texts[error.__cause__.text]
            raise EncoderError(f"the text {(head or body)[:60]!r}: {error}") from error
        raise
