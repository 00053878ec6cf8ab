"""An index on disk, searched."""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.codes import CHUNK, ToCode
from hindsight_fast.config import usable_threads
from hindsight_fast.errors import ArtefactError, HindsightError
from hindsight_fast.index._config import (
    AXES,
    COPIES,
    FILES,
    GRAPH,
    MEAN,
    ROWS,
    STRAYS,
    IndexConfig,
    index_fingerprint,
)
from hindsight_fast.index._copies import with_copies
from hindsight_fast.index._links import Layout, read_layout
from hindsight_kernels import FAR, walk


class _Nearest(NamedTuple):
    """Of each query the nearest keys, best first; -1 and FAR where there are fewer."""

    keys: NDArray[np.int64]
    distances: NDArray[np.int64]


class Index:
    """A graph on disk, memory-mapped; searches may come from several threads at once."""

    def __init__(
        self,
        graph: Layout,
        to_code: ToCode,
        copies: NDArray[np.int32],
        rows: NDArray[np.int32] | None,
        strays: NDArray[np.int32],
        expansion: int,
    ) -> None:
        self._graph = graph
        self.mark = ""
        """Which index this is: a hash of its files, if whoever opened it knows that."""
        self._to_code = to_code
        self._copies = copies
        self._rows = rows
        self._n_alive = len(graph.levels) if rows is None else int((rows >= 0).sum())
        self._strays = strays
        self._stray_codes = _codes_of(graph, strays) if len(strays) else None
        self.expansion_search = expansion
        """Candidates held while searching (ef), unless a search asks for others; a larger count
        raises it for that search."""

    @classmethod
    def view(cls, folder: Path, config: IndexConfig, files: Collection[str] = FILES) -> "Index":
        """Map the index of a folder.

        Parameters
        ----------
        config
            The one it was built with, but for `expansion_search`, which may be another.
        files
            Names of its files, which whoever opens it has checked (`files_among`): others that lie
            there are none of it.

        Raises
        ------
        ArtefactError
            A file is missing or unreadable, or was built otherwise.
        """
        try:
            mean, axes = (np.load(folder / name, allow_pickle=False) for name in (MEAN, AXES))
            copies = np.load(folder / COPIES, mmap_mode="r", allow_pickle=False)
            rows, strays = None, np.empty(0, np.int32)
            if ROWS in files:  # else it is older, and its keys are rows
                rows = np.load(folder / ROWS, mmap_mode="r", allow_pickle=False)
                strays = np.load(folder / STRAYS, allow_pickle=False)
            _check_shapes(mean, axes, copies, rows, strays)
            graph = read_layout(folder / GRAPH)
        except (OSError, EOFError, ValueError, HindsightError) as error:
            raise ArtefactError(
                f"{folder}: the index can't be opened ({error}); make the pool again"
            ) from error
        _check_graph(graph, axes.shape[1], config, folder / GRAPH)
        to_code = ToCode(mean, axes)
        return cls(graph, to_code, np.asarray(copies), rows, strays, config.expansion_search)

    @property
    def n_papers(self) -> int:
        """Papers that can be found."""
        return self._n_alive + len(self._copies)

    def fingerprint(self, config: IndexConfig) -> str:
        """What `IndexFacts.fingerprint` is where these settings and this version built it."""
        return index_fingerprint(config, self._to_code)

    def codes(self, vectors: NDArray[np.float32]) -> NDArray[np.int8]:
        """What the graph holds of vectors, (n, d) to (n, a): near by L2 is near for a search."""
        return self._to_code(vectors)

    def search(
        self,
        queries: NDArray[np.float32],
        count: int,
        *,
        threads: int,
        expansion: int | None = None,
    ) -> NDArray[np.int32]:
        """Rows of papers that are probably among the nearest to each query.

        Parameters
        ----------
        queries : ndarray of shape (n, d), float32
            Unit rows.
        count
            Papers to nominate per query.
        threads
            Clamped to the usable processors.
        expansion
            Candidates held meanwhile (ef); by default `expansion_search`.

        Returns
        -------
        ndarray of shape (n, count), int32
            Best first as far as the codes tell; -1 where there are fewer.

        Raises
        ------
        ValueError
            The queries are of another dimension, or count is below 1.
        """
        dim = len(self._to_code.mean)
        if queries.ndim != 2 or queries.shape[1] != dim:
            raise ValueError(f"queries have shape {queries.shape}, expected (n, {dim})")
        if count < 1:
            raise ValueError(f"count is {count}; at least 1 is needed")
        threads, expansion = usable_threads(threads), expansion or self.expansion_search
        found = [
            self._nominate(queries[start : start + CHUNK], count, threads, expansion)
            for start in range(0, len(queries), CHUNK)
        ]
        return np.concatenate(found) if found else np.empty((0, count), np.int32)

    def _nominate(
        self, queries: NDArray[np.float32], count: int, threads: int, expansion: int
    ) -> NDArray[np.int32]:
        rows = self._nearest(self._to_code(queries), count, count, threads, expansion)
        return with_copies(rows, self._copies) if len(self._copies) else rows

    def _nearest(
        self, codes: NDArray[np.int8], count: int, wanted: int, threads: int, expansion: int
    ) -> NDArray[np.int32]:
        """The nearest rows in the graph, of the nearest keys that are `wanted` at first."""
        n = len(self._graph.levels)
        wanted = min(wanted, n)
        near = walk(codes, self._graph.links, wanted, expansion, threads=threads)
        there, keys = near.slots >= 0, np.full((len(codes), wanted), -1, np.int64)
        keys[there] = self._graph.keys(near.slots[there])
        found = _Nearest(keys, near.distances.astype(np.int64))
        if self._stray_codes is not None:
            found = _with_strays(codes, found, self._strays, self._stray_codes)
        keys, short = found.keys, np.zeros(len(codes), bool)
        if self._rows is not None:
            keys = np.where(keys >= 0, self._rows_of(keys), -1)
            nobodys = (keys < 0) & (found.keys >= 0)
            short = nobodys.any(axis=1) & ((keys >= 0).sum(axis=1) < min(count, self._n_alive))
            if nobodys.any():
                keys = np.take_along_axis(keys, np.argsort(keys < 0, axis=1, kind="stable"), 1)
        rows = np.full((len(codes), count), -1, np.int32)
        rows[:, : keys.shape[1]] = keys[:, :count]
        if wanted < n and short.any():
            rows[short] = self._nearest(codes[short], count, 2 * wanted, threads, expansion)
        return rows

    def _rows_of(self, keys: NDArray[np.int64]) -> NDArray[np.int32]:
        assert self._rows is not None
        try:
            return self._rows[keys]
        except IndexError as error:
            raise ArtefactError(
                f"the graph of an index holds more than its {ROWS} says ({error}); make it again"
            ) from error


