"""One versioned cleaning of titles, abstracts and ideas, and what is read off a cleaned text.

`clean` works on a whole column, in time linear in its length. These steps are repeated until
nothing changes (`MAX_PASSES` times at most), so that what is clean stays as it is:

1. HTML entities that end in a semicolon are decoded.
2. UTF-8 that was read as another encoding is turned back, where that is certain (`mojibake`).
3. Real markup goes (``<i>``, ``<jats:p>``, MathML; `markup`). Anything else in angle brackets
   stays: ``<mask>``, ``<think>``, ``a < b and c > d``.
4. LaTeX accents become letters (`accents`); math stays as it is.
5. Soft hyphens, zero-width spaces, byte order marks and direction marks go; ligatures of print
   become letters; Unicode NFC.
6. White space and control characters collapse to single spaces, ends are stripped.
"""

from collections.abc import Callable
from typing import Final

import polars as pl

from hindsight_fast.papers import accents, markup, mojibake
from hindsight_fast.papers._rows import on_each, on_rows
from hindsight_fast.papers.utf8 import has_gaps, is_wide

TEXT_VERSION: Final = 2
"""Raised whenever `clean` changes."""

MEETING_VERSIONS: Final = (1, 2)
"""Versions whose vectors may meet. The first knew neither steps 2 and 4 nor ligatures and MathML:
four abstracts in a thousand differ, in a letter or two."""

MAX_PASSES: Final = 8

_INVISIBLE = "[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
_LIGATURES: Final = {
    "ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st",
}  # fmt: skip
# All that NFC changes, and somewhat more: seldom met, which spares the slow part.
_COMPOSABLE = (
    r"[\p{M}\u{340}-\u{387}\u{958}-\u{fbc}\u{1100}-\u{11ff}\u{1f00}-\u{1fff}\u{2000}\u{2001}\u{2126}"
    r"\u{212a}\u{212b}\u{2329}\u{232a}\u{2adc}\u{f900}-\u{faff}\u{fb1d}-\u{fb4f}\u{1d15e}-\u{1d1c0}"
    r"\u{2f800}-\u{2fa1f}]"
)
_WIDE_SPACE = r"[\s\p{Cc}--[\x00-\x7f]]"
_SPACES = r"[\x00-\x20\x7f]+"
_UNUSUAL = "|".join((_INVISIBLE, *_LIGATURES, _COMPOSABLE, _WIDE_SPACE))

_MISSING = ("", "none", "null", "nan", "n/a", "undefined", "-")
_NO_ABSTRACT = (
    r"(?i)^\W*(?:no abstract(?: is)?(?: available| provided)?|abstract not available)\W*$"
)

_BEGINNING = 200  # characters of an abstract that tell what became of the paper
_LONGEST_STUB = 400  # bytes; few titles are longer
_ADDRESS = r"(?:https?://|www\.)\S+"
_NO_SPACES = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = rf"[{_NO_SPACES}]|[^\s{_NO_SPACES}]+"
_TEMPLATE = "|".join(
    (
        r"(?i)^\W*lorem ipsum\b",
        r"(?i)^\W*(?:the |your |this )?abstract (?:paragraph )?"
        r"(?:is to be|should be|should (?:briefly )?summarize|(?:text )?goes here)\b",
        r"(?i)^\W*(?:add|enter|insert|paste|place|put|type|write)"
        r" (?:the |your |an )?abstract (?:text )?here\b",
        r"(?i)^\W*this is an? (?:dummy|example|placeholder|sample) (?:abstract|text)\b",
        r"(?i)^\W*this document (?:is a model and|provides a basic paper template)\b",
    )
)
_FOLDED: Final = {
    "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ı": "i", "þ": "th", "ð": "d",
}  # fmt: skip

# A marker counts only where it is set apart: "Retraction rates in trials" is a paper about it.
_NOTICE = r"(?:\s+(?:article|paper|chapter|note|notice|statement))?"
_NOTICE_SIGN = r"(?i)retract|withdraw"
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
    # arXiv breaks every line and indents the first; this finds both far faster than a pattern does.
    texts = texts.str.replace_all("\n", " ", literal=True).str.strip_chars()
    odd = is_wide(texts) | texts.str.contains_any(["&", "<", "\\"])
    return _single_spaces(on_rows(texts, odd, _mended))


def _mended(texts: pl.Series) -> pl.Series:
    """All steps, until nothing changes."""
    done, changed = texts, pl.int_range(len(texts), eager=True)
    for _ in range(MAX_PASSES):
        before = done.gather(changed)
        after = _pass(before)
        done = done.scatter(changed, after)
        changed = changed.filter(before != after)
        if changed.is_empty():
            break
    return done


def _pass(texts: pl.Series) -> pl.Series:
    texts = on_each(texts, markup.ENTITY, markup.decoded)
    texts = on_each(texts, mojibake.SIGN, mojibake.turned_back)
    texts = markup.without_tags(texts)
    texts = on_each(texts, accents.SIGN, accents.with_accents)
    texts = on_rows(texts, is_wide(texts), _as_usual)
    return _single_spaces(texts)


