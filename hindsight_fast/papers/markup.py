"""What is no text in a text: HTML entities and the tags of HTML, JATS, MathML and IEEE's XML."""

import html
import re
from html.entities import html5
from typing import Final

import polars as pl

from hindsight_fast.papers._rows import on_rows, replace

ENTITY: Final = r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
_ENTITIES: Final = re.compile(ENTITY)

_ATTRIBUTES = r"""(?:\s+[a-z:_-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>]+))*\s*/?>"""
_BLOCK = (
    r"(?:p|br|div|li|ul|ol|hr|h[1-6]|blockquote|"
    r"(?:jats|mml|m):(?:p|title|sec|list|list-item|disp-formula))"
)
_INLINE = (
    r"(?:i|b|em|strong|u|sub|sup|sc|scp|tt|small|big|span|font|italic|bold|underline|monospace|"
    r"sans-serif|inline-formula|disp-formula|tex-math|fixed-case|ext-link|xref|"
    r"named-content|styled-content|(?:jats|mml|m):[a-z0-9-]+)"
)
_HEADING = r"(?i)<jats:title>\s*abstract\s*[:.]?\s*</jats:title>"
_BLOCK_TAG = rf"(?i)</?{_BLOCK}{_ATTRIBUTES}"
_INLINE_TAG = rf"(?i)</?{_INLINE}{_ATTRIBUTES}|(?i)<a(?:\s+[a-z:_-]+\s*=[^<>]*)>|(?i)</a>"

# These names may be placeholders of a prompt; beside what only real markup has they are none.
_MATHML = r"(?is)<math[\s>].*</m(?:i|n|o|row)>"
_MATHML_TAG = (
    r"(?i)</?(?:math|m(?:i|n|o|row|sub|sup|subsup|frac|sqrt|root|text|over|under|underover|style|"
    rf"space|table|tr|td|fenced)|semantics){_ATTRIBUTES}"
)
_IEEE = r"(?i)<(?:formula\s+formulatype|tex\s+notation)\s*=|</inf>"
_IEEE_TAG = rf"(?i)</?(?:formula|tex|inf){_ATTRIBUTES}"

# The same formula once more, in TeX, and the frame that makes a document of one formula.
_TWIN = r"(?i)<(?:mml:|m:)?annotation\b[^<>]*>[^<]*</(?:mml:|m:)?annotation>"
_PREAMBLE = r"\\documentclass[^$<]*?\\begin\{document\}"
_WRAPPERS = r"<!--[^<>]*-->|<!\[CDATA\[|\]\]>"


def decoded(text: str) -> str:
    """Decode HTML entities that end in a semicolon, once."""
    return _ENTITIES.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    entity = match.group()
    return html.unescape(entity) if entity[1] == "#" else html5.get(entity[1:], entity)


def without_tags(texts: pl.Series) -> pl.Series:
    """Drop tags of real markup, block tags leave a space; and what frames a formula in TeX."""
    texts = on_rows(texts, texts.str.contains("<", literal=True), _without_tags)
    texts = replace(texts, r"\documentclass", _PREAMBLE, "")
    return replace(texts, r"\end{document}", r"\\end\{document\}", "")


def _without_tags(texts: pl.Series) -> pl.Series:
    texts = replace(texts, "annotation", _TWIN, "").str.replace_all(_HEADING, " ")
    texts = on_rows(texts, texts.str.contains(_MATHML), _without_mathml)
    texts = on_rows(texts, texts.str.contains(_IEEE), _without_ieee)
    texts = replace(texts, "<!", _WRAPPERS, "")
    return texts.str.replace_all(_BLOCK_TAG, " ").str.replace_all(_INLINE_TAG, "")


def _without_mathml(texts: pl.Series) -> pl.Series:
    return texts.str.replace_all(_MATHML_TAG, "")


def _without_ieee(texts: pl.Series) -> pl.Series:
    return texts.str.replace_all(_IEEE_TAG, "")
