"""What a saved graph holds, read from its bytes: codes, keys, and where its links lead.

usearch tells none of the links, and to search for each paper takes as long as building: of 200,000
papers, 23 had no link that led to them, and all but one of those that a search missed were among
them. Following all links takes a fiftieth of that.

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

_BLOCK = 16_384  # slots looked at together


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


def read_saved(path: Path) -> Saved:
    """Read a saved graph.

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
        return _parse(raw)
    except (ValueError, IndexError) as error:
        raise ArtefactError(
            f"{path} is not laid out as usearch 2.26 lays out a graph: {error}"
        ) from error


def _parse(raw: NDArray[np.uint8]) -> Saved:
    n, n_axes = (int(x) for x in raw[:8].view("<u4"))
    at = 8 + n * n_axes
    codes = raw[8:at].view(np.int8).reshape(n, n_axes)
    if raw[at : at + 7].tobytes() != b"usearch":
        raise ValueError("no header")
    size, links, base_links, top, entry = (
        int(x) for x in np.frombuffer(raw[at + 64 : at + 104].tobytes(), "<u8")
    )
    at += 104
    levels = np.frombuffer(raw[at : at + 2 * n].tobytes(), "<i2").astype(np.int64)
    if size != n or len(levels) != n or levels.min() < 0 or levels.max() != top or entry >= n:
        raise ValueError("its counts don't agree")
    sizes = 10 + 4 * (1 + base_links) + 4 * (1 + links) * levels
    ends = at + 2 * n + np.cumsum(sizes)
    if ends[-1] != len(raw):
        raise ValueError(f"{len(raw)} bytes, expected {ends[-1]}")
    places = ends - sizes
    keys = np.concatenate([_numbers(raw, some, 8, "<u8")[:, 0] for some in _blocks(places)])
    if len(np.unique(keys)) != n:
        raise ValueError("a key comes twice")

    reached = np.zeros(n, bool)
    reached[entry] = True
    front = np.array([entry])
    while len(front):
        ahead = np.zeros(n, bool)
        for some in _blocks(front):
            numbers = _numbers(raw, places[some] + 10, 4 * (1 + base_links), "<u4")
            ahead[numbers[:, 1:][np.arange(base_links) < numbers[:, :1]]] = True
        front = np.flatnonzero(ahead & ~reached)
        reached |= ahead
    return Saved(codes, keys.astype(np.int64), reached)


def _numbers(
    raw: NDArray[np.uint8], places: NDArray[np.int64], n_bytes: int, dtype: str
) -> NDArray[np.unsignedinteger]:
    """The numbers that begin at some places, a row each."""
    found: NDArray[np.unsignedinteger] = raw[places[:, None] + np.arange(n_bytes)].view(dtype)
    return found


def _blocks(array: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [array[start : start + _BLOCK] for start in range(0, len(array), _BLOCK)]
