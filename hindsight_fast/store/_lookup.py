"""Names and places of single papers, straight from mapped files.

All texts of a paper lie together in one flat array of UTF-8 bytes; a second array holds where each
of them starts. Fetching a few papers touches a few pages and no more private memory than they
need (a table in an Arrow file would be read as a whole: polars no longer maps such files).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import ArtefactError
from hindsight_fast.papers.utf8 import text_bytes
from hindsight_fast.storage import ArrayWriter, map_array

TEXTS = ("id", "title", "venue", "url", "date_precision")
TEXT_FILE = "lookup-text.npy"
STARTS_FILE = "lookup-starts.npy"
_WIDTH = len(TEXTS)
_LONGEST = 1 << 24  # bytes of a text; with false bounds each could be the whole file


def _flat(papers: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Length of each text, paper by paper, and all texts in that order."""
    texts = papers.select(pl.col(TEXTS).fill_null(""))
    lengths = texts.select(pl.all().str.len_bytes().cast(pl.Int64)).to_numpy().reshape(-1)
    return lengths, text_bytes(texts.select(pl.concat_str(pl.all())).to_series())


class LookupWriter:
    """Both files in the making.

    Attributes
    ----------
    n_bytes : int
        Of text, so far.
    """

    def __init__(self, folder: Path) -> None:
        self.n_bytes = 0
        self._text = ArrayWriter(folder / TEXT_FILE, np.uint8)
        self._starts = ArrayWriter(folder / STARTS_FILE, np.int64)

    def add(self, papers: pl.DataFrame) -> None:
        """Add the next papers."""
        lengths, text = _flat(papers)
        ends = self.n_bytes + np.cumsum(lengths)
        self._starts.append(ends - lengths)
        self._text.append(text)
        self.n_bytes += len(text)

    def close(self) -> None:
        """Write the end."""
        self._starts.append(np.array([self.n_bytes]))
        self._starts.close()
        self._text.close()


class Lookup:
    """The two files of a store of `n` papers with `n_bytes` of text, mapped."""

    def __init__(self, folder: Path, n: int, n_bytes: int) -> None:
        self._folder = folder
        self._starts: NDArray[np.int64] = map_array(
            folder / STARTS_FILE, np.int64, (n * _WIDTH + 1,)
        )
        self._text: NDArray[np.uint8] = map_array(folder / TEXT_FILE, np.uint8, (n_bytes,))

    def names(self, papers: pl.DataFrame, row: int) -> bool:
        """Tell whether the papers from a row on have just these texts."""
        lengths, text = _flat(papers)
        starts = self._starts[row * _WIDTH : (row + papers.height) * _WIDTH + 1]
        if not np.array_equal(np.diff(starts), lengths):
            return False
        here = self._text[starts[0] : starts[-1]]
        return np.array_equal(here, text)

    def texts(self, rows: NDArray[np.int64], columns: Sequence[str] = TEXTS) -> pl.DataFrame:
        """Return these columns, some of `TEXTS`, of these rows; an empty text is null.

        Raises
        ------
        ArtefactError
            There are no texts at these rows, or none that are UTF-8: the files are damaged.
        """
        bounds = self._starts[rows[:, None] * _WIDTH + np.arange(_WIDTH + 1)]
        lengths = np.diff(bounds, axis=1)
        inside = bounds.min(initial=0) >= 0 and bounds.max(initial=0) <= len(self._text)
        if not inside or lengths.min(initial=0) < 0 or lengths.max(initial=0) > _LONGEST:
            raise ArtefactError(f"{self._folder / STARTS_FILE} is damaged; build the store again")
        text, low, high = self._text.data, bounds[:, 0].tolist(), bounds[:, -1].tolist()
        # Texts are slices of one piece of bytes: a Python string for each would take ten times
        # as long.
        together = b"".join([text[a:b] for a, b in zip(low, high, strict=True)])
        ends = np.cumsum(lengths, axis=None).reshape(lengths.shape)
        places = {name: TEXTS.index(name) for name in columns}
        found = pl.DataFrame(
            {name: (ends - lengths)[:, at] for name, at in places.items()}
            | {f"{name} length": lengths[:, at] for name, at in places.items()}
        )
        piece = pl.lit(together, pl.Binary)
        try:
            return found.select(
                pl.when(pl.col(f"{name} length") > 0)
                .then(piece.bin.slice(pl.col(name), pl.col(f"{name} length")))
                .cast(pl.String)
                .alias(name)
                for name in columns
            )
        except pl.exceptions.PolarsError as error:
            raise ArtefactError(
                f"{self._folder / TEXT_FILE} is damaged; build the store again"
            ) from error
