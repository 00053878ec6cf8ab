"""The ideas of a run, part by part: those of an earlier process are counted, the others scored."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hindsight_fast.costs import total_error
from hindsight_fast.ideas import read_ideas
from hindsight_fast.runs._settled import Settled
from hindsight_fast.runs._spent import Spent
from hindsight_fast.runs._tables import array_to_bytes, read_array, to_bytes
from hindsight_fast.runs._targets import Targets
from hindsight_fast.scoring import Scored, Scorer
from hindsight_fast.storage import Parts
from hindsight_fast.tally import Counted, Tally

Progress = Callable[[int, int], None]


class Ideas(NamedTuple):
    """The file of ideas, how many of them are to be scored, and how it is read."""

    path: Path
    n: int
    batch: int
    limit: int | None
    strict: bool
    unchanged: Callable[[], None]
    """Raises where the file is no longer that whose hash is in the journal."""


def score_parts(
    scorer: Scorer,
    ideas: Ideas,
    parts: Parts,
    settled: Settled,
    spent: Spent,
    progress: Progress,
    targets: Targets,
) -> Tally:
    """Make the parts that are not whole yet, in order; returns what was counted at all of them.

    A sample depends on all parts before, so those are counted first, whoever made them.
    """
    tally = Tally(
        scorer.pool.cutoff,
        sampling=scorer.search == "index",
        theta=scorer.config.theta,
        error=total_error(settled.costs),
        today=settled.day,
    )
    if ideas.strict:  # where a part holds a bad idea, reading it again says which
        bad = [i for i, facts in parts.whole.items() if "unreadable" in facts["statuses"]]
        for number in bad:
            del parts.whole[number]
    done = frozenset(parts.whole)
    n_done = sum(facts["counts"]["ideas"] for facts in parts.whole.values())
    frames = read_ideas(
        ideas.path, batch=ideas.batch, limit=ideas.limit, strict=ideas.strict, skip=done
    )
    for number in count():
        if number in done:
            _take(parts, number, tally, spent)
            continue
        with spent.on("read"):
            frame = next(frames, None)
        ideas.unchanged()
        if frame is None:
            return tally
        scored = scorer.score_batch(frame)
        with spent.on("count"):
            counted = tally.add(frame, scored)
        with spent.on("journal"):
            _keep(parts, number, scorer, scored, counted, spent, with_matches="matches" in targets)
        n_done += frame.height
        progress(n_done, ideas.n)
    return tally


def _take(parts: Parts, number: int, tally: Tally, spent: Spent) -> None:
    facts = parts.whole.pop(number)
    sampled = np.zeros((0, 0), np.float32)
    if facts["sampled"]:
        sampled = read_array(parts.path("sample", number))
    tally.take(Counted(facts, sampled))
    spent.take(facts["spent"])


def _keep(
    parts: Parts,
    number: int,
    scorer: Scorer,
    scored: Scored,
    counted: Counted,
    spent: Spent,
    *,
    with_matches: bool,
) -> None:
    files = {"scores": to_bytes(scored.scores)}
    if with_matches:
        files["matches"] = to_bytes(scorer.matches_table(scored))
    if len(counted.vectors):
        files["sample"] = array_to_bytes(counted.vectors)
    parts.add(number, files, {**counted.facts, "spent": spent.news()})
