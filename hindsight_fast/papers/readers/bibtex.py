"""Entries of a BibTeX file, through bibtexparser, one at a time.

A line that begins with ``@type{`` or ``@type(`` begins an entry, whatever stands before it: that
is how the parser finds its way after damage, so files are cut there and no entry changes by it.
An entry that can't be parsed is a reject; comments and preambles are no records. Macros
(``@string``, months) are put in, and concatenations made.
"""

import logging
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import polars as pl
from bibtexparser.entrypoint import parse_string
from bibtexparser.model import Block, Entry, ImplicitComment, ParsingFailedBlock, String

from hindsight_fast.papers.readers import _raw, _tex, lines, streams
from hindsight_fast.papers.readers._batch import Batch, Given, Reader

LONGEST_ENTRY: Final = 1 << 20
"""Bytes; the parser takes up to a thousand times that of what is no BibTeX."""

LONGEST_MACRO: Final = 2_000
"""Characters, so that what is made of macros stays small."""

_START = re.compile(rb"[ \t]*@\w*[ \t]*[{(]")
_FIRST = re.compile(rb"(?:\s|%[^\n]*\n)*@\w+\s*[{(]")
_OTHER_FORM = re.compile(rb"\s*(?:<|[\[{]\s*[\"{\[])")
_NO_BLOCK = re.compile(r"^[ \t]*@\s*(?!(?:comment|preamble|string)\b)\w+\s*[{(].*", re.I | re.M)
_NO_RECORD = re.compile(r"@(?:comment|preamble)\b", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_NAME = re.compile(r"[^#\s]+")
_IN_BRACES = re.compile(r"[{}](?<!\\.)")
_IN_QUOTES = re.compile(r'[{}"](?<!\\.)')
_SHOWN = 200

_MONTHS: Final = {
    "jan": "January", "feb": "February", "mar": "March", "apr": "April", "may": "May",
    "jun": "June", "jul": "July", "aug": "August", "sep": "September", "oct": "October",
    "nov": "November", "dec": "December",
}  # fmt: skip

_ARXIV_ID = r"((?:[a-z.-]+/)?[0-9]{4}\.?[0-9]{3,5})(?:v[0-9]+)?"
_ARXIV = re.compile(rf"\b(?:arxiv\s*[:.]\s*(?:abs/)?|abs/){_ARXIV_ID}\b", re.IGNORECASE)
_EPRINT = re.compile(rf"(?:arxiv:)?{_ARXIV_ID}", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://[^\s{}]+")
_ESCAPED = re.compile(r"\{?\\([_&%#~^$])(?:\{\})?\}?")
_CORPUS_ID = re.compile(r"semanticscholar\.org/CorpusID:([0-9]+)", re.IGNORECASE)
_TAKEN_BACK = re.compile(
    r"\W*(?:this (?:paper|article) (?:has been|was|is) )?(retracted|withdrawn)\b", re.IGNORECASE
)
_FIELDS: Final = frozenset(
    {"title", "subtitle", "abstract", "author", "editor", "booktitle", "journal", "journaltitle",
     "eventtitle", "year", "month", "day", "date", "doi", "eprint", "archiveprefix", "eprinttype",
     "volume", "note", "howpublished", "url", "ee", "link", "langid", "language"}
)  # fmt: skip
_SUBMITTED = re.compile(r"\W*(?:(?:under|in) review|submitted|rejected)\b", re.IGNORECASE)


def sniff(path: Path, head: bytes) -> bool:
    """An entry comes first, or the name says so and it is text of no other form."""
    text = head.removeprefix(b"\xef\xbb\xbf")
    if _FIRST.match(text) is not None:
        return True
    named = any(suffix.lower() in (".bib", ".bibtex") for suffix in path.suffixes[-2:])
    return named and b"\0" not in text and not _OTHER_FORM.match(text)


def read(path: Path, head: bytes, given: Given) -> Iterator[Batch]:
    """Read entries; see `_batch.Reader`."""
    yield from _raw.batches(_records(path), given.limit, _in_plain_text)


def _in_plain_text(records: pl.DataFrame) -> pl.DataFrame:
    texts = (_tex.plain(records[name]) for name in ("title", "abstract", "venue", "date"))
    return records.with_columns(*texts, _tex.people(records["authors"]))


def _records(path: Path) -> Iterator[lines.Record]:
    macros = dict(_MONTHS)
    with streams.open_bytes(path) as stream:
        for line, piece in _pieces(stream):
            text = piece.decode("utf-8", "surrogateescape")
            if len(piece) > LONGEST_ENTRY:
                yield _bad(line, 0, f"an entry longer than {LONGEST_ENTRY >> 20} MiB", text)
                continue
            with _unlogged():
                blocks = parse_string(text, parse_stack=[]).blocks
            for block in blocks:
                yield from _of_block(block, line, macros)


def _pieces(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Cut a file before each line that begins an entry; of a piece too long the beginning."""
    kept: list[bytes] = []
    first, size = 1, 0
    number, whole = 0, True
    while line := stream.readline(LONGEST_ENTRY + 1):
        number += whole
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if whole and _START.match(line):
            yield first, b"".join(kept)
            kept, first, size = [], number, 0
        whole = line.endswith(b"\n")
        if size <= LONGEST_ENTRY:
            kept.append(line)
            size += len(line)
    yield first, b"".join(kept)


@contextmanager
def _unlogged() -> Generator[None]:
    """Rejects say what the parser logs."""
    logger = logging.getLogger("bibtexparser")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _of_block(block: Block, first: int, macros: dict[str, str]) -> Iterator[lines.Record]:
    """The record that a block is, if it is one; a macro goes to `macros`."""
    raw, line = block.raw or "", first + (block.start_line or 0)
    if isinstance(block, ParsingFailedBlock):
        whole = block.ignore_error_block  # of which a key only comes twice
        if whole is None:
            if not _NO_RECORD.match(raw):
                yield _bad(line, len(raw), _why(block.error), raw)
            return
        block = whole
    if isinstance(block, ImplicitComment):
        for match in _NO_BLOCK.finditer(raw):
            at = line + raw.count("\n", 0, match.start())
            yield _bad(at, 0, "no entry: no { after its type on the same line", match.group())
    elif isinstance(block, Entry | String):
        try:
            yield from _understood(block, raw, line, macros)
        except _NoValue as error:
            yield _bad(line, len(raw), str(error), raw)


class _NoValue(ValueError):
    """What is wrong with an entry or a macro that can be parsed."""


def _understood(
    block: Entry | String, raw: str, line: int, macros: dict[str, str]
) -> Iterator[lines.Record]:
    if _SURROGATE.search(raw):
        raise _NoValue("not UTF-8")
    if isinstance(block, String):
        macros[block.key.lower()] = _value(block.value, macros, LONGEST_MACRO)
        return
    fields: dict[str, str] = {}
    for field in block.fields:
        name = field.key.lower()
        if name in _FIELDS and name not in fields:  # of two the first counts, as in BibTeX
            fields[name] = _value(field.value, macros, LONGEST_ENTRY).strip()
    fields = {name: value for name, value in fields.items() if value}
    size = len(raw) + sum(map(len, fields.values()))
    yield lines.Record(line, size, _paper(block, fields))


def _why(error: Exception) -> str:
    reason = " ".join(str(getattr(error, "abort_reason", error)).split())
    if "end of file" in reason:
        reason = "it is not closed where the next entry begins, or the file ends"
    return f"not BibTeX: {reason.rstrip('.')}"


def _bad(line: int, size: int, reason: str, raw: str) -> lines.Record:
    shown = _SURROGATE.sub("\ufffd", raw[:_SHOWN])
    return lines.Record(line, size, lines.Bad(_SURROGATE.sub("\ufffd", reason), shown))


def _value(written: str, macros: Mapping[str, str], longest: int) -> str:
    """What a field says: pieces in quotes, in braces, numbers and macros, joined by ``#``."""
    values: list[str] = []
    at = size = 0
    while at < len(written):
        if written[at] in '{"':
            end = _closing(written, at)
            values.append(written[at + 1 : end])
            at = end + 1
        elif name := _NAME.match(written, at):
            values.append(macros.get(name.group().lower(), name.group()))
            at = name.end()
        else:
            at += 1
            continue
        size += len(values[-1])
        if size > longest:
            raise _NoValue(f"a value of more than {longest} characters")
    return "".join(values)


def _closing(written: str, at: int) -> int:
    """Where the piece that opens at `at` closes: as many braces as it opens, or a quote outside."""
    closing, marks = ("}", _IN_BRACES) if written[at] == "{" else ('"', _IN_QUOTES)
    if written.find(closing, at + 1) == len(written) - 1:  # the usual
        return len(written) - 1
    depth = 0
    for mark in marks.finditer(written, at + 1):
        if mark.group() == "{":
            depth += 1
        elif mark.group() == "}" and depth:
            depth -= 1
        elif not depth and mark.group() == closing:
            return mark.start()
    return len(written)


def _paper(entry: Entry, fields: Mapping[str, str]) -> dict[str, Any]:
    def first(*names: str) -> str | None:
        return next((fields[name] for name in names if name in fields), None)

    kind = entry.entry_type.lower()
    note = fields.get("note", "")
    taken_back = _TAKEN_BACK.match(note)
    proceedings = kind in ("proceedings", "mvproceedings")
    title = first("title")
    if title and "subtitle" in fields:
        title = f"{title}: {fields['subtitle']}"
    given = first("url", "ee", "link")
    url = _address(given or fields.get("howpublished")) or given
    corpus_id = _CORPUS_ID.search(url or "")
    return {
        "id": entry.key or None,
        "title": title,
        "abstract": first("abstract"),
        "authors": first("author", "editor"),
        "venue": _venue(fields, note),
        "year": fields.get("year") or fields.get("date", "")[:4] or None,
        "date": _date(fields),
        "doi": _unescaped(first("doi")),
        "arxiv_id": _arxiv(fields),
        "corpus_id": corpus_id and corpus_id.group(1),
        "kind": kind,
        "language": first("langid", "language"),
        "url": url,
        "source": "bibtex",
        "status": "paratext" if proceedings else taken_back and taken_back.group(1).lower(),
    }


def _venue(fields: Mapping[str, str], note: str) -> str | None:
    names = (fields.get(name) for name in ("booktitle", "journal", "journaltitle", "eventtitle"))
    venue = next(filter(None, names), None)
    return f"Submitted to {venue}" if venue and _SUBMITTED.match(note) else venue


def _date(fields: Mapping[str, str]) -> str | None:
    """Year, month and day, as far as they are there; the start of a range."""
    if "year" not in fields and "date" in fields:
        return fields["date"].partition("/")[0]
    year, month, day = (fields.get(name) for name in ("year", "month", "day"))
    if year is None or month is None:
        return None
    if day is None:
        return f"{month} {year}"
    return f"{year}-{month}-{day}" if month.isdecimal() else f"{day} {month} {year}"


def _arxiv(fields: Mapping[str, str]) -> str | None:
    """An arXiv id in ``eprint``, or in words such as ``CoRR, abs/1706.03762``."""
    archive = fields.get("archiveprefix") or fields.get("eprinttype") or ""
    eprint = fields.get("eprint", "")
    if archive.lower() == "arxiv":
        return eprint or None
    if not archive and (found := _EPRINT.fullmatch(eprint)):
        return found.group(1)
    words = " ".join(fields.get(name, "") for name in ("journal", "volume", "note", "howpublished"))
    found = _ARXIV.search(words)
    return found and found.group(1)


def _address(text: str | None) -> str | None:
    """The web address in a text such as ``\\url{https://...}``."""
    found = _ADDRESS.search(_unescaped(text) or "")
    return found and found.group()


def _unescaped(text: str | None) -> str | None:
    """An address or DOI as it is, without what TeX wants before some of its characters."""
    return text and _ESCAPED.sub(r"\1", text)


READER = Reader("bibtex", sniff, read)
