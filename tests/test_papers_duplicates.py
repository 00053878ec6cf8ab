"""Which records are one paper, and what the one paper says."""

import random
from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight_fast.papers import duplicates
from hindsight_fast.papers.schema import PAPER_SCHEMA

TITLE = "A study of many things"


def record(id: str | None, year: int | None = 2023, **facts: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PAPER_SCHEMA)
    row |= {"id": id, "title": TITLE, "abstract": f"Abstract {id}.", "year": year, "status": "ok"}
    if year is not None:
        row |= {"date": date(year, 1, 1), "date_precision": "year", "date_kind": "year"}
    return row | facts


def merge(*rows: dict[str, Any]) -> pl.DataFrame:
    table = pl.DataFrame(rows, schema=PAPER_SCHEMA)
    merged = duplicates.merge(table)
    assert merged.papers.height + merged.n_merged == len(rows)
    assert merged.papers["id"].is_unique().all() and not merged.papers["id"].null_count()
    assert merged.papers["id"].is_sorted()
    backwards = duplicates.merge(table[list(range(table.height))[::-1]])
    assert backwards.papers.equals(merged.papers)
    return merged.papers


PREPRINT: dict[str, Any] = {"venue": "arXiv", "arxiv_id": "2301.00001"}
ONE: dict[str, tuple[dict[str, Any], ...]] = {
    "title, same year": (record("a"), record("b")),
    "title, next year": (record("a"), record("b", 2024)),
    "title, preprint two years before": (record("a", 2022, **PREPRINT), record("b", 2024)),
    "title but for case and signs": (record("a"), record("b", title="A Study of 'Many' Things!")),
    "title but for the marker": (record("a"), record("b", title=f"[RETRACTED] {TITLE}")),
    "doi": (record("a", doi="10.1145/x"), record("b", 2010, doi="10.1145/x", title="Other words")),
    "arxiv id": (record("a", **PREPRINT), record("b", 2010, **PREPRINT, title="Other words")),
    "id and title": (record("a"), record("a", 2010, abstract="Other words")),
    "undated, same abstract": (record("a", abstract="Same."), record("b", None, abstract="Same.")),
    "same authors": (record("a", authors=["Ada Bee", "C D"]), record("b", authors=["Bee, A."])),
    "same authors, initials last": (
        record("a", authors=["Ada Bee"]),
        record("b", authors=["Bee A"]),
    ),
    "same abstract, whatever the years": (
        record("a", 2021, abstract="Same."),
        record("b", 2024, abstract="Same."),
    ),
    "one without authors": (record("a", authors=["Ada Bee"]), record("b")),
}
TWO: dict[str, tuple[dict[str, Any], ...]] = {
    "titles that differ in a sign": (
        record("a", title="C++ for learning"),
        record("b", title="C for learning"),
    ),
    "generic title of one id": (
        record("a", 2019, title="Editorial"),
        record("a", 2023, title="Editorial", abstract="Another."),
    ),
    "doi of a volume": (
        record("a", doi="10.1145/x", title="First words", authors=["Ada Bee"]),
        record("b", doi="10.1145/x", title="Other words", authors=["Cy Dee"]),
    ),
    "other title": (record("a"), record("b", title="A study of few things")),
    "two years apart": (record("a", 2022), record("b", 2024)),
    "preprint three years before": (record("a", 2021, **PREPRINT), record("b", 2024)),
    "undated": (record("a", None), record("b")),
    "generic": (record("a", title="Preface"), record("b", title="PREFACE.")),
    "generic, with a name": (
        record("a", title="Asian Conference on Things: Preface"),
        record("b", title="Asian Conference on Things: Preface"),
    ),
    "no letter in the title": (record("a", title="?!"), record("b", title="?!")),
    "other first author": (record("a", authors=["Ada Bee"]), record("b", authors=["Ed Eff"])),
    "one id, two papers": (record("a"), record("a", title="Something else")),
}


@pytest.mark.parametrize("rows", ONE.values(), ids=ONE)
def test_one_paper(rows: tuple[dict[str, Any], ...]) -> None:
    assert merge(*rows).height == 1


@pytest.mark.parametrize("rows", TWO.values(), ids=TWO)
def test_two_papers(rows: tuple[dict[str, Any], ...]) -> None:
    assert merge(*rows).height == 2


def test_a_title_that_returns_every_year_does_not_chain() -> None:
    assert merge(*(record(f"r{year}", year) for year in range(2015, 2023))).height == 4


