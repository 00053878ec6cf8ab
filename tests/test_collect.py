"""Collecting over real HTTP, from a small server that speaks the two APIs, well and badly."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Generator
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from api_server import OPENALEX_PATH, S2_PATH, Api, Reply
from collect_world import (
    DATES,
    KEY,
    PAGES,
    QUERY,
    QUICK,
    TWO,
    as_read,
    gather,
    partial,
    services,
)
from hindsight_fast.errors import ArtefactError, ServiceError, UsageError
from hindsight_fast.papers import answers, read_papers, topics
from hindsight_fast.papers.collect import (
    OPENALEX,
    S2,
    Manners,
    Plan,
    Progress,
    Query,
    Service,
    Watch,
    collect,
    queries_of,
)
from hindsight_fast.storage import read_manifest


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Generator[Api]:
    yield from services(monkeypatch)


@pytest.mark.parametrize("service", [S2, OPENALEX], ids=lambda one: one.name)
def test_pages_are_collected(service: Service, api: Api, tmp_path: Path) -> None:
    out = tmp_path / "found"
    plans, told = list[Plan](), list[Progress]()
    body = gather(out, service, watch=Watch(plans.append, told.append))
    assert len(api.asked) == PAGES
    assert body["n_records"] == body["n_ids"] == 12
    assert (body["n_pages"], body["n_rejects"]) == (PAGES, 0)
    assert body["queries"] == [
        {"name": "query", "query": '"reasoning"', "n": 12, "pages": 3, "announced": [12, 12]}
    ]
    table = pl.read_parquet(out / "papers.parquet")
    read = as_read(out)
    assert table.drop("citations_as_of").equals(read.drop("citations_as_of"))
    assert table["source"].unique().to_list() == [service.name]
    raw = sorted(path.name for path in (out / "raw").iterdir())
    assert raw == [f"query-{page:05d}.json.gz" for page in (1, 2, 3)]
    assert plans == [
        Plan(
            announced={"query": 12},
            pages_left=1,
            cost_left=None if service is S2 else 0.001,
            spent=None if service is S2 else 0.001,
            left=None if service is S2 else 0.999,
            seconds_left=1 / QUICK.rate,
        )
    ]
    assert [one.papers for one in told] == [5, 10, 12]
    assert told[-1].announced == 12
    assert answers.verify(out) == ["2 files", "3 answers"]
    assert not partial(out).exists()


def test_what_semantic_scholar_is_asked(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMANTIC_SCHOLAR_API_KEY", KEY)
    gather(tmp_path / "found", queries=TWO)
    first = api.asked[0]
    assert first.path == S2_PATH
    assert first.params["query"].startswith('"chain-of-thought" | "tree of thoughts" | ')
    assert first.params["publicationDateOrYear"] == "2023-06-01:2025-12-31"
    assert {"abstract", "externalIds", "citationCount"} <= {*first.params["fields"].split(",")}
    assert "token" not in first.params
    assert all(one.headers["x-api-key"] == KEY for one in api.asked)
    # The first page of each query tells how many there are; then the rest.
    texts = [one.params["query"] for one in api.asked]
    assert texts[0] != texts[1] and texts[2:4] == [texts[0]] * 2 and texts[4:] == [texts[1]] * 2
    raw = sorted(path.name for path in (tmp_path / "found/raw").iterdir())
    assert raw[0] == "graph-learning-00001.json.gz" and raw[-1] == "reasoning-00003.json.gz"


def test_what_openalex_is_asked(api: Api, tmp_path: Path) -> None:
    queries = queries_of(OPENALEX, topics.named(topics.load(), ["reasoning"]))
    body = gather(tmp_path / "found", OPENALEX, queries)
    first = api.asked[0]
    assert first.path == OPENALEX_PATH
    assert first.params["search"].startswith('"chain-of-thought" OR "tree of thoughts" OR ')
    assert first.params["filter"] == (
        "from_publication_date:2023-06-01,to_publication_date:2025-12-31"
    )
    assert (first.params["per_page"], first.params["cursor"]) == ("100", "*")
    assert first.params["sort"] == "publication_date"  # relevance may change between two pages
    assert all(one.headers["authorization"] == f"Bearer {KEY}" for one in api.asked)
    assert KEY not in str([one.params for one in api.asked])
    assert body["spent_usd"] == 0.003


def test_a_finished_one_is_left_as_it_is(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "found"
    body = gather(out, OPENALEX)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    monkeypatch.delenv("OPENALEX_API_KEY")
    again, made = collect(OPENALEX, QUERY, DATES, out, manners=QUICK)
    assert (again, made, len(api.asked)) == (body, False, PAGES)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_another_query_is_refused_until_it_may_replace(api: Api, tmp_path: Path) -> None:
    out = tmp_path / "found"
    gather(out)
    with pytest.raises(UsageError, match="--overwrite"):
        gather(out, queries=TWO)
    assert len(api.asked) == PAGES
    assert gather(out, queries=TWO, overwrite=True)["n_records"] == 24
    assert len([*(out / "raw").iterdir()]) == 2 * PAGES
    assert pl.read_parquet(out / "papers.parquet")["id"].n_unique() == 12


def test_nothing_found(api: Api, tmp_path: Path) -> None:
    api.matches = 0
    body = gather(tmp_path / "found", OPENALEX)
    assert (body["n_records"], body["n_pages"]) == (0, 1)
    assert [*(tmp_path / "found/raw").iterdir()] == []
    assert pl.read_parquet(tmp_path / "found/papers.parquet").is_empty()


def test_files_that_are_damaged_are_asked_for_again(api: Api, tmp_path: Path) -> None:
    out = tmp_path / "found"
    api.replies, api.always = [None, None], Reply(500, body=b"")
    with pytest.raises(ServiceError):
        gather(out, manners=Manners(rate=2000, tries=2))
    raw = partial(out) / "raw"
    (raw / "query-00001.json.gz").write_bytes(b"spoilt")
    (raw / "stranger").write_text("?")
    api.always, api.asked = None, []
    gather(out)
    assert len(api.asked) == PAGES
    assert sorted(path.name for path in (out / "raw").iterdir())[-1] == "query-00003.json.gz"


def test_an_answer_that_came_when_the_kill_did_is_not_paid_twice(api: Api, tmp_path: Path) -> None:
    out = tmp_path / "found"
    api.replies, api.always = [None, None], Reply(500, body=b"")
    with pytest.raises(ServiceError):
        gather(out, manners=Manners(rate=2000, tries=2))
    journal = partial(out) / ".journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    assert b'"page":2' in lines[-1]
    journal.write_bytes(b"".join(lines[:-1]))
    api.always, api.asked = None, []
    gather(out)
    assert len(api.asked) == 1
    assert answers.verify(out) == ["2 files", "3 answers"]


def test_verify_finds_a_changed_answer(api: Api, tmp_path: Path) -> None:
    out = tmp_path / "found"
    gather(out)
    (out / "raw/query-00002.json.gz").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(ArtefactError, match=r"query-00002.json.gz is not the answer that came"):
        answers.verify(out)
    (out / "pages.jsonl").write_text("{}\n")
    with pytest.raises(ArtefactError, match=r"pages\.jsonl"):
        answers.verify(out)


def test_counts_are_of_the_day_when_they_came(api: Api, tmp_path: Path) -> None:
    out = tmp_path / "found"
    day = gather(out)["collected_from"][:10]
    table = pl.read_parquet(out / "papers.parquet")
    assert table["citations_as_of"].unique().to_list() == [day]
    papers = read_papers([out / "raw"]).papers
    assert papers["citations_as_of"].unique().to_list() == [date.fromisoformat(day)]
    assert papers.equals(read_papers([out / "papers.parquet"]).papers)


@pytest.mark.parametrize("service", [S2, OPENALEX], ids=lambda one: one.name)
def test_a_collection_is_a_source(service: Service, api: Api, tmp_path: Path) -> None:
    out = tmp_path / "found"
    gather(out, service, TWO)
    papers = read_papers([out])
    assert papers.counts["n_in"] == 24
    assert papers.papers.height == 12
    assert papers.papers.equals(read_papers([tmp_path]).papers)
    (out / "papers.parquet").unlink()  # the raw answers alone are enough
    assert papers.papers.equals(read_papers([out]).papers)
    assert all(len(paper) == 1 for paper in papers.papers["source"].str.split(" "))


def test_answers_are_judged_together(api: Api, tmp_path: Path) -> None:
    """A last page may well hold nothing but a work without a title."""
    api.matches, api.page_size = 11, 5

    def change(body: dict[str, Any]) -> None:
        for work in body["results"]:
            if work["id"].endswith("10"):
                work["title"] = work["display_name"] = None

    api.change = change
    body = gather(tmp_path / "found", OPENALEX)
    assert (body["n_records"], body["n_pages"]) == (11, 3)
    counts = read_papers([tmp_path / "found"]).counts
    assert (counts["n_in"], counts["n_papers"], counts["n_rejects"]) == (11, 10, 1)


def test_queries_of_like_names_have_files_of_their_own(api: Api, tmp_path: Path) -> None:
    names = ["A/B", "a b", "日本", "a-b-2"]
    gather(tmp_path / "found", queries=tuple(Query(name, name) for name in names))
    raw = sorted(path.name for path in (tmp_path / "found/raw").iterdir())
    assert raw[::PAGES] == [
        "a-b-00001.json.gz",
        "a-b-2-00001.json.gz",
        "a-b-2-2-00001.json.gz",
        "query-00001.json.gz",
    ]


def test_killed_again_and_again(api: Api, tmp_path: Path) -> None:
    """Killed before many a line: no page is paid for twice, but for the one on its way."""
    program = Path(__file__).with_name("collecting.py")
    job = subprocess.run(
        [sys.executable, str(program), str(tmp_path), "223"],
        stdout=subprocess.PIPE,
        env={**os.environ, "POLARS_MAX_THREADS": "1"},
        timeout=120,
        check=True,
    )
    found = json.loads(job.stdout)
    assert found["wrong"] == []
    assert found["kills"] >= 6
    assert read_manifest(tmp_path / "reference").body["n_records"] == 12
    # The program checks what each was billed; here that this is what was asked.
    assert len(api.asked) <= (found["kills"] + 2) * PAGES + found["kills"]
