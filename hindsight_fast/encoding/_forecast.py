"""What encoding will cost, measured on a sample of the texts."""

import time
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.encoders import Encoder
from hindsight_fast.encoding._papers import MISSING, blocks_missing, texts_of
from hindsight_fast.store import Store

_BLOCKS, _TEXTS_EACH = 8, 32  # of the sample
_ENOUGH_S = 2.0


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
    tokens = encoder.count_tokens(sample)
    encoder.encode(sample[: 2 * encoder.threads])  # warm-up
    done, seconds, size = 0, 0.0, 2 * encoder.threads
    began = time.perf_counter()
    while done < len(sample) and seconds < _ENOUGH_S:
        encoder.encode(sample[done : done + size])
        done, size = min(done + size, len(sample)), 2 * size
        seconds = time.perf_counter() - began
    n_done = int((state > MISSING).sum())
    speed = float(tokens[:done].sum()) / seconds
    return Forecast(n_missing, n_done, float(tokens.mean()), speed)


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
