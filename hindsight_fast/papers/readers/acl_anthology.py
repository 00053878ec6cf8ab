"""Papers of the ACL Anthology, from its XML: a collection of volumes of papers.

Demonstrations, tutorials, student workshops, the industry track and Findings stand beside the
main volumes and name the same ``venue``, so that says nothing: the title of the volume is the
venue, and what the ids of its volume and collection say besides is added to it.
"""

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindsight_fast.papers import dates
from hindsight_fast.papers.readers import _raw, lines
from hindsight_fast.papers.readers._batch import Batch, Given, Reader
from hindsight_fast.papers.readers._xml import Element, Root, elements, root

_WANTED = frozenset(("meta", "frontmatter", "paper"))
_BREAKS = ("br", "p", "par")
_OLD_ID = re.compile(r"[A-Z][0-9]{2}")
_COLLECTION = re.compile(r"(?:(?:19|20)[0-9]{2}\.[a-z0-9]+|[A-Z][0-9]{2})")
_JOURNAL_VOLUME = re.compile(r",?\s*\bvolume\b.*", re.IGNORECASE | re.DOTALL)
_FAR: Final = date(9000, 1, 1)

_BESIDE: Final = {
    "findings": "Findings",
    "demo": "System Demonstrations",
    "demos": "System Demonstrations",
    "srw": "Student Research Workshop",
    "tutorial": "Tutorial Abstracts",
    "tutorials": "Tutorial Abstracts",
    "industry": "Industry Track",
    "ws": "Workshop",
}
"""Ids of volumes, collections and venues that are no main conference, and what they are."""


def sniff(path: Path, head: bytes) -> bool:
    """A collection of that name."""
    found = root(head)
    return found is not None and _is_collection(found)


def _is_collection(found: Root) -> bool:
    named = found.attributes.get("id")
    return found.name == "collection" and (named is None or bool(_COLLECTION.fullmatch(named)))


def read(path: Path, head: bytes, given: Given) -> Iterator[Batch]:
    """Read papers, and front matter as paratext; see `_batch.Reader`.

    Raises
    ------
    DataError
        Where the file is no whole XML of the Anthology.
    """
    yield from _raw.batches(_records(path), given.limit, _dated)


def _records(path: Path) -> Iterator[lines.Record]:
    volume, meta = None, None
    expected = "a <collection> of the ACL Anthology"
    for outer, element in elements(path, _WANTED, expected, _is_collection):
        if len(outer) != 2 or outer[1].name != "volume":
            if element.name == "paper":
                yield lines.Record(element.line, 0, lines.Bad("a paper outside of a volume", ""))
            continue
        if outer[1] is not volume:
            volume, meta = outer[1], Element("meta", {}, outer[1].line)
        if element.name == "meta":
            meta = element
        elif meta is not None:
            content = _paper(outer[0], outer[1], meta, element)
            size = len(content["title"] or "") + len(content["abstract"] or "")
            yield lines.Record(element.line, size, content)


def _paper(collection: Element, volume: Element, meta: Element, paper: Element) -> dict[str, Any]:
    front = paper.name == "frontmatter" or paper.attributes.get("type", "paper") != "paper"
    title = paper.child("title") or (meta.child("booktitle") if front else None)
    named = _id(collection, volume, paper)
    year = meta.text_of("year") or _year(collection)
    authors = paper.children("author") or paper.children("editor")
    if not authors and front:
        authors = meta.children("editor")
    kind = "article" if volume.attributes.get("type") == "journal" else "inproceedings"
    revisions = [item.attributes.get("date", "") for item in paper.children("revision")]
    return {
        "id": named and f"ACL:{named}",
        "title": title and _text(title),
        "abstract": (abstract := paper.child("abstract")) and _text(abstract),
        "authors": _raw.BETWEEN.join(map(_person, authors)) or None,
        "venue": _venue(collection, volume, meta, paper),
        "year": year,
        "date": " ".join(filter(None, (meta.text_of("month"), year))),
        "ingested": paper.attributes.get("ingest-date", volume.attributes.get("ingest-date")),
        "revised": max(revisions, default=None),
        "doi": paper.text_of("doi"),
        "kind": "frontmatter" if front else kind,
        "language": paper.text_of("language"),
        "url": named and f"https://aclanthology.org/{named}/",
        "source": "acl",
        "status": "paratext" if front else _status(paper),
    }


def _id(collection: Element, volume: Element, paper: Element) -> str | None:
    """Id in the Anthology: ``2022.acl-long.1``; before 2020 ``P18-1001``, ``W18-0101``."""
    parts = [element.attributes.get("id", "") for element in (collection, volume, paper)]
    if paper.name == "frontmatter":
        parts[2] = "0"
    of, number, item = parts
    if not all(parts):
        return None
    if not _OLD_ID.fullmatch(of) or not (number + item).isdecimal():
        return f"{of}-{number}.{item}"
    if of.startswith("W") or of == "C69" or (of == "D19" and int(number) >= 5):
        return f"{of}-{int(number):02d}{int(item):02d}"
    return f"{of}-{int(number)}{int(item):03d}"


def _year(collection: Element) -> str | None:
    """The year in a collection's id: ``2022.acl``, ``P18``."""
    named = collection.attributes.get("id", "")
    if not _OLD_ID.fullmatch(named):
        return named.partition(".")[0] or None
    return ("19" if named[1:] >= "60" else "20") + named[1:]


def _text(element: Element) -> str:
    """Text of a title or abstract: emphasis and protected case dropped, formulas in ``$``."""
    pieces: list[str] = []
    for part in element.parts:
        if isinstance(part, str):
            pieces.append(part)
        elif part.name == "tex-math":
            pieces.append(f"${part.text()}$")
        else:
            pieces.append(" " if part.name in _BREAKS else "")
            pieces.append(_text(part))
    return "".join(pieces)


def _person(author: Element) -> str:
    """A name as written: of what is in it, affiliation and other scripts are none of it."""
    names = (author.text_of("first"), author.text_of("last"))
    return " ".join(filter(None, names))


def _venue(collection: Element, volume: Element, meta: Element, paper: Element) -> str:
    booktitle = meta.child("booktitle")
    title = "" if booktitle is None else _text(booktitle)
    journal = paper.text_of("journal") or meta.text_of("journal-title")
    if volume.attributes.get("type") == "journal":
        journal = journal or _JOURNAL_VOLUME.sub("", title)
    if journal:
        return journal
    venues = [venue.text() for venue in meta.children("venue")]
    series = collection.attributes.get("id", "").rpartition(".")[2]
    within = volume.attributes.get("id", "")
    beside = dict.fromkeys(_BESIDE[word] for word in (within, series, *venues) if word in _BESIDE)
    return ", ".join((title or " ".join((*venues, within)), *beside))


def _status(paper: Element) -> str | None:
    if paper.child("retracted") is not None:
        return "retracted"
    return None if paper.child("removed") is None else "withdrawn"


def _dated(records: pl.DataFrame) -> pl.DataFrame:
    """Date by the volume's month, or by the day when the Anthology had it, where that is before.

    In the month itself or later it says nothing: volumes are put in, and put in again, when there
    is time. Nor does a day years before, which stands for one not known.
    """
    start = dates.parse(records["date"], _FAR)["start"]
    ingested = records["ingested"].str.to_date("%Y-%m-%d", strict=False)
    before = ((ingested < start) & (ingested > start.dt.offset_by("-1y"))).fill_null(False)
    return records.with_columns(records["date"].zip_with(~before, records["ingested"]))


READER = Reader("acl_anthology", sniff, read)
