"""The report on a store's papers: what is counted, and a page that fetches nothing."""

import json
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from command_line import run, start
from hindsight_fast.data_report import examine, lines, page
from hindsight_fast.papers import read_papers
from hindsight_fast.store import Store, build_store
from paper_tables import table

RECORDS = [
    {"id": "a", "title": "One work on <mask> & more", "abstract": "We study many things here.",
     "venue": "NeurIPS 2023", "date": "2023-12-10", "citations": 40, "citations_source": "s2"},
    {"id": "b", "title": "One work on <mask> & more", "abstract": "We study many things here, too.",
     "arxiv_id": "2306.00001", "citations": 3, "citations_source": "openalex"},
    {"id": "c", "title": "Another", "venue": "A <b>Workshop</b> of <script>alert(1)</script>",
     "year": 2021, "abstract": "What else there is to say about it.", "citations": 0},
    {"id": "d", "title": "No abstract"},
    {"id": "e"},
]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    sources = list[Path]()
    for number, some in enumerate((RECORDS[:1], RECORDS[1:])):
        path = tmp_path / f"part{number}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in some))
        sources.append(path)
    return build_store(read_papers(sources), tmp_path / "store")


def test_what_is_counted(store: Store) -> None:
    report = examine(store)
    assert report.n == 3 and report.counts["n_in"] == 5 and report.counts["n_merged"] == 1
    assert report.known["abstract"] == 2 and report.known["date"] == 2
    assert report.known["doi"] == 0
    counts = {tally.title: tally.counts for tally in report.tallies}
    assert counts["Papers by year"] == {"2021": 1, "2023": 1, "undated": 1}
    assert counts["Papers by venue"] == {
        "NeurIPS": 1, "(workshops, Findings, demos and the like)": 1, "(no venue)": 1
    }  # fmt: skip
    assert counts["Names of venues that are not known"] == {}
    assert counts["What the date rests on"] == {"first_public": 1, "unknown": 1, "year": 1}
    assert counts["Status"] == {"ok": 2, "title_only": 1}
    assert counts["Citations"] == {"0": 1, "20-49": 1}
    assert report.citations["n"] == 2 and report.citations["max"] == 40
    assert [one["citations"] for one in report.citations["top"]] == [40, 0]
    assert report.merged == {"2": 1}
    assert report.winners["citations"] == {"part0.jsonl": 1}
    assert report.winners["date"] == {"part1.jsonl": 1}
    assert report.rejects == {"no title": 1}
    assert {one["kind"] for one in report.conflicts} == {"counts_differ"}
    assert any("NeurIPS 1" in line for line in lines(report))


class Page(HTMLParser):
    """What a page is made of: its tags, and all addresses in it."""

    VOID = ("meta", "br", "rect")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [name for name, _ in attrs]
        if tag not in self.VOID[:2]:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_page_is_whole_and_fetches_nothing(store: Store) -> None:
    text = page(examine(store))
    parsed = Page(text)
    assert not parsed.open  # every tag is closed
    assert not parsed.tags & {"script", "link", "img", "iframe", "object", "embed"}
    assert not {"src", "href", "onload"} & set(parsed.attributes)
    assert "http" not in text and "@import" not in text and "url(" not in text
    assert "One work on <mask> & more" in parsed.words  # as text
    assert "NeurIPS" in parsed.words and "no title" in parsed.words


def test_an_empty_store_has_a_page(tmp_path: Path) -> None:
    report = examine(build_store(table([]), tmp_path / "store"))
    assert report.n == 0 and not Page(page(report)).open
    assert lines(report)


def test_bands_of_counts(tmp_path: Path) -> None:
    from hindsight_fast.data_report import _counts

    counts = pl.DataFrame({"citations": [0, 1, 2, 4, 5, 99, 100, 9999, 10_000, 10**12, None]})
    bands = counts.select(_counts._band())["citations"].to_list()  # pyright: ignore[reportPrivateUsage]
    assert bands == [
        "0", "1", "2-4", "2-4", "5-9", "50-99", "100-199", "5000-9999", "10000+", "10000+", None
    ]  # fmt: skip


def test_the_verb(store: Store, tmp_path: Path) -> None:
    done = start(tmp_path, tmp_path, "report --store store --out papers.html --json")
    assert done.returncode == 0 and json.loads(done.stdout)["n"] == 3
    assert (tmp_path / "papers.html").read_text() == page(examine(store))
    again = run(tmp_path, tmp_path, "report --store store --out papers.html")
    assert again.returncode == 2 and "--overwrite" in again.stderr
    info = run(tmp_path, tmp_path, "info store")
    assert "Papers by source" in info.stdout and "NeurIPS 1" in info.stdout
    assert json.loads(run(tmp_path, tmp_path, "info store --json").stdout)["report"]["n"] == 3
