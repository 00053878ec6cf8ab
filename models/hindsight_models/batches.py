"""Which texts go to the model together: a pure function of their lengths.

On the CPU a batch holds texts of one length only. Nothing is padded, so no work is wasted and no
vector can depend on its neighbours through padding. On CUDA lengths and row counts are rounded up
to few shapes, since each new shape costs memory there that is never given back: eight of as many
tokens as are allowed, and four of an eighth of that for what is left over.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CPU_TOKENS = 512  # more no longer stay in the cache, fewer leave the products thin (measured)
CUDA_TOKENS = 32_768
LARGE_LENGTHS = (32, 64, 128, 192, 256, 320, 384, 512)
SMALL_LENGTHS = (64, 128, 256, 512)
SMALL_SHARE = 8


class Batch(NamedTuple):
    """Texts (by position) and the shape that they are padded to."""

    members: list[int]
    rows: int
    length: int


def plan_openvino(lengths: Sequence[int], longest: int) -> list[Batch]:
    """Batches of lengths rounded up to 16: OpenVINO keeps some memory for each shape it met."""
    return plan_cpu([min(-(-length // 16) * 16, longest) for length in lengths])


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
    """Batches of few shapes, longest first, of at most `tokens` tokens with padding (or one text).

    Texts of a length that don't fill a large batch go into small ones where these hold less
    padding.
    """
    large, small = _steps(LARGE_LENGTHS, longest), _steps(SMALL_LENGTHS, longest)
    padded = [_step(large, length) for length in lengths]
    batches: list[Batch] = []
    for part in plan_cpu(padded, tokens):
        rows, length = max(1, tokens // part.length), _step(small, part.length)
        few = max(1, tokens // SMALL_SHARE // length)
        n_small = -(-len(part.members) // few)
        if n_small * few * length >= rows * part.length:
            batches.append(Batch(part.members, rows, part.length))
            continue
        for start in range(0, len(part.members), few):
            batches.append(Batch(part.members[start : start + few], few, length))
    return batches


def cuda_shapes(longest: int, tokens: int = CUDA_TOKENS) -> list[tuple[int, int]]:
    """Every (rows, length) that `plan_cuda` may use, largest first."""
    large = {(max(1, tokens // n), n) for n in _steps(LARGE_LENGTHS, longest)}
    small = {(max(1, tokens // SMALL_SHARE // n), n) for n in _steps(SMALL_LENGTHS, longest)}
    return sorted(large | small, key=lambda shape: (-shape[0] * shape[1], shape))


def padding_share(batches: Sequence[Batch], lengths: Sequence[int]) -> float:
    """Share of the tokens computed that are padding, from 0 to 1; empty rows count as padding."""
    computed = sum(batch.rows * batch.length for batch in batches)
    return 1.0 - sum(lengths) / computed if computed else 0.0


def _steps(lengths: Sequence[int], longest: int) -> list[int]:
    return sorted({min(length, longest) for length in lengths} | {longest})


def _step(steps: Sequence[int], length: int) -> int:
    return next(step for step in steps if step >= length)


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