def _check_graph(graph: Layout, n_axes: int, config: IndexConfig, path: Path) -> None:
    """What its file says of itself against what was asked for."""
    links = graph.links
    found = {"dimension": links.codes.shape[1], "connectivity": links.upper, "base": links.base}
    links_then = config.connectivity
    expected = {"dimension": n_axes, "connectivity": links_then, "base": 2 * links_then}
    if found != expected:
        raise ArtefactError(f"{path} holds {found}, expected {expected}; make the pool again")


def _codes_of(graph: Layout, keys: NDArray[np.int32]) -> NDArray[np.int32]:
    """The codes of some keys, which must be there."""
    everyone = graph.keys(np.arange(len(graph.levels)))
    if not np.isin(keys, everyone).all():
        raise ArtefactError(f"{STRAYS} of an index names what is not in its graph; make it again")
    slots = np.argsort(everyone, kind="stable")
    return graph.links.codes[slots[np.searchsorted(everyone, keys, sorter=slots)]].astype(np.int32)


def _check_shapes(
    mean: NDArray[np.float32],
    axes: NDArray[np.float32],
    copies: NDArray[np.int32],
    rows: NDArray[np.int32] | None,
    strays: NDArray[np.int32],
) -> None:
    dim = mean.size
    expected = [
        (MEAN, mean, np.float32, (dim,)),
        (AXES, axes, np.float32, (dim, axes.size // max(dim, 1))),
        (COPIES, copies, np.int32, (copies.size // 2, 2)),
        (STRAYS, strays, np.int32, (strays.size,)),
    ]
    if rows is not None:
        expected.append((ROWS, rows, np.int32, (rows.size,)))
    for name, array, dtype, shape in expected:
        if array.dtype != dtype or array.shape != shape:
            raise ValueError(f"{name} is {array.dtype} of shape {array.shape}")


def _with_strays(
    codes: NDArray[np.int8],
    found: _Nearest,
    strays: NDArray[np.int32],
    stray_codes: NDArray[np.int32],
) -> _Nearest:
    """What was found and the strays, the nearest of all."""
    twice = np.isin(found.keys, strays)  # from elsewhere than the entry, a way may lead there
    keys = np.where(twice, -1, found.keys)
    distances = np.where(twice, FAR, found.distances)
    wide = codes.astype(np.int32)
    squares = np.square(wide).sum(axis=1)[:, None] + np.square(stray_codes).sum(axis=1)
    # Exact, as whole numbers up to 2**53 are; float32's end at 2**24, with 1,040 axes.
    products = wide.astype(np.float64) @ stray_codes.T.astype(np.float64)
    keys = np.hstack([keys, np.broadcast_to(strays.astype(np.int64), products.shape)])
    distances = np.hstack([distances, squares - 2 * products.astype(np.int64)])
    best = np.argsort(distances, axis=1, kind="stable")[:, : found.keys.shape[1]]
    return _Nearest(np.take_along_axis(keys, best, 1), np.take_along_axis(distances, best, 1))
