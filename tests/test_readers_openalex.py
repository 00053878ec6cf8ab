"""Works of OpenAlex: snapshot lines, pages, single works; abstracts from hostile indexes."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight_fast.papers import read_papers
from hindsight_fast.papers.readers import openalex
from reading import raw, read, rejects, write_json, write_lines

ARXIV: dict[str, Any] = {
    "landing_page_url": "http://arxiv.org/abs/2305.00001",
    "source": {"display_name": "arXiv (Cornell University)", "type": "repository"},
    "version": "submittedVersion",
    "license": "cc-by",
}
JOURNAL: dict[str, Any] = {
    "landing_page_url": "https://doi.org/10.1000/x",
    "source": {"display_name": "Journal of Machine Learning Research", "type": "journal"},
    "version": "publishedVersion",
    "license": "cc-by-nc",
}
HAL: dict[str, Any] = {
    "landing_page_url": "https://hal.example/1",
    "source": {"display_name": "HAL of some university", "type": "repository"},
    "version": "acceptedVersion",
}
WORK: dict[str, Any] = {
    "id": "https://openalex.org/W123",
    "doi": "https://doi.org/10.1000/X",
    "title": "Graphs that learn",
    "display_name": "Graphs that learn",
    "publication_year": 2023,
    "publication_date": "2023-07-04",
    "ids": {"openalex": "https://openalex.org/W123", "doi": "https://doi.org/10.1000/x"},
    "language": "en",
    "primary_location": JOURNAL,
    "locations": [JOURNAL, ARXIV],
    "type": "article",
    "type_crossref": "journal-article",
    "authorships": [
        {"author": {"display_name": "Ada Bee"}, "institutions": [{"display_name": "U"}]},
        {"author": {"display_name": None}, "raw_author_name": "C. Dee"},
    ],
    "cited_by_count": 8,
    "counts_by_year": [
        {"year": 2026, "cited_by_count": 5}, {"year": 2024, "cited_by_count": 3},
    ],
    "is_retracted": False,
    "is_paratext": False,
    "primary_topic": {
        "display_name": "Graph Networks",
        "subfield": {"display_name": "Artificial Intelligence"},
        "field": {"display_name": "Computer Science"},
    },
    "topics": [{"display_name": "Graph Networks"}, {"display_name": "Optimisation"}],
    "concepts": [{"display_name": "Wide", "level": 0}, {"display_name": "Narrow", "level": 4}],
    "abstract_inverted_index": {"Graphs": [0, 4], "learn": [1, 5], "and": [3], "fast.": [2]},
    "updated_date": "2026-02-01T03:04:05.678",
}  # fmt: skip


def one(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    (paper,) = raw(write_lines(tmp_path / "part_000", [WORK | changes]))
    return paper


def test_fields(tmp_path: Path) -> None:
    assert one(tmp_path) == {
        "line": 1,
        "id": "W123",
        "title": "Graphs that learn",
        "abstract": "Graphs learn fast. and Graphs learn",
        "authors": ["Ada Bee", "C. Dee"],
        "venue": "Journal of Machine Learning Research",
        "year": "2023",
        "date": "2023-07-04",
        "citations": "8",
        "citations_source": "openalex",
        "citations_as_of": "2026-02-01T03:04:05.678",
        "citations_dated": "2023:0 2024:3 2025:0 2026:5",
        "doi": "https://doi.org/10.1000/X",
        "arxiv_id": "http://arxiv.org/abs/2305.00001",
        "field": "Computer Science; Artificial Intelligence; Graph Networks; Optimisation",
        "kind": "article; journal-article",
        "language": "en",
        "license": "cc-by-nc",
        "url": "https://doi.org/10.1000/x",
        "source": "openalex",
    }


def test_where_a_work_is(tmp_path: Path) -> None:
    def told(**changes: Any) -> tuple[Any, Any]:
        paper = one(tmp_path, **changes)
        return paper.get("venue"), paper.get("kind")

    article = {"type_crossref": None}
    assert told(primary_location=ARXIV, locations=[ARXIV, JOURNAL], **article)[0] == (
        "Journal of Machine Learning Research"
    )
    preprint = "article; preprint"
    assert told(primary_location=ARXIV, locations=[ARXIV], **article) == (
        "arXiv (Cornell University)", preprint,
    )  # fmt: skip
    assert told(primary_location=HAL, locations=[HAL], **article) == (None, preprint)
    assert (
        told(primary_location=HAL, locations=None, type="dataset")[1] == "dataset; journal-article"
    )
    assert told(primary_location=None, locations=[None], **article) == (None, "article")
    in_review = JOURNAL | {"version": "submittedVersion"}
    assert told(primary_location=in_review, locations=[in_review], **article)[0] is None
    assert told(primary_location={"source": None}, locations=[], **article) == (None, "article")


def test_older_works(tmp_path: Path) -> None:
    old = {
        name: value for name, value in WORK.items() if name not in ("primary_location", "locations")
    }
    old["host_venue"] = {"display_name": "ICML", "type": "conference", "url": "https://x.example",
                         "license": "cc0", "version": "publishedVersion"}  # fmt: skip
    old["alternate_host_venues"] = [None, {"url": "https://arxiv.org/pdf/2305.00002"}]
    old["topics"] = old["primary_topic"] = None
    old["title"] = None
    (paper,) = raw(write_lines(tmp_path / "part_000", [old]))
    assert (paper["venue"], paper["url"], paper["license"]) == ("ICML", "https://x.example", "cc0")
    assert paper["arxiv_id"].endswith("2305.00002") and paper["field"] == "Wide"
    assert paper["title"] == "Graphs that learn"


def test_dates_and_states(tmp_path: Path) -> None:
    paper = one(tmp_path, publication_date="2023-01-01")
    assert "date" not in paper and paper["year"] == "2023"
    assert one(tmp_path, is_retracted=True, is_paratext=True)["status"] == "retracted"
    assert one(tmp_path, is_paratext=True)["status"] == "paratext"
    assert one(tmp_path, type="paratext")["status"] == "paratext"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"counts_by_year": None}, None),
        ({"counts_by_year": []}, None),  # cited, but before the years that are told
        ({"counts_by_year": [], "cited_by_count": 0}, "2023:0"),
        ({"counts_by_year": [], "cited_by_count": 0, "publication_year": None}, None),
        ({"cited_by_count": 20}, "2024:3 2025:0 2026:5"),
        ({"counts_by_year": [{"year": 2022, "cited_by_count": 8}]}, "2022:8 2023:0"),
        ({"counts_by_year": [{"year": 10**9, "cited_by_count": 8}]}, None),
        ({"counts_by_year": [{"year": 2024, "cited_by_count": -8}]}, None),
        ({"cited_by_count": None}, "2024:3 2025:0 2026:5"),
    ],
)
def test_citations_by_year(tmp_path: Path, changes: dict[str, Any], expected: str | None) -> None:
    assert one(tmp_path, **changes).get("citations_dated") == expected


def test_citations_unknown(tmp_path: Path) -> None:
    paper = one(tmp_path, cited_by_count=None)
    assert not {"citations", "citations_source", "citations_as_of"} & paper.keys()


words = st.lists(st.sampled_from(["a", "graph", "learns", "été", "x"]), min_size=1, max_size=40)


@given(words, st.randoms(use_true_random=False))
def test_an_abstract_comes_back(text: list[str], shuffled: random.Random) -> None:
    index: dict[str, list[int]] = {}
    for place, word in enumerate(text):
        index.setdefault(word, []).append(place)
    items = list(index.items())
    shuffled.shuffle(items)
    assert openalex.plain({word: places[::-1] for word, places in items}) == " ".join(text)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ({"a": [0], "c": [7]}, "a c"),
        ({"a": [0, 0], "b": [1]}, "a b"),
        ({"a": [0], "b": []}, "a"),
        ({"a": [10**12]}, None), ({"a": [-1], "b": [0]}, None), ({"a": [0.5]}, None),
        ({"a": ["0"]}, None), ({"a": 0}, None), ({"a": {"b": 0}}, None), ({"a": [[0]]}, None),
        ({"a": [None]}, None), (["a"], None), ("text", None), (7, None), ({"a": "0"}, None),
        ({"a": []}, None),
    ],
)  # fmt: skip
def test_odd_indexes(tmp_path: Path, index: Any, text: str | None) -> None:
    path = write_lines(tmp_path / "part_000", [WORK | {"abstract_inverted_index": index}, WORK])
    (batch,) = read(path)
    assert batch.records["abstract"].to_list() == [text, "Graphs learn fast. and Graphs learn"]
    assert batch.malformed == {"abstract": int(text is None)}


def test_a_missing_index_is_not_malformed(tmp_path: Path) -> None:
    empty: tuple[object, ...] = (None, {})
    path = write_lines(
        tmp_path / "a", [WORK | {"abstract_inverted_index": index} for index in empty]
    )
    (batch,) = read(path)
    assert batch.records["abstract"].null_count() == 2 and batch.malformed == {"abstract": 0}
    assert "malformed_abstract" not in read_papers([path]).counts


@pytest.mark.parametrize(
    "content",
    [
        WORK,
        [WORK],
        {"meta": {"count": 1, "next_cursor": "x"}, "results": [WORK], "group_by": []},
        {"results": [{name: WORK[name] for name in ("id", "title")}]},
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_shapes(tmp_path: Path, content: object, indent: int | None) -> None:
    (paper,) = raw(write_json(tmp_path / "works", content, indent))
    assert paper["id"] == "W123" and paper["title"] == "Graphs that learn"


def test_rejects(tmp_path: Path) -> None:
    texts: list[object] = [
        WORK,
        {"error": "Rate limit exceeded", "message": "Slow down"},
        {"id": "1", "title": "In our own columns", "abstract": "Text."},
        {"paperId": "a", "title": "x"},
        {"id": "https://openalex.org/A5", "display_name": "An author", "works_count": 3},
        WORK | {"locations": "none"},
    ]
    found = rejects(write_lines(tmp_path / "a.jsonl", texts))
    assert sorted(found) == [2, 3, 4, 5, 6]
    for line, part in {
        2: "an error answer", 3: "$.id", 4: "a record of s2_graph",
        5: "OpenAlex authors, sources or the like", 6: "$.locations",
    }.items():  # fmt: skip
        assert part in found[line]


def test_a_paper_of_it(tmp_path: Path) -> None:
    (paper,) = read_papers([write_lines(tmp_path / "part_000", [WORK])]).papers.to_dicts()
    assert (paper["id"], paper["doi"], paper["arxiv_id"]) == ("W123", "10.1000/x", "2305.00001")
    assert paper["citations"] == 8 and paper["source"] == "openalex"


def test_native_page(shared: Path) -> None:
    page = shared / "data" / "raw" / "openalex" / "openalex_works_api_page.json"
    found = raw(page)
    assert [paper["id"] for paper in found] == ["W3161425918", "W3035764705"]
    assert [paper["venue"] for paper in found] == ["Nature", "Nature Biotechnology"]
