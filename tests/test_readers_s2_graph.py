"""Answers of the Semantic Scholar Graph API, in every shape that they are kept in."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hindsight_fast.papers import read_papers
from reading import raw, read, rejects, write_json, write_lines

FULL: dict[str, Any] = {
    "paperId": "a" * 40,
    "externalIds": {"DOI": "10.1000/Abc", "ArXiv": "2305.00001", "CorpusId": 7, "MAG": "9"},
    "url": "https://www.semanticscholar.org/paper/" + "a" * 40,
    "title": "Graphs that learn",
    "abstract": "We let graphs learn from what other graphs have learnt before them.",
    "venue": "Neural Information Processing Systems",
    "publicationVenue": {"id": "v", "name": "Another name", "type": "conference"},
    "journal": {"name": "A journal", "volume": "3"},
    "year": 2023,
    "publicationDate": "2023-12-10",
    "publicationTypes": ["JournalArticle", "Review"],
    "citationCount": 12,
    "fieldsOfStudy": ["Physics"],
    "s2FieldsOfStudy": [
        {"category": "Computer Science", "source": "external"},
        {"category": "Computer Science", "source": "s2-fos-model"},
        {"category": "Mathematics", "source": "s2-fos-model"},
    ],
    "tldr": {"model": "m", "text": "Graphs learn."},
    "openAccessPdf": {"url": "x"},
    "authors": [{"authorId": "1", "name": "Ada Bee"}, {"authorId": None, "name": "C. Dee"}],
}
BARE: dict[str, Any] = {"paperId": "b" * 40, "title": "Only a title, for now"}
NULLS: dict[str, Any] = dict.fromkeys(FULL) | {
    "paperId": "c" * 40,
    "title": "Nulls all over",
}

EXPECTED: dict[str, Any] = {
    "line": 1,
    "id": "CorpusId:7",
    "corpus_id": "7",
    "doi": "10.1000/Abc",
    "arxiv_id": "2305.00001",
    "url": FULL["url"],
    "title": FULL["title"],
    "abstract": FULL["abstract"],
    "venue": "Neural Information Processing Systems",
    "year": "2023",
    "date": "2023-12-10",
    "kind": "JournalArticle; Review",
    "field": "Computer Science; Mathematics",
    "tldr": "Graphs learn.",
    "authors": ["Ada Bee", "C. Dee"],
    "citations": "12",
    "citations_source": "s2",
    "source": "s2",
}


def test_fields(tmp_path: Path) -> None:
    first, second, third = raw(write_lines(tmp_path / "a.jsonl", [FULL, BARE, NULLS]))
    assert first == EXPECTED
    assert second == {"line": 2, "id": "b" * 40, "title": BARE["title"], "source": "s2"}
    assert third == {"line": 3, "id": "c" * 40, "title": NULLS["title"], "source": "s2"}


def test_what_stands_in(tmp_path: Path) -> None:
    papers: list[object] = [
        FULL | {"venue": "", "externalIds": None, "corpusId": 8, "s2FieldsOfStudy": []},
        FULL | {"venue": None, "publicationVenue": None, "externalIds": {"CorpusId": "9"}},
        FULL
        | {"venue": None, "publicationVenue": {"name": None}, "journal": {}, "citationCount": 0},
        FULL | {"authors": [None, {"name": None}, {"name": "E. Ef"}], "year": "2023"},
    ]
    first, second, third, fourth = raw(write_lines(tmp_path / "a", papers))
    assert (first["venue"], first["id"], first["field"]) == (
        "Another name",
        "CorpusId:8",
        "Physics",
    )
    assert (second["venue"], second["id"]) == ("A journal", "CorpusId:9")
    assert "venue" not in third and third["citations"] == "0"
    assert fourth["authors"] == ["E. Ef"] and fourth["year"] == "2023"


SHAPES: dict[str, Any] = {
    "search": {"total": 2, "offset": 0, "next": 2, "data": [FULL, BARE]},
    "bulk": {"total": 2, "token": "T", "data": [FULL, BARE]},
    "match": {"data": [FULL, BARE]},
    "batch": [FULL, BARE],
    "recommended": {"recommendedPapers": [FULL, BARE]},
    "answers in an array": [{"total": 1, "data": [FULL]}, {"total": 1, "data": [BARE]}],
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["answer.json", "answer", "answer.jsonl"])
def test_shapes(tmp_path: Path, shape: str, indent: int | None, name: str) -> None:
    if indent and name.endswith("l"):
        return  # no line of it is JSON
    found = raw(write_json(tmp_path / name, SHAPES[shape], indent))
    assert [paper["title"] for paper in found] == [FULL["title"], BARE["title"]]
    assert {**found[0], "line": 1} == EXPECTED


def test_many_answers(tmp_path: Path) -> None:
    answers: list[Any] = [
        SHAPES["search"],
        {"total": 0, "offset": 0, "data": []},
        SHAPES["batch"],
        FULL,
    ]
    found = raw(write_lines(tmp_path / "a.jsonl", answers))
    assert [paper["line"] for paper in found] == [1, 1, 3, 3, 4]
    pretty = tmp_path / "pretty.json"
    pretty.write_text("\n".join(json.dumps(answer, indent=1) for answer in answers))
    assert [paper["line"] for paper in raw(pretty)] == [1, 2, 3, 4, 5]


def test_rejects(tmp_path: Path) -> None:
    path = write_json(tmp_path / "batch.json", [FULL, None, BARE, {"title": "no id"}, 3])
    assert list(rejects(path)) == [2, 4, 5]
    assert rejects(path)[2] == "null: no record was found for it"
    texts: list[object] = [
        BARE,
        {"message": "Too Many Requests", "code": "429"},
        {"id": "https://openalex.org/W1", "display_name": "x", "authorships": []},
        {"corpusid": 1, "externalids": {}, "title": "x", "citationcount": 0},
        BARE | {"authors": "Ada Bee"},
        BARE | {"title": {"text": "x"}},
        {"data": [{"citingPaper": BARE}]},
    ]
    found = rejects(write_lines(tmp_path / "a.jsonl", texts))
    assert sorted(found) == [2, 3, 4, 5, 6, 7]
    for line, part in {
        2: "an error answer ('Too Many Requests')", 3: "a record of openalex", 4: "'papers'",
        5: "$.authors", 6: "title is no text", 7: "citations or references",
    }.items():  # fmt: skip
        assert part in found[line]


def test_title_is_needed_only_to_be_a_paper(tmp_path: Path) -> None:
    """Answers asked for without titles are no papers, and each record says so."""
    path = write_lines(tmp_path / "a.jsonl", [BARE, {"paperId": "d" * 40, "citationCount": 3}])
    table = read_papers([path], max_bad=0.5)
    assert table.counts["n_in"] == 2 and table.rejects["reason"].to_list() == ["no title"]


def test_native_answers(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "raw" / "s2_graph_api"
    found = raw(folder / "paper_search_2023-03-05.json")
    assert len(found) == 10
    assert all(paper["id"] == f"CorpusId:{paper['corpus_id']}" for paper in found)
    assert raw(folder / "vcr_PaperWithNullValues.json")[0]["id"].startswith("2d5673ca")
    n = 0
    for cassette in sorted(folder.glob("*.yaml")):
        n += 1
        text = cassette.read_text()
        quoted = re.search(r"(?:string|content): '((?:[^']|'')*)'", text)
        assert quoted is not None
        folded = re.sub(r"\n\s*\n\s*", "\x00", quoted.group(1).replace("''", "'"))
        body = re.sub(r"\s*\n\s*", " ", folded).replace("\x00", "\n")
        path = tmp_path / f"{cassette.stem}.json"
        path.write_text(body)
        answer = json.loads(body)
        papers = answer.get("data", answer.get("recommendedPapers", [answer]))
        assert sum(batch.records.height for batch in read(path)) == len(papers)
    assert n == 6
