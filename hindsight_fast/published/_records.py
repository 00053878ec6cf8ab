"""What becomes of the records of published vectors, whatever file they are from."""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import DataError
from hindsight_fast.published._papers import PaperIds
from hindsight_fast.published._vectors import Refuse, to_unit

REASONS: Final = {
    "unreadable": "no JSON object",
    "too_long": "a line that is too long",
    "no_id": "no id of a paper",
    "no_vector": "no vector",
    "not_numbers": "a vector of something else than numbers",
    "wrong_length": "a vector of another length",
    "not_finite": "a vector with a number that is not finite",
    "zero": "a vector of zeros",
}
"""Why a record is of no use. The vector of a paper that the store lacks is not looked at."""

SHOWN: Final = 5
"""Examples of refused records that a person is shown."""


class Wanted(NamedTuple):
    """What is looked for: vectors of `dim` numbers, of these papers, by a model of these names."""

    papers: PaperIds
    dim: int
    encoder: str
    names: tuple[str, ...]

    def check_model(self, name: object, where: str) -> None:
        """Refuse vectors of another model.

        Raises
        ------
        DataError
            `name` is none of those under which vectors of this encoder are published.
        """
        if name not in self.names:
            published = " or ".join(map(repr, self.names))
            raise DataError(
                f"{where}: this vector was made by the model {str(name)[:80]!r}; those of "
                f"{self.encoder} are published as {published}, and no others can be mixed with it"
            )


class Refusals:
    """Records that are of no use: how many by reason, and a few of them."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.examples: list[tuple[int, str]] = []

    def add(self, line: int, reason: str, found: str = "") -> None:
        """Count a record by its line (or number), a key of `REASONS`, and what was found."""
        self.counts[reason] += 1
        if len(self.examples) < SHOWN:
            told = REASONS[reason] + (f": {found[:80]}" if found else "")
            self.examples.append((line, told))

    def update(self, others: "Refusals") -> None:
        """Add those of later records."""
        self.counts.update(others.counts)
        self.examples = sorted(self.examples + others.examples)[:SHOWN]


class Batch(NamedTuple):
    """Some records of a file, in order.

    Attributes
    ----------
    n : int
        How many records there are.
    n_unnamed : int
        How many of them don't say which model made their vector.
    n_not_in_store : int
        How many are of no paper of the store.
    refused : Refusals
    rows : ndarray of shape (m,), int64
        Rows of the store that the others stand for.
    kinds : ndarray of shape (m,), int8
        By which id they were found: a place in `ID_SCHEMA`.
    vectors : ndarray of shape (m, dim), float32
        Their unit vectors.
    """

    n: int
    n_unnamed: int
    n_not_in_store: int
    refused: Refusals
    rows: NDArray[np.int64]
    kinds: NDArray[np.int8]
    vectors: NDArray[np.float32]


ReadVectors = Callable[[NDArray[np.int64], Refuse], NDArray[np.floating]]
"""Reads the vectors of records at these places, (m, dim); for each that is none `Refuse` is called
with its place among them."""


def join(
    ids: pl.DataFrame,
    lines: NDArray[np.int64],
    n_unnamed: int,
    refused: Refusals,
    wanted: Wanted,
    read: ReadVectors,
) -> Batch:
    """Find the papers of records, and make unit vectors of theirs.

    Parameters
    ----------
    ids : polars.DataFrame
        Columns of `ID_SCHEMA`, a row for each record that has an id and a vector.
    lines : ndarray of shape (n,), int64
        Where each of them is in its file.
    n_unnamed
        How many records don't name their model.
    refused
        Those that were refused before; more are added.
    read
        Gives the vectors of those whose papers are found, by their places in `ids`.
    """
    n = ids.height + refused.counts.total()
    rows, kinds = wanted.papers.find(ids)
    found = np.flatnonzero(rows >= 0)
    unread = set[int]()

    def refuse(place: int, reason: str, told: str = "") -> None:
        unread.add(place)
        refused.add(int(lines[found[place]]), reason, told)

    units, finite, nonzero = to_unit(read(found, refuse))
    good = finite & nonzero
    for place in np.flatnonzero(~good).tolist():
        if place not in unread:
            refuse(place, "zero" if finite[place] else "not_finite")
    kept = found[good]
    n_lacking = ids.height - len(found)
    return Batch(n, n_unnamed, n_lacking, refused, rows[kept], kinds[kept], units[good])
