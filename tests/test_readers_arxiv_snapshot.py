"""arXiv's metadata snapshot: versions in any order, withdrawn papers, where papers appeared."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hindsight_fast.papers import read_papers
from reading import raw, rejects, write_json, write_lines

RECORD: dict[str, Any] = {
    "id": "2305.00001",
    "submitter": "Ada Bee",
    "authors": "Ada Bee, C. Dee Jr. and the E. Group",
    "title": "Graphs that learn\n  from others",
    "comments": "12 pages",
    "journal-ref": None,
    "doi": "10.1000/x",
    "report-no": None,
    "categories": "cs.LG cs.AI stat.ML",
    "license": "http://creativecommons.org/licenses/by/4.0/",
    "abstract": "  We let graphs learn from what others\nhave learnt before them.\n",
    "versions": [
        {"version": "v1", "created": "Mon, 1 May 2023 10:00:00 GMT"},
        {"version": "v2", "created": "Tue, 6 Feb 2024 11:00:00 GMT"},
    ],
    "update_date": "2024-02-07",
    "authors_parsed": [
        ["Bee", "Ada", ""],
        ["Dee", "C.", "Jr."],
        ["E. Group", "", "", "an institute"],
    ],
}


def one(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    changes = {name.replace("journal_ref", "journal-ref"): value for name, value in changes.items()}
    (paper,) = raw(write_lines(tmp_path / "a.json", [RECORD | changes]))
    return paper


def test_fields(tmp_path: Path) -> None:
    paper = one(tmp_path)
    paper["authors"] = [" ".join(name.split()) for name in paper["authors"]]
    assert paper == {
        "line": 1,
        "id": "arXiv:2305.00001",
        "arxiv_id": "2305.00001",
        "url": "https://arxiv.org/abs/2305.00001",
        "title": RECORD["title"],
        "abstract": RECORD["abstract"],
        "authors": ["Ada Bee", "C. Dee Jr.", "E. Group"],
        "venue": "arXiv",
        "doi": "10.1000/x",
        "field": "cs.LG; cs.AI; stat.ML",
        "kind": "preprint",
        "license": RECORD["license"],
        "first_public": "Mon, 1 May 2023 10:00:00 GMT",
        "revised": "Tue, 6 Feb 2024 11:00:00 GMT",
        "source": "arxiv",
    }


def version(number: int, day: str) -> dict[str, str]:
    return {"version": f"v{number}", "created": day}


@pytest.mark.parametrize(
    ("versions", "first", "last"),
    [
        ([version(1, "a")], "a", "a"),
        ([version(2, "b"), version(1, "a"), version(3, "c")], "a", "c"),
        ([version(n, str(n)) for n in (10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 11)], "1", "11"),
        ([version(2, "b"), version(3, "c")], None, "c"),  # the id's month says the first
        ([version(1, "a"), version(3, "c")], "a", "c"),
        ([{"version": "first", "created": "x"}], None, "x"),
        ([{"version": None}], None, "2024-02-07"),
        ([], None, "2024-02-07"),
        (None, None, "2024-02-07"),
    ],
)
def test_versions(tmp_path: Path, versions: Any, first: str | None, last: str) -> None:
    paper = one(tmp_path, versions=versions)
    assert (paper.get("first_public"), paper["revised"]) == (first, last)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"authors_parsed": [["Bee", None, ""], ["Dee"], []]}, ["Bee", "Dee", ""]),
        ({"authors_parsed": None}, ["Ada Bee", "C. Dee Jr.", "the E. Group"]),
        ({"authors_parsed": [], "authors": "Ada Bee, and C. Dee"}, ["Ada Bee", "C. Dee"]),
        ({"authors_parsed": None, "authors": None}, None),
    ],
)
def test_authors(tmp_path: Path, changes: dict[str, Any], names: list[str] | None) -> None:
    assert one(tmp_path, **changes).get("authors") == names


@pytest.mark.parametrize(
    ("journal_ref", "comments", "venue"),
    [
        (None, "Accepted at ICLR 2024", "ICLR 2024"),
        (None, "10 pages. To appear in NeurIPS 2023", "NeurIPS 2023"),
        (None, "Accepted at the ICLR 2024 Workshop on Graphs", "arXiv"),
        (None, "Submitted to ICML 2024", "arXiv"),
        (None, "Rejected from NeurIPS 2023", "arXiv"),
        (None, "To appear in a journal that nobody lists", "arXiv"),
        (None, "  ", "arXiv"),
        ("Some Journal 12 (2023) 34-56", None, "Some Journal"),
        ("Phys.Rev.D76:013009,2007", "12 pages", "Phys.Rev.D"),
    ],
)
def test_venue(tmp_path: Path, journal_ref: str | None, comments: str | None, venue: str) -> None:
    found = one(tmp_path, journal_ref=journal_ref, comments=comments)["venue"]
    assert found == venue


@pytest.mark.parametrize(
    ("comments", "withdrawn"),
    [
        ("This paper has been withdrawn by the author due to an error in Lemma 2", True),
        ("Withdrawn", True),
        ("this submission has been withdrawn by arXiv administrators", True),
        ("Withdrawn from ICML 2020 and resubmitted elsewhere", False),
        ("A study of withdrawn drugs", False),
        (None, False),
    ],
)
def test_withdrawn(tmp_path: Path, comments: str | None, withdrawn: bool) -> None:
    found = one(tmp_path, comments=comments).get("status")
    assert found == ("withdrawn" if withdrawn else None)


def test_rejects(tmp_path: Path) -> None:
    texts: list[object] = [
        RECORD,
        {"id": "1", "title": "Ours", "abstract": "x"},
        {"paperId": "a", "title": "x"},
        RECORD | {"versions": "v1"},
        RECORD | {"title": ["x", ["y"]]},
        {"error": "no"},
    ]
    found = rejects(write_lines(tmp_path / "a.jsonl", texts))
    assert sorted(found) == [2, 3, 4, 5, 6]
    for line, part in {
        2: "categories", 3: "a record of s2_graph", 4: "$.versions", 5: "title is no text",
        6: "an error answer",
    }.items():  # fmt: skip
        assert part in found[line]


def test_an_array_of_them(tmp_path: Path) -> None:
    assert len(raw(write_json(tmp_path / "a.json", [RECORD, RECORD], 1))) == 2


def test_papers_of_it(tmp_path: Path) -> None:
    old = RECORD | {"id": "cs/0601001v2", "versions": None, "title": "Another kind", "doi": None}
    path = write_lines(tmp_path / "snapshot", [RECORD, old])
    later, earlier = sorted(read_papers([path]).papers.to_dicts(), key=lambda paper: paper["id"])
    assert later["id"] == "arXiv:2305.00001" and later["title"] == "Graphs that learn from others"
    assert (later["date"], later["revised"]) == (date(2023, 5, 1), date(2024, 2, 6))
    assert (earlier["id"], earlier["arxiv_id"]) == ("arXiv:cs/0601001", "cs/0601001")
    assert (earlier["date"], earlier["date_precision"]) == (date(2006, 1, 1), "month")


def test_native_lines(shared: Path) -> None:
    (path,) = (shared / "data" / "raw" / "arxiv_kaggle").glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    found = raw(path)
    assert [paper["arxiv_id"] for paper in found] == [line["id"] for line in lines]
    assert all(
        paper["first_public"] == line["versions"][0]["created"]
        for paper, line in zip(found, lines, strict=True)
    )
    assert [paper["arxiv_id"] for paper in found if "status" in paper] == ["0704.0156"]
