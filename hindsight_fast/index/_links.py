"""What a saved graph holds, read from its bytes: codes, keys, and where its links lead.

usearch tells none of the links. To search for each paper, to see that it can be found, takes as
long as building: of 200,000 papers, 23 had no link that led to them, and all but one of those that
a search missed were among them. Following all links takes a fiftieth of that.

Layout (usearch 2.26, format 2; whole numbers are little-endian, nothing is aligned):

    n, a: uint32 · codes: int8 (n, a) · header: 64 bytes, beginning with "usearch"
    n, M, M0, highest level, slot of the entry: uint64
    level of each slot: int16 (n,)
    of each slot: key uint64, level int16, links on level 0: number uint32, slots uint32 (M0,),
                  then on each level above: number uint32, slots uint32 (M,)
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.errors import ArtefactError
from hindsight_fast.storage import storage_errors
from hindsight_kernels import Linked

HEADER = 64  # bytes, after the codes
COUNTS = 40  # after that
OWN = 10  # of a slot, before its links
BLOCK = 16_384  # slots looked at together


class Layout(NamedTuple):
    """A saved graph, mapped.

    Attributes
    ----------
    raw : ndarray of shape (bytes,), uint8, read-only
        The file.
    levels : ndarray of shape (n,), int64
        Of each slot.
    links : Linked
    """

    raw: NDArray[np.uint8]
    levels: NDArray[np.int64]
    links: Linked

    def keys(self, slots: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the keys of some slots."""
        places = self.links.places[slots] - OWN
        found = [numbers(self.raw, some, 8, "<u8")[:, 0] for some in blocks(places)]
        return np.concatenate([np.empty(0, np.uint64), *found]).astype(np.int64)


class Saved(NamedTuple):
    """What lies in the slots of a graph.

    Attributes
    ----------
    codes : ndarray of shape (n, a), int8, read-only
        Mapped.
    keys : ndarray of shape (n,), int64
    reached : ndarray of shape (n,), bool
        Whether links of level 0 lead there from where every search begins. Levels above have few
        papers, and only that which seems nearest is gone down from.
    """

    codes: NDArray[np.int8]
    keys: NDArray[np.int64]
    reached: NDArray[np.bool_]


def read_layout(path: Path) -> Layout:
    """Map a saved graph.

    Raises
    ------
    ArtefactError
        It is not laid out like that: another version of usearch wrote it, or it is damaged.
    StorageError
        The file system refuses.
    """
    with storage_errors(f"read {path}"):
        raw = np.memmap(path, np.uint8, "r")
    try:
        return _parse(np.asarray(raw))
    except (ValueError, IndexError, OverflowError) as error:
        raise _not_like_that(path, error) from error


def read_saved(path: Path) -> Saved:
    """Read a saved graph, and follow its links; raises as `read_layout`."""
    layout = read_layout(path)
    keys = layout.keys(np.arange(len(layout.levels)))
    if len(np.unique(keys)) != len(keys):
        raise _not_like_that(path, "a key comes twice")
    try:
        return Saved(layout.links.codes, keys, _reached(layout))
    except IndexError as error:
        raise _not_like_that(path, error) from error


def _not_like_that(path: Path, why: object) -> ArtefactError:
    return ArtefactError(f"{path} is not laid out as usearch 2.26 lays out a graph: {why}")


def _parse(raw: NDArray[np.uint8]) -> Layout:
    n, n_axes = (int(x) for x in raw[:8].view("<u4"))
    at = 8 + n * n_axes
    codes = raw[8:at].view(np.int8).reshape(n, n_axes)
    if raw[at : at + 7].tobytes() != b"usearch":
        raise ValueError("no header")
    at += HEADER + COUNTS
    size, upper, base, top, entry = (
        int(x) for x in np.frombuffer(raw[at - COUNTS : at].tobytes(), "<u8")
    )
    levels = np.frombuffer(raw[at : at + 2 * n].tobytes(), "<i2").astype(np.int64)
    if size != n or len(levels) != n or levels.min() < 0 or levels.max() != top or entry >= n:
        raise ValueError("its counts don't agree")
    sizes = node_bytes(levels, base, upper)
    places = at + 2 * n + np.cumsum(sizes)
    if places[-1] != len(raw):
        raise ValueError(f"{len(raw)} bytes, expected {places[-1]}")
    places += OWN - sizes
    return Layout(raw, levels, Linked(codes, raw, places, base, upper, entry, top))


def node_bytes(levels: NDArray[np.int64], base: int, upper: int) -> NDArray[np.int64]:
    """How many bytes slots take whose levels these are."""
    return OWN + 4 * (1 + base) + 4 * (1 + upper) * levels


def _reached(layout: Layout) -> NDArray[np.bool_]:
    raw, links = layout.raw, layout.links
    reached = np.zeros(len(layout.levels), bool)
    reached[links.entry] = True
    front = np.array([links.entry])
    while len(front):
        ahead = np.zeros(len(reached), bool)
        for some in blocks(front):
            found = numbers(raw, links.places[some], 4 * (1 + links.base), "<u4")
            ahead[found[:, 1:][np.arange(links.base) < found[:, :1]]] = True
        front = np.flatnonzero(ahead & ~reached)
        reached |= ahead
    return reached


def numbers(
    raw: NDArray[np.uint8], places: NDArray[np.int64], n_bytes: int, dtype: str
) -> NDArray[np.unsignedinteger]:
    """The numbers that begin at some places, a row each."""
    found: NDArray[np.unsignedinteger] = raw[places[:, None] + np.arange(n_bytes)].view(dtype)
    return found


def blocks(array: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Some of an array at a time."""
    return [array[start : start + BLOCK] for start in range(0, len(array), BLOCK)]
