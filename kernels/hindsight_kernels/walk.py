"""Near codes, by a walk along the links of a hierarchical navigable small world (HNSW).

From the entry the walk goes down level by level, each time to the nearest code that links lead to.
On level 0 it holds the nearest codes seen so far, as many as `expansion`, and looks at what the
nearest of these that was not looked at yet links to, until there is none (Malkov and Yashunin,
arXiv 1603.09320, algorithms 2 and 5). Distances are squared L2 of codes of a byte, so whole
numbers; of equal ones the lower slot is nearer.

Nearly all of the time is spent waiting for codes and links, so they are asked for beforehand.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs]
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from hindsight_kernels._jit import (
    F32_2D_IN,
    I8_2D_IN,
    I32_2D,
    I64,
    I64_4,
    I64_IN,
    U8_IN,
    helper,
    kernel,
    summing_helper,
)
from hindsight_kernels._threads import clamp_threads, run_all
from hindsight_kernels.match import check_array

FAR = 2**31 - 1
"""The distance of none."""

_TASK = 64  # queries that a thread takes at a time
_BLOCK = 256  # numbers of a code: 256 * 254**2 < 2**24, so that float32 holds each sum of squares
_LINE = 64  # bytes that a processor fetches together
_UNCOMPILED: bool = cast(Any, config).DISABLE_JIT


class Linked(NamedTuple):
    """A graph, as it lies in a file.

    Attributes
    ----------
    codes : ndarray of shape (n, a), int8
        By slot.
    nodes : ndarray of shape (bytes,), uint8
        Of each slot somewhere: number of links on level 0 and `base` slots, then on each level
        above number of links and `upper` slots; all of them uint32, little-endian.
    places : ndarray of shape (n,), int64
        Where in `nodes` that of a slot begins.
    base, upper
        Most links on level 0, and on each above.
    entry, top
        The slot where walks begin, and its level, the highest.
    """

    codes: NDArray[np.int8]
    nodes: NDArray[np.uint8]
    places: NDArray[np.int64]
    base: int
    upper: int
    entry: int
    top: int


class Near(NamedTuple):
    """Of each of n queries the nearest slots, (n, count), best first, and their distances.

    int32 both; -1 and FAR where there are fewer.
    """

    slots: NDArray[np.int32]
    distances: NDArray[np.int32]


def _fetching(_context: Any, array: Any, _at: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        name = "llvm.prefetch.p0i8"
        prefetch = cast(Any, cgutils).get_or_insert_function(builder.module, kind, name)
        place = builder.gep(builder.bitcast(data, byte), [arguments[1]])
        # To read, into all caches, as data.
        builder.call(prefetch, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


def _fetching_nothing(_array: Any, _at: Any) -> None: ...


_fetch: Any = _fetching_nothing if _UNCOMPILED else intrinsic(_fetching)
"""Ask for the cache line that holds byte `at` of an array's data; any `at` is harmless."""


def _moving(
    _context: Any, array: Any, _to: Any, _at: Any, _count: Any
) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        to, at = builder.gep(data, [arguments[1]]), builder.gep(data, [arguments[2]])
        cast(Any, cgutils).raw_memmove(builder, to, at, arguments[3], array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, types.intp), generate


def _moving_slices(array: Any, to: Any, at: Any, count: Any) -> None:
    array[to : to + count] = array[at : at + count]


_move: Any = _moving_slices if _UNCOMPILED else intrinsic(_moving)
"""Move `count` numbers of an array from one place to another; the two may overlap."""


@summing_helper
def _distance(query: Any, code: Any) -> Any:
    total: Any = 0
    for start in range(0, query.size, _BLOCK):
        some, others = query[start : start + _BLOCK], code[start : start + _BLOCK]
        part = np.float32(0)
        for j in range(some.size):
            difference = some[j] - np.float32(others[j])
            part += difference * difference
        total += np.int64(part)
    return total


@helper
def _number(nodes: Any, at: Any) -> Any:
    number = np.uint32(nodes[at]) | (np.uint32(nodes[at + 1]) << np.uint32(8))
    number |= np.uint32(nodes[at + 2]) << np.uint32(16)
    return np.int64(np.uint32(number | (np.uint32(nodes[at + 3]) << np.uint32(24))))


