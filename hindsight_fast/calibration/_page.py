"""A calibration as one page of HTML that holds all it shows."""

import html
from itertools import pairwise

from hindsight_fast.calibration._calibrate import Calibration
from hindsight_fast.calibration._cosines import Cosines
from hindsight_fast.calibration._plots import Line, chart
from hindsight_fast.calibration._section import Section
from hindsight_fast.calibration._words import sections, summary
from hindsight_fast.pages import document, section, table
from hindsight_fast.version import __version__


def page(found: Calibration) -> str:
    """Write what was found as one page of HTML."""
    charts = _charts(found)
    parts = [
        "<h1>How far scores on this pool can be believed</h1>",
        f"<p>{html.escape(summary(found))}.</p>",
        f'<p class="note">{html.escape(found.signature)}<br>Made by hindsight-fast '
        f"{html.escape(__version__)}.</p>",
        *(_section(part, charts.get(part.name, [])) for part in sections(found)),
    ]
    return document("Calibration", parts)


def _section(part: Section, charts: list[str]) -> str:
    shown = table(part.columns, part.rows, right=part.right) if part.columns else ""
    said = "".join(f'<p class="note">{html.escape(note)}</p>' for note in part.notes)
    drawn = f'<div class="pair">{"".join(charts)}</div>' if charts else ""
    return section(part.title, drawn + shown + said)


def _charts(found: Calibration) -> dict[str, list[str]]:
    at = found.sensitivity
    scores = [(theta, at.score(theta=theta)) for theta in at.thetas]
    rates = [(theta, at.rate(theta)) for theta in at.thetas]
    sizes = found.sizes[::-1]
    return {
        "cosines": [_histogram(found.cosines, at.theta)],
        "thetas": [
            chart("mean score", [Line("", scores)], "theta", mark=at.theta),
            chart("match rate", [Line("", rates)], "theta", mark=at.theta),
        ],
        "ks": [
            chart("mean score", [Line("", [(k, at.score(k=k)) for k in at.ks])], "K", dots=True),
            chart("matches per idea", [Line("", [(k, at.matches(k=k)) for k in at.ks])], "K",
                  dots=True),
        ],
        "sizes": [
            chart("mean score", [Line("", [(s.n_papers, s.score) for s in sizes])], "papers",
                  dots=True),
            chart("match rate", [Line("", [(s.n_papers, s.rate) for s in sizes])], "papers",
                  dots=True),
        ],
    }  # fmt: skip


def _histogram(cosines: Cosines, theta: float) -> str:
    """Shares of each kind over the same bins, as lines through their middles."""
    edges = cosines.edges
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    lines = [Line(one.name, list(zip(middles, one.shares, strict=True))) for one in cosines.kinds]
    return chart("share of the cosines in each bin", lines, "cosine", mark=theta)
