"""The walk along the links of a graph, against a slow one; what no graph can be is harmless."""

import heapq
import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hindsight_kernels import FAR, Linked, Near, walk

I8 = NDArray[np.int8]
BASE, UPPER = 6, 3
EXTREMES = [-(2**63), -1, 2**63 - 1, 2**63 - 4 * (1 + BASE), 2**62]


def laid_out(links: list[list[list[int]]]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Links of each slot by level, as bytes with odd gaps, and where each begins."""
    nodes, places = bytearray(), list[int]()
    for levels in links:
        nodes += b"\xff" * 7
        places.append(len(nodes))
        for level, slots in enumerate(levels):
            room = UPPER if level else BASE
            numbers = [len(slots), *slots, *[2**32 - 1] * (room - len(slots))]
            nodes += np.array(numbers, "<u4").tobytes()
    return np.frombuffer(bytes(nodes), np.uint8), np.array(places, np.int64)


def a_world(seed: int, n: int, width: int) -> tuple[I8, list[list[list[int]]], Linked]:
    """A graph with near and random links, a tenth of it on level 1, and one slot on level 2."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(-127, 128, (n, width)).astype(np.int8)
    codes[n // 2] = codes[0]  # equal distances
    wide = codes.astype(np.int64)
    order = np.argsort(((wide[:, None] - wide) ** 2).sum(axis=2), axis=1, kind="stable")
    links = [[order[i, 1:4].tolist() + rng.integers(0, n, BASE - 3).tolist()] for i in range(n)]
    high = rng.permutation(n)[: max(1, n // 10)].tolist()
    for i in high:
        links[i].append(rng.choice(high, min(UPPER, len(high)), replace=False).tolist())
    links[high[0]].append([])
    nodes, places = laid_out(links)
    return codes, links, Linked(codes, nodes, places, BASE, UPPER, high[0], 2)


def slow_walk(
    query: I8, codes: I8, links: list[list[list[int]]], entry: int, count: int, expansion: int
) -> list[tuple[int, int]]:
    """Algorithm 5 with heaps: (distance, slot), ascending."""

    def key(slot: int) -> tuple[int, int]:
        return int(((query.astype(int) - codes[slot].astype(int)) ** 2).sum()), slot

    here = entry
    for level in range(len(links[entry]) - 1, 0, -1):
        while True:
            best = min([here, *links[here][level]], key=lambda slot: key(slot)[0])
            if key(best)[0] >= key(here)[0]:
                break
            here = best
    seen, ahead = {here}, [key(here)]
    held = [key(here)]
    while ahead:
        nearest = heapq.heappop(ahead)
        if len(held) == expansion and nearest > held[-1]:
            break
        for slot in links[nearest[1]][0]:
            if slot not in seen:
                seen.add(slot)
                if len(held) < expansion or key(slot) < held[-1]:
                    heapq.heappush(ahead, key(slot))
                    held = sorted([*held, key(slot)])[:expansion]
    return held[:count]


@pytest.mark.parametrize(
    ("n", "width", "count", "expansion"),
    [(1, 32, 3, 1), (2, 5, 2, 2), (60, 32, 4, 4), (60, 32, 4, 16), (200, 33, 10, 40),
     (200, 300, 5, 25), (300, 600, 400, 20)],
)  # fmt: skip
def test_equals_the_slow_walk(n: int, width: int, count: int, expansion: int) -> None:
    codes, links, graph = a_world(n, n, width)
    queries = np.random.default_rng(1).integers(-127, 128, (130, width)).astype(np.int8)
    queries[0], queries[1], queries[2] = 127, -127, codes[0]
    found = walk(queries, graph, count, expansion, threads=2)
    assert found.slots.shape == found.distances.shape == (130, count)
    for query, slots, distances in zip(queries, *found, strict=True):
        right = slow_walk(query, codes, links, graph.entry, count, max(count, expansion))
        padded = right + [(FAR, -1)] * (count - len(right))
        assert list(zip(distances.tolist(), slots.tolist(), strict=True)) == padded


def test_threads_read_only_arrays_and_order_make_no_difference() -> None:
    codes, _, graph = a_world(5, 300, 64)
    for array in (codes, graph.nodes, graph.places):
        array.setflags(write=False)
    queries = np.random.default_rng(2).integers(-127, 128, (200, 64)).astype(np.int8)
    right = walk(queries, graph, 5, 30, threads=1)
    found = dict[int, Near]()

    def search(number: int) -> None:
        found[number] = walk(queries[::-1], graph, 5, 30, threads=2)

    threads = [threading.Thread(target=search, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for near in found.values():
        np.testing.assert_array_equal(near.slots[::-1], right.slots)
        np.testing.assert_array_equal(near.distances[::-1], right.distances)


def test_links_that_lead_nowhere_are_harmless() -> None:
    _, links, graph = a_world(6, 100, 32)
    queries = np.random.default_rng(3).integers(-127, 128, (64, 32)).astype(np.int8)
    nodes = graph.nodes.copy()
    rng = np.random.default_rng(4)
    for i in range(50):
        nodes[rng.integers(0, len(nodes), 40)] = rng.integers(0, 256, 40)
        places = graph.places.copy()
        places[rng.integers(0, 100, 3)] = rng.integers(-(2**40), 2**40, 3)
        places[rng.integers(0, 100, 3)] = rng.choice(EXTREMES, 3)
        if i % 2:
            places[graph.entry] = rng.choice(EXTREMES)
        found = walk(queries, graph._replace(nodes=nodes, places=places), 5, 20, threads=1)
        assert ((found.slots >= -1) & (found.slots < 100)).all()
        assert (found.slots[:, 0] >= 0).all()
    assert len(links) == 100


def test_what_can_be_no_graph_is_refused() -> None:
    codes, _, graph = a_world(7, 50, 32)
    for other, words in (
        (graph._replace(entry=50), "entry"),
        (graph._replace(places=graph.places[:-1]), "places"),
        (graph._replace(codes=codes[:0], places=graph.places[:0]), "entry"),
        (graph._replace(codes=codes[:, :16].copy()), "numbers"),
        (graph._replace(top=-1), "levels"),
        (graph._replace(base=2**61), "levels"),
        (graph._replace(upper=2**61 - 1), "levels"),
        (graph._replace(upper=2**61 - 1, top=0), "levels"),
        (graph._replace(top=2**62), "levels"),
    ):
        with pytest.raises(ValueError, match=words):
            walk(codes, other, 5, 20, threads=1)
    with pytest.raises(ValueError, match="count 0"):
        walk(codes, graph, 0, 20, threads=1)
    wrong: Any = codes.astype(np.float32)
    with pytest.raises(TypeError, match="int8"):
        walk(wrong, graph, 5, 20, threads=1)
    assert walk(codes[:0], graph, 5, 20, threads=1).slots.shape == (0, 5)