def _as_usual(texts: pl.Series) -> pl.Series:
    """Of texts with more than ASCII, those that need it."""
    return on_rows(texts, texts.str.contains(_UNUSUAL), _normal_form)


def _normal_form(texts: pl.Series) -> pl.Series:
    texts = texts.str.replace_all(_INVISIBLE, "").str.replace_many(_LIGATURES)
    texts = on_rows(texts, texts.str.contains(_COMPOSABLE), lambda rows: rows.str.normalize("NFC"))
    return texts.str.replace_all(_WIDE_SPACE, " ")


def _single_spaces(texts: pl.Series) -> pl.Series:
    texts = on_rows(texts, has_gaps(texts), lambda rows: rows.str.replace_all(_SPACES, " "))
    return texts.str.strip_chars(" ")


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 text can hold, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def missing_to_null(texts: pl.Series) -> pl.Series:
    """Turn empty strings and words that stand for "nothing" (``None``, ``nan``) into nulls."""
    return texts.set(_short(texts, 20, _is_missing), None)


def _is_missing(texts: pl.Series) -> pl.Series:
    return texts.str.strip_chars().str.to_lowercase().is_in(_MISSING)


def no_abstract(abstracts: pl.Series) -> pl.Series:
    """Tell where an abstract only says that there is none; False for nulls."""
    return _short(abstracts, 100, lambda rows: rows.str.contains(_NO_ABSTRACT))


def _short(texts: pl.Series, below: int, holds: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Tell where a text of fewer bytes holds something; False for nulls."""
    short = (texts.str.len_bytes() < below).fill_null(False)
    rows = short.arg_true()
    return short.scatter(rows, holds(texts.gather(rows))) if len(rows) else short


def title_key(titles: pl.Series) -> pl.Series:
    """Reduce cleaned titles to what duplicates share.

    Letters and digits only (and the + and # of C++ and C#), lower case, compatibility forms,
    accents and ligatures folded, markers of retraction dropped. Null where nothing is left.
    """
    titles = on_rows(titles, titles.str.contains(_NOTICE_SIGN), _without_marker)
    titles = on_rows(titles, is_wide(titles), _folded)
    keys = titles.str.replace_all(r"[^\p{L}\p{N}\p{M}+#]+", "").str.to_lowercase()
    return keys.set(keys == "", None)


def _without_marker(titles: pl.Series) -> pl.Series:
    return titles.str.replace(_TITLE_PREFIX, "").str.replace(_TITLE_SUFFIX, "")


def _folded(titles: pl.Series) -> pl.Series:
    plain = titles.str.normalize("NFKD").str.to_lowercase()
    return plain.str.replace_all(r"[\u{300}-\u{36f}]", "").str.replace_many(_FOLDED)


def status(titles: pl.Series, abstracts: pl.Series) -> pl.Series:
    """Say what a paper is: ``ok``, ``retracted``, ``withdrawn``, ``stub`` or ``title_only``.

    Markers count at the start of a title or abstract, or in brackets at the end of a title, so
    that a paper about retractions stays. A stub's abstract is a template, an address, its title
    once more, or a few words that say nothing.
    """
    beginnings = abstracts.str.head(_BEGINNING)
    in_title = titles.str.contains(_NOTICE_SIGN).fill_null(False)
    rows = in_title.arg_true()
    in_title = in_title.scatter(rows, titles.gather(rows).str.contains(_TITLE_MARKER))
    in_abstract = beginnings.str.contains(_ABSTRACT_MARKER).fill_null(False)
    template = beginnings.str.contains(_TEMPLATE).fill_null(False)
    saying = titles.zip_with(in_title, beginnings)
    frame = pl.DataFrame(
        {
            "taken_back": in_title | in_abstract,
            "retracted": saying.str.contains("(?i)retract"),
            "missing": abstracts.is_null(),
            "stub": _is_stub(titles, abstracts) | template,
        }
    )
    return frame.select(
        pl.when(pl.col("taken_back") & pl.col("retracted"))
        .then(pl.lit("retracted"))
        .when("taken_back")
        .then(pl.lit("withdrawn"))
        .when("missing")
        .then(pl.lit("title_only"))
        .when("stub")
        .then(pl.lit("stub"))
        .otherwise(pl.lit("ok"))
        .alias("status")
    )["status"]


def _is_stub(titles: pl.Series, abstracts: pl.Series) -> pl.Series:
    stub = (abstracts.str.len_bytes() < _LONGEST_STUB).fill_null(False)
    rows = stub.arg_true()
    if not len(rows):
        return stub
    titles, short = titles.gather(rows), abstracts.gather(rows)
    words = short.str.replace_all(_ADDRESS, "").str.count_matches(_WORD)
    cut = (short.str.len_bytes() < 100) & ~short.str.contains(r"[.!?。]\W*$")
    again = (title_key(titles) == title_key(short)).fill_null(False)
    return stub.scatter(rows, (words < 5) | ((words < 16) & cut) | again)
