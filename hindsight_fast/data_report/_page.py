"""The report as one page of HTML that holds all it shows: it fetches no script, font or picture."""

import html
from collections.abc import Iterable, Mapping
from typing import Any

from hindsight_fast.data_report._counts import DataReport
from hindsight_fast.data_report._words import in_words
from hindsight_fast.pages import document, section
from hindsight_fast.version import __version__


def page(report: DataReport) -> str:
    """Write the report as one page of HTML."""
    name = html.escape(report.store)
    first, *others = report.tallies
    counts = in_words(report.counts)
    parts = [
        f"<h1>Papers of {name}</h1>",
        f"<p>{report.n:,} papers. Made by hindsight-fast {html.escape(__version__)}.</p>",
        section("What became of the records", _table(counts, report.counts.get("n_in", 0))),
        section(first.title, _columns(first.counts)),
        section("What is known", _table(report.known, report.n)),
        '<div class="pair">',
        *(
            section(one.title, _table(one.counts, report.n), one.note)
            for one in others
            if one.counts
        ),
        "</div>",
        section("Most cited", _rows(report.citations["top"]), _cited_in_words(report.citations)),
        section(
            "Papers made of several records, by how many",
            _table(report.merged, sum(report.merged.values())),
        ),
        section(
            "Which source a merged value comes from",
            _rows(
                {"column": name}
                | {"taken from": ", ".join(f"{source} {n:,}" for source, n in counts.items())}
                for name, counts in report.winners.items()
            ),
        ),
        *(
            section(f"Conflicts: {one['kind']} ({one['n']:,})", _rows(one["first"]))
            for one in report.conflicts
        ),
        section("Rejects, by reason", _table(report.rejects, sum(report.rejects.values()))),
    ]
    return document(f"Papers of {report.store}", parts)


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