def test_the_order_of_records_does_not_matter() -> None:
    rng = random.Random(3)
    rows = [
        record(
            f"p{rng.randrange(40)}",
            rng.randrange(2018, 2025),
            title=f"Title of {rng.randrange(12)}",
            citations=rng.randrange(5),
            authors=[f"A {rng.randrange(9)}"] if i % 5 == 0 else None,
            **(PREPRINT | {"arxiv_id": f"2301.{i:05}"} if i % 3 == 0 else {}),
        )
        for i in range(120)
    ]
    assert merge(*rows).equals(merge(*rng.sample(rows, len(rows))))


def test_too_many_of_a_kind_are_not_one() -> None:
    at_most = [record(f"p{i:02}") for i in range(duplicates.LARGEST)]
    assert merge(*at_most).height == 1
    too_many = [record(f"p{i:02}") for i in range(duplicates.LARGEST + 1)]
    assert merge(*too_many).height == len(too_many)
    volume = [{**row, "doi": "10.1145/v", "title": f"T {row['id']}"} for row in too_many]
    assert merge(*volume).height == len(volume)


def test_what_the_one_paper_says() -> None:
    preprint = record(
        "arxiv:2302.00001", 2023, abstract="A longer abstract of it.", venue="arXiv",
        arxiv_id="2302.00001", date=date(2023, 2, 1), date_precision="month",
        date_kind="first_public", citations=40, citations_source="there",
    )  # fmt: skip
    published = record(
        "neurips:1", 2023, abstract="Short.", venue="NeurIPS", doi="10.1145/x",
        date=date(2023, 12, 10), date_precision="day", date_kind="venue", citations=120,
        citations_source="here", citations_as_of=date(2025, 1, 1),
    )  # fmt: skip
    (paper,) = merge(preprint, published).to_dicts()
    assert paper["id"] == "neurips:1"
    assert (paper["venue"], paper["doi"], paper["arxiv_id"]) == (
        "NeurIPS",
        "10.1145/x",
        "2302.00001",
    )
    assert (paper["date"], paper["date_precision"]) == (date(2023, 2, 1), "month")
    assert paper["date_kind"] == "first_public"
    assert (paper["citations"], paper["citations_source"]) == (120, "here")
    assert paper["citations_as_of"] == date(2025, 1, 1)
    assert paper["abstract"] == "A longer abstract of it."


def test_the_count_and_its_source_stay_together() -> None:
    (paper,) = merge(
        record("a", citations=9), record("b", doi="10.1145/x", citations=3, citations_source="b")
    ).to_dicts()
    assert (paper["id"], paper["citations"], paper["citations_source"]) == ("b", 9, None)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (("ok", "retracted"), "retracted"),
        (("withdrawn", "ok"), "withdrawn"),
        (("title_only", "ok"), "ok"),
        (("title_only", "title_only"), "title_only"),
    ],
)
def test_status(statuses: tuple[str, str], expected: str) -> None:
    rows = [
        record(f"p{i}", status=status, **({"abstract": None} if status == "title_only" else {}))
        for i, status in enumerate(statuses)
    ]
    assert merge(*rows)["status"].to_list() == [expected]


def test_the_venue_that_says_most_stays() -> None:
    venues = [None, "Submitted to CVPR 2024", "arXiv", "Some workshop", "SIGIR", "CVPR"]
    for kept in range(1, len(venues) + 1):
        rows = [record(f"p{i}", venue=venue) for i, venue in enumerate(venues[:kept])]
        assert merge(*rows)["venue"].to_list() == [venues[kept - 1]]


def test_records_without_id() -> None:
    papers = merge(record(None), record(None), record(None, title="Something else"))
    assert papers.height == 2
    assert papers["id"].str.starts_with("content:").all()


def test_nothing() -> None:
    assert merge().height == 0


def _groups(n: int, edges: list[tuple[int, int]]) -> list[int]:
    """Slow twin: smallest number that can be reached."""
    labels = list(range(n))
    for _ in range(n):
        for a, b in edges:
            labels[a] = labels[b] = min(labels[a], labels[b])
    return labels


def _graphs(n: int) -> st.SearchStrategy[tuple[int, list[tuple[int, int]]]]:
    row = st.integers(0, n - 1)
    return st.tuples(st.just(n), st.lists(st.tuples(row, row), max_size=14))


@given(st.integers(1, 12).flatmap(_graphs))
def test_components(case: tuple[int, list[tuple[int, int]]]) -> None:
    n, pairs = case
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    assert duplicates.components(n, edges).tolist() == _groups(n, pairs)


def test_a_long_chain_is_one_component() -> None:
    n = 3_000
    order = np.random.default_rng(0).permutation(n).astype(np.int64)
    edges = np.stack([order[:-1], order[1:]], axis=1)
    assert not duplicates.components(n, edges).any()
