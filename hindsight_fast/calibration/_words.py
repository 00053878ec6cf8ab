"""A calibration in words and tables, the same for a terminal and a page."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hindsight_fast.calibration._calibrate import Calibration
from hindsight_fast.calibration._chance import LEVELS, WEAKNESS, ByChance, Level, least_ideas
from hindsight_fast.calibration._cosines import QUANTILES
from hindsight_fast.calibration._f1 import Best, ByPairs
from hindsight_fast.calibration._grid import RATES, STEP
from hindsight_fast.calibration._loss import Share
from hindsight_fast.tables import CLOSE

_AT_THETAS = ["theta", "mean score", "match rate", "matches per idea"]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of what was found.

    Attributes
    ----------
    name
        For whoever adds a chart to it.
    title : str
    notes : list of str
        Sentences that say what the numbers mean.
    columns, rows
        A table; no columns where there is none.
    right, long : tuple of int
        Columns of numbers, and of titles.
    """

    name: str
    title: str
    notes: list[str]
    columns: list[str] = field(default_factory=list[str])
    rows: list[list[str]] = field(default_factory=list[list[str]])
    right: tuple[int, ...] = ()
    long: tuple[int, ...] = ()


def sections(found: Calibration) -> list[Section]:
    """All that was found, in its order."""
    return [
        _loss(found),
        _cosines(found),
        *([] if found.pairs is None else [_pairs(found.pairs)]),
        _chance(found),
        *_topics(found.chance),
        _thetas(found),
        _rates(found),
        _ks(found),
        _weights(found),
        _sizes(found),
        _hubs(found),
    ]


def summary(found: Calibration) -> str:
    """A line on what was looked up and what it comes to."""
    at = found.sensitivity
    return (
        f"{found.ideas}, against {found.n_papers:,} papers, K = {at.k}, theta = {at.theta:.6g}: "
        f"mean score {found.mean_score:.4f}, match rate {_percent(found.match_rate)}"
    )


def _noun(found: Calibration) -> str:
    return "ideas" if found.kind == "ideas" else "stand-ins for ideas"


def _percent(share: float | None, digits: int = 1) -> str:
    return "-" if share is None else f"{100 * share:.{digits}f}%"


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _down(theta: float | None) -> str:
    """Rounded down, as it's compared (in float32): what reaches theta reaches this too."""
    if theta is None:
        return "-"
    shown = round(theta, 4)
    return f"{shown if np.float32(shown) <= np.float32(theta) else shown - 1e-4:.4f}"


def _least(theta: float | None) -> str:
    """Rounded up: at a theta rounded down more would match."""
    return "-" if theta is None else f"{math.ceil(theta * 1e4) / 1e4:.4f}"


def _interval(low: float | None, high: float | None) -> str:
    if low is None:
        return "-"
    return f"{low:.4f} or more" if high is None else f"{low:.4f} to {high:.4f}"


def _loss(found: Calibration) -> Section:
    loss, rows, notes = found.loss, list[list[str]](), list[str]()

    def row(name: str, share: Share) -> list[str]:
        return [name, f"{share.share:.4f}", _interval(share.low, share.high)]

    if loss.set_aside:
        notes.append("the pool's index was made by somebody else, and is not opened (see --trust)")
    elif loss.index is None:
        notes.append("the pool has no index: the exact scan loses nothing")
    else:
        index = loss.index
        rows += [
            row("recall@K of the codes alone (quantisation)", index.codes),
            row("what the codes nominate that the graph finds", index.graph),
            row("recall@K of the index (both)", index.index),
            row("ideas that score the same as by the exact scan", index.equal_scores),
        ]
        if index.matches is not None:
            rows.insert(3, row("matches that the index finds", index.matches))
        notes.append(
            f"on {index.n_sampled} {_noun(found)}, {index.count} papers nominated for each and ef "
            f"{index.expansion}, as a run chooses; of the exact neighbours the codes lose "
            f"{_percent(1 - index.codes.share, 2)}, the graph another "
            f"{_percent(max(index.codes.share - index.index.share, 0), 2)}; mean score by index "
            f"{index.mean_index:.4f}, exactly {index.mean_exact:.4f}"
        )
        if index.flatters:
            notes.append("nominations were chosen on what they are judged on: they flatter")
    rows.append(row(f"ideas with a neighbour within {CLOSE:g} of theta", loss.close))
    if loss.precisions == ["float32"]:
        notes.append("vectors are float32 on both sides, so no precision moves a match")
    elif loss.within_error is None:
        notes.append(
            f"vectors are in {' and '.join(loss.precisions)}; without an encoder nobody knows by "
            "how much that moves similarities"
        )
    else:
        rows.append(
            row(f"ideas with a neighbour within {loss.error:.2g} of theta", loss.within_error)
        )
        notes.append(
            f"vectors are not all float32, which was seen to move similarities by {loss.error:.2g}:"
            " ideas within that of theta may match otherwise"
        )
    return Section("loss", "What is lost", notes, ["", "share", "95%"], rows, (1, 2))


