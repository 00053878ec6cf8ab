"""All of a calibration, in its order."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import polars as pl

from hindsight_fast.calibration import _chance, _cosines, _f1, _grid, _hubs, _loss, _size
from hindsight_fast.calibration._pairs import read as read_pairs
from hindsight_fast.calibration._sample import LIMIT, earlier_papers, of_ideas, of_papers
from hindsight_fast.calibration._search import Step, nearest_of_pool
from hindsight_fast.errors import UsageError
from hindsight_fast.ideas import Idea, ideas_frame
from hindsight_fast.scoring import Scorer

_WIDTH: Final = 512
"""Papers looked up for each idea, if there are as many: of a sixteenth of the pool, 20 are left."""

_STAGES: Final = 6


class Progress(Protocol):
    """Called with what is done of what, and what it is."""

    def __call__(self, done: int, total: int, *, label: str = "") -> None: ...


@dataclass(frozen=True, slots=True)
class Calibration:
    """What `calibrate` found.

    Attributes
    ----------
    signature : str
        How scores are made, as of a run with the exact scan.
    ideas : str
        What was looked up.
    kind : str
        "ideas", "earlier papers" or "papers of the pool".
    n : int
        How many of them.
    n_papers : int
        Of the pool.
    n_earlier, n_earlier_bare : int
        Papers from before T with vectors, and those without.
    mean_score, match_rate : float
        At the scorer's own settings.
    loss, cosines, chance, pairs, sensitivity, sizes, hubs
        See the module of each; `pairs` is None where none were given.
    """

    signature: str
    ideas: str
    kind: str
    n: int
    n_papers: int
    n_earlier: int
    n_earlier_bare: int
    mean_score: float
    match_rate: float
    loss: _loss.Loss
    cosines: _cosines.Cosines
    chance: list[_chance.ByChance]
    pairs: _f1.ByPairs | None
    sensitivity: _grid.Sensitivity
    sizes: list[_size.Thinned]
    hubs: _hubs.Hubs

    def facts(self) -> dict[str, Any]:
        """The same as plain values, for a program."""
        return asdict(self)


def calibrate(
    scorer: Scorer,
    ideas: Path | pl.DataFrame | Iterable[Idea] | None = None,
    *,
    pairs: Path | None = None,
    related: float | None = None,
    limit: int = LIMIT,
    progress: Progress = lambda done, total, label="": None,
) -> Calibration:
    """Measure how far scores against a pool can be believed.

    Parameters
    ----------
    scorer
        Its pool, K and theta are looked at; ideas and the empty text need its encoder.
    ideas
        A file or frame of ideas; None: papers from before T stand in, or, where the store has too
        few, papers of the pool, each without itself.
    pairs
        A file of graded pairs, to choose theta by (see `_pairs`).
    related
        Least grade of a related pair; by default what is above half of the largest grade.
    limit
        At most so many ideas, drawn at random.

    Raises
    ------
    UsageError
        The pool has no papers, or the scorer no encoder where one is needed.
    DataError
        No idea can be scored, or no pair was found.
    EncoderError, ArtefactError
        The model failed, or the pool was damaged since it was opened.
    """
    pool, k = scorer.pool, scorer.config.k
    if not pool.n_papers:
        raise UsageError(f"{pool.path} has no papers: there is nothing to calibrate")
    if limit < 1:
        raise UsageError(f"limit = {limit}: at least 1 idea is needed")

    def part(label: str) -> Step:
        return lambda done, total: progress(done, total, label=label)

    by_pairs = None
    if pairs is not None:  # first of all: what can't be read is told before the long work
        graded = read_pairs(pairs, scorer, part("encoding pairs"))
        by_pairs = _f1.by_pairs(graded, scorer.config.theta, related)
    earlier, n_bare = earlier_papers(pool)
    if ideas is None:
        sample = of_papers(pool, earlier, limit)
    else:
        given = ideas if isinstance(ideas, Path) else ideas_frame(ideas)
        sample = of_ideas(scorer, given, limit, part("encoding ideas"))
    width = min(pool.n_papers, max(_WIDTH, k + 1, *_grid.KS))
    near = nearest_of_pool(
        pool, sample.vectors, width, sample.own, scorer.threads, part("nearest papers")
    )

    stages = iter(range(_STAGES))

    def begin(label: str) -> None:
        progress(next(stages), _STAGES, label=label)

    begin("settings")
    sensitivity = _grid.examine(scorer, near)
    begin("sizes of the pool")
    sizes = _size.examine(scorer, sample, near)
    begin("hubs")
    hubs = _hubs.examine(scorer, near)
    begin("cosines")
    cosines = _cosines.examine(scorer, sample, near)
    begin("chance matches")
    chance = _chance.by_chance(scorer, sample, earlier, near)
    begin("losses")
    loss = _loss.examine(scorer, sample, near)
    precision = "float32" if scorer.encoder is None else scorer.encoder.precision
    return Calibration(
        signature=pool.signature(k, scorer.config.theta, "exact", precision),
        ideas=sample.words,
        kind=sample.kind,
        n=sample.n,
        n_papers=pool.n_papers,
        n_earlier=len(earlier),
        n_earlier_bare=n_bare,
        mean_score=hubs.mean,
        match_rate=float((near.nearest >= np.float32(scorer.config.theta)).mean()),
        loss=loss,
        cosines=cosines,
        chance=chance,
        pairs=by_pairs,
        sensitivity=sensitivity,
        sizes=sizes,
        hubs=hubs,
    )
