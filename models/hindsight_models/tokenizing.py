"""Text to token ids, by a tokenizer.json alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as _Fast

from hindsight_models.card import Card
from hindsight_models.errors import ModelError


class Tokens(NamedTuple):
    """Token ids of one text as the model gets them, and whether the text was cut."""

    ids: NDArray[np.int32]
    truncated: bool


class Tokenizer:
    """The card's text rule: head + separator + body as one sequence, cut at the longest input.

    A text too long keeps its last special token ([SEP]). Special tokens spelt out in a text count
    as such, as in the models' own code.
    """

    def __init__(self, path: Path, card: Card) -> None:
        self._separator = card.separator
        self._max_tokens = card.max_tokens
        self._fast = _read(path)
        # Published files may pad or cut on their own (all-MiniLM's pads everything to 128).
        self._fast.no_padding()
        self._fast.no_truncation()

    def join(self, head: str, body: str) -> str:
        """The text that is tokenised; the separator only stands between two texts."""
        return self._separator.join(part for part in (head, body) if part.strip())

    def __call__(self, head: str, body: str) -> Tokens:
        return self._cut(self._fast.encode(_utf8(self.join(head, body))).ids)

    def many(self, pairs: Sequence[tuple[str, str]], *, parallel: bool = False) -> list[Tokens]:
        """Tokens of several texts, in order.

        Parameters
        ----------
        parallel
            On all processors, by threads of the `tokenizers` library. They don't survive a fork:
            only for processes whose children don't tokenise.
        """
        if not parallel:
            return [self(head, body) for head, body in pairs]
        texts = [_utf8(self.join(head, body)) for head, body in pairs]
        return [self._cut(each.ids) for each in self._fast.encode_batch_fast(texts)]

    def _cut(self, ids: list[int]) -> Tokens:
        truncated = len(ids) > self._max_tokens
        if truncated:
            ids = [*ids[: self._max_tokens - 1], ids[-1]]
        return Tokens(np.array(ids, np.int32), truncated)


def _utf8(text: str) -> str:
    """The text with lone surrogates, which UTF-8 has no form for, as question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _read(path: Path) -> _Fast:
    try:
        return _Fast.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise ModelError(f"{path} is not a tokenizer: {error}") from error
