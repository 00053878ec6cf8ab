"""What a calibration says of theta: by graded pairs, by chance matches, and when it moves."""

import math
from collections.abc import Sequence

import numpy as np

from hindsight_fast.calibration._calibrate import Calibration
from hindsight_fast.calibration._chance import (
    FEW_PAPERS,
    LEVELS,
    WEAKNESS,
    ByChance,
    Level,
    least_ideas,
)
from hindsight_fast.calibration._f1 import Best, ByPairs
from hindsight_fast.calibration._grid import RATES, STEP
from hindsight_fast.calibration._section import Section, interval, marked, number, percent

_AT_THETAS = ["theta", "mean score", "match rate", "matches per idea"]


def by_pairs(pairs: ByPairs) -> Section:
    """Theta by graded pairs."""

    def row(name: str, best: Best) -> list[str]:
        return [
            name, f"{best.n_pairs:,}", f"{best.n_related:,}", _down(best.theta),
            interval(best.low, best.high), number(best.precision, 2), number(best.recall, 2),
            number(best.f1, 2),
        ]  # fmt: skip

    topics = [row(f"topic {name}", best) for name, best in pairs.topics.items()]
    assumed = ", above half of the largest seen," if pairs.is_assumed else ""
    notes = [
        f"grades of {pairs.related_from:g} and more{assumed} count as related"
        + ("; --related says otherwise" if pairs.is_assumed else ""),
        "theta by the best F1, the lower on ties; 95% by drawing "
        f"{pairs.n_groups:,} sides a again; AUC {number(pairs.auc, 3)}",
    ]
    if pairs.n_left_out:
        notes.append(f"{pairs.n_left_out:,} records are no graded pairs, and were left out")
    notes.append(
        "weakness: F1 depends on what share of the pairs is related, and pairs that somebody "
        "picked to be graded are not the pairs that a pool offers"
    )
    return Section(
        "pairs",
        "Theta by graded pairs",
        notes,
        ["", "pairs", "related", "theta", "95%", "precision", "recall", "F1"],
        [row("best F1", pairs.best), row("the theta in use", pairs.own), *topics],
        (1, 2, 3, 4, 5, 6, 7),
    )


def by_chance(found: Calibration) -> Section:
    """Theta by matches that can only be chance."""
    rows = [
        [
            one.method if not place else "", f"{one.n_ideas:,}", f"{one.n_papers:,}",
            percent(one.at_theta), percent(level.share, 0), *_level(level),
            percent(level.match_rate), number(level.mean_score),
        ]
        for one in found.chance
        for place, level in enumerate(one.levels)
    ]  # fmt: skip
    columns = [
        "papers not to be anticipated", "ideas", "papers", "match them now", "at most", "theta",
        "95%", "match rate there", "mean score there",
    ]  # fmt: skip
    notes = [
        "each idea's nearest among papers that it can't have anticipated, and the least theta that "
        "a further idea reaches there with a chance of at most 5% (1%); then what the ideas reach "
        "in the pool",
        *_too_few([level for one in found.chance for level in one.levels]),
        *(
            f"{one.method}: {WEAKNESS[one.method]}"
            for one in found.chance
            if not _too_thin(one, found)
        ),
    ]
    if not any(one.method == "earlier papers" for one in found.chance):
        bare = ""
        if found.n_earlier_bare:
            bare = f" ({found.n_earlier_bare:,} more have none: `embed` without --since makes them)"
        notes.append(
            f"of papers from before T the store has {found.n_earlier:,} with vectors{bare}, and at "
            f"least {FEW_PAPERS} are needed to say how often ideas match what "
            "they can't have anticipated: without them no match rate tells foresight from chance"
        )
    for one in found.chance:
        if _too_thin(one, found):
            notes.append(
                f"earlier papers: there are only {one.n_papers:,}, fewer than half of the pool's "
                f"{found.n_papers:,}, and ideas match fewer papers more rarely: this theta is no "
                "ceiling, and their match rate doesn't compare with the pool's"
            )
        elif one.method == "earlier papers":
            notes.append(
                f"now {percent(one.at_theta)} match one of {one.n_papers:,} papers from before T, "
                f"and {percent(found.match_rate)} one of the pool's {found.n_papers:,}: a match "
                "rate no higher than the first, among as many papers, is no sign of foresight"
            )
        elif one.method == "other topics" and one.n_papers < found.n_papers:
            notes.append(
                f"papers of other topics are fewer than those of the pool ({one.n_papers:,} in the "
                f"median, against {found.n_papers:,}), which makes chance matches rarer still"
            )
    return Section(
        "chance", "Theta by chance matches", notes, columns, rows, tuple(range(1, len(columns)))
    )


