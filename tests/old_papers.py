"""Papers of an older store, and files of diffs between Semantic Scholar's releases."""

import datetime as dt
import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from hindsight_fast.papers import s2_bulk, venues
from hindsight_fast.papers.options import Old
from hindsight_fast.papers.records import Rules
from hindsight_fast.papers.schema import CONFLICT_SCHEMA, MERGE_SCHEMA, PAPER_SCHEMA

Json = dict[str, Any]
Row = dict[str, Any]
RULES = Rules(dt.date(2024, 6, 1), venues.table())
COLUMNS = [name for name in MERGE_SCHEMA if name not in ("id", "records")]
TEXT = "We show in some detail that this is so, and for many cases at once."
LONGER = TEXT + " It holds for others too, as we prove."
RENEWED = (
    *("authors", "venue", "year", "field", "kind", "url"),
    *("citations", "citations_source", "citations_as_of", "citations_dated"),
)


def s2(number: int, **facts: Any) -> Row:
    """A paper that is made of one record of Semantic Scholar's."""
    row: Row = dict.fromkeys(PAPER_SCHEMA)
    row |= {
        "id": f"CorpusId:{number}",
        "title": f"On the matter of {number}",
        "abstract": TEXT,
        "authors": ["Ada Bee"],
        "venue": "ICLR",
        "year": 2023,
        "date": dt.date(2023, 5, 1),
        "date_precision": "month",
        "date_kind": "venue",
        "date_origin": "publication_date",
        "citations": 4,
        "citations_source": "s2",
        "citations_as_of": dt.date(2024, 1, 9),
        "citations_dated": "1800:0 2023:4",
        "doi": f"10.1234/{number}",
        "corpus_id": number,
        "field": "Biology",
        "language": "en",
        "tldr": "It is so.",
        "license": "CCBY",
        "source": "s2",
        "status": "ok",
        "n_records": 1,
    }
    return row | facts


def joint(row: Row, records: Sequence[str], by: Mapping[str, int], default: int = 0) -> Row:
    """What is told of a paper of several records: which each value comes from."""
    told = {name: by.get(name, default) if row[name] is not None else None for name in COLUMNS}
    return {"id": row["id"], "records": list(records), **told}


def old_of(rows: Sequence[Row], merges: Sequence[Row] = (), size: int = 2) -> Old:
    """A store's papers in parts of some rows."""
    frame = pl.DataFrame(list(rows), schema=PAPER_SCHEMA)

    def parts() -> Iterator[pl.DataFrame]:
        yield from frame.iter_slices(size)

    told = pl.DataFrame(list(merges), schema=MERGE_SCHEMA).sort("id")
    return Old(parts, told, pl.DataFrame(schema=CONFLICT_SCHEMA))


class Files:
    """Files of diffs, in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.updates: list[Path] = []
        self.deletes: list[Path] = []

    def _write(self, name: str, records: Sequence[Json | str]) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = [item if isinstance(item, str) else json.dumps(item) for item in records]
        content = "".join(text + "\n" for text in texts).encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path

    def update(self, name: str, *records: Json | str) -> None:
        self.updates.append(self._write(name, records))

    def delete(self, name: str, *ids: object) -> None:
        self.deletes.append(self._write(name, [{"corpusid": one} for one in ids]))

    @property
    def diffs(self) -> s2_bulk.Diffs:
        return s2_bulk.diffs(self.updates, self.deletes)


def paper(corpus_id: object, **more: Any) -> Json:
    """A record of the papers dataset."""
    return {
        "corpusid": corpus_id,
        "externalids": {"ArXiv": None, "DOI": None},
        "url": None,
        "title": f"On the matter of {corpus_id}",
        "authors": [{"authorId": "1", "name": "Ada Bee"}],
        "venue": "",
        "publicationvenueid": None,
        "year": 2024,
        "citationcount": 9,
        "s2fieldsofstudy": None,
        "publicationtypes": None,
        "publicationdate": None,
        "journal": None,
    } | more


def abstract(corpus_id: object, text: str | None, **more: Any) -> Json:
    return {"corpusid": corpus_id, "openaccessinfo": None, "abstract": text} | more


def tldr(corpus_id: object, text: str) -> Json:
    return {"corpusid": corpus_id, "model": "tldr@v2.0.0", "text": text}


def apply(old: Old, diffs: s2_bulk.Diffs) -> tuple[dict[str, Row], dict[str, Row], Counter[str]]:
    """Apply diffs; the papers and what is told of their records by id, and counts over 0."""
    counts = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        new = s2_bulk.changed(old, diffs, Path(folder, "work"), RULES, counts)
        frames = list(new.parts())
        again = list(new.parts())
    assert all(one.equals(other) for one, other in zip(frames, again, strict=True))
    papers = pl.concat(frames)
    assert dict(papers.schema) == PAPER_SCHEMA
    assert dict(new.merges.schema) == MERGE_SCHEMA
    assert new.merges["id"].is_sorted()
    told = {row["id"]: row for row in new.merges.iter_rows(named=True)}
    rows = {row["id"]: row for row in papers.iter_rows(named=True)}
    assert len(rows) == papers.height
    return rows, told, +counts
