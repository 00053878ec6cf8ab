"""TeX accents to the letters that they stand for."""

import re
import unicodedata
from typing import Final

_MARKS: Final = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306",
    ".": "\u0307", '"': "\u0308", "r": "\u030a", "H": "\u030b", "v": "\u030c", "d": "\u0323",
    "c": "\u0327", "k": "\u0328",
}  # fmt: skip
_LETTERS: Final = {
    "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å", "o": "ø",
    "O": "Ø", "l": "ł", "L": "Ł", "i": "ı",
}  # fmt: skip

SIGN: Final = r"""\\[`'^"~=.]|\\[cdHkruv][ {\\]|\\(?:ss|ae|AE|oe|OE|aa|AA|[oOlLi])(?:[^A-Za-z]|$)"""
"""What no text without accents has."""

_MATH: Final = re.compile(r"(\$(?<!\\\$)(?:\$[^$]*\$\$|[^$]*\$))")
_BRACED = r"\\?\{\s*\\?(?P<NAME>[A-Za-z])\s*\\?\}"
_DOTLESS = r"\\(?P<NAME>[ij])(?![A-Za-z])\s?"
_ACCENT = (
    r"\\(?<!\\\\)(?:"
    rf"(?P<symbol>[`'^\"~=.])(?:{_BRACED.replace('NAME', 'a')}|{_DOTLESS.replace('NAME', 'b')}"
    r"|(?P<bare>[A-Za-z]))"
    rf"|(?P<word>[cdHkruv])(?:{_BRACED.replace('NAME', 'c')}"
    rf"|\s?{_DOTLESS.replace('NAME', 'd')}|\s(?P<e>[A-Za-z]))"
    r"|(?P<name>ss|ae|AE|oe|OE|aa|AA|[oOlLi])(?![A-Za-z])(?P<after>\{\}|\s(?=[a-z]))?)"
)
_GROUPED: Final = re.compile(rf"\{{(?<!\\\{{)(?<!\\[`'^\"~=.cdHkruv]\{{){_ACCENT}\s*\}}")
_ALONE: Final = re.compile(_ACCENT)
_NO_LETTER: Final = re.compile(r"\\([`'^\"~])(?![A-Za-z{\\])")
_CONTRACTED: Final = re.compile(r"(?:s|m|re|ll)\b")


def with_accents(text: str) -> str:
    r"""Turn LaTeX accents (``\'e``, ``{\"o}``, ``\v{c}``, ``\ss``) to letters, but for math's.

    Only what gives a letter of its own is an accent: ``\r{ho}`` and ``the \"best\" one`` stay.
    """
    parts = _MATH.split(text)  # every other one is math
    words = [_GROUPED.sub(_grouped, part) for part in parts[::2]]
    escaped = set[str]().union(*map(_escaped, words))

    def alone(match: re.Match[str]) -> str:
        return (None if match["symbol"] in escaped and match["bare"] else _letter(match)) or match[
            0
        ]

    parts[::2] = [_ALONE.sub(alone, part) for part in words]
    return "".join(parts)


def _escaped(text: str) -> set[str]:
    """Symbols that an escape, not an accent, put behind a backslash: ``the \\"best\\" one``."""
    found = set(_NO_LETTER.findall(text))
    for match in _ALONE.finditer(text):
        symbol, letter = match["symbol"], match["bare"]
        if letter and (_composed(symbol, letter) is None or _is_no_accent(match)):
            found.add(symbol)
    return found


def _is_no_accent(match: re.Match[str]) -> bool:
    """Tell an address (``/\\~ann``) and a contraction (``it\\'s``) from accents."""
    before = match.string[: match.start()][-1:]
    if match["symbol"] == "'":
        return before.isalpha() and bool(_CONTRACTED.match(match.string, match.start("bare")))
    return match["symbol"] == "~" and before == "/"


def _composed(mark: str, letter: str) -> str | None:
    one = unicodedata.normalize("NFC", letter + _MARKS[mark])
    return one if len(one) == 1 else None


def _base(match: re.Match[str]) -> str:
    return str(next(filter(None, match.group("a", "b", "bare", "c", "d", "e"))))


def _grouped(match: re.Match[str]) -> str:
    if match["name"]:
        return _LETTERS[match["name"]]
    return _composed(match["symbol"] or match["word"], _base(match)) or match[0]


def _letter(match: re.Match[str]) -> str | None:
    """What an accent outside braces stands for, if it is one."""
    if match["name"]:
        return _special(match)
    mark, bare = match["symbol"] or match["word"], match["bare"]
    if bare and (mark == "." or (mark == "=" and bare not in "aeiouAEIOU")):
        return None  # file names, alignments
    return _composed(mark, _base(match))


def _special(match: re.Match[str]) -> str | None:
    r"""Letters by name; ``\o`` and the like are mostly somebody's macro where no word is around."""
    name, after, text = match["name"], match["after"], match.string
    one = _LETTERS[name]
    if after == "{}":
        return one
    in_word = text[: match.start()][-1:].isalpha()
    if len(name) == 2:
        return one if in_word and name != "AA" else one + (after or "")
    starts_word = name == "L" and text[match.end() :][:1] in tuple("aeiouy")
    return one if after and name != "i" and (in_word or starts_word) else None