def _cosines(found: Calibration) -> Section:
    rows = [
        [one.name, f"{one.n:,}", *(f"{q:.3f}" for q in one.quantiles), _percent(one.at_theta)]
        for one in found.cosines.kinds
    ]
    columns = ["cosines of", "n", *(f"{100 * q:.0f}%" for q in QUANTILES), "at theta or above"]
    if not rows:
        return Section("cosines", "Cosines", ["a single paper has nothing to be compared with"])
    notes = [
        "theta should lie far above random pairs and the empty text; nearest pairs show how near "
        "papers of this pool come to each other at most"
    ]
    return Section(
        "cosines", "Cosines (quantiles)", notes, columns, rows, tuple(range(1, len(columns)))
    )


def _pairs(pairs: ByPairs) -> Section:
    def row(name: str, best: Best) -> list[str]:
        return [
            name, f"{best.n_pairs:,}", f"{best.n_related:,}", _down(best.theta),
            _interval(best.low, best.high), _number(best.precision, 2), _number(best.recall, 2),
            _number(best.f1, 2),
        ]  # fmt: skip

    topics = [row(f"topic {name}", best) for name, best in pairs.topics.items()]
    assumed = ", above half of the largest seen," if pairs.is_assumed else ""
    notes = [
        f"grades of {pairs.related_from:g} and more{assumed} count as related"
        + ("; --related says otherwise" if pairs.is_assumed else ""),
        "theta by the best F1, the lower on ties; 95% by drawing "
        f"{pairs.n_groups:,} sides a again; AUC {_number(pairs.auc, 3)}",
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


def _chance(found: Calibration) -> Section:
    rows = [
        [
            one.method if not place else "", f"{one.n_ideas:,}", f"{one.n_papers:,}",
            _percent(one.at_theta), _percent(level.share, 0), *_level(level),
            _percent(level.match_rate), _number(level.mean_score),
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
    for one in found.chance:
        if _too_thin(one, found):
            notes.append(
                f"earlier papers: there are only {one.n_papers:,}, fewer than half of the pool's "
                f"{found.n_papers:,}, and ideas match fewer papers more rarely: this theta is no "
                "ceiling, and their match rate doesn't compare with the pool's"
            )
        elif one.method == "earlier papers":
            notes.append(
                f"now {_percent(one.at_theta)} match one of {one.n_papers:,} papers from before T, "
                f"and {_percent(found.match_rate)} one of the pool's {found.n_papers:,}: a match "
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
        f"a theta for {_percent(share, 0)} takes {least_ideas(share)} ideas, and can't be said of "
        "fewer"
        for share in LEVELS
        if any(level.share == share and level.theta is None for level in levels)
    ]
    if any(level.low is not None and level.high is None for level in levels):
        notes.append('"or more": no upper end from so few ideas')
    return notes


def _level(level: Level) -> Sequence[str]:
    return _least(level.theta), _interval(level.low, level.high)


def _topics(chance: Sequence[ByChance]) -> list[Section]:
    """By topic, for the soundest method that has any."""
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


def _marked(text: str, is_own: bool) -> str:
    return f"{text} *" if is_own else text


def _at_thetas(found: Calibration, thetas: Sequence[float]) -> list[list[str]]:
    at = found.sensitivity
    return [
        [
            _marked(_down(theta), theta == at.theta), f"{at.score(theta=theta):.4f}",
            _percent(at.rate(theta)), f"{at.matches(theta=theta):.2f}",
        ]
        for theta in thetas
    ]  # fmt: skip


def _thetas(found: Calibration) -> Section:
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


def _rates(found: Calibration) -> Section:
    at_thetas = _at_thetas(found, found.sensitivity.reached)
    shares = RATES[len(RATES) - len(at_thetas) :]
    rows = [[_percent(share, 0), *row] for share, row in zip(shares, at_thetas, strict=True)]
    notes = ["the largest thetas that at least so many ideas reach, rounded down"]
    columns = ["at least", *_AT_THETAS]
    return Section("rates", "Thetas by match rate", notes, columns, rows, (0, 1, 2, 3, 4))


def _ks(found: Calibration) -> Section:
    at = found.sensitivity
    rows = [
        [_marked(str(k), k == at.k), f"{at.score(k=k):.4f}", f"{at.matches(k=k):.2f}"]
        for k in at.ks
    ]
    notes = [
        "* in use; an idea matches where its nearest paper does, so the match rate "
        f"({_percent(at.rate())}) is the same for every K"
    ]
    if at.ks[-1] > found.n_papers:
        notes.append(f"the pool has {found.n_papers:,} papers, so no larger K finds more")
    columns = ["K", "mean score", "matches per idea"]
    return Section("ks", "When K moves", notes, columns, rows, (0, 1, 2))


def _weights(found: Calibration) -> Section:
    at = found.sensitivity
    rows = [
        [_marked(f"{w:g}", w == at.weight), f"{1 - w:g}", f"{at.score(weight=w):.4f}"]
        for w in at.weights
    ]
    notes = [
        "* in use; impact = w c + (1 - w) v, with c for citations and v for a top venue; matches "
        "are the same for every w"
    ]
    columns = ["weight of citations", "of the venue", "mean score"]
    return Section("weights", "When the weight of citations moves", notes, columns, rows, (0, 1, 2))


def _sizes(found: Calibration) -> Section:
    rows = [
        [
            f"{one.n_papers:,}", f"1/{round(1 / one.share)}", f"{one.score:.4f}",
            _number(one.score_spread), _percent(one.rate), _percent(one.rate_spread),
        ]
        for one in found.sizes
    ]  # fmt: skip
    notes = [
        "the pool thinned at random, several times, impact as it is (not normalised anew); spread "
        "is the standard deviation over these; a denser pool has a nearer paper for any idea, so "
        "scores of pools of different sizes don't compare"
    ]
    if len(found.sizes) > 1:
        whole, half = found.sizes[:2]
        notes.append(
            f"twice the papers came with {100 * (whole.rate - half.rate):+.1f} points of match "
            f"rate and {whole.score - half.score:+.4f} of mean score, last"
        )
    columns = ["papers", "share", "mean score", "spread", "match rate", "spread"]
    return Section("sizes", "When the pool is smaller", notes, columns, rows, (0, 1, 2, 3, 4, 5))


def _lower(mean: float, than: float) -> str:
    return f" ({_percent(1 - mean / than)} lower)" if than else ""


def _hubs(found: Calibration) -> Section:
    hubs = found.hubs
    rows = [
        [
            f"{one.n_matches:,}", f"{one.n_best:,}", f"{one.impact:.4f}",
            f"{one.mean_without:.4f}", one.title, one.paper_id,
        ]
        for one in hubs.top
    ]  # fmt: skip
    columns = ["matches", "best of", "impact", "mean without it", "paper", "id"]
    if not hubs.n_matches:
        return Section("hubs", "Papers that much hangs on", ["nothing matches"])
    notes = [
        f"{hubs.n_papers:,} papers match; the {len(rows)} that match most have "
        f"{_percent(hubs.share_of_matches)} of the {hubs.n_matches:,} matches, and are the best "
        f"paper of {_percent(hubs.share_of_best)} of the ideas that match",
    ]
    left_out = "with any one paper left out (the next nearest takes its place, impact as it is) the"
    if hubs.lowest is None:
        notes.append(f"{left_out} mean score is no lower than now ({hubs.mean:.4f})")
    else:
        notes.append(
            f"{left_out} mean score stays at or above {hubs.lowest.mean_without:.4f} of now "
            f"{hubs.mean:.4f}{_lower(hubs.lowest.mean_without, hubs.mean)}; the paper is "
            f"{hubs.lowest.title!r} ({hubs.lowest.paper_id}), best paper of "
            f"{hubs.lowest.n_best:,} ideas"
        )
    return Section("hubs", "Papers that much hangs on", notes, columns, rows, (0, 1, 2, 3), (4,))
