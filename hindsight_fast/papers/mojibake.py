"""UTF-8 that was read as Windows-1252 or Latin-1, turned back where that is certain.

A text that is right never changes, so only what no language writes is turned back: pairs like
``Ã©``, not a capital before a quotation mark or a footnote's sign, not an ångström before a dash.
Such doubtful ones follow where all of the text reads as UTF-8 and one of them is beyond doubt.
"""

import re
import unicodedata
from typing import Final

# How the bytes 80 to bf of UTF-8 look: as Latin-1 reads them, or as Windows-1252.
_LATIN1 = "\x80-\xbf"
_PLAIN = "€ƒˆ‰ŠŒŽ˜šœžŸ"  # what no capital stands before
_PUNCTUATION = "‚„…†‡‹‘’“”•–—™›"
_ANY = f"[{_LATIN1}{_PLAIN}{_PUNCTUATION}]"
_SAFE = f"\x80-\x9f\xa1-\xaa\xac\xae-\xba\xbc-\xbf{_PLAIN}"  # not « », a space or a soft hyphen
_QUOTES = f"\xa0\xab\xad\xbb{_PUNCTUATION}"

SIGN: Final = f"[ÂÃÄÅÎÏÐÑâï]{_ANY}|[\x91-\x97]"
"""Found in every text that changes, and in some others."""

_CERTAIN: Final = re.compile(
    "|".join(
        (
            f"[ÃÄÎÏÐÑ][{_SAFE}]",
            f"Å[\x80-\x9f\xa1-\xaa\xac\xae\xaf\xb4-\xb6\xb8\xba\xbc-\xbf{_PLAIN}]",  # Å², Å·
            "Â[¡£¥§©®°µ¼½¾¿]",
            "(?<=[0-9])Â[\xa0-\xbf]",
            "(?<=[a-z.,;:!?)])Â\xa0",
            f"(?<![A-Z])[ÃÄ][{_QUOTES}](?=[a-z])",
            f"(?<=[a-z])Å[{_QUOTES}](?=[a-z])",
            f"â[\x80-\x9f{_PLAIN}‚„]{_ANY}",
            f"â[…†‡‹™](?![{_QUOTES}]){_ANY}",
            "ï¬[\x80-\x86€‚ƒ„…†]",
        )
    )
)
_MOST_TIMES = 3  # that it was misread
_LONE: Final = re.compile("(?<![\x80-\x9f])[\x91-\x97](?![\x80-\x9f])")


def turned_back(text: str) -> str:
    """Turn back what is certainly UTF-8 misread, and Windows-1252's quotes read as Latin-1."""
    for _ in range(_MOST_TIMES):
        if not _CERTAIN.search(text):
            break
        text = _decoded(text) or _CERTAIN.sub(lambda match: _decoded(match[0]) or match[0], text)
    return _LONE.sub(lambda match: match[0].encode("latin-1").decode("cp1252"), text)


def _decoded(text: str) -> str | None:
    """Give the text read as UTF-8, or None where it is none or holds what no text does."""
    try:
        read = b"".join(map(_byte, text)).decode()
    except UnicodeError:
        return None
    new = set(read) - set(text)
    return None if any(unicodedata.category(c) in ("Cc", "Cn", "Co") for c in new) else read


def _byte(character: str) -> bytes:
    return character.encode("latin-1" if ord(character) < 0x100 else "cp1252")
