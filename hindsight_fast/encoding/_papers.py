"""Which papers of a store are to be encoded, and their texts, a chunk at a time."""

import datetime as dt
from collections.abc import Generator
from typing import NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.store import Store

BLOCK = 16_384  # papers read together; of these, equal texts are encoded once
UNWANTED, MISSING, TAKING, EARLIER, TAKEN, ENCODED = range(6)
"""What a row is: not asked for, without a vector yet, being taken over, taken over from the store
itself (or from another one, which did not make it otherwise), taken over from elsewhere,
encoded."""


class Chunk(NamedTuple):
    """Texts that are encoded together, and the rows that they belong to.

    Attributes
    ----------
    pairs
        (title, abstract) of each text.
    rows : ndarray of shape (m,), int64
        Rows of the store, ascending; at least one for each text.
    text : ndarray of shape (m,), int64
        Which of the texts each row has.
    """

    pairs: list[tuple[str, str]]
    rows: NDArray[np.int64]
    text: NDArray[np.int64]


def rows_wanted(store: Store, since: dt.date | None) -> NDArray[np.uint8]:
    """MISSING for the papers that a pool could hold, UNWANTED for others; shape (n,)."""
    state = np.full(store.n, UNWANTED, np.uint8)
    low, high = store.window(since or dt.date.min, dt.date.max)
    for start in range(low, high, 8 * BLOCK):
        stop = min(start + 8 * BLOCK, high)
        status = store.papers(["status"], start, stop)["status"]
        state[start:stop][status.eq_missing("ok").to_numpy()] = MISSING
    return state


def blocks_missing(state: NDArray[np.uint8]) -> list[int]:
    """The first rows of the blocks in which a row is missing."""
    starts = range(0, len(state), BLOCK)
    return [start for start in starts if (state[start : start + BLOCK] == MISSING).any()]


def texts_of(store: Store, state: NDArray[np.uint8], start: int) -> pl.DataFrame:
    """Read the texts of a block: row, title, abstract of papers that are not taken over.

    A paper whose title or abstract is empty has no text, and is UNWANTED afterwards.
    """
    stop = min(start + BLOCK, store.n)
    papers = store.papers(["title", "abstract"], start, stop).with_row_index("row", start)
    texts = papers.filter(
        pl.Series(np.isin(state[start:stop], (MISSING, ENCODED))),
        (pl.col("title") != "") & (pl.col("abstract") != ""),
    ).with_columns(pl.col("row").cast(pl.Int64))
    lacking = state[start:stop] == MISSING
    lacking[texts["row"].to_numpy() - start] = False
    state[start:stop][lacking] = UNWANTED
    return texts


def chunks_of(texts: pl.DataFrame, state: NDArray[np.uint8], size: int) -> Generator[Chunk]:
    """Divide the distinct texts of a block into chunks; those that are encoded are left out.

    The division does not depend on what is encoded already, so that a text meets the same others
    in a resumed job as in one without a break.
    """
    distinct = texts.group_by("title", "abstract", maintain_order=True).agg("row")
    for start in range(0, distinct.height, size):
        part = distinct[start : start + size]
        rows = part["row"].explode().to_numpy()
        text = np.repeat(np.arange(part.height), part["row"].list.len().to_numpy())
        lacking = state[rows] == MISSING
        used, text = np.unique(text[lacking], return_inverse=True)
        if used.size:
            order = np.argsort(rows[lacking])
            pairs = cast(list[tuple[str, str]], part[used].select("title", "abstract").rows())
            yield Chunk(pairs, rows[lacking][order], text[order].astype(np.int64))
