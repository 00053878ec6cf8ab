"""Papers in their final order, from files that are each in that order."""

from bisect import bisect_left
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers.gathering._rows import TEXT_BYTES, RowFile, Rows

UNDATED: Final = np.iinfo(np.int32).max

Place = tuple[int, str]
"""Where a paper stands: day of its date (`UNDATED` where there is none), and its id."""


@dataclass(slots=True)
class _Ordered:
    """A file in order: where each of its batches starts, and about how many bytes it has."""

    file: RowFile
    starts: list[Place]
    sizes: list[int]


class Order:
    """Files of papers, each in order of date and id, read as one.

    Parameters
    ----------
    rows : Rows
    batch : int
        Rows of a file of which one place is remembered.
    """

    def __init__(self, rows: Rows, batch: int) -> None:
        self._rows = rows
        self._batch = batch
        self._files: list[_Ordered] = []

    def add(self, papers: pl.DataFrame) -> RowFile:
        """Write papers as one file, in their order.

        Parameters
        ----------
        papers : polars.DataFrame
            At least one, in `ordering`.
        """
        file = self._rows.add(papers)
        starts: list[Place] = papers.gather_every(self._batch).select(_DAY, "id").rows()
        of_rows = papers.select(TEXT_BYTES).to_series().to_numpy()
        sizes = np.add.reduceat(of_rows, np.arange(0, papers.height, self._batch))
        self._files.append(_Ordered(file, starts, sizes.tolist()))
        return file

    @property
    def files(self) -> list[RowFile]:
        """The files so far."""
        return [each.file for each in self._files]

    def parts(
        self, alive: NDArray[np.bool_], columns: list[str], part_bytes: int
    ) -> Generator[pl.DataFrame]:
        """Yield the papers that are alive (one value per row of `Rows`), in order.

        A part has about `part_bytes`, and at most one batch of each file more.
        """
        cuts = self._cuts(part_bytes)
        for low, high in zip([None, *cuts], [*cuts, None], strict=True):
            found = (self._between(each, low, high, alive, columns) for each in self._files)
            rows = [frame for frame in found if frame is not None and frame.height]
            if rows:
                part = pl.concat(rows, rechunk=True)  # which are put in order far sooner
                yield part[part.select(ordering()).to_series()]

    def _cuts(self, part_bytes: int) -> list[Place]:
        """Places between parts: at starts of batches, so that those of a part add up."""
        batches = sorted(
            batch for each in self._files for batch in zip(each.starts, each.sizes, strict=True)
        )
        cuts: list[Place] = []
        size = 0
        for start, of_batch in batches:
            if size + of_batch > part_bytes and size and (not cuts or start > cuts[-1]):
                cuts.append(start)
                size = 0
            size += of_batch
        return cuts

    def _between(
        self,
        each: _Ordered,
        low: Place | None,
        high: Place | None,
        alive: NDArray[np.bool_],
        columns: list[str],
    ) -> pl.DataFrame | None:
        """Rows of a file from `low` on and before `high`; None where it has none."""
        n = each.file.stop - each.file.start
        first, last = 0, len(each.starts)
        if low is not None:  # a batch that starts before it may end after it
            first = max(bisect_left(each.starts, low) - 1, 0)
        if high is not None:
            last = bisect_left(each.starts, high)
        start, stop = first * self._batch, min(last * self._batch, n)
        if start >= stop:
            return None
        wanted = alive[each.file.start + start : each.file.start + stop]
        if not wanted.any():
            return None
        rows = self._rows.read(each.file, columns, start, stop - start)
        skipped = 0 if low is None else _n_before(rows, low)
        kept = rows.height if high is None else _n_before(rows, high)
        rows = rows.slice(skipped, kept - skipped)
        wanted = wanted[skipped : skipped + rows.height]
        return rows if wanted.all() else rows.filter(pl.Series(wanted))


def _n_before(rows: pl.DataFrame, place: Place) -> int:
    """How many of some rows in order stand before a place."""
    theirs = rows.select(_DAY, "id")
    day, id = place
    before = (pl.col("day") < day) | ((pl.col("day") == day) & (pl.col("id") < id))
    return int(theirs.select(before.sum()).item())


_DAY = pl.col("date").to_physical().fill_null(UNDATED).alias("day")


def ordering() -> pl.Expr:
    """Row numbers of papers in their order: by date and id, undated ones last."""
    return pl.arg_sort_by("date", "id", nulls_last=True)
