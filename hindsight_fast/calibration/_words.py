"""A calibration in words and tables, the same for a terminal and a page."""

from hindsight_fast.calibration._calibrate import Calibration
from hindsight_fast.calibration._cosines import QUANTILES
from hindsight_fast.calibration._loss import Share
from hindsight_fast.calibration._section import Section, interval, marked, number, percent
from hindsight_fast.calibration._theta_words import by_chance, by_pairs, by_topics, rates, thetas
from hindsight_fast.tables import CLOSE


def sections(found: Calibration) -> list[Section]:
    """All that was found, in its order."""
    return [
        _loss(found),
        _cosines(found),
        *([] if found.pairs is None else [by_pairs(found.pairs)]),
        by_chance(found),
        *by_topics(found.chance),
        thetas(found),
        rates(found),
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
        f"mean score {found.mean_score:.4f}, match rate {percent(found.match_rate)}"
    )


def _noun(found: Calibration) -> str:
    return "ideas" if found.kind == "ideas" else "stand-ins for ideas"


def _loss(found: Calibration) -> Section:
    loss, rows, notes = found.loss, list[list[str]](), list[str]()

    def row(name: str, share: Share) -> list[str]:
        return [name, f"{share.share:.4f}", interval(share.low, share.high)]

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
            f"{index.expansion}, as a run of many ideas chooses; of the exact neighbours the codes "
            f"lose {percent(1 - index.codes.share, 2)}, the graph another "
            f"{percent(max(index.codes.share - index.index.share, 0), 2)}; mean score by index "
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
        [one.name, f"{one.n:,}", *(f"{q:.3f}" for q in one.quantiles), percent(one.at_theta)]
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


def _ks(found: Calibration) -> Section:
    at = found.sensitivity
    rows = [
        [marked(str(k), k == at.k), f"{at.score(k=k):.4f}", f"{at.matches(k=k):.2f}"] for k in at.ks
    ]
    notes = [
        "* in use; an idea matches where its nearest paper does, so the match rate "
        f"({percent(at.rate())}) is the same for every K"
    ]
    if at.ks[-1] > found.n_papers:
        notes.append(f"the pool has {found.n_papers:,} papers, so no larger K finds more")
    columns = ["K", "mean score", "matches per idea"]
    return Section("ks", "When K moves", notes, columns, rows, (0, 1, 2))


def _weights(found: Calibration) -> Section:
    at = found.sensitivity
    rows = [
        [marked(f"{w:g}", w == at.weight), f"{1 - w:g}", f"{at.score(weight=w):.4f}"]
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
            number(one.score_spread), percent(one.rate), percent(one.rate_spread),
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
    return f" ({percent(1 - mean / than)} lower)" if than else ""


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
        f"{percent(hubs.share_of_matches)} of the {hubs.n_matches:,} matches, and are the best "
        f"paper of {percent(hubs.share_of_best)} of the ideas that match",
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
