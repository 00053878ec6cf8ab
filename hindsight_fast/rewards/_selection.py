"""Which papers of a pool count for a request: of a topic, of a window, and without some by name."""

import re
from collections import OrderedDict
from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import UsageError
from hindsight_fast.pool import Pool
from hindsight_fast.store import days, topics_of

_KEPT: Final = 64  # selections in memory, of 4 bytes a paper


class Selection(NamedTuple):
    """Papers that count: their impact, -1 for all others, and how many they are."""

    impact: NDArray[np.float32]
    n_papers: int


class Selections:
    """The selections of a pool; not for several threads at once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._kept: OrderedDict[tuple[str | None, str | None], Selection] = OrderedDict()
        self._of_topic: dict[str, NDArray[np.bool_]] = {}
        self._names: list[str] | None = None
        self._ids: tuple[NDArray[np.uint64], NDArray[np.int64]] | None = None

    def of(self, topic: str | None, cutoff: str | None) -> Selection:
        """Papers of a topic that are dated on a day or later; None limits nothing.

        Raises
        ------
        UsageError
            The store has no such topic, or that is no day.
        """
        if (topic, cutoff) in self._kept:
            self._kept.move_to_end((topic, cutoff))
            return self._kept[topic, cutoff]
        pool = self._pool
        impact = np.array(pool.impact)
        if topic is not None:
            impact[~self.have(topic)] = -1
        if cutoff is not None:
            first = days(_day(cutoff))
            low = int(np.searchsorted(pool.store.dates, np.int32(first), "left")) - pool.offset
            impact[: max(low, 0)] = -1
        made = self._kept[topic, cutoff] = Selection(impact, int((impact >= 0).sum()))
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return made

    def have(self, topic: str) -> NDArray[np.bool_]:
        """Which papers have a topic, (n,).

        Raises
        ------
        UsageError
            The store has no such topic.
        """
        if topic not in self._of_topic:
            pool = self._pool
            if self._names is None:
                self._names = sorted(topics_of(pool.store))
            if topic not in self._names:
                raise UsageError(
                    f"topic {topic!r}: the papers have {', '.join(self._names) or 'no topics'}"
                )
            listed = pool.store.papers(["topics"], pool.offset, pool.offset + pool.n)["topics"]
            self._of_topic[topic] = listed.list.contains(topic).fill_null(False).to_numpy()
        return self._of_topic[topic]

    def rows(self, ids: Sequence[str]) -> NDArray[np.int32]:
        """Rows of the papers with these ids, as far as the pool has them."""
        pool = self._pool
        if self._ids is None:
            papers = pool.store.papers(["id"], pool.offset, pool.offset + pool.n)["id"]
            hashes = papers.hash().to_numpy()
            order = np.argsort(hashes)
            self._ids = hashes[order], order
        hashes, order = self._ids
        given = pl.Series(list(ids), dtype=pl.String)
        wanted = given.hash().to_numpy()
        low, high = (np.searchsorted(hashes, wanted, side) for side in ("left", "right"))
        found = [order[a:b] for a, b in zip(low, high, strict=True)]
        rows = np.unique(np.concatenate([np.empty(0, np.int64), *found]))
        named = pool.store.lookup(rows + pool.offset, ["id"])["id"].is_in(given.implode())
        own: NDArray[np.int32] = rows[named.to_numpy()].astype(np.int32)
        return own


def _day(text: str) -> date:
    """`2023`, `2023-06` or `2023-06-01` as its first day."""
    if match := re.fullmatch(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?(?:T.*)?", text):
        try:
            return date(*(int(part or 1) for part in match.groups()))
        except ValueError:
            pass
    raise UsageError(f"cutoff {text!r}: 2023, 2023-06 or 2023-06-01 was expected")
