"""One versioned cleaning of titles, abstracts and ideas, and what is read off a cleaned text.

`clean` works on a whole column with regular expressions that take linear time on any input. In
this order:

1. HTML entities that end in a semicolon are decoded, at most twice (``&amp;amp;lt;`` stops at
   ``&lt;``).
2. Real markup tags go (``<i>``, ``<sub>``, ``<jats:p>``); block tags leave a space. Anything else
   in angle brackets stays: ``<mask>``, ``<think>``, ``a < b and c > d``.
3. Soft hyphens, zero-width spaces, byte order marks and direction marks go; Unicode NFC.
4. White space and control characters collapse to single spaces, ends are stripped.
"""

import html
import re
from collections.abc import Callable
from functools import cache
from html.entities import html5
from typing import Final

import polars as pl

TEXT_VERSION: Final = 1
"""Raised whenever `clean` changes: vectors made under another version are not comparable."""

_ATTRIBUTES = r"""(?:\s+[a-z:_-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>]+))*\s*/?>"""
_BLOCK = (
    r"(?:p|br|div|li|ul|ol|hr|h[1-6]|(?:jats|mml|m):(?:p|title|sec|list|list-item|disp-formula))"
)
_INLINE = (
    r"(?:i|b|em|strong|u|sub|sup|sc|scp|tt|small|big|span|font|italic|bold|underline|monospace|"
    r"inline-formula|disp-formula|tex-math|(?:jats|mml|m):[a-z0-9-]+)"
)
_HEADING = r"(?i)<jats:title>\s*abstract\s*[:.]?\s*</jats:title>"
_BLOCK_TAG = rf"(?i)</?{_BLOCK}{_ATTRIBUTES}"
_INLINE_TAG = rf"(?i)</?{_INLINE}{_ATTRIBUTES}|(?i)<a(?:\s+[a-z:_-]+\s*=[^<>]*)>|(?i)</a>"
_INVISIBLE = "[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
_SPACES = r"[\s\p{Cc}]{2,}|[\s\p{Cc}--\x20]"  # a single space, the usual, is no match
_NUMERIC = re.compile(r"&#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6});")

_MISSING = ("", "none", "null", "nan", "n/a", "undefined", "-")
_NO_ABSTRACT = (
    r"(?i)^\W*(?:no abstract(?: is)?(?: available| provided)?|abstract (?:here|not available))\W*$"
)

# A marker counts only where it is set apart: "Retraction rates in trials" is a paper about it.
_NOTICE = r"(?:\s+(?:article|paper|chapter|note|notice|statement))?"
_TITLE_PREFIX = rf"(?i)^[\W_]*(?:retracted|withdrawn|retraction){_NOTICE}\s*[:\]\)]+[\W_]*"
_TITLE_SUFFIX = (
    r"(?i)\s*[\(\[](?:retracted|withdrawn)(?:\s+(?:article|paper)\b[^\)\]]*)?[\)\]][\W_]*$"
)
_TITLE_MARKER = "|".join(
    (
        _TITLE_PREFIX,
        _TITLE_SUFFIX,
        r"(?i)^[\W_]*retraction\s+(?:note|notice|statement)\s+(?:to|of|for|on)\b",
        r"(?i)^[\W_]*(?:this\s+)?(?:paper|article)\s+(?:has\s+been\s+|was\s+|is\s+)?"
        r"(?:retracted|withdrawn)\b",
        rf"(?i)^[\W_]*(?:retracted|withdrawn|retraction|withdrawal){_NOTICE}[\W_]*$",
    )
)
_ABSTRACT_MARKER = (
    r"(?i)^[\W_]*(?:(?:this|the)\s+)?(?:arxiv\s+)?(?:paper|article|submission|manuscript|preprint|work)"
    r"\s+(?:has\s+been|have\s+been|was|is|is\s+being)\s+(?:\w+\s+)?(?:retracted|withdrawn)\b"
    r"|(?i)^[\W_]*(?:retracted|withdrawn)(?:\s+by\b|[\W_]*$)"
)


