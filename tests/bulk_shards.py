"""Shards of Semantic Scholar's bulk datasets as tests write and read them."""

import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from hindsight_fast.papers import s2_bulk
from hindsight_fast.papers.records import RAW_SCHEMA
from hindsight_fast.papers.s2_bulk import shards
from hindsight_fast.papers.s2_bulk.joining import Keep

Datasets = Mapping[str, Sequence[Path]]
Json = dict[str, Any]
RELEASE = "2024-03-12"


def paper(corpus_id: object, **more: Any) -> Json:
    """A record of the papers dataset, at its native shape."""
    return {
        "corpusid": corpus_id,
        "externalids": {"ACL": None, "DBLP": None, "ArXiv": None, "MAG": "7", "DOI": None},
        "url": f"https://www.semanticscholar.org/paper/{corpus_id}",
        "title": f"On {corpus_id}",
        "authors": [{"authorId": "1", "name": "Ada Bee"}, {"authorId": None, "name": "C. Dee"}],
        "venue": "",
        "publicationvenueid": None,
        "year": 2023,
        "referencecount": 3,
        "citationcount": 0,
        "influentialcitationcount": 0,
        "isopenaccess": False,
        "s2fieldsofstudy": [
            {"category": "Computer Science", "source": "external"},
            {"category": "Computer Science", "source": "s2-fos-model"},
            {"category": "Biology", "source": "s2-fos-model"},
        ],
        "publicationtypes": ["Review", "JournalArticle"],
        "publicationdate": "2023-05-04",
        "journal": {"name": "", "pages": "1-2", "volume": "3"},
        "updated": "2024-03-01T01:02:03.456Z",
    } | more


def abstract(corpus_id: object, text: str | None, **more: Any) -> Json:
    open_access = {
        "externalids": {"MAG": None, "ACL": None, "DOI": None, "ArXiv": None},
        "license": None,
        "url": None,
        "status": None,
    }
    return {"corpusid": corpus_id, "openaccessinfo": open_access, "abstract": text} | more


def edge(citing: object, cited: object) -> Json:
    return {
        "citingcorpusid": citing,
        "citedcorpusid": cited,
        "isinfluential": False,
        "contexts": ["as in [3]"],
        "intents": [["background"], None],
    }


def write(path: Path, lines: Sequence[Json | str]) -> Path:
    """Write a shard, compressed where its name says so; texts go as they are."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    content = "".join(text + "\n" for text in texts).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def kept_from(year: str) -> Keep:
    """Choose the papers of a year."""

    def keep(raw: pl.DataFrame) -> pl.Series:
        return (raw["year"] == year).fill_null(False)

    return keep


def read(
    datasets: Datasets, year: str | None = None, bucket_bytes: int = 1000
) -> tuple[dict[tuple[Path, int], Json], list[tuple[Path, int, str]], Counter[str]]:
    """Read shards; records by their place, rejects, counts (zeros left out).

    Texts are joined to papers of `year`, by default to all.
    """
    keep = None if year is None else kept_from(year)
    records: dict[tuple[Path, int], Json] = {}
    rejects: list[tuple[Path, int, str]] = []
    counts = Counter[str]()
    chosen = s2_bulk.Settings(keep=keep, bucket_bytes=bucket_bytes)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        for path, batch in s2_bulk.read(datasets, work, counts, chosen):
            assert dict(batch.records.schema) == RAW_SCHEMA
            assert dict(batch.rejects.schema) == shards.REJECTS
            for row in batch.records.iter_rows(named=True):
                assert (path, row["line"]) not in records
                records[path, row["line"]] = row
            rejects += [(path, line, why) for line, why, _ in batch.rejects.iter_rows()]
        left = [path for path in work.rglob("*") if path.is_file()]
        assert not left, "buckets are freed on the way"
    return records, sorted(rejects), +counts
