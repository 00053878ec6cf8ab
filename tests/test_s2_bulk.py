"""Joining Semantic Scholar's bulk shards on disk."""

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bulk_shards import Datasets, Json, abstract, edge, kept_from, paper, read, write
from hindsight_fast.errors import DataError
from hindsight_fast.papers import gather, s2_bulk
from hindsight_fast.papers.readers import streams
from hindsight_fast.papers.s2_bulk import rows, shards


def one(datasets: Datasets, **more: Any) -> Json:
    """Read shards of which one paper comes."""
    (record,) = read(datasets, **more)[0].values()
    return record


def test_a_paper_at_its_native_shape(tmp_path: Path) -> None:
    ids = {"ACL": None, "ArXiv": "2305.00001", "CorpusId": "7", "DOI": "10.1/x"}
    datasets = {
        "papers": [
            write(
                tmp_path / "part-0",
                [paper(7, citationcount=12, externalids=ids, publicationvenueid="v")],
            )
        ],
        "abstracts": [
            write(
                tmp_path / "part-1.gz",
                [
                    abstract(8, "Of no paper."),
                    abstract("7", "We show.")
                    | {
                        "openaccessinfo": {
                            "externalids": None,
                            "license": "CCBY",
                            "url": "http://x",
                        }
                    },
                ],
            )
        ],
        "tldrs": [
            write(tmp_path / "t", [{"corpusid": 7, "model": "tldr@v2.0.0", "text": "Shown."}])
        ],
        "publication-venues": [write(tmp_path / "v", [{"id": "v", "name": "ICLR", "type": None}])],
    }
    assert one(datasets) == {
        "line": 1,
        "id": "CorpusId:7",
        "title": "On 7",
        "abstract": "We show.",
        "authors": ["Ada Bee", "C. Dee"],
        "venue": "ICLR",
        "year": "2023",
        "date": "2023-05-04",
        "first_public": None,
        "revised": None,
        "citations": "12",
        "citations_source": "s2",
        "citations_as_of": "2024-03-01",
        "citations_dated": None,
        "doi": "10.1/x",
        "arxiv_id": "2305.00001",
        "corpus_id": "7",
        "field": "Computer Science; Biology",
        "kind": "Review; JournalArticle",
        "language": None,
        "tldr": "Shown.",
        "license": "CCBY",
        "url": "https://www.semanticscholar.org/paper/7",
        "source": "s2",
        "status": None,
    }
    assert read(datasets)[2] == {
        "s2_abstracts": 2,
        "s2_abstracts_joined": 1,
        "s2_abstracts_unknown": 1,
        "s2_tldrs": 1,
        "s2_tldrs_joined": 1,
    }


def test_citations_are_dated_by_who_cites(tmp_path: Path) -> None:
    citing = [
        paper(2, publicationdate="2023-05-04"),
        paper(3, publicationdate="2023-05-30"),
        paper(4, publicationdate=None, year=2023),
        paper(5, publicationdate=None, year=None),
    ]
    cited = [
        paper(1, citationcount=3),
        paper(11, citationcount=0),
        paper(12, citationcount=4),
        paper(13, citationcount=None),
        paper(14, citationcount=1),
    ]
    edges = [edge("2", "1"), edge("2", "1"), edge("3", "1"), edge("4", "1")]
    few_dated = [edge("2", "12"), edge("5", "12"), edge("99", "12"), edge("2", None)]
    datasets = {
        "papers": [write(tmp_path / "papers", [*citing, *cited])],
        "citations": [write(tmp_path / "one", edges), write(tmp_path / "two.gz", few_dated)],
    }
    records, _, counts = read(datasets)
    assert {row["corpus_id"]: row["citations_dated"] for row in records.values()} == {
        "1": "1800:0 2023:1 2023-05:2",  # each citing paper once, though the pair comes twice
        "11": "1800:0",  # cited by nobody, which is known
        "12": None,  # who cites it is known of one in four
        "13": None,
        "14": None,  # shards of citations are missing
        **dict.fromkeys(["2", "3", "4", "5"], "1800:0"),
    }
    assert counts == {
        "s2_citations": 8,
        "s2_citations_half": 1,
        "s2_citations_repeated": 1,
        "s2_citations_joined": 6,
        "s2_citations_unknown": 1,
        "s2_citations_undated": 1,
        "s2_partly_dated": 2,
    }