@helper
def _n_links(nodes: Any, at: Any, most: Any) -> Any:
    """How many links are listed at a place; none where no list can be."""
    if at < 0 or at > nodes.size - 4 * (1 + most):
        return 0
    return min(_number(nodes, at), most)


@helper
def _descend(query: Any, codes: Any, nodes: Any, places: Any, graph: Any) -> Any:
    """The slot on level 0 where the walk begins, and its distance."""
    base, upper, entry, top = graph
    here, distance = entry, _distance(query, codes[entry])
    for level in range(top, 0, -1):
        moved = True
        while moved:
            moved = False
            at = min(places[here], nodes.size)  # or the sum could wrap
            at += 4 * (1 + base) + (level - 1) * 4 * (1 + upper)
            for link in range(_n_links(nodes, at, upper)):
                slot = _number(nodes, at + 4 + 4 * link)
                if slot < len(codes):
                    there = _distance(query, codes[slot])
                    if there < distance:
                        here, distance, moved = slot, there, True
    return here, distance


@helper
def _merge(held: Any, n_held: Any, new: Any, n_new: Any) -> Any:
    """Put new keys in their places among those held, as far as there is room.

    Both ascend. Returns how many are held then, and the first place that changed.
    """
    last_held, last_new, to = n_held - 1, n_new - 1, n_held + n_new - 1
    while to >= held.size:  # the largest find no room
        if last_held < 0 or (last_new >= 0 and new[last_new] > held[last_held]):
            last_new -= 1
        else:
            last_held -= 1
        to -= 1
    size, first = to + 1, to + 1
    while last_new >= 0:
        low, high = 0, last_held + 1
        while low < high:
            middle = (low + high) >> 1
            if held[middle] > new[last_new]:
                high = middle
            else:
                low = middle + 1
        first = low + last_new
        _move(held, first + 1, low, last_held + 1 - low)
        held[first] = new[last_new]
        last_held = low - 1
        last_new -= 1
    return size, first


@helper
def _walk_one(
    query: Any, codes: Any, nodes: Any, places: Any, graph: Any, held: Any, met: Any, seen: Any,
    new: Any,
) -> Any:  # fmt: skip
    """Fill `held` with distance * 2**32 + slot * 2 + 1, ascending; returns how many there are.

    `met` has a bit for each slot and is all 0 before and after; `seen` lists those that are set.
    """
    base = graph[0]
    width = codes.shape[1]
    start, distance = _descend(query, codes, nodes, places, graph)
    held[0] = (distance << 32) | (start << 1)
    n_held, n_seen, at_held = 1, 1, 0
    met[start >> 6] |= np.uint64(1) << np.uint64(start & 63)
    seen[0] = start
    while at_held < n_held:
        if held[at_held] & 1:  # looked at already
            at_held += 1
            continue
        held[at_held] |= 1
        at = places[(held[at_held] & 0xFFFFFFFF) >> 1]
        first = n_seen
        for link in range(_n_links(nodes, at, base)):
            slot = _number(nodes, at + 4 + 4 * link)
            if slot < len(codes):
                bit = np.uint64(1) << np.uint64(slot & 63)
                if not met[slot >> 6] & bit:
                    met[slot >> 6] |= bit
                    seen[n_seen] = slot
                    n_seen += 1
                    for byte in range(slot * width, (slot + 1) * width, _LINE):
                        _fetch(codes, byte)
                    _fetch(codes, (slot + 1) * width - 1)  # a code needn't begin with a line
        ahead = at_held + 1  # most likely the next
        while ahead < n_held and held[ahead] & 1:
            ahead += 1
        if ahead < n_held:
            at = places[(held[ahead] & 0xFFFFFFFF) >> 1]
            for byte in range(at, at + 4 * (1 + base), _LINE):
                _fetch(nodes, byte)
        n_new = 0
        for i in range(first, n_seen):
            key = (_distance(query, codes[seen[i]]) << 32) | (np.int64(seen[i]) << 1)
            if n_held < held.size or key < held[n_held - 1]:
                _fetch(places, np.int64(seen[i]) * 8)
                place = n_new
                while place > 0 and new[place - 1] > key:
                    new[place] = new[place - 1]
                    place -= 1
                new[place] = key
                n_new += 1
        if n_new > 0:
            n_held, changed = _merge(held, n_held, new, n_new)
            at_held = min(at_held, changed)
    for i in range(n_seen):
        met[seen[i] >> 6] = 0
    return n_held


