"""Slots of a saved graph in an order in which near codes lie near, so that searches wait less.

A graph's slots are in the order in which papers came, so what a search looks at together lies all
over the file. In this order much of it shares pages, and is in the processor's caches already. The
graph is the same, and so is what it finds.
"""

from pathlib import Path
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.index._links import BLOCK, COUNTS, HEADER, OWN, Layout, node_bytes
from hindsight_fast.storage import storage_errors

_LEAF: Final = 32  # slots that may lie in any order
_SAMPLE: Final = 512
_TURNS: Final = 6  # of the power iteration: a rough direction does


def near_order(codes: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return rows of codes (n, a) such that near ones come near each other.

    All are halved along the direction in which they differ most, and so is each half.
    """
    order = np.arange(len(codes))
    todo = [(0, len(codes))]
    while todo:
        low, high = todo.pop()
        if high - low > _LEAF:
            half, rows = (high - low) // 2, order[low:high]
            order[low:high] = rows[np.argpartition(_along(codes, rows), half)]
            todo += [(low, low + half), (low + half, high)]
    return order


def _along(codes: NDArray[np.int8], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Places of some rows along the direction in which they differ most, about."""
    some = codes[rows[:: -(-len(rows) // _SAMPLE)]].astype(np.float32)
    some -= some.mean(axis=0)
    direction = some[np.square(some).sum(axis=1).argmax()]
    # No matrix product here, which adds in an order that depends on threads.
    for _ in range(_TURNS):
        direction = np.einsum("ij,i->j", some, np.einsum("ij,j->i", some, direction))
        direction /= np.abs(direction).max() + np.float32(1e-9)
    # Whole numbers, whose sums are exact; those of float32 end with 1,040 axes.
    direction = np.rint(127 * direction).astype(np.float64)
    starts = range(0, len(rows), BLOCK)
    return np.concatenate([codes[rows[s : s + BLOCK]] @ direction for s in starts])


def write_in_order(graph: Layout, order: NDArray[np.int64], path: Path) -> None:
    """Write a saved graph anew with its slots in another order; a new file.

    Parameters
    ----------
    order : ndarray of shape (n,), int64
        Which slot comes first, second, ...

    Raises
    ------
    StorageError
        No space, or no rights.
    """
    raw, links, n = graph.raw, graph.links, len(order)
    place_of = np.empty(n, np.uint32)
    place_of[order] = np.arange(n, dtype=np.uint32)
    starts = range(0, n, BLOCK)
    begin = links.codes.size + 8
    counts = np.array([n, links.upper, links.base, links.top, place_of[links.entry]], "<u8")
    with storage_errors(f"write {path}"), path.open("xb") as file:
        file.write(raw[:8].data)
        for start in starts:
            file.write(links.codes[order[start : start + BLOCK]].data)
        file.write(raw[begin : begin + HEADER].data)
        file.write(counts.data)
        assert counts.nbytes == COUNTS
        file.write(graph.levels[order].astype("<i2").data)
        for start in starts:
            file.write(_nodes(graph, order[start : start + BLOCK], place_of).data)


def _nodes(
    graph: Layout, slots: NDArray[np.int64], place_of: NDArray[np.uint32]
) -> NDArray[np.uint8]:
    """The bytes of some slots, one after the other, with links to where slots are now."""
    links, levels = graph.links, graph.levels[slots]
    sizes = node_bytes(levels, links.base, links.upper)
    starts = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()), np.uint8)
    for level in cast("list[int]", np.unique(levels).tolist()):
        which = np.flatnonzero(levels == level)
        width = int(node_bytes(np.array(level), links.base, links.upper))
        nodes = graph.raw[(links.places[slots[which]] - OWN)[:, None] + np.arange(width)]
        found: NDArray[np.uint32] = nodes[:, OWN:].copy().view("<u4")
        at = 0
        for room in [links.base] + [links.upper] * level:
            listed = found[:, at + 1 : at + 1 + room]
            there = np.arange(room) < found[:, at : at + 1]
            listed[there] = place_of[listed[there]]
            at += 1 + room
        nodes[:, OWN:] = found.view(np.uint8)
        out[starts[which][:, None] + np.arange(width)] = nodes
    return out