def test_of_what_is_left_out_no_text_is_written(tmp_path: Path) -> None:
    noise = [f"{number:x}" for number in range(10_000)]
    papers = [paper(number, year=2022) for number in range(1, 200)]
    texts = [abstract(number, " ".join(noise[number * 50 :][:50])) for number in range(1, 200)]
    datasets = {
        "papers": [write(tmp_path / "papers", [paper(1000), *papers])],
        "abstracts": [write(tmp_path / "abstracts", [abstract(1000, "Kept."), *texts])],
    }
    sizes: list[int] = []
    for keep in (None, kept_from("2023")):
        work = tmp_path / f"work-{len(sizes)}"
        for path, batch in s2_bulk.read(datasets, work, Counter(), s2_bulk.Settings(keep=keep)):
            assert path.name == "papers"
            abstracts = dict(batch.records.select("id", "abstract").iter_rows())
            assert abstracts["CorpusId:1000"] == "Kept."
            assert (abstracts["CorpusId:7"] is None) == (keep is not None)
            break
        sizes.append(sum(path.stat().st_size for path in work.rglob("*") if path.is_file()))
    assert read(datasets, "2023", 1 << 20)[2]["s2_abstracts_joined"] == 1


def test_values_of_another_type_are_unknown_and_counted(tmp_path: Path) -> None:
    odd = paper(
        "7",
        journal="Acta",
        authors=[{"name": 5}],
        s2fieldsofstudy={"category": "Law"},
        year="2023",
        citationcount=4.0,
        publicationtypes=[3],
        title="A \ud83d title",  # half of a pair
    )
    records, _, counts = read({"papers": [write(tmp_path / "papers", [odd])]})
    (found,) = records.values()
    assert found["title"].startswith("A ") and found["title"].endswith(" title")
    assert (found["year"], found["citations"], found["corpus_id"]) == ("2023", "4.0", "7")
    assert (found["authors"], found["field"], found["kind"], found["venue"]) == (None,) * 4
    assert counts == dict.fromkeys(
        [
            f"malformed_{key}"
            for key in ("journal", "authors", "s2fieldsofstudy", "publicationtypes")
        ],
        1,
    )


def test_lines_that_are_no_record_are_rejects_of_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LONGEST_LINE", 2000)
    monkeypatch.setattr(shards, "_BLOCK_BYTES", 64)
    deep = '{"title": ' + "[" * 5000 + "]" * 5000 + "}"
    papers = write(tmp_path / "p", [paper(1), deep, paper(2, title="t" * 3000), "[]", paper(3)])
    papers.write_bytes(b"\xef\xbb\xbf" + papers.read_bytes() + b'{"title": "\xff"}')
    texts = write(tmp_path / "a.gz", [abstract(1, "A."), abstract(None, "B."), "{"])
    records, rejects, _ = read({"papers": [papers], "abstracts": [texts]})
    assert sorted(records) == [(papers, 1), (papers, 5)]
    assert [(path.name, line) for path, line, _ in rejects] == [
        ("a.gz", 2),
        ("a.gz", 3),
        ("p", 2),
        ("p", 3),
        ("p", 4),
        ("p", 6),
    ]
    reasons = [why for *_, why in rejects]
    assert reasons[0] == "no corpusid"
    assert "longer than 2000 bytes" in reasons[3]
    assert "UTF-8" in reasons[5]


