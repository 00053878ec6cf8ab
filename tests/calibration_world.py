"""A small pool and ideas for tests of calibrate."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hindsight_fast import Idea, Scorer
from hindsight_fast.calibration._sample import of_ideas
from hindsight_fast.calibration._search import Near, nearest_of_pool
from hindsight_fast.ideas import ideas_frame
from scoring_world import World, made_up_ideas, make_world


@contextmanager
def own_world(folder: Path, **options: Any) -> Generator[World]:
    """A world whose maker works there: what is trusted here is nobody else's business."""
    world = make_world(folder, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HINDSIGHT_HOME", str(folder))
        yield world


def made(n: int = 40) -> list[Idea]:
    """Made-up ideas."""
    return [Idea(**one) for one in made_up_ideas(n)]


def scorer_of(world: World, share: float = 0.5, **options: Any) -> Scorer:
    """A scorer whose theta about this share of the ideas reach."""
    near = Scorer(world.pool, world.encoder).score(made())["nearest_similarity"]
    return Scorer(world.pool, world.encoder, theta=near.quantile(1 - share), **options)


def near_of(scorer: Scorer, world: World, n: int = 40, width: int = 60) -> tuple[Any, Near]:
    """A sample of ideas, and the papers nearest to each."""
    sample = of_ideas(scorer, ideas_frame(made(n)), n, lambda done, total: None)
    return sample, nearest_of_pool(scorer.pool, sample.vectors, width, sample.own, 2)
