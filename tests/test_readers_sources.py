"""Which files of a folder are sources: by name or by content, and what is left alone."""

import gzip
import json
import os
from pathlib import Path

import pytest

from hindsight_fast.errors import DataError
from hindsight_fast.papers import read_papers
from hindsight_fast.papers.sources import find_files

OURS = b'{"id": "1", "title": "In our own columns"}\n'
WORK = b'{"id": "https://openalex.org/W1", "title": "Of OpenAlex", "authorships": []}\n'
ABSTRACT = b'{"corpusid": 1, "openaccessinfo": {}, "abstract": "Text."}\n'
BIB = b"@article{a, title = {Of BibTeX}, author = {Bee, Ada}}\n"


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def found(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in find_files([folder])]


def test_a_release_of_shards(tmp_path: Path) -> None:
    meant = {
        "abstracts/20240101_000_abc.gz": ABSTRACT,
        "abstracts/part-00001": ABSTRACT,
        "papers/papers-part0.jsonl.gz": OURS,
        "works/updated_date=2024-01-01/part_000.gz": WORK,
        "snapshot/arxiv-metadata-oai-snapshot.json": OURS,
        "more/a.CSV": b"id,title\n1,a\n",
        "more/a.ndjson": OURS,
        "more/refs.bib": BIB,
        "more/2022.acl.xml": b"<collection id='2022.acl'></collection>",
        "more/x.parquet": b"PAR1",
    }
    put(tmp_path, meant)
    left = {
        "README.txt": BIB,
        "abstracts/README.txt": BIB,
        "README": b"About these.\n",
        "LICENSE": b"Free.\n",
        "works/manifest": b'{"entries": [{"url": "x"}], "meta": {"title": "x"}}',
        "works/updated_date=2024-01-01/_SUCCESS": b"",
        "abstracts/.part-00002.crc": b"\x00",
        "abstracts/part-00003.gz.part": OURS,
        "notes.md": b"# title, abstract\n",
        "table_of_numbers": b"1,2\n",
        "settings": b'{"colour": "blue"}',
        "picture.gz": b"\x89PNG\r\n",
        "data.sqlite": b"SQLite format 3\x00",
        ".hidden/a.jsonl": OURS,
    }
    put(tmp_path, left)
    assert found(tmp_path) == sorted(meant)


def test_a_damaged_shard_is_not_passed_over(tmp_path: Path) -> None:
    put(tmp_path, {"part_000.gz": WORK})
    (tmp_path / "part_001.gz").write_bytes(gzip.compress(WORK * 999)[:-9])
    (tmp_path / "part_002.gz").write_bytes(b"")
    (tmp_path / "part_003.jsonl").symlink_to(tmp_path / "nowhere")
    assert found(tmp_path) == [f"part_00{n}.gz" for n in range(3)] + ["part_003.jsonl"]
    with pytest.raises(DataError, match=r"part_00[123]"):
        read_papers([tmp_path])


@pytest.mark.parametrize("kind", ["store", "pool", "run"])
def test_what_this_package_made_is_no_source(tmp_path: Path, kind: str) -> None:
    manifest = json.dumps({"format_version": 1, "kind": kind}).encode()
    put(tmp_path, {"made/manifest.json": manifest, "made/papers.jsonl": OURS, "a.jsonl": OURS})
    assert found(tmp_path) == ["a.jsonl"]
    with pytest.raises(DataError, match="is what this package made"):
        find_files([tmp_path / "made"])
    put(tmp_path, {"other/manifest.json": b'{"files": []}', "other/b.jsonl": OURS})
    assert found(tmp_path) == ["a.jsonl", "other/b.jsonl", "other/manifest.json"]


def test_each_file_once(tmp_path: Path) -> None:
    put(tmp_path, {"a/x.jsonl": OURS, "b/y.jsonl": OURS})
    (tmp_path / "b" / "link.jsonl").symlink_to(tmp_path / "a" / "x.jsonl")
    sources = [tmp_path / "a" / "x.jsonl", tmp_path, tmp_path / "b" / ".." / "b" / "y.jsonl"]
    files = find_files(sources)
    assert [os.path.realpath(path) for path in files] == [
        str((tmp_path / "a" / "x.jsonl").resolve()),
        str((tmp_path / "b" / "y.jsonl").resolve()),
    ]


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    try:
        Path(os.fsdecode(folder + b"/caf\xe9.jsonl")).write_bytes(OURS)
    except OSError as error:
        pytest.skip(f"this file system takes no such name: {error}")
    with pytest.raises(DataError, match=r"caf\\xe9.jsonl' is no name in UTF-8"):
        find_files([tmp_path])


def test_a_folder_without_papers(tmp_path: Path) -> None:
    put(tmp_path, {"README.md": b"x", "settings": b'{"colour": "blue"}'})
    with pytest.raises(DataError, match="is a folder without files of papers"):
        find_files([tmp_path])


def test_the_shards_as_they_come(shared: Path) -> None:
    folder = shared / "data" / "raw" / "s2_bulk"
    assert len(find_files([folder])) == 7
