"""What encoding will cost, measured on a sample of the texts."""

import collections
import contextlib
import itertools
import time
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.encoders import Encoder
from hindsight_fast.encoding._papers import MISSING, blocks_missing, texts_of
from hindsight_fast.store import Store

_BLOCKS, _TEXTS_EACH = 8, 32  # of the sample
_ENOUGH_S = 3.0
_TOGETHER_S = 0.05  # within which the first batches, which ran side by side, end


class Forecast(NamedTuple):
    """What is to be done, and at what speed.

    Attributes
    ----------
    n_papers, n_done
        Papers still to encode, and those that have their vector.
    tokens_per_text
        Mean of the sample.
    tokens_per_second
        Of the encoder on the sample, after warming up.
    """

    n_papers: int
    n_done: int
    tokens_per_text: float
    tokens_per_second: float

    @property
    def seconds(self) -> float:
        """How long encoding will take."""
        return self.n_papers * self.tokens_per_text / self.tokens_per_second


def forecast(store: Store, state: NDArray[np.uint8], encoder: Encoder) -> Forecast | None:
    """Encode a sample of the texts that are missing; None where there are hardly more.

    Texts come from blocks spread over the store, since their length changes over the years.

    Raises
    ------
    EncoderError
        The model failed.
    """
    n_missing = int((state == MISSING).sum())
    if n_missing <= _BLOCKS * _TEXTS_EACH:
        return None
    sample = _sample(store, state)
    n_done = int((state > MISSING).sum())
    tokens = float(encoder.count_tokens(sample).mean())
    return Forecast(n_missing, n_done, tokens, tokens_per_second(encoder, sample))


class _EnoughError(Exception):
    """Leaves the encoder in the midst of its work."""


def tokens_per_second(encoder: Encoder, sample: list[tuple[str, str]]) -> float:
    """Speed from the end of the first batches on, which warm up, for a few seconds.

    Raises
    ------
    EncoderError
        The model failed.
    """
    size = 16 if encoder.device == "cpu" else encoder.chunk_size  # a short look
    parts = [sample[start : start + size] for start in range(0, len(sample), size)]
    n_texts = n_tokens = 0
    first = began = now = 0.0

    def look(texts: int, tokens: int) -> None:
        nonlocal n_texts, n_tokens, first, began, now
        now = time.perf_counter()
        first = first or now
        if now - first < _TOGETHER_S:
            began = now
            return
        n_texts, n_tokens = n_texts + texts, n_tokens + tokens
        if now - began >= _ENOUGH_S or n_texts >= 2 * len(sample):
            raise _EnoughError

    with (
        contextlib.suppress(_EnoughError),
        contextlib.closing(encoder.encode_chunks(itertools.cycle(parts), look)) as encoded,
    ):
        collections.deque(encoded, maxlen=0)
    return n_tokens / (now - began)


def _sample(store: Store, state: NDArray[np.uint8]) -> list[tuple[str, str]]:
    """Some texts from each of some blocks, in an order that mixes the blocks."""
    blocks = blocks_missing(state)
    at = sorted({round(i * (len(blocks) - 1) / (_BLOCKS - 1)) for i in range(_BLOCKS)})
    pairs = list[tuple[str, str]]()
    for start in (blocks[i] for i in at):
        texts = texts_of(store, state, start)
        texts = texts.filter(state[texts["row"].to_numpy()] == MISSING)
        spread = np.unique(np.linspace(0, max(texts.height - 1, 0), _TEXTS_EACH).astype(int))
        if texts.height:
            pairs += cast(list[tuple[str, str]], texts[spread].select("title", "abstract").rows())
    mixed = np.random.default_rng(0).permutation(len(pairs)).tolist()
    return [pairs[i] for i in mixed]
