"""Which texts go to the model together: a pure function of their lengths.

On the CPU a batch holds texts of one length only. Nothing is padded, so no work is wasted and no
vector can depend on its neighbours through padding. On CUDA lengths and row counts are rounded up
to a few shapes, since each new shape costs memory there that is never given back.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CPU_TOKENS = 1024
CUDA_TOKENS = 32_768
CUDA_LENGTHS = (32, 64, 128, 256, 384, 512)


class Batch(NamedTuple):
    """Texts (by position) and the shape that they are padded to."""

    members: list[int]
    rows: int
    length: int


def plan_cpu(lengths: Sequence[int], tokens: int = CPU_TOKENS) -> list[Batch]:
    """Batches of equal lengths, longest first, of at most `tokens` tokens (or one text)."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    batches: list[Batch] = []
    for length, group in groupby(order, key=lambda i: lengths[i]):
        members = list(group)
        size = max(1, tokens // length)
        for start in range(0, len(members), size):
            part = members[start : start + size]
            batches.append(Batch(part, len(part), length))
    return batches


def plan_cuda(lengths: Sequence[int], longest: int, tokens: int = CUDA_TOKENS) -> list[Batch]:
    """Batches of few shapes, longest first: one row count for each of the padded lengths."""
    steps = sorted({min(step, longest) for step in CUDA_LENGTHS} | {longest})
    padded = [next(step for step in steps if step >= length) for length in lengths]
    return [
        Batch(batch.members, max(1, tokens // batch.length), batch.length)
        for batch in plan_cpu(padded, tokens)
    ]


def fill(
    batch: Batch, ids: Sequence[NDArray[np.int32]]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Arrays of a batch, int32 of shape (rows, length): ids, and mask (1 token, 0 padding).

    Rows beyond the members repeat the first one, so that every row is a text.
    """
    filled = np.zeros((batch.rows, batch.length), np.int32)
    mask = np.zeros_like(filled)
    for row in range(batch.rows):
        tokens = ids[batch.members[row if row < len(batch.members) else 0]]
        filled[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return filled, mask
