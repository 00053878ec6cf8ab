"""Which bulk dataset a shard of Semantic Scholar's releases belongs to."""

import json
from pathlib import Path

import pytest

from hindsight_fast.papers.readers import streams
from hindsight_fast.papers.readers.s2_shards import s2_dataset

RECORDS: dict[str, dict[str, object]] = {
    "papers": {
        "corpusid": 1, "externalids": {"DOI": None}, "url": "u", "title": "T", "authors": [],
        "venue": "", "publicationvenueid": None, "year": 2023, "citationcount": 0, "journal": None,
    },
    "abstracts": {"corpusid": 1, "openaccessinfo": {"license": None}, "abstract": "A."},
    "citations": {"citingcorpusid": "1", "citedcorpusid": "2", "isinfluential": False},
    "publication-venues": {
        "id": "v", "alternate_issns": [], "alternate_names": [], "name": "V", "type": "journal",
    },
    "paper-ids": {"sha": "0" * 40, "corpusid": 1, "primary": True},
    "tldrs": {"corpusid": 1, "model": "m", "text": "In short."},
    "embeddings": {"corpusid": 1, "model": "m", "vector": "[0.5, 1.5]"},
    "authors": {"authorid": "1", "name": "A B", "papercount": 3, "externalids": None},
    "s2orc": {"corpusid": 1, "externalids": {}, "content": {"text": "..."}},
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_told_by_keys(name: str) -> None:
    line = json.dumps(RECORDS[name]).encode()
    assert s2_dataset(line + b"\n") == name
    assert s2_dataset(b"\xef\xbb\xbf{\n" + line + b"\n" + line[:20]) == name
    assert s2_dataset(line[:-2]) == name  # cut in its last value


def test_others_are_none() -> None:
    graph: dict[str, object] = {"paperId": "0" * 40, "corpusId": 1, "externalIds": {}, "title": "T"}
    graph |= {"citationCount": 1}
    others: tuple[object, ...] = (
        graph,
        {"id": "1", "title": "T", "abstract": "A", "corpus_id": 1},
        [1],
        "x",
    )
    for other in others:
        assert s2_dataset(json.dumps(other).encode()) is None
    for head in (b"", b"id,title\n1,corpusid\n", b"\x00\xff", b"[" * 9999, b"{" * 9999):
        assert s2_dataset(head) is None


def test_real_shards(shared: Path) -> None:
    folder = shared / "data" / "raw" / "s2_bulk"
    shards = [path for path in folder.rglob("*-sample.*") if path.is_file()]
    assert len(shards) == 7
    for path in shards:
        assert s2_dataset(streams.head(path)) == path.parent.name
