"""The only file that knows usearch: an HNSW graph that nominates near papers.

Nearest by cosine among unit vectors is nearest by L2, and L2 doesn't change when the mean vector
is subtracted from all and the axes are turned. Encoders' vectors share a large mean; what remains
is short, and most of its variance lies along few axes (its principal components). So the graph
holds one byte for each of those axes, and search reads a fraction of the memory:

    code = clip(rint((x - mean) @ axes), -127, 127),    metric: squared L2 over codes,

where the columns of `axes` are principal components times one common scale. What that leaves out
is made up by nominating more papers than are wanted; the similarity kernel decides among them.

HNSW breaks when many vectors are equal (they link to each other and to nothing else), so of
papers with equal codes only the first is in the graph; the others are listed beside it and come
along with it. What the graph says is a nomination: no distance leaves this file.

Files: index.usearch (the graph), index-mean.npy (float32 (d,)), index-axes.npy (float32 (d, a)),
and index-copies.npy (int32 (m, 2): row in the graph, row of equal code; sorted).
"""

import dataclasses
import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numba  # noqa: F401  # pyright: ignore[reportUnusedImport]  (before usearch, see below)
import numpy as np
import usearch
from numpy.typing import NDArray
from usearch.index import Index as Graph

from hindsight_fast.codes import CHUNK, CODES_VERSION, ToCode, chunks, fit
from hindsight_fast.config import fingerprint, usable_threads
from hindsight_fast.errors import ArtefactError, StorageError, UsageError
from hindsight_fast.storage import storage_errors

# usearch 2.26 carries a libstdc++ of its own whose locale data the system's, where it is loaded
# later, mistakes for its own: `import usearch.index, onnxruntime` alone ends in a segmentation
# fault. numba, which scoring needs anyway, starts the system's first, and then both are safe.
GRAPH = "index.usearch"
MEAN = "index-mean.npy"
AXES = "index-axes.npy"
COPIES = "index-copies.npy"

