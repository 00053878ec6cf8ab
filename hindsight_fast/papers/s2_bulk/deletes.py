"""Corpus ids that delete files name, with the day of the release that deletes them."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import DataError
from hindsight_fast.papers.s2_bulk import rows, shards


class Deletes:
    """Corpus ids that are deleted from a dataset, 12 bytes each.

    Parameters
    ----------
    paths : iterable of pathlib.Path
        Delete files: JSON lines with ``corpusid``.

    Raises
    ------
    DataError
        A file is missing or damaged, or a line of it has no corpus id.
    StorageError
        The system does not let it be read.
    """

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        found = [pl.DataFrame(schema={"corpusid": pl.Int64(), "day": pl.Int32()})]
        for path in paths:
            day = pl.lit(_number(path), pl.Int32)
            for batch in shards.decoded(path, shards.Key):
                ids = shards.keys([record.corpusid for record in batch.records])
                bad = [line for line, *_ in batch.bad]
                bad += [batch.lines[row] for row in ids.is_null().arg_true()]
                if bad:
                    raise DataError(
                        f"{path}, line {min(bad)}: a delete file names a corpusid on each line, "
                        "and this one does not"
                    )
                found.append(ids.to_frame().select("corpusid", day=day))
        latest = pl.concat(found).group_by("corpusid").agg(pl.col("day").max()).sort("corpusid")
        self.ids = latest["corpusid"]
        self._sorted = self.ids.to_numpy()
        self._days = latest["day"].to_numpy()

    def __len__(self) -> int:
        return len(self.ids)

    def mask(self, ids: pl.Series, path: Path) -> pl.Series:
        """Tell which records of an update file are deleted again, on its day or later."""
        places = positions(self._sorted, ids)
        days = np.append(self._days, -1)[places]  # -1 is the last of them
        return pl.Series("deleted", days >= _number(path), dtype=pl.Boolean)


def _number(path: Path) -> int:
    """Day of a file's release as a number that grows; 0 where its name says none."""
    return int((rows.release_day(path) or "0").replace("-", ""))


def positions(ascending: NDArray[np.int64], ids: pl.Series) -> NDArray[np.int64]:
    """Places of ids in a sorted array, -1 where they are not in it or null."""
    wanted = ids.fill_null(0).to_numpy()
    places = np.searchsorted(ascending, wanted)
    there = np.append(ascending, 0)[places] == wanted
    return np.where(there & (wanted != 0), places, -1)