def test_a_limit_is_on_each_shard_of_papers(tmp_path: Path) -> None:
    datasets = {
        "papers": [
            write(tmp_path / name, ["{", *(paper(first + n) for n in range(5))])
            for name, first in (("one", 10), ("two", 20))
        ],
        "abstracts": [write(tmp_path / "a", [abstract(n, "A.") for n in range(1, 30)])],
    }
    found = list(s2_bulk.read(datasets, tmp_path / "work", Counter(), s2_bulk.Settings(limit=3)))
    records = pl.concat(batch.records for _, batch in found)
    assert sorted(records["corpus_id"]) == ["10", "11", "20", "21"]
    assert records["abstract"].to_list() == ["A."] * 4
    assert sum(batch.rejects.height for _, batch in found) == 2


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("2024-03-12/papers/part-0.gz", "2024-03-12"),
        ("papers-2024-03-12/20240314_0", "2024-03-12"),
        ("papers/20240315_071025_00151_3g69z", "2024-03-15"),
        ("20240315/papers/part-0", None),
        ("papers/part-20241315-7", None),
        ("2024-03-12/a/b/c/part", None),
    ],
)
def test_the_release_is_named_by_files_and_folders(path: str, day: str | None) -> None:
    assert rows.release_day(Path("/data", path)) == day


def test_other_shards_make_no_papers(tmp_path: Path) -> None:
    shard = write(tmp_path / "a.gz", [])
    with pytest.raises(DataError, match=r"a\.gz.* abstracts, .* shards of the papers dataset"):
        s2_bulk.check({"abstracts": [shard], "papers": []})
    with pytest.raises(DataError, match="embed --from-vectors"):
        s2_bulk.check({"embeddings": [shard]})
    s2_bulk.check({"papers": [shard], "embeddings": [shard]})


def test_shards_of_no_use_are_counted(tmp_path: Path) -> None:
    datasets = {
        "papers": [write(tmp_path / "p", [paper(1)])],
        "embeddings": [write(tmp_path / name, []) for name in "ab"],
    }
    assert read(datasets)[2] == {"unused_embeddings": 2}


def test_hashes_are_named_by_corpus_id(tmp_path: Path) -> None:
    hashes = [letter * 40 for letter in "abcd"]
    lines: list[Json | str] = [
        {"sha": hashes[0], "corpusid": 1, "primary": True},
        {"sha": hashes[1], "corpusid": "1", "primary": False},
        "{",
        {"sha": hashes[2], "corpusid": None, "primary": True},
    ]
    shard = write(tmp_path / "ids.gz", lines)
    more = write(tmp_path / "more", [{"sha": hashes[3], "corpusid": 4, "primary": True}])
    wanted = pl.Series([hashes[1].upper(), hashes[2], hashes[0], "e" * 40, None])
    found = s2_bulk.corpus_ids([shard, more], wanted)
    assert found.rows() == [(hashes[0], 1), (hashes[1], 1)]
    assert s2_bulk.corpus_ids([], wanted).schema == found.schema


def test_answers_of_the_api_are_named_by_shards_of_paper_ids(tmp_path: Path) -> None:
    hashes = [letter * 40 for letter in "abc"]
    answers: list[Json | str] = [
        {"paperId": hashes[0], "title": "A name of its own", "year": 2023, "abstract": None},
        {"paperId": hashes[1], "corpusId": 8, "title": "Known", "year": 2023, "abstract": None},
        {"paperId": hashes[2], "title": "Unknown", "year": 2023, "abstract": None},
    ]
    ids: list[Json | str] = [
        {"sha": hashes[0], "corpusid": 7, "primary": False},
        {"sha": hashes[1], "corpusid": 9, "primary": True},
    ]
    sources = [
        write(tmp_path / "answers.jsonl", answers),
        write(tmp_path / "ids", ids),
        write(tmp_path / "papers", [paper(7)]),
    ]
    for count in (3, 2):  # with shards of papers, and without
        (work := tmp_path / f"work-{count}").mkdir()
        found = gather(sources[:count], work)
        papers = pl.concat(found.parts()).sort("id")
        assert papers["id"].to_list() == ["CorpusId:7", "CorpusId:8", hashes[2]]
        assert papers["n_records"].to_list() == [count - 1, 1, 1]
        assert found.counts["s2_paper_ids"] == 1
