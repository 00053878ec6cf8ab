"""Which papers of a store are in a pool, and why the others are not."""

import datetime as dt
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.config import fingerprint
from hindsight_fast.errors import UsageError
from hindsight_fast.papers import dates
from hindsight_fast.store import Store

_CHUNK = 16_384  # rows of vectors looked at together


@dataclass(frozen=True, slots=True)
class WindowConfig:
    """A window of time, and what a paper's date must rest on.

    A paper is inside when the interval that its date stands for begins on or after `start` and on
    or before `until`: "2023" begins on 2023-01-01.

    Attributes
    ----------
    cutoff
        T: ideas know what was public before this day.
    until
        E, the last day.
    start
        First day of the window; the cutoff, or later for a clean window.
    require_first_public
        Leave out papers that only a venue or a year dates.
    """

    cutoff: dt.date
    until: dt.date
    start: dt.date
    require_first_public: bool = False

    def __post_init__(self) -> None:
        if self.start < self.cutoff:
            raise UsageError(
                f"the window starts on {self.start}, before the cutoff {self.cutoff}: papers from "
                "then could be known to the ideas"
            )
        if self.until < self.start:
            raise UsageError(f"the window ends on {self.until}, before it starts on {self.start}")

    def fingerprint(self) -> str:
        """Hash of these settings."""
        return fingerprint(self)


def reasons(
    papers: pl.DataFrame,
    has_vector: NDArray[np.bool_],
    window: WindowConfig,
    chosen: NDArray[np.bool_] | None = None,
) -> dict[str, NDArray[np.bool_]]:
    """Say which papers of the window don't take part, each for the first reason that holds.

    Parameters
    ----------
    papers
        n rows with columns status and date_kind.
    has_vector : ndarray of shape (n,)
    chosen : ndarray of shape (n,), optional
        Papers that conditions leave in; all by default.

    Returns
    -------
    dict of reason to ndarray of shape (n,), bool
        A status (`retracted`, `withdrawn`, `paratext`, `title_only`, `stub`), `not_first_public`,
        `left_out` by a condition, `not_encoded`; no paper has two.
    """
    status, kind = papers["status"].fill_null("unknown"), papers["date_kind"].fill_null("unknown")
    found: dict[str, NDArray[np.bool_]] = {}
    free = np.ones(papers.height, bool)
    others = sorted(set(status.to_list()) - {"ok"})
    tests = [(name, (status == name).to_numpy()) for name in others]
    if window.require_first_public:
        tests.append(("not_first_public", (kind != "first_public").to_numpy()))
    if chosen is not None:
        tests.append(("left_out", ~chosen))
    tests.append(("not_encoded", ~has_vector))
    for name, holds in tests:
        found[name] = free & holds
        free &= ~holds
    return found


def nonzero_rows(vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Tell which rows are not all zeros; (n, d) to (n,)."""
    found = np.zeros(len(vectors), bool)
    for start in range(0, len(vectors), _CHUNK):
        found[start : start + _CHUNK] = vectors[start : start + _CHUNK].any(axis=1)
    return found


def outside(store: Store, window: WindowConfig) -> dict[str, int]:
    """Count the papers of the store that are not in the window, by where they are.

    `straddling` ones have a date whose interval begins before the window's start and ends inside
    it or later: they may or may not be later papers, and are taken not to be. `public_before` ones
    are listed with a year of the window or later, but were public in a year before that: what a
    list's own years would have let in. The others are `earlier`, `later` or `undated`.
    """
    low, high = store.window(window.start, window.until)
    dated = store.window(dt.date.min, dt.date.max)[1]
    before = store.papers(["date", "date_precision", "year"], 0, low)
    last = dates.end(pl.col("date"), pl.col("date_precision"))
    straddles = last >= window.start
    listed_later = (pl.col("year") >= window.start.year) & (
        pl.col("year") > pl.col("date").dt.year()
    )
    straddling, public_before = before.select(
        straddles.sum().alias("straddling"),
        (~straddles & listed_later.fill_null(False)).sum().alias("public_before"),
    ).row(0)
    return {
        "earlier": low - straddling - public_before,
        "public_before": public_before,
        "straddling": straddling,
        "later": dated - high,
        "undated": store.n - dated,
    }
