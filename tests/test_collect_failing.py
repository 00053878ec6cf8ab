"""Collecting from services that fail, are slow, page wrongly or cost money."""

import itertools
import json
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from api_server import S2_PATH, Api, Reply, in_seconds, serving
from collect_world import KEY, PAGES, QUICK, TWO, bytes_below, gather, services
from hindsight_fast.errors import HindsightError, ServiceError, UsageError
from hindsight_fast.papers import answers
from hindsight_fast.papers.collect import (
    OPENALEX,
    S2,
    Manners,
    Query,
    Service,
    Watch,
    _client,
)

NUMBERS = itertools.count()


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Generator[Api]:
    yield from services(monkeypatch)


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
    assert not list(tmp_path.iterdir())  # nothing was begun


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
