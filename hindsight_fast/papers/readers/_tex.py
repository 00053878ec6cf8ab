r"""Text as BibTeX writes it, to plain text: braces, commands and ties go, characters come.

Formulas stay as they are. Of a command that is not known the argument stays, as text that is read
matters more than how it looks; one without an argument stays whole.
"""

import re
import unicodedata
from typing import Final

import polars as pl

from hindsight_fast.papers.readers._raw import BETWEEN

_MARKS: Final = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306",
    ".": "\u0307", '"': "\u0308", "r": "\u030a", "H": "\u030b", "v": "\u030c", "d": "\u0323",
    "c": "\u0327", "k": "\u0328", "b": "\u0331",
}  # fmt: skip

_SIGNS: Final = {
    "textendash": "–", "textemdash": "—", "textquoteleft": "‘", "textquoteright": "’",
    "textquotedblleft": "“", "textquotedblright": "”", "textquotesingle": "'", "ldots": "…",
    "dots": "…", "textellipsis": "…", "textless": "<", "textgreater": ">", "textbar": "|",
    "textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", "textunderscore": "_",
    "textasteriskcentered": "*", "textbullet": "•", "textdegree": "°", "textmu": "µ",
    "textregistered": "®", "texttrademark": "™", "copyright": "©", "pounds": "£", "S": "§",
    "P": "¶", "dag": "†", "LaTeX": "LaTeX", "TeX": "TeX", "BibTeX": "BibTeX", "item": " ",
    "par": " ", "newline": " ", "quad": " ", "qquad": " ", "dh": "ð", "DH": "Ð", "th": "þ",
    "TH": "Þ", "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å",
    "o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "i": "ı", "j": "ȷ", "em": "", "it": "", "bf": "",
    "tt": "", "sc": "", "sf": "", "rm": "", "sl": "", "itshape": "", "bfseries": "",
    "ttfamily": "", "scshape": "", "noindent": "", "relax": "", "protect": "",
}  # fmt: skip

_MARKED: Final = re.compile(r"[\\{}~`'-](?:(?<=[\\{}~])|(?<=-)-|(?<=`)`|(?<=')')")
# What it begins with stands in front, once for all, as that is looked for fast.
_TOKEN: Final = re.compile(
    r"[\\{}~$`'-](?:"
    r"(?<=\$)(?P<formula>\$[^$]*\$\$|[^$]*\$)"
    r"|(?<=\\)(?:"
    r"(?:begin|end)\s{0,9}\{(?P<environment>[^{}]{0,99})\}"
    r"|(?P<tilde>[~^])\s{0,9}\{\s{0,9}\}"
    r"|(?P<mark>[`'^\"~=.]|[bcdHkruv](?![A-Za-z]))\s{0,9}(?:\{\s{0,9}\\?(?P<letter>[A-Za-z])"
    r"\s{0,9}\}|\\(?P<dotless>[ij])(?![A-Za-z])|(?P<bare>[A-Za-z]))"
    r"|(?P<escaped>[^A-Za-z])"
    r"|(?P<command>[A-Za-z]+)\*?(?:\{\}|\s{0,9}(?P<argument>\{)|\s?))"
    r"|(?<=[{}])(?P<brace>)"
    r"|(?<=[\w.,)}\]$]~)(?P<tie>)(?=[\w({\[\\$])"
    r"|(?<=-)(?P<dash>--?)"
    r"|(?<=`)(?P<opening>`)|(?<=')(?P<closing>'))"
)
_ESCAPED: Final = {" ": " ", ",": " ", ";": " ", ":": " ", "\\": " ", "\n": " ", "!": "", "/": "",
                   "-": "", "@": ""}  # fmt: skip
_CONTRACTED: Final = re.compile(r"(?:s|t|m|d|re|ve|ll)\b(?!\})")
_DASHES: Final = {"-": "–", "--": "—", "`": "“", "'": "”"}

_NAME_MARK: Final = re.compile(r"([{},]|\s+and\s+)", re.IGNORECASE)


def plain(texts: pl.Series) -> pl.Series:
    """Plain text of a column's values; nulls stay."""
    read = [None if text is None else _plain(text) for text in texts]
    return pl.Series(texts.name, read, dtype=pl.String)


def people(texts: pl.Series) -> pl.Series:
    """Names in fields of authors: given name first, "others" left out; nulls stay.

    Parameters
    ----------
    texts : polars.Series of String
        ``Goldman, Omer and {The Team} and others``.

    Returns
    -------
    polars.Series of String
        The names with `BETWEEN` between.
    """
    read = [None if text is None else BETWEEN.join(_people(text)) or None for text in texts]
    return pl.Series(texts.name, read, dtype=pl.String)


def _plain(text: str) -> str:
    return _TOKEN.sub(_character, text) if _MARKED.search(text) else text


def _character(match: re.Match[str]) -> str:
    kind = match.lastgroup
    found = match[kind] if kind else ""
    match kind:
        case "formula":
            return match.group()
        case "escaped":
            return _ESCAPED.get(found, found)
        case "tilde":
            return found
        case "letter" | "dotless" | "bare":
            return _letter(match, found)
        case "command" | "argument":
            return _command(match)
        case "dash" | "opening" | "closing":
            return _DASHES[found]
        case "brace":
            return ""
        case _:
            return " "


def _letter(match: re.Match[str], base: str) -> str:
    """A letter with its accent; ``it\\'s`` has none."""
    mark, text, start = match["mark"], match.string, match.start()
    in_word = mark == "'" and match["bare"] and text[max(start - 1, 0) : start].isalpha()
    if in_word and _CONTRACTED.match(text, match.start("bare")):
        return f"'{base}"
    return unicodedata.normalize("NFC", base + _MARKS[mark])


def _command(match: re.Match[str]) -> str:
    sign = _SIGNS.get(match["command"])
    if sign is not None:
        return sign
    return "" if match["argument"] else match.group()


def _people(text: str) -> list[str]:
    names: list[list[list[str]]] = [[[]]]  # of pieces, of parts between commas, of names
    depth = 0
    for piece in _NAME_MARK.split(text):
        if depth == 0 and piece == ",":
            names[-1].append([])
        elif depth == 0 and piece.strip().lower() == "and" and piece != piece.strip():
            names.append([[]])
        else:
            depth = max(0, depth + (piece == "{") - (piece == "}"))
            names[-1][-1].append(piece)
    whole = (_name(["".join(part).strip() for part in parts]) for parts in names)
    return [_plain(name) for name in whole if name and name.lower() != "others"]


def _name(parts: list[str]) -> str:
    """``Last, First`` or ``Last, Jr, First`` the other way round."""
    match parts:
        case [last, first]:
            parts = [first, last]
        case [last, junior, first]:
            parts = [first, last, junior]
        case _:
            return ", ".join(parts)
    return " ".join(filter(None, parts))