_METRIC = "l2sq"
_DTYPE = "i8"


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """How the graph is built and searched.

    Attributes
    ----------
    connectivity
        Links per paper (M).
    expansion_add, expansion_search
        Candidates held while building (efConstruction) and while searching (ef).
    variance
        Least share of the vectors' variance around their mean that codes keep.
    deterministic
        Build on one thread: the same bytes each time, where several threads give another graph.
    """

    connectivity: int = 16
    expansion_add: int = 128
    expansion_search: int = 512
    variance: float = 0.95
    deterministic: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.connectivity <= 512:
            raise UsageError(f"connectivity = {self.connectivity}: expected 2 to 512 links")
        for name in ("expansion_add", "expansion_search"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} = {getattr(self, name)}: at least 1 is needed")
        if not 0 < self.variance <= 1:
            raise UsageError(f"variance = {self.variance}: a share above 0, at most 1")

    def fingerprint(self) -> str:
        """Hash of these settings and of how vectors become codes."""
        return fingerprint([dataclasses.asdict(self), _METRIC, _DTYPE, CODES_VERSION])


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What was built, for the manifest."""

    fingerprint: str
    """Hash of settings, mean and axes."""
    n_papers: int
    """Papers that can be found."""
    n_copies: int
    """Of these, papers not in the graph, since another has the same code."""
    dim: int
    n_axes: int
    variance: float
    """Share of the variance that the axes keep."""
    dtype: str
    metric: str
    n_bytes: int
    threads: int
    usearch: str


def build_index(
    vectors: NDArray[np.float32],
    eligible: NDArray[np.bool_],
    folder: Path,
    config: IndexConfig,
    *,
    threads: int,
    progress: Callable[[int], None] | None = None,
) -> IndexFacts:
    """Build an index over the eligible rows and write its files into a folder.

    Parameters
    ----------
    vectors : ndarray of shape (n, d), float32
        Unit rows; may be memory-mapped.
    eligible : ndarray of shape (n,), bool
        Which rows can be found; at least one.
    folder
        Exists; publishing it is the caller's business.
    threads
        Clamped to the usable processors; one if `config.deterministic`.
    progress
        Called with the number of papers done since the last call.

    Raises
    ------
    UsageError
        No row is eligible: an empty pool has no index.
    StorageError
        A file could not be written.
    """
    rows = np.flatnonzero(eligible)
    if not len(rows):
        raise UsageError("an index of no papers was asked for; an empty pool has none")
    threads = 1 if config.deterministic else usable_threads(threads)
    to_code, kept = fit(vectors, rows, config.variance)
    first = _first_of_equal(vectors, rows, to_code)
    in_graph = rows[first == rows]
    copies = np.stack([first, rows], axis=1)[first != rows].astype(np.int32)
    copies = copies[np.lexsort((copies[:, 1], copies[:, 0]))]

    graph = _graph(to_code.axes.shape[1], config)
    for some in chunks(in_graph):
        graph.add(some.astype(np.uint64), to_code(vectors[some]), threads=threads)
        if progress is not None:
            progress(len(some))
    if progress is not None and len(copies):
        progress(len(copies))

    with storage_errors(f"write the index into {folder}"):
        np.save(folder / MEAN, to_code.mean)
        np.save(folder / AXES, to_code.axes)
        np.save(folder / COPIES, copies)
    _save(graph, folder / GRAPH)
    digest = hashlib.blake2b(to_code.mean.tobytes() + to_code.axes.tobytes(), digest_size=16)
    return IndexFacts(
        fingerprint=fingerprint([config.fingerprint(), digest.hexdigest()]),
        n_papers=len(rows),
        n_copies=len(copies),
        dim=vectors.shape[1],
        n_axes=to_code.axes.shape[1],
        variance=kept,
        dtype=_DTYPE,
        metric=_METRIC,
        n_bytes=sum((folder / name).stat().st_size for name in (GRAPH, MEAN, AXES, COPIES)),
        threads=threads,
        usearch=usearch.__version__,
    )


class Index:
    """A graph on disk, memory-mapped; searches may come from several threads at once."""

    def __init__(self, graph: Any, to_code: "ToCode", copies: NDArray[np.int32]) -> None:
        self._graph = graph
        self._to_code = to_code
        self._copies = copies
        self.expansion_search = int(graph.expansion_search)
        """Candidates held while searching (ef), unless a search asks for others; a larger count
        raises it for that search."""
        self._lock = threading.Lock()
        self._process = os.getpid()

    @classmethod
    def view(cls, folder: Path, config: IndexConfig, *, threads: int | None = None) -> "Index":
        """Map the index of a folder and search it once.

        A damaged graph file can crash the process: its full hash must have been checked
        before this is called.

        Parameters
        ----------
        config
            The one it was built with, but for `expansion_search`, which may be another.
        threads
            With how many to try the search; all usable by default.

        Raises
        ------
        ArtefactError
            A file is missing or unreadable, was built otherwise, or does not answer rightly.
        """
        path = folder / GRAPH
        try:
            mean = np.load(folder / MEAN, allow_pickle=False)
            axes = np.load(folder / AXES, allow_pickle=False)
            copies = np.load(folder / COPIES, mmap_mode="r", allow_pickle=False)
            if mean.dtype != np.float32 or mean.ndim != 1:
                raise ValueError(f"{MEAN} is {mean.dtype} of shape {mean.shape}")
            if axes.dtype != np.float32 or axes.ndim != 2 or len(axes) != len(mean):
                raise ValueError(f"{AXES} is {axes.dtype} of shape {axes.shape}")
            if copies.dtype != np.int32 or copies.ndim != 2 or copies.shape[1] != 2:
                raise ValueError(f"{COPIES} is {copies.dtype} of shape {copies.shape}")
            graph = _graph(axes.shape[1], config)
            graph.view(os.fspath(path))
        except (OSError, EOFError, ValueError, RuntimeError) as error:
            raise ArtefactError(
                f"{folder}: the index can't be opened ({error}); make the pool again"
            ) from error
        _check(graph, axes.shape[1], config, path)
        index = cls(graph, ToCode(mean, axes), np.asarray(copies))
        index._try_out(usable_threads(threads), path)
        return index

    @property
    def n_papers(self) -> int:
        """Papers that can be found."""
        return len(self._graph) + len(self._copies)

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
        codes = self._to_code(queries)
        n, wanted = len(queries), min(count, len(self._graph))
        # Each call numbers its scratch slots from 0, so two at once would share them.
        with self._own_lock():
            self._graph.expansion_search = expansion
            answer = self._graph.search(codes, wanted, threads=threads)
        keys = np.asarray(answer.keys).reshape(n, wanted).astype(np.int64)
        found = np.asarray(answer.counts).reshape(n) if n > 1 else np.array([len(answer)])
        rows = np.full((n, count), -1, np.int32)
        rows[:, :wanted] = np.where(np.arange(wanted) < found[:, None], keys, -1)
        return _with_copies(rows, self._copies) if len(self._copies) else rows

    def _own_lock(self) -> threading.Lock:
        """After a fork the parent's lock may be held by a thread that doesn't exist here."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
        return self._lock

    def _try_out(self, threads: int, path: Path) -> None:
        """A search for the mean with all threads at once, before anybody relies on it."""
        queries = np.repeat(self._to_code.mean[None], 2 * threads, axis=0)
        try:
            rows = self.search(queries, 1, threads=threads)
        except RuntimeError as error:
            raise ArtefactError(
                f"{path} can't be searched with {threads} threads: {error}"
            ) from error
        if (rows < 0).any() or (rows != rows[0]).any():
            raise ArtefactError(f"{path}: equal searches give unequal answers; make the pool again")


