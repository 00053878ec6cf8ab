"""What a precision other than float32 does to the vectors of some texts, measured."""

import datetime as dt
from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.agreement import Agreement, compare
from hindsight_fast.encoders import Encoder
from hindsight_fast.encoding._texts import CountingEncoder
from hindsight_fast.store import Store

SAMPLE = 64
"""Texts that are encoded in float32 as well, to say what another precision costs."""

_PLACES = 8  # of a store, evenly spread, at which papers of the sample are taken


class Referring(CountingEncoder, Protocol):
    """An encoder that can be measured."""

    def reference(self) -> CountingEncoder: ...


def precision_cost(
    encoder: Referring, pairs: Sequence[tuple[str, str]], theta: float
) -> Agreement | None:
    """Compare an encoder's vectors of texts with those of its float32 reference on the CPU.

    Returns
    -------
    Agreement or None
        None where the encoder itself computes in float32, or there is no text.

    Raises
    ------
    EncoderError
        The reference can't be opened, or one of the two failed.
    """
    if encoder.precision == "float32" or not pairs:
        return None
    reference = encoder.reference().encode_counted(pairs).vectors
    return compare(reference, encoder.encode_counted(pairs).vectors, theta)


def precision_cost_of_papers(
    store: Store, encoder: Encoder, since: dt.date | None = None
) -> Agreement | None:
    """`precision_cost` on a sample of the papers since a date, at the model's own theta."""
    if encoder.precision == "float32":
        return None
    _, pairs = sample_papers(store, *store.window(since or dt.date.min, dt.date.max))
    return precision_cost(encoder, pairs, encoder.theta)


def sample_papers(
    store: Store, low: int, high: int
) -> tuple[NDArray[np.int64], list[tuple[str, str]]]:
    """Up to `SAMPLE` papers of rows [low, high) that have a text: rows, and (title, abstract).

    Always the same ones, a few side by side at each of some places, since a table is read in runs.
    """
    few, step = SAMPLE // _PLACES, max((high - low) // _PLACES, 1)
    found = [
        store.papers(["title", "abstract", "status"], start, min(start + min(step, SAMPLE), high))
        .with_row_index("row", start)
        .filter((pl.col("status") == "ok") & (pl.col("title") != "") & (pl.col("abstract") != ""))
        .head(few)
        for start in range(low, high, step)[:_PLACES]
    ]
    if not found:
        return np.zeros(0, np.int64), []
    papers = pl.concat(found)
    pairs = cast(list[tuple[str, str]], papers.select("title", "abstract").rows())
    return papers["row"].to_numpy().astype(np.int64), pairs
