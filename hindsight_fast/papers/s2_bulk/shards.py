"""Lines of the bulk datasets as they come, and the tables that are joined of them.

Numbers come as text here and there ("citingcorpusid"), and keys may be missing or null. What is
of another type than it should be counts as unknown, and the rest of the record stays.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import IO, Any, Final, Generic, NamedTuple, TypeVar

import msgspec
import polars as pl

from hindsight_fast.papers.readers import lines, streams
from hindsight_fast.papers.readers.lines import Bad, is_list, is_object
from hindsight_fast.papers.schema import REJECT_SCHEMA
from hindsight_fast.papers.text import without_surrogates

REJECTS: Final = {name: dtype for name, dtype in REJECT_SCHEMA.items() if name != "file"}

_BLOCK_BYTES = 8 << 20
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_WRONG_KEY = re.compile(r"`\$\.(\w+)")
_BETWEEN = "\x1f"

Scalar = str | int | float | None


class _Struct(msgspec.Struct, gc=False):
    """What is read of a record; other keys are passed over."""


class ExternalIds(_Struct):
    """Of a paper: its identifiers elsewhere."""

    DOI: str | None = None
    ArXiv: str | None = None


class Name(_Struct):
    """An author or a journal."""

    name: str | None = None


class FieldOfStudy(_Struct):
    """One of a paper's fields."""

    category: str | None = None


class Paper(_Struct):
    """A record of the papers dataset."""

    corpusid: Scalar = None
    externalids: ExternalIds | None = None
    url: str | None = None
    title: str | None = None
    authors: list[Name] | None = None
    venue: str | None = None
    publicationvenueid: str | None = None
    year: Scalar = None
    citationcount: Scalar = None
    s2fieldsofstudy: list[FieldOfStudy] | None = None
    publicationtypes: list[str] | None = None
    publicationdate: str | None = None
    journal: Name | None = None
    updated: str | None = None


class OpenAccess(_Struct):
    """Of a paper: where a free copy lies."""

    externalids: ExternalIds | None = None
    license: str | None = None
    url: str | None = None


class Abstract(_Struct):
    """A record of the abstracts dataset."""

    corpusid: Scalar = None
    abstract: str | None = None
    openaccessinfo: OpenAccess | None = None
    updated: str | None = None


class Tldr(_Struct):
    """A record of the tldrs dataset."""

    corpusid: Scalar = None
    text: str | None = None


class Citation(_Struct):
    """A record of the citations dataset; either end may be unknown."""

    citingcorpusid: Scalar = None
    citedcorpusid: Scalar = None


class Venue(_Struct):
    """A record of the publication-venues dataset."""

    id: str | None = None
    name: str | None = None


class PaperId(_Struct):
    """A record of the paper-ids dataset; several hashes may stand for one paper."""

    sha: str | None = None
    corpusid: Scalar = None


class Key(_Struct):
    """A record of which only the key is of use."""

    corpusid: Scalar = None


Kind = TypeVar("Kind", bound=_Struct)
WithId = TypeVar("WithId", Abstract, Tldr)


class Decoded(NamedTuple, Generic[Kind]):
    """Some lines of a shard.

    Attributes
    ----------
    lines : list of int
        Of the records, from 1.
    records : list
        As many.
    bad : list of tuple
        Line, reason and beginning of each line that is no record.
    malformed : Counter
        How often a key held a value of another type than it should.
    """

    lines: list[int]
    records: list[Kind]
    bad: list[tuple[int, str, str]]
    malformed: Counter[str]

    def chosen(self, mask: pl.Series) -> "Decoded[Kind]":
        """Only those records where `mask` is true; a table of them holds no text of the others."""
        lines, records = compress(self.lines, mask), compress(self.records, mask)
        return Decoded(list(lines), list(records), self.bad, self.malformed)


