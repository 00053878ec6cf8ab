"""Filling the array of vectors: what was done, what is taken over, what is encoded."""

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Generator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.encoders import Encoder
from hindsight_fast.encoding._papers import (
    EARLIER,
    ENCODED,
    MISSING,
    TAKEN,
    TAKING,
    Chunk,
    blocks_missing,
    chunks_of,
    texts_of,
)
from hindsight_fast.encoding._taking import COUNTS, Carried, Earlier, Taken
from hindsight_fast.errors import ArtefactError, EncoderError
from hindsight_fast.storage import Piece, Unfinished
from hindsight_fast.store import Store, check_unit_rows
from hindsight_models import Encoded, TextError


class Progress(NamedTuple):
    """How far the work is.

    Attributes
    ----------
    label
        What is being done.
    done, total
        Papers that have their vector, and that are to have one.
    tokens
        Sent to the model by this process.
    restored
        Papers whose vectors an earlier process had made.
    lost
        Pieces of its work that did not survive, and are made again.
    """

    label: str
    done: int
    total: int
    tokens: int
    restored: int
    lost: int


Watch = Callable[[Progress], None]


def _state(piece: str) -> int:
    """What the rows of a piece of this name are."""
    if not piece:
        return ENCODED
    return EARLIER if piece in (Earlier.identity, Carried.identity) else TAKEN


class Filling:
    """The vectors of a store's papers in the making.

    Parameters
    ----------
    state : ndarray of shape (n,), uint8
        What each row is (see `_papers`); brought up to date here.

    Attributes
    ----------
    totals : Counter
        The sums of `COUNTS`, and of what others counted.
    n_lost : int
        Pieces that an earlier process had made and that did not survive.
    """

    def __init__(self, store: Store, state: NDArray[np.uint8], watch: Watch | None) -> None:
        self.store, self.state, self._watch = store, state, watch
        self.totals = Counter[str](dict.fromkeys(COUNTS, 0))
        self.n_lost = 0
        self._complete = set[str]()
        self._restored = 0
        self._done, self._total = 0, int((state == MISSING).sum())
        self._running, self._tokens = 0, 0  # texts encoded whose chunk is not complete yet

    def restore(self, piece: Piece) -> None:
        """Note a piece that an earlier process completed."""
        for rows in piece.blocks():
            self.state[rows] = _state(piece.name)
            self._restored += len(rows)
            self._done += len(rows)
        self.totals.update(piece.counts)
        self._complete.add(piece.name)
        self.tell("checking what is done")

    def tell(self, label: str) -> None:
        """Tell how far the work is."""
        if self._watch is not None:
            done, tokens = self._done + self._running, self._tokens
            self._watch(Progress(label, done, self._total, tokens, self._restored, self.n_lost))

    def take(self, work: Unfinished, taken: Taken) -> None:
        """Write the rows that are asked for and not there yet.

        Raises
        ------
        ArtefactError
            A vector is not of length 1.
        StorageError
            The file system refuses.
        """
        if taken.identity in self._complete:
            return
        n_repeated = 0
        for rows, vectors in taken:
            there = self.state[rows]
            lacking = np.flatnonzero(there == MISSING)
            fresh, first = np.unique(rows[lacking], return_index=True)
            check_unit_rows(vectors, taken.label)
            if not (full := vectors.any(axis=1)).all():  # such a row would stand for none
                row = int(full.argmin())
                raise ArtefactError(f"{taken.label}: row {row} has length 0, not 1")
            work.write(fresh, vectors[lacking[first]])
            self.state[fresh] = TAKING
            self._done += len(fresh)
            n_repeated += int((there > MISSING).sum()) + len(lacking) - len(fresh)
            self.tell(taken.label)
        mask = self.state == TAKING
        counts = {"n_taken": int(mask.sum()), "n_repeated": n_repeated, **taken.counts}
        low = int(mask.argmax()) if mask.any() else 0
        self._add(work, Piece(taken.identity, low, np.trim_zeros(mask), counts))

    def encode(self, work: Unfinished, encoder: Encoder) -> None:
        """Encode what is missing.

        Raises
        ------
        EncoderError
            The model failed; where at a text, its paper is named.
        ArtefactError
            The store was replaced or is damaged.
        StorageError
            The file system refuses.
        """
        waiting, n_kept = deque[Chunk](), 0
        encoded = encoder.encode_chunks(self._pairs(waiting, encoder.chunk_size), self._advance)
        self.tell("encoding")
        try:
            with contextlib.closing(encoded):
                for one in encoded:
                    chunk = waiting.popleft()
                    n_kept += len(chunk.pairs)
                    self._running -= len(chunk.pairs)
                    self._keep(work, chunk, one)
        except EncoderError as error:
            if isinstance(error.__cause__, TextError):
                paper = self._paper(waiting, error.__cause__.text - n_kept)
                raise EncoderError(f"paper {paper}: {error}") from error
            raise
        self.tell("encoding")

    def _pairs(self, waiting: deque[Chunk], size: int) -> Generator[list[tuple[str, str]]]:
        for start in blocks_missing(self.state):
            texts = texts_of(self.store, self.state, start)
            self._total = int((self.state >= MISSING).sum())  # some of the block had no text
            for chunk in chunks_of(texts, self.state, size):
                waiting.append(chunk)
                yield chunk.pairs

    def _advance(self, texts: int, tokens: int) -> None:
        self._running += texts
        self._tokens += tokens
        self.tell("encoding")

    def _keep(self, work: Unfinished, chunk: Chunk, encoded: Encoded) -> None:
        rows, low = chunk.rows, int(chunk.rows[0])
        work.write(rows, encoded.vectors[chunk.text])
        mask = np.zeros(int(rows[-1]) - low + 1, np.bool_)
        mask[rows - low] = True
        counts = {
            "n_encoded": len(rows),
            "n_texts": len(chunk.pairs),
            "n_tokens": int(encoded.n_tokens.sum(dtype=np.int64)),
            "n_truncated": int(encoded.truncated.sum()),
            "n_retried": int(encoded.retried.sum()),
        }
        self._add(work, Piece("", low, mask, counts))
        self._done += len(rows)

    def _add(self, work: Unfinished, piece: Piece) -> None:
        work.add(piece)
        for rows in piece.blocks():
            self.state[rows] = _state(piece.name)
        self.totals.update(piece.counts)
        self._complete.add(piece.name)

    def _paper(self, waiting: deque[Chunk], text: int) -> str:
        """The id of the paper with a text, by its number among those that wait."""
        for chunk in waiting:
            if text < len(chunk.pairs):
                row = chunk.rows[chunk.text == text][:1]
                return str(self.store.lookup(row)["id"][0])
            text -= len(chunk.pairs)
        raise IndexError(text)