def _graph(dim: int, config: IndexConfig) -> Any:
    """An empty graph. Every parameter is given: usearch's defaults follow the processor."""
    return Graph(
        ndim=dim,
        metric=_METRIC,
        dtype=_DTYPE,
        connectivity=config.connectivity,
        expansion_add=config.expansion_add,
        expansion_search=config.expansion_search,
        multi=False,
    )


def _check(graph: Any, dim: int, config: IndexConfig, path: Path) -> None:
    """The file's own header against what was asked for."""
    header: dict[str, Any] = cast(Any, Graph).metadata(os.fspath(path)) or {}
    found = {
        "dimension": int(graph.ndim),
        "dtype": str(header.get("kind_scalar")),
        "metric": str(header.get("kind_metric")),
        "connectivity": int(graph.connectivity),
    }
    expected = {
        "dimension": dim,
        "dtype": "ScalarKind.I8",
        "metric": "MetricKind.L2sq",
        "connectivity": config.connectivity,
    }
    if found != expected:
        raise ArtefactError(f"{path} holds {found}, expected {expected}; make the pool again")
    if not len(graph):
        raise ArtefactError(f"{path} holds no papers; make the pool again")


def _save(graph: Any, path: Path) -> None:
    try:
        graph.save(os.fspath(path))
    except RuntimeError as error:
        raise StorageError(f"could not write {path}: {error}; is the disk full?") from error
    if path.stat().st_size != graph.serialized_length:
        raise StorageError(
            f"could not write {path}: {path.stat().st_size:,} of {graph.serialized_length:,} bytes"
        )
    # usearch doesn't say when a late write failed; this does.
    with storage_errors(f"write {path}"), path.open("rb+") as file:
        os.fsync(file.fileno())


def _first_of_equal(
    vectors: NDArray[np.float32], rows: NDArray[np.int64], to_code: ToCode
) -> NDArray[np.int64]:
    """For each of the rows, the first row that has the same code."""
    # A random linear form modulo 2**64: two codes that differ agree with probability 2**-56.
    generator = np.random.default_rng(0)
    weights = generator.integers(-(2**63), 2**63 - 1, (to_code.axes.shape[1],), np.int64)
    hashes: NDArray[np.int64] = np.concatenate(
        [to_code(vectors[some]).astype(np.int64) @ weights for some in chunks(rows)]
    )
    _, first, place = np.unique(hashes, return_index=True, return_inverse=True)
    return rows[first[place]]


def _with_copies(rows: NDArray[np.int32], copies: NDArray[np.int32]) -> NDArray[np.int32]:
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