def _too_thin(one: ByChance, found: Calibration) -> bool:
    return one.method == "earlier papers" and 2 * one.n_papers < found.n_papers


def _too_few(levels: Sequence[Level]) -> list[str]:
    notes = [
        f"a theta for {percent(share, 0)} takes {least_ideas(share)} ideas, and can't be said of "
        "fewer"
        for share in LEVELS
        if any(level.share == share and level.theta is None for level in levels)
    ]
    if any(level.low is not None and level.high is None for level in levels):
        notes.append('"or more": no upper end from so few ideas')
    return notes


def _level(level: Level) -> Sequence[str]:
    return _least(level.theta), interval(level.low, level.high)


def by_topics(chance: Sequence[ByChance]) -> list[Section]:
    """`by_chance` by topic, for the soundest method that has any."""
    for one in chance:
        if one.topics:
            rows = [
                [name, f"{n:,}", *(text for level in levels for text in _level(level))]
                for name, (n, levels) in one.topics.items()
            ]
            columns = ["topic", "ideas"]
            for share in LEVELS:
                columns += [f"theta for {100 * share:.0f}%", "95%"]
            title = f"Theta by chance matches and topic ({one.method})"
            notes = _too_few([level for _, levels in one.topics.values() for level in levels])
            return [Section("topics", title, notes, columns, rows, tuple(range(1, 6)))]
    return []


def _at_thetas(found: Calibration, tried: Sequence[float]) -> list[list[str]]:
    at = found.sensitivity
    return [
        [
            marked(_down(theta), theta == at.theta), f"{at.score(theta=theta):.4f}",
            percent(at.rate(theta)), f"{at.matches(theta=theta):.2f}",
        ]
        for theta in tried
    ]  # fmt: skip


def thetas(found: Calibration) -> Section:
    """What theta changes, in small steps around the one in use."""
    at = found.sensitivity
    notes = ["* in use"]
    own = at.steps.index(at.theta)
    if 0 < own < len(at.steps) - 1:
        down, up = (at.rate(at.steps[own + side]) - at.rate() for side in (-1, 1))
        notes.append(
            f"{STEP:g} down moves the match rate by {100 * down:+.1f} points, {STEP:g} up by "
            f"{100 * up:+.1f}"
        )
    if not at.exact:
        notes.append(
            "impact made again from the store's counts and venues is not the pool's to the bit "
            "(another version made the pool), so means here may differ a little from a run's"
        )
    rows = _at_thetas(found, at.steps)
    return Section("thetas", "When theta moves", notes, _AT_THETAS, rows, (0, 1, 2, 3))


def rates(found: Calibration) -> Section:
    """Thetas that given shares of the ideas reach."""
    at_thetas = _at_thetas(found, found.sensitivity.reached)
    shares = RATES[len(RATES) - len(at_thetas) :]
    rows = [[percent(share, 0), *row] for share, row in zip(shares, at_thetas, strict=True)]
    notes = ["the largest thetas that at least so many ideas reach, rounded down"]
    columns = ["at least", *_AT_THETAS]
    return Section("rates", "Thetas by match rate", notes, columns, rows, (0, 1, 2, 3, 4))


def _down(theta: float | None) -> str:
    """Rounded down, as it's compared (in float32): what reaches theta reaches this too."""
    if theta is None:
        return "-"
    shown = round(theta, 4)
    return f"{shown if np.float32(shown) <= np.float32(theta) else shown - 1e-4:.4f}"


def _least(theta: float | None) -> str:
    """Rounded up: at a theta rounded down more would match."""
    return "-" if theta is None else f"{math.ceil(theta * 1e4) / 1e4:.4f}"