def clean(texts: pl.Series) -> pl.Series:
    """Clean a column of titles, abstracts or ideas.

    Parameters
    ----------
    texts : polars.Series of String
        Nulls stay null.

    Returns
    -------
    polars.Series of String
        Same length and name.
    """
    for _ in range(2):
        texts = _decode_entities(texts)
    texts = _where(texts, texts.str.contains("<", literal=True), _without_tags)
    texts = _where(texts, texts.str.len_bytes() != texts.str.len_chars(), _normal_form)
    return texts.str.replace_all(_SPACES, " ").str.strip_chars()


def _without_tags(texts: pl.Series) -> pl.Series:
    texts = texts.str.replace_all(_HEADING, " ").str.replace_all(_BLOCK_TAG, " ")
    return texts.str.replace_all(_INLINE_TAG, "")


def _normal_form(texts: pl.Series) -> pl.Series:
    return texts.str.replace_all(_INVISIBLE, "").str.normalize("NFC")


def _where(texts: pl.Series, mask: pl.Series, rule: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Apply a rule to the rows that need it, which are few."""
    mask = mask.fill_null(False)
    return texts.scatter(mask.arg_true(), rule(texts.filter(mask))) if mask.any() else texts


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 text can hold, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _decode_entities(texts: pl.Series) -> pl.Series:
    if not texts.str.contains("&", literal=True).any():
        return texts
    names, characters = _entities()
    texts = texts.str.replace_many(names, characters)
    return _where(texts, texts.str.contains(_NUMERIC.pattern), _decode_numbers)


def _decode_numbers(texts: pl.Series) -> pl.Series:
    return pl.Series([_NUMERIC.sub(_character, text) for text in texts], dtype=pl.String)


def _character(match: re.Match[str]) -> str:
    return html.unescape(match.group())


@cache
def _entities() -> tuple[list[str], list[str]]:
    named = {f"&{name}": value for name, value in html5.items() if name.endswith(";")}
    return list(named), list(named.values())


def missing_to_null(texts: pl.Series) -> pl.Series:
    """Turn empty strings and words that stand for "nothing" (``None``, ``nan``) into nulls."""
    nothing = texts.str.strip_chars().str.to_lowercase().is_in(_MISSING)
    return texts.set(nothing.fill_null(False), None)


def no_abstract(abstracts: pl.Series) -> pl.Series:
    """Tell where an abstract only says that there is none; False for nulls."""
    return abstracts.str.contains(_NO_ABSTRACT).fill_null(False)


def title_key(titles: pl.Series) -> pl.Series:
    """Reduce cleaned titles to what duplicates share.

    Letters and digits only (and the + and # of C++ and C#), lower case, compatibility forms and
    accents folded, markers of retraction dropped. Null where nothing is left.
    """
    keys = (
        titles.str.replace(_TITLE_PREFIX, "")
        .str.replace(_TITLE_SUFFIX, "")
        .str.normalize("NFKD")
        .str.to_lowercase()
        .str.replace_all(r"[\u{300}-\u{36f}]|[^\p{L}\p{N}\p{M}+#]", "")
    )
    return keys.set(keys == "", None)


def status(titles: pl.Series, abstracts: pl.Series) -> pl.Series:
    """Say what a paper is: ``ok``, ``retracted``, ``withdrawn`` or ``title_only``.

    Markers count at the start of a title or abstract, or in brackets at the end of a title, so
    that a paper about retractions stays.
    """
    frame = pl.DataFrame({"title": titles, "abstract": abstracts})
    title, abstract = pl.col("title"), pl.col("abstract")
    in_title = title.str.contains(_TITLE_MARKER).fill_null(False)
    in_abstract = abstract.str.contains(_ABSTRACT_MARKER).fill_null(False)
    start = pl.when(in_title).then(title).otherwise(abstract.str.slice(0, 200))
    said = (pl.when(start.str.contains(r"(?i)retract")).then(pl.lit("retracted"))).otherwise(
        pl.lit("withdrawn")
    )
    return frame.select(
        pl.when(in_title | in_abstract)
        .then(said)
        .when(abstract.is_null())
        .then(pl.lit("title_only"))
        .otherwise(pl.lit("ok"))
        .alias("status")
    )["status"]
