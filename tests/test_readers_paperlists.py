"""Proceedings lists of paperlists: venue and year by the file's name, what is no main track."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hindsight_fast.papers import read_papers
from reading import raw, rejects, write_json

ENTRY = """@InProceedings{x,
  title = \t {Graphs that learn},
  booktitle = \t {Proceedings of the 40th International Conference on Machine Learning},
  year = \t {2024},
  month = \t {23--29 Jul},
  doi = {10.1000/x},
  abstract = {month = {May}}
}"""
PAPER: dict[str, Any] = {
    "id": "a1B2",
    "title": "Graphs that learn",
    "track": "main",
    "status": "Poster",
    "author": "Ada Bee; C. Dee",
    "abstract": "We let graphs learn from others.",
    "tldr": "Graphs learn.",
    "primary_area": "graphs",
    "site": "https://openreview.net/forum?id=a1B2",
    "pdf": "https://openreview.net/pdf?id=a1B2",
    "rating": "6;6;8",
    "gs_citation": 4,
    "bibtex": ENTRY,
}


def one(path: Path, **changes: Any) -> dict[str, Any]:
    (paper,) = raw(write_json(path, [PAPER | changes], 4))
    return paper


def test_fields(tmp_path: Path) -> None:
    assert one(tmp_path / "icml2023.json") == {
        "line": 1,
        "id": "paperlists:a1B2",
        "title": "Graphs that learn",
        "abstract": "We let graphs learn from others.",
        "tldr": "Graphs learn.",
        "authors": ["Ada Bee", "C. Dee"],
        "field": "graphs",
        "venue": "icml 2023",
        "year": "2023",
        "date": "23--29 Jul 2023",  # the conference's: the entry's year is the proceedings'
        "doi": "10.1000/x",
        "citations": "4",
        "citations_source": "google_scholar",
        "url": PAPER["site"],
        "source": "paperlists",
    }


@pytest.mark.parametrize(
    ("changes", "venue"),
    [
        ({}, "ICLR"),
        ({"status": "Oral"}, "ICLR"),
        ({"status": "Top-5%"}, "ICLR"),
        ({"status": "Spotlight Poster;Award Candidate"}, "ICLR"),
        ({"status": ""}, "ICLR"),
        ({"status": None, "track": None}, "ICLR"),
        ({"status": "Reject"}, None),
        ({"status": "Desk Reject"}, None),
        ({"status": "Withdraw"}, None),
        ({"status": "Withdrawn"}, None),
        ({"status": "Active"}, None),
        ({"status": "Long Findings"}, None),
        ({"status": "Something New"}, None),
        ({"track": "Workshop"}, None),
        ({"track": "Blog Track", "status": "Poster"}, None),
    ],
)
def test_what_counts_as_the_main_track(
    tmp_path: Path, changes: dict[str, Any], venue: str | None
) -> None:
    path = write_json(tmp_path / "iclr2024.json", [PAPER | changes])
    (paper,) = read_papers([path]).papers.to_dicts()
    assert (paper["venue"] == "ICLR") == (venue == "ICLR")
    assert paper["venue"].casefold().startswith("iclr")


@pytest.mark.parametrize(
    ("name", "changes", "venue", "year"),
    [
        ("nips2023.json", {}, "nips 2023", "2023"),
        ("NeurIPS_2023.json", {}, "NeurIPS 2023", "2023"),
        ("3dv2025.json", {"bibtex": None}, "3dv 2025", "2025"),
        ("mylist.json", {}, "Proceedings of the 40th International Conference", "2024"),
        ("mylist2022.json", {}, "Proceedings of the 40th International Conference", "2022"),
        ("mylist.json", {"bibtex": ""}, None, None),
    ],
)
def test_venue_and_year(
    tmp_path: Path, name: str, changes: dict[str, Any], venue: str | None, year: str | None
) -> None:
    paper = one(tmp_path / name, **changes)
    assert paper.get("year") == year
    assert paper["venue"].startswith(venue) if venue else "venue" not in paper


@pytest.mark.parametrize(
    ("entry", "date"),
    [
        ("@inproceedings{\nx,\nyear={2023},\nmonth={December}\n}", "December 2023"),
        ('@inproceedings{x,\n  month = dec,\n  year = "2023"\n}', "dec 2023"),
        ("@inproceedings{x,\n month = {May 2022},\n}", "May 2022"),
        ("@inproceedings{x,\n year = {2023}\n}", None),
        (None, None),
    ],
)
def test_month(tmp_path: Path, entry: str | None, date: str | None) -> None:
    assert one(tmp_path / "icml2023.json", bibtex=entry).get("date") == date


def test_no_id_and_no_citations(tmp_path: Path) -> None:
    paper = one(tmp_path / "icml2023.json", id="None", gs_citation=-1, site="", author="")
    assert "id" not in paper and paper["citations"] == "-1" and paper["url"] == PAPER["pdf"]
    path = write_json(tmp_path / "icml2023.json", [PAPER | {"id": None, "gs_citation": -1}])
    (cleaned,) = read_papers([path]).papers.to_dicts()
    assert cleaned["citations"] is None and cleaned["id"].startswith("content:")


def test_rejects(tmp_path: Path) -> None:
    odd: list[object] = [PAPER, None, {"title": "x"}, PAPER | {"title": {"a": 1}}, "text"]
    found = rejects(write_json(tmp_path / "icml2023.json", odd))
    assert sorted(found) == [2, 3, 4, 5]
    assert "`author`" in found[3] and "title is no text" in found[4]


def test_native_lists(shared: Path) -> None:
    folder = shared / "data" / "raw" / "paperlists"
    counts = {path.stem: len(raw(path)) for path in folder.glob("*.json")}
    assert counts == {"acml2024": 87, "automl2024": 19}
    (paper, *_) = raw(folder / "acml2024.json")
    assert paper["date"] == "05--08 Dec 2024" and paper["id"] == "paperlists:8428c5c55f"


def test_the_table_made_of_them_is_read_in_our_columns(shared: Path) -> None:
    path = shared / "data" / "papers" / "paperlists.parquet"
    rows = pl.scan_parquet(path).select(pl.len()).collect().item()
    table = read_papers([path], limit=2000)
    assert rows > 50_000 and table.counts["n_in"] == 2000
