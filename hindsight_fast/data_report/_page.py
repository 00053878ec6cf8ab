"""The report as one page of HTML that holds all it shows: it fetches no script, font or picture."""

import html
from collections.abc import Iterable, Mapping
from typing import Any

from hindsight_fast.data_report._counts import DataReport
from hindsight_fast.data_report._words import in_words
from hindsight_fast.version import __version__

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1c2733; margin: 2rem auto;
  max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
p.note { color: #5b6a78; margin: .2rem 0 .6rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .8rem .15rem 0; text-align: left;
  vertical-align: top; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
th { border-bottom: 1px solid #c5ced6; font-weight: 600; }
.bar { background: #2f6f9f; height: .8rem; min-width: 1px; display: inline-block; }
td.chart { width: 22rem; } svg text { font: 11px system-ui, sans-serif; fill: #5b6a78; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 0 2rem; }
"""


def page(report: DataReport) -> str:
    """Write the report as one page of HTML."""
    name = html.escape(report.store)
    first, *others = report.tallies
    counts = in_words(report.counts)
    parts = [
        f"<h1>Papers of {name}</h1>",
        f"<p>{report.n:,} papers. Made by hindsight-fast {html.escape(__version__)}.</p>",
        _section("What became of the records", _table(counts, report.counts.get("n_in", 0))),
        _section(first.title, _columns(first.counts)),
        _section("What is known", _table(report.known, report.n)),
        '<div class="pair">',
        *(
            _section(one.title, _table(one.counts, report.n), one.note)
            for one in others
            if one.counts
        ),
        "</div>",
        _section("Most cited", _rows(report.citations["top"]), _cited_in_words(report.citations)),
        _section(
            "Papers made of several records, by how many",
            _table(report.merged, sum(report.merged.values())),
        ),
        _section(
            "Which source a merged value comes from",
            _rows(
                {"column": name}
                | {"taken from": ", ".join(f"{source} {n:,}" for source, n in counts.items())}
                for name, counts in report.winners.items()
            ),
        ),
        *(
            _section(f"Conflicts: {one['kind']} ({one['n']:,})", _rows(one["first"]))
            for one in report.conflicts
        ),
        _section("Rejects, by reason", _table(report.rejects, sum(report.rejects.values()))),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Papers of {name}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _section(title: str, content: str, note: str = "") -> str:
    said = f'<p class="note">{html.escape(note)}</p>' if note else ""
    return f"<section><h2>{html.escape(title)}</h2>{said}{content or '<p>none</p>'}</section>"


def _cited_in_words(citations: Mapping[str, Any]) -> str:
    if not citations["n"]:
        return "no citation count is known"
    return (
        f"{citations['n']:,} counts known: median {citations['median']:,}, 99th percentile "
        f"{citations['p99']:,}, maximum {citations['max']:,}"
    )


def _table(counts: Mapping[str, int], whole: int) -> str:
    """A table of counts with bars."""
    widest = max(counts.values(), default=0) or 1
    return _tag(
        "table",
        "".join(
            f"<tr><td>{html.escape(name)}</td><td class=n>{count:,}</td>"
            f"<td class=n>{count / whole if whole else 0:.1%}</td>"
            f'<td class=chart><span class=bar style="width:{100 * count / widest:.1f}%"></span>'
            "</td></tr>"
            for name, count in counts.items()
        ),
    )


def _rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """A table of rows with the same keys."""
    listed = list(rows)
    if not listed:
        return ""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in listed[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{_shown(value)}</td>" for value in row.values()) + "</tr>"
        for row in listed
    )
    return _tag("table", f"<tr>{head}</tr>{body}")


def _shown(value: Any) -> str:
    text = "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    return html.escape(text[:300])


def _columns(counts: Mapping[str, int]) -> str:
    """A chart of columns in the order of `counts`, as SVG."""
    if not counts:
        return ""
    width, height, step = 900, 180, 900 / len(counts)
    tallest = max(counts.values())
    every = max(1, round(44 / step))
    drawn = list[str]()
    for place, (name, count) in enumerate(counts.items()):
        tall = height * count / tallest
        x = place * step
        drawn.append(
            f'<rect x="{x + step * 0.1:.1f}" y="{height - tall + 16:.1f}" '
            f'width="{step * 0.8:.1f}" height="{tall:.1f}" fill="#2f6f9f">'
            f"<title>{html.escape(name)}: {count:,}</title></rect>"
        )
        if place % every == 0:
            drawn.append(
                f'<text x="{x + step / 2:.1f}" y="{height + 32}" text-anchor="middle">'
                f"{html.escape(name)}</text>"
            )
    drawn.append(f'<text x="0" y="11">{tallest:,}</text>')
    return (
        f'<svg role="img" viewBox="0 0 {width} {height + 40}" width="100%" '
        f'aria-label="papers by year">{"".join(drawn)}</svg>'
    )


def _tag(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>" if content else ""
