"""Vectors that are known already, and are taken over."""

from collections.abc import Generator, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.storage import RowFile
from hindsight_fast.store import VECTORS, Store, Vectors

Batch = tuple[NDArray[np.int64], NDArray[np.float32]]
_AT_ONCE = 4096  # rows


class Taken(Protocol):
    """Vectors of papers of a store, made elsewhere by the same model.

    Attributes
    ----------
    identity : str
        What they are, a hash of it for instance: unfinished work is gone on with only where it
        is the same.
    label : str
        What a person is shown while they are read.
    """

    @property
    def identity(self) -> str: ...
    @property
    def label(self) -> str: ...

    def __iter__(self) -> Iterator[Batch]:
        """Rows of the store, in any order, and their unit vectors; each time the same."""
        ...


class Earlier:
    """The vectors that a store has, of fewer papers than it is to have."""

    identity, label = "earlier", "taking over earlier vectors"

    def __init__(self, store: Store, vectors: Vectors) -> None:
        self._path = store.vectors_folder(vectors.encoder) / VECTORS
        self._shape = vectors.array.shape
        self.manifest = vectors.manifest

    def __iter__(self) -> Generator[Batch]:
        n, dim = self._shape
        file = RowFile(self._path, np.float32, (n, dim))
        try:
            for start in range(0, n, _AT_ONCE):
                rows = np.arange(start, min(start + _AT_ONCE, n))
                values = file.read(rows)
                there = values.any(axis=1)
                yield rows[there], values[there]
        finally:
            file.close()
