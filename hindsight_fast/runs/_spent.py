"""What a run took, added up over all processes that had a part in it."""

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from hindsight_fast.encoding import CacheUse
from hindsight_fast.scoring import Scorer

_STAGES: tuple[str, ...] = (
    "read", "text", "encode", "search", "match", "table", "count", "journal",
)  # fmt: skip
_SECONDS = "s "
_SCANNED = "on "


class Spent:
    """Seconds of each stage and in all, papers nominated, where ideas were scanned for by looking
    at all papers (those of samples too), and the use of the cache.

    Counts from 0 on: what `scorer` counted before is gone.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer, self._began = scorer, time.perf_counter()
        scorer.seconds, scorer.n_nominated = dict.fromkeys(_STAGES, 0.0), 0
        scorer.exact_scan.ideas.clear()
        if scorer.cache is not None:
            scorer.cache.use = CacheUse()
        self._earlier, self._noted = dict[str, float](), dict[str, float]()

    @contextmanager
    def on(self, stage: str) -> Generator[None]:
        """Count the seconds of the body of the `with`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            taken = time.perf_counter() - began
            self._scorer.seconds[stage] = self._scorer.seconds.get(stage, 0.0) + taken

    def news(self) -> dict[str, float]:
        """What was spent since the last call, for a journal."""
        now = self._own()
        news = {name: value - self._noted.get(name, 0) for name, value in now.items()}
        self._noted = now
        return {name: round(value, 6) for name, value in news.items() if value}

    def take(self, news: Mapping[str, float]) -> None:
        """Add what an earlier process noted."""
        _add(self._earlier, news)

    def facts(self) -> dict[str, Any]:
        """All of it, for the manifest."""
        in_all, cache = self._own(), self._scorer.cache
        _add(in_all, self._earlier)
        use = {name: int(in_all.get(name, 0)) for name in asdict(CacheUse())}
        return {
            "n_nominated": int(in_all["nominated"]),
            "scanned": {
                name.removeprefix(_SCANNED): int(n)
                for name, n in in_all.items()
                if name.startswith(_SCANNED)
            },
            "cache": None if cache is None else {**cache.facts(), **use},
            "seconds": {
                name.removeprefix(_SECONDS): round(value, 4)
                for name, value in in_all.items()
                if name.startswith(_SECONDS)
            },
        }

    def _own(self) -> dict[str, float]:
        own = {f"{_SECONDS}{stage}": taken for stage, taken in self._scorer.seconds.items()}
        own[f"{_SECONDS}total"] = time.perf_counter() - self._began
        own["nominated"] = self._scorer.n_nominated
        own |= {f"{_SCANNED}{device}": n for device, n in self._scorer.exact_scan.ideas.items()}
        cache = self._scorer.cache
        return own | ({} if cache is None else asdict(cache.use))


def _add(sums: dict[str, float], more: Mapping[str, float]) -> None:
    for name, value in more.items():
        sums[name] = sums.get(name, 0) + value
