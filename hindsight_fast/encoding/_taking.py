"""Vectors that are known already, and are taken over."""

import contextlib
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.storage import RowFile, verify_folder
from hindsight_fast.store import VECTORS, Vectors

COUNTS = ("n_encoded", "n_taken", "n_repeated", "n_texts", "n_tokens", "n_truncated", "n_retried")

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
    counts : mapping of str to int
        What was counted while they were read; asked for afterwards.
    """

    @property
    def identity(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def counts(self) -> Mapping[str, int]: ...

    def __iter__(self) -> Iterator[Batch]:
        """Rows of the store, in any order, and their unit vectors; each time the same."""
        ...


class Earlier:
    """The vectors that a store has, of fewer papers than it is to have, and what they count.

    All of their bytes are checked first: in their new place, damage would be what was written.
    """

    identity, label = "earlier", "taking over earlier vectors"

    def __init__(self, folder: Path, vectors: Vectors) -> None:
        self._folder, self._shape = folder, vectors.array.shape
        body = vectors.manifest.body
        self.counts: Mapping[str, int] = {
            **{name: body.get(name, 0) for name in COUNTS},
            **body.get("taken_counts", {}),
        }

    def __iter__(self) -> Generator[Batch]:
        verify_folder(self._folder, "vectors")
        n, dim = self._shape
        with contextlib.closing(RowFile(self._folder / VECTORS, np.float32, (n, dim))) as file:
            for start in range(0, n, _AT_ONCE):
                rows = np.arange(start, min(start + _AT_ONCE, n))
                values = file.read(rows)
                there = values.any(axis=1)
                yield rows[there], values[there]


class Carried(Earlier):
    """The vectors that a store has of texts that another store held (`carry_vectors`)."""

    identity, label = "carried", "taking over vectors of the same texts"

    def __init__(self, folder: Path, vectors: Vectors) -> None:
        super().__init__(folder, vectors)
        self.counts = {}