@kernel(
    F32_2D_IN, I8_2D_IN, U8_IN, I64_IN, I64_4, I64, I64, I64, I32_2D, I32_2D
)  # fmt: skip
def _walk_range(
    queries: NDArray[np.float32],
    codes: NDArray[np.int8],
    nodes: NDArray[np.uint8],
    places: NDArray[np.int64],
    graph: tuple[int, int, int, int],
    expansion: int,
    start: int,
    stop: int,
    slots: NDArray[np.int32],
    distances: NDArray[np.int32],
) -> None:
    """Queries start..stop-1; writes only their rows of the outputs, which come padded."""
    held = np.empty(expansion, np.int64)
    met = np.zeros((len(codes) + 63) >> 6, np.uint64)
    seen = np.empty(len(codes), np.int32)
    new = np.empty(graph[0], np.int64)
    for i in range(start, stop):
        n_held = _walk_one(queries[i], codes, nodes, places, graph, held, met, seen, new)
        for j in range(min(n_held, slots.shape[1])):
            slots[i, j] = (held[j] & 0xFFFFFFFF) >> 1
            distances[i, j] = held[j] >> 32


def walk(
    queries: NDArray[np.int8], graph: Linked, count: int, expansion: int, *, threads: int
) -> Near:
    """Find codes that are probably the nearest to each query.

    Memory is safe whatever the links are; those that lead nowhere are left out.

    Parameters
    ----------
    queries : ndarray of shape (n, a), int8
    graph
        Arrays may be memory-mapped and read-only.
    count
        Slots to return for each.
    expansion
        Candidates held meanwhile (ef); at least `count` are.
    threads
        Most threads to use; clamped to the usable processors.

    Raises
    ------
    TypeError
        An array is of another dtype.
    ValueError
        Shapes don't agree, the graph is empty, its entry no slot or without room for its links, or
        count, expansion or threads is below 1.
    """
    threads = clamp_threads(threads)
    codes = check_array("codes", graph.codes, np.int8, 2, copy=False)
    nodes = check_array("nodes", graph.nodes, np.uint8, 1, copy=False)
    places = check_array("places", graph.places, np.int64, 1, copy=False)
    queries = check_array("queries", queries, np.int8, 2, copy=True)
    n = len(codes)
    if queries.shape[1] != codes.shape[1]:
        raise ValueError(f"queries have {queries.shape[1]} numbers, codes {codes.shape[1]}")
    if len(places) != n or not 0 <= graph.entry < n or n > FAR:
        raise ValueError(f"{n} codes, {len(places)} places and entry {graph.entry}")
    if min(count, expansion) < 1 or min(graph.base, graph.upper, graph.top) < 0:
        raise ValueError(f"count {count}, expansion {expansion}, levels {graph[3:]}")
    of_entry = 4 * (1 + graph.base) + 4 * (1 + graph.upper) * graph.top  # bytes of its links
    if max(of_entry, graph.upper) > len(nodes):  # sums of such numbers could wrap
        raise ValueError(f"{len(nodes)} bytes of links, levels {graph[3:]}")
    slots = np.full((len(queries), count), -1, np.int32)
    distances = np.full((len(queries), count), FAR, np.int32)
    wide = queries.astype(np.float32)
    facts = (graph.base, graph.upper, graph.entry, graph.top)
    held = min(max(count, expansion), n)

    def some(start: int) -> None:
        stop = min(start + _TASK, len(queries))
        _walk_range(wide, codes, nodes, places, facts, held, start, stop, slots, distances)

    run_all(some, range(0, len(queries), _TASK), threads)
    return Near(slots, distances)
