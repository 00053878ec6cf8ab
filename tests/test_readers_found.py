"""Which reader a file gets, and what is said of a file that is something else."""

import gzip
import io
import json
import sqlite3
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from hindsight_fast.errors import DataError, UsageError
from hindsight_fast.papers import read_papers, readers
from hindsight_fast.papers.readers import streams
from hindsight_fast.papers.schema import PAPER_SCHEMA
from reading import raw, read, rejects, write_json, write_lines

OURS: dict[str, Any] = {"id": "1", "title": "In our own columns", "abstract": "Text.", "year": 2023}
S2: dict[str, Any] = {"paperId": "a" * 40, "title": "Of Semantic Scholar"}
WORK: dict[str, Any] = {"id": "https://openalex.org/W1", "title": "Of OpenAlex", "authorships": []}
ARXIV: dict[str, Any] = {
    "id": "2305.00001",
    "title": "Of arXiv",
    "categories": "cs.CL",
    "versions": [],
}
LISTED: dict[str, Any] = {"title": "Of a list", "author": "", "track": "main", "status": "Poster"}
KNOWN = {
    "s2_graph": S2, "openalex": WORK, "arxiv_snapshot": ARXIV, "paperlists": LISTED, "own": OURS,
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("shape", ["lines", "array", "pretty", "damaged first", "after others"])
def test_found_by_content(tmp_path: Path, name: str, shape: str) -> None:
    record = json.dumps(KNOWN[name])
    text = {
        "lines": f"{record}\n{record}\n",
        "array": f"[{record}, {record}]",
        "pretty": json.dumps([KNOWN[name]] * 2, indent=2),
        "damaged first": f'{{"titl\n{record}\n{record}\n',
        "after others": "\n".join([record, *(json.dumps(other) for other in KNOWN.values())]),
    }[shape]
    for file in ("a", "20240101_000_abc.gz"):
        path = tmp_path / file
        path.write_bytes(gzip.compress(text.encode()) if file.endswith("gz") else text.encode())
        assert readers.find(path, streams.head(path), "auto").name == name


@pytest.mark.parametrize("name", KNOWN)
def test_lines_of_other_formats_are_rejects(tmp_path: Path, name: str) -> None:
    """Each says what it looks like; with too many of them the file is refused."""
    others = [each for other, each in KNOWN.items() if other not in (name, "own")]
    path = write_lines(tmp_path / "a.jsonl", [KNOWN[name]] * 96 + others)
    found = rejects(path)
    assert sorted(found) == list(range(97, 97 + len(others)))
    named = [other for other in KNOWN if other not in (name, "own")]
    assert all(f"looks like a record of {other}" in found[97 + n] for n, other in enumerate(named))
    write_lines(path, [KNOWN[name], *others])
    with pytest.raises(DataError, match="looks like a record of"):
        read_papers([path])


def test_our_columns_by_force(tmp_path: Path) -> None:
    """Who names the format of his file means all of its lines."""
    path = write_lines(tmp_path / "a.jsonl", [ARXIV, ARXIV, S2])
    assert [batch.records.height for batch in read(path, "own")] == [2]
    assert "s2_graph" in rejects(path, "own")[3]


def test_a_name_is_believed(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a", [{"title": "Without what tells", "author": "Ada Bee"}])
    assert readers.find(path, streams.head(path), "auto").name == "own"
    assert raw(path, "paperlists")[0]["source"] == "paperlists"
    with pytest.raises(UsageError, match="no format 'word'; there are: auto, s2_graph, openalex"):
        read(path, "word")


@pytest.mark.parametrize("name", [name for name in KNOWN if name != "own"])
def test_a_name_that_the_file_contradicts(tmp_path: Path, name: str) -> None:
    for other, record in KNOWN.items():
        path = write_lines(tmp_path / "a.jsonl", [record])
        if other in (name, "own"):
            read(path, name)
            continue
        with pytest.raises(DataError, match=f"looks like {other}, not {name}"):
            read(path, name)


def _zip(inner: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(inner, "x")
    return packed.getvalue()


def _tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.jsonl"))
    return packed.getvalue()


def _sqlite(folder: Path) -> bytes:
    with sqlite3.connect(folder / "a.sqlite") as connection:
        connection.execute("CREATE TABLE papers (title TEXT)")
    connection.close()
    return (folder / "a.sqlite").read_bytes()


def _npy() -> bytes:
    packed = io.BytesIO()
    np.save(packed, np.zeros(3))
    return packed.getvalue()


LOGIN = (
    b"""\n<!-- 1 --><!DOCTYPE html>\n<html><head><title>\n Sign in, please </title></head></html>"""
)
DENIED = b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code><Message>no</Message></Error>'
ELSE: dict[str, tuple[bytes, str]] = {
    "page.html": (LOGIN, r"an HTML page \('Sign in, please'\)"),
    "papers.json": (LOGIN, "an HTML page"),
    "papers.jsonl.gz": (gzip.compress(LOGIN), "an HTML page"),
    "denied.gz": (DENIED, r"an error answer \(AccessDenied\)"),
    "feed.xml": (b'<?xml version="1.0"?><rss version="2.0"></rss>', "XML with the root <rss>"),
    "a.pdf": (b"%PDF-1.7 title, authors", "a PDF"),
    "a.zip": (_zip("papers.json"), "a ZIP archive"),
    "a.xlsx": (_zip("[Content_Types].xml"), "an Excel or Word file"),
    "a.tar": (_tar(), "a tar archive"),
    "a.tar.gz": (gzip.compress(_tar()), "a tar archive"),
    "a.gz": (gzip.compress(gzip.compress(b"x")), "compressed twice"),
    "a.jsonl.bz2": (b"BZh91AY&SY", "bzip2"),
    "a.npy": (_npy(), "a NumPy array"),
    "a.pkl": (b"\x80\x04\x95", "a Python pickle"),
    "lfs.jsonl": (b"version https://git-lfs.github.com/spec/v1\noid x\n", "Git LFS"),
    "cassette.yaml": (b"interactions:\n- request:\n    body: ''\n", "recorded HTTP traffic"),
}


@pytest.mark.parametrize("name", ELSE)
@pytest.mark.parametrize("format", ["auto", "own", "s2_graph"])
def test_what_is_no_table(tmp_path: Path, name: str, format: str) -> None:
    content, what = ELSE[name]
    path = tmp_path / name
    path.write_bytes(content)
    if format == "own" and name == "feed.xml":
        return  # a name is believed
    with pytest.raises(DataError, match=what) as error:
        read_papers([path], format=format)
    assert str(path) in str(error.value)


def test_a_database(tmp_path: Path) -> None:
    path = tmp_path / "papers"
    path.write_bytes(_sqlite(tmp_path))
    with pytest.raises(DataError, match="an SQLite database"):
        read_papers([path])


OTHER_JSON: dict[str, tuple[object, str]] = {
    "error of OpenAlex": (
        {"error": "Invalid query parameters error.", "message": "x is no field"},
        "an error answer",
    ),
    "error of Semantic Scholar": ({"message": "Too Many Requests", "code": "429"}, "Too Many"),
    "not found": ({"error": "Paper with id X not found"}, "Paper with id X not found"),
    "citations": ({"offset": 0, "data": [{"citingPaper": S2}]}, "citations or references"),
    "authors": ({"total": 1, "data": [{"authorId": "1", "name": "A"}]}, "authors"),
    "other entities": (
        {"meta": {}, "results": [{"id": "https://openalex.org/A1", "works_count": 1}]},
        "authors, sources or the like",
    ),
    "snapshot list": ({"entries": [], "meta": {}}, "the list of an OpenAlex snapshot's files"),
    "manifest": ({"format_version": 1, "kind": "store"}, "a manifest of this package"),
    "ideas": (
        [{"Name": "a", "Title": "b", "Experiment": "c", "Novelty": 5}],
        "a file of ideas",
    ),
    "our ideas": ({"id": "1", "title": "t", "problem": "p", "method": "m"}, "a file of ideas"),
    "scores": ({"idea_id": "1", "score": 0.5, "title": "t"}, "a table of ideas"),
    "vectors": ({"id": "1", "vector": [1, 2]}, "vectors of papers"),
    "a shard": ({"corpusid": 1, "model": "m", "text": "t"}, "a shard of the dataset 'tldrs'"),
}


@pytest.mark.parametrize("name", OTHER_JSON)
@pytest.mark.parametrize("indent", [None, 1])
def test_json_of_something_else(tmp_path: Path, name: str, indent: int | None) -> None:
    if name == "a shard" and indent:
        return
    content, what = OTHER_JSON[name]
    path = write_json(tmp_path / "a.json", content, indent)
    with pytest.raises(DataError, match=what):
        readers.find(path, streams.head(path), "auto")


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        (list(PAPER_SCHEMA), "the table of papers of a store"),
        (["file", "line", "reason", "record"], "a report of a store"),
        (["idea_id", "score", "best_title"], "a table of ideas"),
        (["idea_id", "rank", "paper_id", "similarity"], "a table of ideas"),
        (["paper_id", "vector"], "vectors of papers"),
    ],
)
def test_parquet_of_something_else(tmp_path: Path, columns: list[str], what: str) -> None:
    pl.DataFrame({name: ["x"] for name in columns}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=what):
        read_papers([tmp_path / "a.parquet"])


def test_ideas_among_papers(tmp_path: Path) -> None:
    idea = {"id": "2", "title": "t", "problem": "p", "method": "m"}
    path = write_lines(tmp_path / "a.jsonl", [OURS, idea, {"error": "gone"}])
    assert rejects(path) == {2: "looks like a file of ideas"}  # the third has no title, just so


def test_real_idea_files_are_no_papers(shared: Path) -> None:
    files = [*(shared / "data" / "ideas").glob("*.gz")]
    files += (shared / "data" / "raw" / "ideas_native").glob("ai*.json")
    assert len(files) == 6
    for path in files:
        with pytest.raises(DataError, match="ideas"):
            read_papers([path])
