"""The slow, obvious twin of cleaning texts, character by character."""

import html
import unicodedata
from html.entities import html5

from hindsight_fast.papers import accents, mojibake


def clean_text(text: str) -> str:
    """Cleaning of papers.text; accents and mojibake are the functions of one text that they are."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = text.replace("\n", " ").strip()
    for _ in range(8):
        text = _cleaned_once(text)
    return text


def _cleaned_once(text: str) -> str:
    text = mojibake.turned_back(_decoded(text))
    text = _without_twin(text)
    text = _without_heading(text)
    lower = " ".join(text.lower().split())
    if any(f"</m{x}>" in lower.partition(start)[2] for x in MATHML_SIGN for start in MATH_STARTS):
        text = _without_tags(text, MATHML, "")
    if any(_attribute_follows(lower, sign) for sign in IEEE_SIGNS) or "</inf>" in lower:
        text = _without_tags(text, {"formula", "tex", "inf"}, "")
    text = _without_wrappers(text)
    text = _without_tags(text, BLOCK, " ")
    text = _without_tags(text, INLINE, "")
    text = _without_preamble(text)
    text = accents.with_accents(text)
    text = "".join(c for c in text if c not in INVISIBLE)
    text = "".join(LIGATURES.get(c, c) for c in text)
    text = unicodedata.normalize("NFC", text)
    text = "".join(" " if unicodedata.category(c) == "Cc" else c for c in text)
    return " ".join(text.split())


def _decoded(text: str) -> str:
    """Entities replaced once."""
    head, *pieces = text.split("&")
    for piece in pieces:
        name, semicolon, rest = piece.partition(";")
        found = html5.get(f"{name};", _numbered(name))
        head += found + rest if semicolon and found is not None else "&" + piece
    return head


def _without_twin(text: str) -> str:
    """Drop an annotation with its text, where no other tag is in it."""
    start = 0
    while (start := text.find("<", start)) >= 0:
        opening, closed, rest = text[start + 1 :].partition(">")
        _, tag, end = rest.partition("<")
        closing = end.lower().partition(">")[0]
        is_twin = closed and tag and "<" not in opening and ">" in end
        if is_twin and _is_annotation(opening.lower()) and closing in CLOSINGS:
            text = text[:start] + end[len(closing) + 1 :]
        else:
            start += 1
    return text


def _is_annotation(opening: str) -> bool:
    name, _, _ = opening.partition("annotation")
    after = opening[len(name) + len("annotation") :][:1]
    return (
        name in ("", "mml:", "m:")
        and "annotation" in opening
        and not (after.isalnum() or after == "_")
    )


def _attribute_follows(lower: str, sign: str) -> bool:
    return any(rest.lstrip().startswith("=") for rest in lower.split(sign)[1:])


def _without_wrappers(text: str) -> str:
    if "<!" not in text:
        return text
    kept = ""
    while text:
        inside, closed, after = text.removeprefix("<!--").partition("-->")
        if text.startswith("<!--") and closed and not set(inside) & set("<>"):
            text = after
        elif text.startswith("<![CDATA["):
            text = text[len("<![CDATA[") :]
        elif text.startswith("]]>"):
            text = text[len("]]>") :]
        else:
            kept, text = kept + text[0], text[1:]
    return kept


def _without_preamble(text: str) -> str:
    start = text.find(PREAMBLE[0])
    while start >= 0:
        inside, ended, rest = text[start:].partition(PREAMBLE[1])
        if ended and not set(inside) & set("$<"):
            text = text[:start] + rest
        else:
            start += 1
        start = text.find(PREAMBLE[0], start)
    return text.replace("\\end{document}", "")


def _numbered(name: str) -> str | None:
    digits, base, longest = name[1:], 10, 7
    if digits[:1] in ("x", "X"):
        digits, base, longest = digits[1:], 16, 6
    if name[:1] != "#" or not 1 <= len(digits) <= longest:
        return None
    if not set(digits) <= set("0123456789abcdefABCDEF"[: 10 if base == 10 else 22]):
        return None
    return html.unescape(f"&{name};")


def _without_heading(text: str) -> str:
    start = text.lower().find("<jats:title>")
    while start >= 0:
        end = text.lower().find("</jats:title>", start)
        title = text[start + len("<jats:title>") : max(end, 0)].lower().strip()
        if title[-1:] in (":", "."):
            title = title[:-1].rstrip()
        if title == "abstract":
            text = text[:start] + " " + text[end + len("</jats:title>") :]
        start = text.lower().find("<jats:title>", start + 1)
    return text


HTML_BLOCK = "p br div li ul ol hr h1 h2 h3 h4 h5 h6 blockquote"
HTML_INLINE = (
    "a i b em strong u sub sup sc scp tt small big span font italic bold underline monospace "
    "sans-serif inline-formula disp-formula tex-math fixed-case ext-link xref named-content "
    "styled-content"
)
CLOSINGS = ("/annotation", "/mml:annotation", "/m:annotation")
MATHML_SIGN = ("i", "n", "o", "row")
MATH_STARTS = ("<math>", "<math ")
MATHML = {
    "math", "mi", "mn", "mo", "mrow", "msub", "msup", "msubsup", "mfrac", "msqrt", "mroot", "mtext",
    "mover", "munder", "munderover", "mstyle", "mspace", "mtable", "mtr", "mtd", "mfenced",
    "semantics",
}  # fmt: skip
IEEE_SIGNS = ("<formula formulatype", "<tex notation")
LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}
PREAMBLE = ("\\documentclass", "\\begin{document}")
XML_BLOCK = "p title sec list list-item disp-formula"
PREFIXES = ("jats", "mml", "m")
BLOCK = {*HTML_BLOCK.split(), *(f"{x}:{name}" for x in PREFIXES for name in XML_BLOCK.split())}
INLINE = {*HTML_INLINE.split(), *(f"{x}:*" for x in PREFIXES)}


def _without_tags(text: str, names: set[str], instead: str) -> str:
    kept = ""
    while "<" in text:
        before, _, text = text.partition("<")
        inside, closed, after = text.partition(">")
        if closed and "<" not in inside and _is_tag(inside, names):
            kept, text = kept + before + instead, after
        else:
            kept += before + "<"
    return kept + text


def _is_tag(inside: str, names: set[str]) -> bool:
    """Whether what stands between angle brackets is a tag of one of these names."""
    closes, bare = inside.startswith("/"), inside.removeprefix("/")
    length = next((i for i, c in enumerate(bare) if c.isspace() or c == "/"), len(bare))
    name, rest = bare[:length].lower(), bare[length:]
    if name == "a" and "a" in names:  # anything after one attribute will do; <a> is no link
        key, equals, _ = rest.partition("=")
        return not rest if closes else bool(equals and key[:1].isspace() and _is_key(key))
    prefix, _, local = name.partition(":")
    prefixed = f"{prefix}:*" in names and local.replace("-", "a").isalnum() and local.isascii()
    return (name in names or prefixed) and _are_attributes(rest)


def _is_key(key: str) -> bool:
    key = key.strip()
    return bool(key) and all(c in "abcdefghijklmnopqrstuvwxyz:_-" for c in key.lower())


def _are_attributes(rest: str) -> bool:
    """Whether there is nothing but attributes with values, and a slash at the very end."""
    while rest.strip() not in ("", "/") or (rest[-1:].isspace() and "/" in rest):
        if not rest[:1].isspace():
            return False
        key, equals, rest = rest.partition("=")
        if not (equals and _is_key(key)):
            return False
        rest = rest.lstrip()
        if rest[:1] in ("'", '"'):
            _, closed, rest = rest[1:].partition(rest[0])
            if not closed:
                return False
        else:
            value = (rest.split() or [""])[0]
            if not value or "'" in value or '"' in value:
                return False
            rest = rest[len(value) :]
    return True


INVISIBLE = frozenset(
    "\u00ad\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
)
