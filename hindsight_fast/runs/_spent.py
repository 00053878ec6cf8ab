"""What a run took, added up over all processes that had a part in it."""

import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from hindsight_fast.encoding import CacheUse
from hindsight_fast.scoring import Scorer

_STAGES = ("read", "text", "encode", "search", "match", "table", "count", "journal")


class Spent:
    """Seconds of each stage and in all, papers nominated, and the use of the cache.

    Counts from 0 on: what `scorer` counted before is gone.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer, self._began = scorer, time.perf_counter()
        scorer.seconds, scorer.n_nominated = dict.fromkeys(_STAGES, 0.0), 0
        if scorer.cache is not None:
            scorer.cache.use = CacheUse()
        self._earlier, self._noted = Counter[str](), Counter[str]()

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
        news = {name: value - self._noted[name] for name, value in now.items()}
        self._noted = now
        return {name: round(value, 6) for name, value in news.items() if value}

    def take(self, news: Mapping[str, float]) -> None:
        """Add what an earlier process noted."""
        for name, value in news.items():
            self._earlier[name] += value  # type: ignore[assignment]

    def facts(self) -> dict[str, Any]:
        """All of it, for the manifest."""
        all_of_it = self._own()
        for name, value in self._earlier.items():
            all_of_it[name] += value
        cache = self._scorer.cache
        counted = {name: int(n) for name, n in all_of_it.items() if not name.startswith("s ")}
        return {
            "n_nominated": counted.pop("nominated"),
            "cache": None if cache is None else {**cache.facts(), **counted},
            "seconds": {
                name[2:]: round(value, 4) for name, value in all_of_it.items() if name[:2] == "s "
            },
        }

    def _own(self) -> Counter[str]:
        own = Counter[str]()
        for stage, seconds in self._scorer.seconds.items():
            own[f"s {stage}"] = seconds  # type: ignore[assignment]
        own["s total"] = time.perf_counter() - self._began  # type: ignore[assignment]
        own["nominated"] = self._scorer.n_nominated
        if self._scorer.cache is not None:
            own.update(asdict(self._scorer.cache.use))
        return own
