"""What goes into a graph, in which order, and what of it another graph has already.

A graph knows codes and nothing else of papers. So one of the same settings is as good for any
papers whose codes, along its own mean and axes, are in it: wherever their rows are now, whatever
became of their dates and counts, and whoever left. Papers that it lacks are added; its codes that
are nobody's any more stay as steps on the way and are never nominated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.codes import ToCode, fit, share_kept
from hindsight_fast.errors import ArtefactError
from hindsight_fast.index._config import AXES, COPIES, GRAPH, MEAN, PART, ROWS, IndexConfig
from hindsight_fast.index._copies import code_hashes, hashes_of
from hindsight_fast.index._links import read_saved
from hindsight_fast.storage import FileFacts, storage_errors

MOST_NEW: Final = 1 / 3
"""Where a larger share of a graph would be new, or nobody's any more, one is built anew."""

_ROWS: Final = f"{PART}rows.npy"  # as planned: in the end some keys may be others'
_LOST_VARIANCE: Final = 0.02  # what axes may keep less of newer papers than was asked for


@dataclass(frozen=True, slots=True)
class Old:
    """An index to take over from. All bytes of its files are checked, and whoever wrote them is
    trusted: a graph can be such that who loads it crashes.

    Attributes
    ----------
    files
        What is known of its files (`FileFacts`), by name: others that lie there are none of it.
    """

    folder: Path
    config: IndexConfig
    files: Mapping[str, FileFacts]


@dataclass(frozen=True, slots=True)
class Plan:
    """What an index is to be.

    Attributes
    ----------
    to_code
    variance
        The share that the axes keep.
    rows : ndarray of shape (m,), int32
        The row of each key, in the order in which they are added; -1 where it has none.
    copies : ndarray of shape (c, 2), int32
        Row in the graph, row of equal code; sorted.
    start
        Keys below are in the graph that is taken over.
    why
        Why none is, where one was asked for.
    """

    to_code: ToCode
    variance: float
    rows: NDArray[np.int32]
    copies: NDArray[np.int32]
    start: int = 0
    why: str = ""

    @property
    def n_taken(self) -> int:
        """Rows in the graph that is taken over."""
        return int((self.rows[: self.start] >= 0).sum())

    def write(self, folder: Path) -> tuple[str, ...]:
        """Write it into files; returns their names."""
        arrays: dict[str, NDArray[Any]] = {MEAN: self.to_code.mean, AXES: self.to_code.axes}
        arrays |= {COPIES: self.copies, _ROWS: self.rows}
        with storage_errors(f"write the index into {folder}"):
            for name, array in arrays.items():
                (folder / name).unlink(missing_ok=True)  # it may be another's too, by a link
                np.save(folder / name, array)
        return tuple(arrays)

    def facts(self) -> dict[str, Any]:
        """What the files don't say, of JSON values."""
        return {"variance": self.variance, "start": self.start, "why": self.why}

    @classmethod
    def read(cls, folder: Path, facts: dict[str, Any]) -> "Plan":
        """Read what was written."""
        with storage_errors(f"read the index in {folder}"):
            mean, axes, copies, rows = (np.load(folder / n) for n in (MEAN, AXES, COPIES, _ROWS))
        return cls(
            ToCode(mean, axes), facts["variance"], rows, copies, facts["start"], facts["why"]
        )


def plan(
    vectors: NDArray[np.float32], rows: NDArray[np.int64], config: IndexConfig, old: Old | None
) -> Plan:
    """Plan an index of some rows, at least one, with what of an old one can be taken over."""
    why = ""
    if old is not None:
        found = _grown(vectors, rows, config, old)
        if isinstance(found, Plan):
            return found
        why = found
    to_code, variance = fit(vectors, rows, config.variance)
    first = _first_of_equal(rows, code_hashes(vectors, rows, to_code))
    in_graph = rows[first == rows].astype(np.int32)
    return Plan(to_code, variance, in_graph, _copies(rows, first), why=why)


def _grown(
    vectors: NDArray[np.float32], rows: NDArray[np.int64], config: IndexConfig, old: Old
) -> Plan | str:
    """The plan of a graph that goes on from an old one, or why there is none."""
    if not config.builds_like(old.config):
        return "its index was built with other settings"
    try:
        to_code = ToCode(*(np.load(old.folder / n, allow_pickle=False) for n in (MEAN, AXES)))
        saved = read_saved(old.folder / GRAPH)
        named = ROWS in old.files
        rows_then = np.load(old.folder / ROWS, allow_pickle=False) if named else None
    except (OSError, ValueError) as error:
        raise ArtefactError(f"{old.folder}: the index can't be read: {error}") from error
    most = 2**31 if rows_then is None else len(rows_then)
    if saved.keys.min() < 0 or saved.keys.max() >= most:
        raise ArtefactError(f"{old.folder}: its graph holds more than its {ROWS} says")
    if to_code.axes.shape[0] != vectors.shape[1] or to_code.axes.shape[1] != saved.codes.shape[1]:
        return "its vectors are of another dimension"
    kept = share_kept(to_code, vectors, rows)
    if kept < config.variance - _LOST_VARIANCE:
        return f"its axes keep {kept:.1%} of the variance, {config.variance:.0%} were asked for"

    hashes = code_hashes(vectors, rows, to_code)
    first = _first_of_equal(rows, hashes)
    own, place = np.unique(hashes, return_index=True)
    keys = np.full(int(saved.keys.max()) + 1, -1, np.int32)
    alive = np.ones(len(saved.keys), bool) if rows_then is None else rows_then[saved.keys] >= 0
    slots = np.flatnonzero(alive)
    there_now = np.concatenate(
        [hashes_of(saved.codes[some]) for some in np.array_split(slots, 1 + len(slots) // 8192)]
    )
    at = np.minimum(np.searchsorted(own, there_now), len(own) - 1)
    matches = own[at] == there_now
    _, once = np.unique(at[matches], return_index=True)  # a code that is there twice needs one key
    keys[saved.keys[slots[matches][once]]] = first[place[at[matches][once]]]
    taken = np.zeros(int(rows[-1]) + 1, bool)
    taken[keys[keys >= 0]] = True
    new = rows[(first == rows) & ~taken[rows]].astype(np.int32)
    n_kept = len(once)
    if len(new) > MOST_NEW * (n_kept + len(new)):
        return f"{len(new):,} of {n_kept + len(new):,} papers are not in it, more than a third"
    if (gone := len(saved.keys) - n_kept) > MOST_NEW * len(saved.keys):
        return f"{gone:,} of its {len(saved.keys):,} papers are in it no more, more than a third"
    return Plan(to_code, kept, np.concatenate([keys, new]), _copies(rows, first), len(keys))


def _first_of_equal(rows: NDArray[np.int64], hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of the rows, the first row that has the same code."""
    _, first, place = np.unique(hashes, return_index=True, return_inverse=True)
    return rows[first[place]]


def _copies(rows: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int32]:
    copies = np.stack([first, rows], axis=1)[first != rows].astype(np.int32)
    ordered: NDArray[np.int32] = copies[np.lexsort((copies[:, 1], copies[:, 0]))]
    return ordered