def decoded(path: Path, kind: type[Kind], limit: int | None = None) -> Iterator[Decoded[Kind]]:
    """Read the records of a shard in batches.

    Parameters
    ----------
    path : pathlib.Path
        JSON lines, plain or compressed.
    kind : type
        What each of them is.
    limit : int, optional
        Read at most so many.

    Raises
    ------
    DataError
        The file is missing or damaged.
    StorageError
        The system does not let it be read.
    """
    decode = msgspec.json.Decoder(kind).decode
    left = limit
    with streams.open_bytes(path) as stream:
        for first, block in _blocks(stream):
            out = Decoded[Kind]([], [], [], Counter())
            for number, line in enumerate(block, start=first):
                try:
                    record: Kind | Bad = decode(line)
                except _REFUSED:
                    if not line.strip():
                        continue
                    record = _another_try(line, kind, out.malformed)
                if len(line) > streams.LONGEST_LINE:
                    record = lines.too_long()
                if isinstance(record, Bad):
                    out.bad.append((number, record.reason, without_surrogates(record.record)))
                else:
                    out.lines.append(number)
                    out.records.append(record)
                if left is not None:
                    left -= 1
                    if not left:
                        yield out
                        return
            yield out


def _blocks(stream: IO[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Lines in blocks, and the number of each block's first; of a line too long its beginning.

    Several times as fast as line by line.
    """
    number = 1
    rest: list[bytes] = []
    while block := stream.read(_BLOCK_BYTES):
        if number == 1 and not rest:
            block = block.removeprefix(b"\xef\xbb\xbf")
        parts = block.split(b"\n")
        if len(parts) > 1:
            parts[0] = b"".join((*rest, parts[0]))
            rest = []
            yield number, parts[:-1]
            number += len(parts) - 1
        if sum(map(len, rest)) <= streams.LONGEST_LINE:
            rest.append(parts[-1])
    if rest:
        yield number, [b"".join(rest)]


def _another_try(line: bytes, kind: type[Kind], malformed: Counter[str]) -> Kind | Bad:
    """Decode without the values that are of no use."""
    content = lines.json_object(line)
    if isinstance(content, Bad):
        return content
    left: dict[str, Any] = _without_surrogates(content)
    while True:
        try:
            return msgspec.convert(left, kind, strict=False)
        except msgspec.ValidationError as error:
            wrong = _WRONG_KEY.search(str(error))
            if wrong is None or wrong[1] not in left:
                return Bad(str(error), line[:200].decode("utf-8", "replace"))
            del left[wrong[1]]
            malformed[wrong[1]] += 1


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if is_list(value):
        return [_without_surrogates(item) for item in value]
    if is_object(value):
        return {without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def keys(values: Sequence[Scalar], name: str = "corpusid") -> pl.Series:
    """Read corpus ids, whole numbers from 1 on; null where there is none.

    Returns
    -------
    polars.Series of Int64
    """
    try:
        found = pl.Series(name, values, dtype=pl.Int64)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        digits = _texts(name, values).str.extract(r"^\s*([0-9]+)(?:\.0*)?\s*$", 1)
        found = digits.cast(pl.Int64, strict=False)
    return found.set((found < 1).fill_null(False), None)


def _texts(name: str, values: Sequence[Scalar]) -> pl.Series:
    return pl.Series(name, [None if v is None else str(v) for v in values], dtype=pl.String)


PAPERS: Final[dict[str, pl.DataType]] = {
    "line": pl.Int64(),
    "corpusid": pl.Int64(),
    "title": pl.String(),
    "authors": pl.List(pl.String()),
    "venue": pl.String(),
    "venue_id": pl.String(),
    "journal": pl.String(),
    "year": pl.String(),
    "date": pl.String(),
    "citations": pl.String(),
    "doi": pl.String(),
    "arxiv_id": pl.String(),
    "field": pl.String(),
    "kind": pl.String(),
    "url": pl.String(),
    "updated": pl.String(),
}
"""Columns of the papers dataset, as `papers` gives them."""


def papers(batch: Decoded[Paper]) -> pl.DataFrame:
    """Make a table with the columns of `PAPERS`."""
    records = batch.records
    ids = [record.externalids or ExternalIds() for record in records]
    authors = [
        _BETWEEN.join([one.name for one in record.authors if one.name]) if record.authors else None
        for record in records
    ]
    fields = [
        "; ".join(dict.fromkeys([one.category for one in record.s2fieldsofstudy if one.category]))
        if record.s2fieldsofstudy
        else None
        for record in records
    ]
    kinds = ["; ".join(r.publicationtypes) if r.publicationtypes else None for r in records]
    journals = [record.journal.name if record.journal else None for record in records]
    return pl.DataFrame(
        [
            pl.Series("line", batch.lines, dtype=pl.Int64),
            keys([record.corpusid for record in records]),
            pl.Series("title", [record.title for record in records], dtype=pl.String),
            # Several times as fast as a list of lists.
            pl.Series("authors", authors, dtype=pl.String).str.split(_BETWEEN),
            pl.Series("venue", [record.venue for record in records], dtype=pl.String),
            pl.Series("venue_id", [r.publicationvenueid for r in records], dtype=pl.String),
            pl.Series("journal", journals, dtype=pl.String),
            _texts("year", [record.year for record in records]),
            pl.Series("date", [record.publicationdate for record in records], dtype=pl.String),
            _texts("citations", [record.citationcount for record in records]),
            pl.Series("doi", [each.DOI for each in ids], dtype=pl.String),
            pl.Series("arxiv_id", [each.ArXiv for each in ids], dtype=pl.String),
            pl.Series("field", fields, dtype=pl.String),
            pl.Series("kind", kinds, dtype=pl.String),
            pl.Series("url", [record.url for record in records], dtype=pl.String),
            pl.Series("updated", [record.updated for record in records], dtype=pl.String),
        ]
    )


ABSTRACTS: Final[dict[str, pl.DataType]] = {
    "corpusid": pl.Int64(),
    "abstract": pl.String(),
    "license": pl.String(),
    "doi": pl.String(),
    "arxiv_id": pl.String(),
    "updated": pl.String(),
}
"""Columns of the abstracts dataset, as `abstracts` gives them."""


def abstracts(batch: Decoded[Abstract]) -> pl.DataFrame:
    """Make a table with the columns of `ABSTRACTS`."""
    records = batch.records
    open_access = [record.openaccessinfo or OpenAccess() for record in records]
    ids = [each.externalids or ExternalIds() for each in open_access]
    copies = [each.url if each.url and "arxiv.org/" in each.url else None for each in open_access]
    arxiv = [each.ArXiv or copy for each, copy in zip(ids, copies, strict=True)]
    return pl.DataFrame(
        [
            keys([record.corpusid for record in records]),
            pl.Series("abstract", [record.abstract for record in records], dtype=pl.String),
            pl.Series("license", [each.license for each in open_access], dtype=pl.String),
            pl.Series("doi", [each.DOI for each in ids], dtype=pl.String),
            pl.Series("arxiv_id", arxiv, dtype=pl.String),
            pl.Series("updated", [record.updated for record in records], dtype=pl.String),
        ]
    )


TLDRS: Final[dict[str, pl.DataType]] = {
    "corpusid": pl.Int64(),
    "tldr": pl.String(),
    "updated": pl.String(),
}
"""Columns of the tldrs dataset, as `tldrs` gives them."""


def tldrs(batch: Decoded[Tldr]) -> pl.DataFrame:
    """Make a table with the columns of `TLDRS`."""
    return pl.DataFrame(
        [
            keys([record.corpusid for record in batch.records]),
            pl.Series("tldr", [record.text for record in batch.records], dtype=pl.String),
            pl.Series("updated", [None] * len(batch.records), dtype=pl.String),
        ]
    )


EDGES: Final[dict[str, pl.DataType]] = {"corpusid": pl.Int64(), "cited": pl.Int64()}
"""Columns of the citations dataset, as `edges` gives them; ``corpusid`` is who cites."""


def edges(batch: Decoded[Citation]) -> pl.DataFrame:
    """Make a table with the columns of `EDGES`."""
    return pl.DataFrame(
        [
            keys([record.citingcorpusid for record in batch.records]),
            keys([record.citedcorpusid for record in batch.records], "cited"),
        ]
    )
