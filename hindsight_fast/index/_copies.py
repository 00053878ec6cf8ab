"""Papers of equal code: only one of them is in the graph, and the others come along with it."""

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.codes import ToCode, chunks


def hashes_of(codes: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return a number for each code (n, a); two that differ agree with probability 2**-56."""
    # A random linear form modulo 2**64.
    generator = np.random.default_rng(0)
    weights = generator.integers(-(2**63), 2**63 - 1, (codes.shape[1],), np.int64)
    hashes: NDArray[np.int64] = codes.astype(np.int64) @ weights
    return hashes


def code_hashes(
    vectors: NDArray[np.float32], rows: NDArray[np.int64], to_code: ToCode
) -> NDArray[np.int64]:
    """Return `hashes_of` the codes of some rows."""
    return np.concatenate([hashes_of(to_code(vectors[some])) for some in chunks(rows)])


def with_copies(rows: NDArray[np.int32], copies: NDArray[np.int32]) -> NDArray[np.int32]:
    """Let each row bring its copies, right after it, as far as the width goes."""
    n, count = rows.shape
    keys = rows.ravel()
    low = np.searchsorted(copies[:, 0], keys, side="left")
    high = np.searchsorted(copies[:, 0], keys, side="right")
    sizes = np.where(keys < 0, 0, 1 + np.minimum(high - low, count - 1))
    if sizes.max(initial=0) <= 1:
        return rows
    source = np.repeat(np.arange(len(keys)), sizes)
    ends = np.cumsum(sizes)
    within = np.arange(len(source)) - (ends - sizes)[source]
    expanded = keys[source]
    copied = within > 0
    expanded[copied] = copies[(low[source] + within - 1)[copied], 1]
    idea = source // count
    before = np.concatenate([[0], ends])[np.arange(n) * count]
    place = np.arange(len(source)) - before[idea]
    out = np.full_like(rows, -1)
    fits = place < count
    out[idea[fits], place[fits]] = expanded[fits]
    return out
