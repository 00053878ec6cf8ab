"""Collecting over real HTTP, from a small server that speaks the two APIs, well and badly."""

import gzip
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from api_server import OPENALEX_PATH, S2_PATH, Api, Reply, in_seconds, serving
from hindsight_fast.errors import ArtefactError, HindsightError, ServiceError, UsageError
from hindsight_fast.papers import answers, read_papers, readers, topics
from hindsight_fast.papers.collect import (
    OPENALEX,
    S2,
    Manners,
    Plan,
    Progress,
    Query,
    Service,
    Watch,
    Window,
    _client,
    collect,
    queries_of,
)
from hindsight_fast.papers.readers import streams
from hindsight_fast.storage import read_manifest

KEY = "a-secret-key-0123456789"
QUERY = (Query("query", '"reasoning"'),)
TWO = queries_of(S2, topics.named(topics.load(), ["reasoning", "graph learning"]))
QUICK = Manners(rate=2000, timeout_s=0.5)
DATES = Window(date(2023, 6, 1), date(2025, 12, 31))
NUMBERS = itertools.count()
PAGES = 3  # of 12 papers, 5 on each


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Generator[Api]:
    """The services, which this process asks instead of the real ones."""
    with serving() as one:
        for name in ("S2_API_KEY", "SEMANTIC_SCHOLAR_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("OPENALEX_API_KEY", KEY)
        monkeypatch.setenv("HINDSIGHT_S2_URL", one.url)
        monkeypatch.setenv("HINDSIGHT_OPENALEX_URL", one.url + "/")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
        yield one


def gather(
    out: Path,
    service: Service = S2,
    queries: tuple[Query, ...] = QUERY,
    *,
    max_spend: float = 1.0,
    manners: Manners = QUICK,
    overwrite: bool = False,
    watch: Watch | None = None,
) -> dict[str, Any]:
    return collect(
        service,
        queries,
        DATES,
        out,
        max_spend=max_spend,
        manners=manners,
        overwrite=overwrite,
        watch=watch or Watch(),
    )[0]


def as_read(out: Path) -> pl.DataFrame:
    """The raw answers as the readers give them, the slow and obvious way."""
    frames = list[pl.DataFrame]()
    for path in sorted((out / "raw").iterdir()):
        head = streams.head(path)
        reader = readers.find(path, head, "auto")
        frames += [batch.records for batch in reader.read(path, head, {}, None)]
    return pl.concat(frames).drop("line")


def partial(out: Path) -> Path:
    return out.with_name(f".{out.name}.partial")


def bytes_below(folder: Path) -> bytes:
    """All that is written in a folder, what is compressed in clear, and the names."""
    found = [str(folder).encode()]
    for path in folder.rglob("*"):
        found.append(str(path).encode())
        if path.is_file():
            content = path.read_bytes()
            found += [content, gzip.decompress(content) if path.suffix == ".gz" else b""]
    return b"\n".join(found)


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


PASSING = {
    "429 without a word": Reply(429, body=b""),
    "429 for no time": Reply(429, {"Retry-After": "0"}, b'{"message": "Too Many Requests"}'),
    "429 until a time that is over": Reply(429, {"Retry-After": in_seconds(-60)}, b"{}"),
    "429 until nonsense": Reply(429, {"Retry-After": "soon"}, b"{}"),
    "403 for no time": Reply(403, {"Retry-After": "0"}, b"{}"),
    "500": Reply(500, body=b"<html>oops</html>"),
    "502": Reply(502, body=b"{"),
    "503": Reply(503, {"Retry-After": "0"}, b'{"error": "maintenance"}'),
    "504": Reply(504, body=b"[]"),
    "204": Reply(204, body=b""),
    "hung up": Reply(0),
    "cut at once": Reply(cut=0),
    "cut in the middle": Reply(cut=900),
    "stalled": Reply(stall=700),
    "HTML": Reply(body=b"<!DOCTYPE html><html>Just a moment...</html>"),
    "nothing": Reply(body=b""),
    "cut JSON": Reply(body=b'{"total": 12, "data": [{"paperId": "1"}'),
    "an error at 200": Reply(body=b'{"message": "Endpoint request timed out"}'),
    "a list": Reply(body=b"[]"),
    "records that are none": Reply(body=b'{"total": 3, "data": [1, 2, 3]}'),
    "no meta": Reply(body=b'{"results": []}'),
    "a count that is none": Reply(body=b'{"total": "many", "data": [], "meta": {"count": "x"}}'),
    "not gzip": Reply(200, {"Content-Encoding": "gzip"}, b"no gzip"),
    "nested too deeply": Reply(body=b"[" * 100_000),
}


@pytest.mark.parametrize("service", [S2, OPENALEX], ids=lambda one: one.name)
def test_what_passes_is_waited_for(service: Service, api: Api, tmp_path: Path) -> None:
    """A failure before each page; nothing is lost, and nothing is there twice."""
    api.matches, api.page_size = 2 * len(PASSING), 2
    gather(tmp_path / "right", service)
    right = pl.read_parquet(tmp_path / "right/papers.parquet")
    api.asked.clear()
    api.replies = [reply for failure in PASSING.values() for reply in (failure, None)]
    gather(tmp_path / "found", service, manners=Manners(rate=2000, timeout_s=0.2))
    assert len(api.asked) == 2 * len(PASSING)
    assert pl.read_parquet(tmp_path / "found/papers.parquet").equals(right)


@pytest.mark.parametrize(("after", "least"), [("1", 1.0), (in_seconds, 0.9)], ids=["s", "date"])
def test_retry_after_is_kept_to(
    after: str | Callable[[int], str], least: float, api: Api, tmp_path: Path
) -> None:
    told = list[str]()
    wait = after if isinstance(after, str) else after(2)
    api.replies = [Reply(429, {"Retry-After": wait}, b"{}")]
    gather(tmp_path / "found", watch=Watch(said=told.append))
    assert api.asked[1].at - api.asked[0].at >= least


def test_answers_that_never_end_are_given_up(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.packed = True  # what is compressed is small on its way
    api.replies = [Reply(drip=0.02)]
    gather(tmp_path / "found", manners=Manners(rate=2000, answer_s=0.1))
    assert len(api.asked) == PAGES + 1
    monkeypatch.setattr(_client, "_LARGEST", 1000)
    with pytest.raises(ServiceError, match="at last with an answer of more than 0 MiB"):
        gather(tmp_path / "other", manners=Manners(rate=2000, tries=2))


def test_the_pace_is_kept(api: Api, tmp_path: Path) -> None:
    began = time.monotonic()
    gather(tmp_path / "found", manners=Manners(rate=10))
    assert time.monotonic() - began >= (PAGES - 1) / 10


def test_too_long_a_wait_is_not_begun(api: Api, tmp_path: Path) -> None:
    out, spent = tmp_path / "found", b'{"error": "Rate limit exceeded", "message": "Insufficient"}'
    api.replies = [None, Reply(429, {"Retry-After": "20000"}, spent)]
    with pytest.raises(ServiceError, match=r"429 .*Insufficient.* in 5.6 hours; .*goes on from"):
        gather(out, OPENALEX)
    assert len(api.asked) == 2
    assert gather(out, OPENALEX)["n_records"] == 12
    assert len(api.asked) == PAGES + 1


def test_giving_up_keeps_what_came(api: Api, tmp_path: Path) -> None:
    out = tmp_path / "found"
    api.replies, api.always = [None], Reply(500, body=b"{}")
    with pytest.raises(ServiceError, match="failed 5 times in a row, at last with HTTP 500") as it:
        gather(out, manners=Manners(rate=2000, tries=5))
    assert it.value.exit_code == 6
    assert len(api.asked) == 6
    assert not out.exists()
    api.always = None
    gather(out)
    assert api.pages()[6:] == [f"at-5-{1}", "at-10-7"]
    assert answers.verify(out) == ["2 files", "3 answers"]


def test_no_service(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDSIGHT_S2_URL", "http://127.0.0.1:9")
    with pytest.raises(ServiceError, match="failed 4 times in a row, at last with ConnectError"):
        gather(tmp_path / "found")
    assert not api.asked


@pytest.mark.parametrize("url", ["ftp://example.org", "nonsense", "http://", "http://[::1"])
def test_an_address_that_is_none(
    url: str, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDSIGHT_S2_URL", url)
    with pytest.raises(UsageError, match="HINDSIGHT_S2_URL"):
        gather(tmp_path / "found")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("service", "status"), [(S2, 403), (S2, 401), (OPENALEX, 401)], ids=["403", "401", "openalex"]
)
def test_a_refused_key_is_said_at_once(
    service: Service, status: int, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S2_API_KEY", KEY)
    refusal = Reply(status, body=json.dumps({"message": f"Forbidden: {KEY}"}).encode())
    api.replies = [refusal, None, refusal]
    for asked in (1, 3):  # at the first page, and in the middle
        with pytest.raises(UsageError, match=f"_API_KEY: HTTP {status} .*Forbidden") as it:
            gather(tmp_path / "found", service)
        assert KEY not in str(it.value)
        assert len(api.asked) == asked
    gather(tmp_path / "found", service)
    assert len(api.asked) == PAGES + 2


def test_without_a_key(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENALEX_API_KEY")
    with pytest.raises(UsageError, match="OpenAlex needs a key: set OPENALEX_API_KEY"):
        gather(tmp_path / "found", OPENALEX)
    api.key = "needed"
    with pytest.raises(UsageError, match=r"403 .* without a key; set S2_API_KEY"):
        gather(tmp_path / "found")
    monkeypatch.setenv("S2_API_KEY", "two words")
    with pytest.raises(UsageError, match="S2_API_KEY holds characters"):
        gather(tmp_path / "found")
    assert [path.name for path in tmp_path.iterdir()] == [".found.partial"]


@pytest.mark.parametrize("service", [S2, OPENALEX], ids=lambda one: one.name)
def test_the_key_is_kept_nowhere(
    service: Service,
    api: Api,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not even where the service echoes it."""
    monkeypatch.setenv("S2_API_KEY", KEY)
    caplog.set_level(0)
    told = list[str]()
    echo = json.dumps({"error": KEY}).encode()
    api.change = lambda body: body.update(echo=f"Bearer {KEY}")
    api.replies = [Reply(500, {"Retry-After": "0"}, echo), None, Reply(200, body=echo)]
    api.always = Reply(400, body=echo)
    with pytest.raises(HindsightError) as it:
        gather(tmp_path / "found", service, watch=Watch(said=told.append))
    assert KEY.encode() not in bytes_below(tmp_path)
    api.always = None
    gather(tmp_path / "found", service)
    assert KEY.encode() not in bytes_below(tmp_path)
    assert b'"echo": "Bearer ***"' in bytes_below(tmp_path)
    assert KEY not in str(it.value) + str(told) + caplog.text


def test_no_redirect_leads_elsewhere(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S2_API_KEY", KEY)
    with serving() as other:
        for location in (
            f"{other.url}{S2_PATH}",
            f"http://localhost:{api.port}{S2_PATH}",
            "",
            "http://[",
        ):
            api.replies = [Reply(302, {"Location": location} if location else {}, b"")]
            with pytest.raises(ServiceError, match=r"redirects|in a circle"):
                gather(tmp_path / "found")
        assert not other.asked
    assert {one.headers["host"] for one in api.asked} == {f"127.0.0.1:{api.port}"}


def test_a_redirect_within_the_service_is_followed(api: Api, tmp_path: Path) -> None:
    api.replies = [Reply(307, {"Location": f"{S2_PATH}?query=moved"}, b"")]
    assert gather(tmp_path / "found")["n_records"] == 12
    assert [one.params["query"] for one in api.asked[:2]] == ['"reasoning"', "moved"]
    api.always = Reply(302, {"Location": f"{S2_PATH}?query=moved"}, b"")
    with pytest.raises(ServiceError, match="redirects in a circle"):
        gather(tmp_path / "other")


@pytest.mark.parametrize("status", [400, 404, 410])
@pytest.mark.parametrize("service", [S2, OPENALEX], ids=lambda one: one.name)
def test_an_expired_token_begins_anew(
    service: Service, status: int, api: Api, tmp_path: Path
) -> None:
    out, told = tmp_path / "found", list[str]()
    api.replies = [None, None, Reply(status, body=b'{"error": "token expired"}')]
    body = gather(out, service, watch=Watch(said=told.append))
    assert [token[:4] for token in api.pages()] == ["", "at-5", "at-1", "", "at-5", "at-1"]
    assert body["n_records"] == body["n_ids"] == 12
    assert body["n_pages"] == len([*(out / "raw").iterdir()]) == PAGES
    assert len(told) == 1 and "page 3 of 'query' (HTTP" in told[0] and "token exp" in told[0]
    assert body["spent_usd"] == (None if service is S2 else 0.006)


def test_tokens_that_are_all_refused(api: Api, tmp_path: Path) -> None:
    api.valid = lambda token: not token.startswith("at-10")
    with pytest.raises(ServiceError, match=r"'query' as it should: page 3, again .*HTTP 400"):
        gather(tmp_path / "found")
    assert len(api.asked) == 4 * PAGES
    api.valid = lambda _: True
    assert gather(tmp_path / "found")["n_records"] == 12
    assert len(api.asked) == 4 * PAGES + 1


def test_tokens_that_expire_between_runs(api: Api, tmp_path: Path) -> None:
    out = tmp_path / "found"
    api.replies, api.always = [None, None, None], Reply(500, body=b"")
    with pytest.raises(ServiceError):
        gather(out, queries=TWO, manners=Manners(rate=2000, tries=2))
    api.always, api.asked = None, []
    api.valid = lambda token: token.split("-")[2] in ("1", "2", "3", "4")
    body = gather(out, queries=TWO)
    assert (body["n_records"], body["n_ids"], body["n_pages"]) == (24, 12, 2 * PAGES)
    assert len([*(out / "raw").iterdir()]) == 2 * PAGES


def repeated_token(body: dict[str, Any]) -> None:
    for place, name in ((body, "token"), (body.get("meta", {}), "next_cursor")):
        if place.get(name):
            place[name] = "at-0-0"


def fresh_token_of_the_first_page(body: dict[str, Any]) -> None:
    for place, name in ((body, "token"), (body.get("meta", {}), "next_cursor")):
        if place.get(name):
            place[name] = f"at-0-{next(NUMBERS)}"


def no_token(body: dict[str, Any]) -> None:
    body.pop("token", None)
    body.get("meta", {}).pop("next_cursor", None)


def empty_page(body: dict[str, Any]) -> None:
    for name in ("data", "results"):
        if name in body:
            body[name] = []


@pytest.mark.parametrize("service", [S2, OPENALEX], ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (repeated_token, "a page that was there before"),
        (fresh_token_of_the_first_page, "a page that was there before"),
        (no_token, "it is the last page, with 5 of the 12 announced"),
        (empty_page, "it is the last page, with 0 of the 12 announced"),
    ],
)
def test_paging_that_goes_wrong_is_found_out(
    service: Service,
    change: Callable[[dict[str, Any]], None],
    message: str,
    api: Api,
    tmp_path: Path,
) -> None:
    api.change = change
    with pytest.raises(ServiceError, match=message):
        gather(tmp_path / "found", service)
    assert len(api.asked) <= 4 * 4
    api.change = lambda _: None
    gathered = gather(tmp_path / "found", service, manners=QUICK)
    assert gathered["n_records"] == gathered["n_ids"] == 12


def test_a_total_that_is_an_estimate(api: Api, tmp_path: Path) -> None:
    totals = iter([13, "12", 11])

    def change(body: dict[str, Any]) -> None:
        body["total"] = next(totals)

    api.change = change
    query = gather(tmp_path / "found")["queries"][0]
    assert (query["n"], query["announced"]) == (12, [11, 13])


def test_a_total_that_changes_is_told(api: Api, tmp_path: Path) -> None:
    totals = iter([4000, 4000, 12])
    api.change = lambda body: body.update(total=next(totals))
    assert gather(tmp_path / "found")["queries"][0]["announced"] == [12, 4000]


def test_a_query_that_is_refused(api: Api, tmp_path: Path) -> None:
    bad = b'{"error": "Invalid query", "message": "unbalanced quote"}'
    api.replies = [Reply(400, body=bad)]
    with pytest.raises(UsageError, match=r"refuses the query .*400.*Invalid query: unbalanced"):
        gather(tmp_path / "found", OPENALEX)
    assert [*tmp_path.iterdir()] == []  # so that the right one may go there
    gather(tmp_path / "found", OPENALEX, (Query("query", "better"),))


def test_a_query_that_is_too_long(api: Api, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"too long: .* 4094; make several topics"):
        gather(tmp_path / "found", OPENALEX, (Query("query", "word " * 1000),))
    assert not api.asked


def test_spending_stops_at_the_cap(api: Api, tmp_path: Path) -> None:
    out = tmp_path / "found"
    api.matches, api.page_size = 500, 100
    with pytest.raises(ServiceError, match=r"cost about 0.005 USD.* 0.001 USD are spent; .*0.003"):
        gather(out, OPENALEX, max_spend=0.003)
    assert len(api.asked) == 1  # it was clear then that the cap doesn't reach
    with pytest.raises(ServiceError, match="What came is kept"):
        gather(out, OPENALEX, max_spend=0.003)
    assert len(api.asked) == 1
    assert gather(out, OPENALEX, max_spend=0.005)["spent_usd"] == 0.005
    assert len(api.asked) == 5


def test_the_cap_holds_where_the_total_said_less(api: Api, tmp_path: Path) -> None:
    out = tmp_path / "found"
    api.matches, api.page_size = 500, 100
    api.change = lambda body: body["meta"].update(count=100)
    with pytest.raises(ServiceError, match=r"0.003 USD are spent, and a further request"):
        gather(out, OPENALEX, max_spend=0.003)
    assert len(api.asked) == 3
    with pytest.raises(ServiceError, match=r"would cost about 0.004 USD"):
        gather(out, OPENALEX, max_spend=0.003)
    assert len(api.asked) == 3
    assert gather(out, OPENALEX, max_spend=0.1)["spent_usd"] == 0.005


def test_what_a_request_cost_is_what_the_service_says(api: Api, tmp_path: Path) -> None:
    api.price = 0.25
    with pytest.raises(ServiceError, match=r"cost about 0.500 USD, .* 0.250 USD are spent"):
        gather(tmp_path / "a", OPENALEX, max_spend=0.3)
    api.price, api.asked = 0.0, []
    assert gather(tmp_path / "b", OPENALEX, max_spend=0.001)["spent_usd"] == 0
    api.price = None  # not a word about it: the usual price
    assert gather(tmp_path / "c", OPENALEX, max_spend=0.01)["spent_usd"] == 0.003


def test_a_lost_answer_counts_as_billed(api: Api, tmp_path: Path) -> None:
    api.replies = [Reply(cut=100), Reply(429, body=b"{}"), Reply(500, body=b"{}")]
    assert gather(tmp_path / "found", OPENALEX)["spent_usd"] == 0.005


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
