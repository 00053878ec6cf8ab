"""Pages of HTML that hold all they show: they fetch no script, font or picture."""

import html
from collections.abc import Iterable, Sequence
from typing import Final

STYLE: Final = """
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


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page; the title is text, the parts are HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def section(title: str, content: str, note: str = "") -> str:
    """A part of a page: title and note are text, the content is HTML."""
    said = f'<p class="note">{html.escape(note)}</p>' if note else ""
    return f"<section><h2>{html.escape(title)}</h2>{said}{content or '<p>none</p>'}</section>"


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
) -> str:
    """A table of text; columns `right` are numbers."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        kinds = [" class=n" if place in right else "" for place in range(len(texts))]
        return "".join(
            f"<{tag}{kind}>{html.escape(text)}</{tag}>"
            for kind, text in zip(kinds, texts, strict=True)
        )

    head = f"<tr>{cells('th', columns)}</tr>"
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table>{head}{body}</table>"
