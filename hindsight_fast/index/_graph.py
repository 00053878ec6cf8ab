"""The only file that knows usearch, which builds graphs and writes them."""

import os
from pathlib import Path
from typing import Any, cast

import numba  # noqa: F401  # pyright: ignore[reportUnusedImport]  (before usearch, see below)
import numpy as np
import usearch
from numpy.typing import NDArray
from usearch.index import Index as _Usearch

from hindsight_fast.errors import ArtefactError, StorageError
from hindsight_fast.index._config import DTYPE, METRIC, IndexConfig
from hindsight_fast.storage import storage_errors

# usearch 2.26 carries a libstdc++ of its own whose locale data the system's, where it is loaded
# later, mistakes for its own: `import usearch.index, onnxruntime` alone ends in a segmentation
# fault. numba, which scoring needs anyway, starts the system's first, and then both are safe.

VERSION: str = usearch.__version__


class Graph:
    """Codes by key, and links between near ones."""

    def __init__(self, dim: int, config: IndexConfig) -> None:
        # Every parameter is given: usearch's defaults follow the processor.
        self._usearch: Any = _Usearch(
            ndim=dim,
            metric=METRIC,
            dtype=DTYPE,
            connectivity=config.connectivity,
            expansion_add=config.expansion_add,
            expansion_search=config.expansion_search,
            multi=False,
        )

    def __len__(self) -> int:
        return len(self._usearch)

    @classmethod
    def load(cls, path: Path, dim: int, config: IndexConfig) -> "Graph":
        """Load a saved graph, to add more.

        A damaged file can crash the process: its full hash must have been checked.

        Raises
        ------
        ArtefactError
            It is missing or unreadable, or was built otherwise.
        """
        graph = cls(dim, config)
        try:
            graph._usearch.load(os.fspath(path))
        except (OSError, EOFError, ValueError, RuntimeError) as error:
            raise ArtefactError(
                f"{path.parent}: the index can't be opened ({error}); make the pool again"
            ) from error
        graph._check(dim, config, path)
        return graph

    def _check(self, dim: int, config: IndexConfig, path: Path) -> None:
        """The file's own header against what was asked for."""
        header: dict[str, Any] = cast(Any, _Usearch).metadata(os.fspath(path)) or {}
        found = {
            "dimension": int(self._usearch.ndim),
            "dtype": str(header.get("kind_scalar")),
            "metric": str(header.get("kind_metric")),
            "connectivity": int(self._usearch.connectivity),
        }
        expected = {
            "dimension": dim,
            "dtype": "ScalarKind.I8",
            "metric": "MetricKind.L2sq",
            "connectivity": config.connectivity,
        }
        if found != expected:
            raise ArtefactError(f"{path} holds {found}, expected {expected}; make the pool again")
        if not len(self):
            raise ArtefactError(f"{path} holds no papers; make the pool again")

    def add(self, keys: NDArray[np.integer[Any]], codes: NDArray[np.int8], threads: int) -> None:
        """Add codes under new keys."""
        self._usearch.add(keys.astype(np.uint64), codes, threads=threads)

    def codes(self, keys: NDArray[np.integer[Any]]) -> NDArray[np.int8]:
        """Return the codes of some keys, which must be there."""
        found: list[NDArray[np.int8]] = self._usearch.get(keys.astype(np.uint64))
        return np.stack(found).reshape(len(keys), -1)

    def save(self, path: Path) -> None:
        """Write it to a file, and flush that to disk.

        Raises
        ------
        StorageError
            No space, or no rights.
        """
        try:
            self._usearch.save(os.fspath(path))
        except RuntimeError as error:
            raise StorageError(f"could not write {path}: {error}; is the disk full?") from error
        size, expected = path.stat().st_size, self._usearch.serialized_length
        if size != expected:
            raise StorageError(f"could not write {path}: {size:,} of {expected:,} bytes")
        # usearch doesn't say when a late write failed; this does.
        with storage_errors(f"write {path}"), path.open("rb+") as file:
            os.fsync(file.fileno())
