"""Conditions over papers: what holds, what is unknown, what is refused."""

import datetime as dt
from typing import Any

import polars as pl
import pytest

from hindsight_fast.errors import UsageError
from hindsight_fast.papers.choosing import Where, check_topics
from hindsight_fast.papers.schema import PAPER_SCHEMA

ROWS: list[dict[str, Any]] = [
    {"id": "a", "year": 2022, "venue": "ICLR", "kind": "article", "topics": ["agents"]},
    {"id": "b", "year": 2023, "venue": None, "kind": "survey", "topics": ["agents", "graphs"]},
    {"id": "c", "year": None, "venue": "ACL", "language": "zh", "topics": []},
    {"id": "d", "year": 2024, "venue": "ICLR", "date": dt.date(2024, 5, 1), "topics": None},
]
PAPERS = pl.DataFrame(
    [dict.fromkeys(PAPER_SCHEMA) | row for row in ROWS],
    schema=PAPER_SCHEMA,
)

HOLDS = {
    "year >= 2023": "bd",
    "not year >= 2023": "a",  # unknown is neither
    "venue in ('ICLR', 'ICML')": "ad",
    "venue is null or venue <> 'ICLR'": "bc",
    "kind = 'survey'": "b",
    "language = 'en' or language is null": "abd",
    "date >= date '2024-05-01'": "d",
    "date >= date '2024-05-02'": "",
    "venue ilike 'ic%' and year < 2023": "a",
    "array_contains(topics, 'graphs')": "b",
    "upper(venue) = 'ACL' or lower(kind) in ('survey')": "bc",
    "title = 'max(year) over (select)' or cast(year as varchar) like '%22'": "a",
    "1 = 1": "abcd",
    "1 = 2": "",
}


def chosen(where: Where) -> str:
    mask = where.mask(PAPERS)
    assert mask.dtype == pl.Boolean and len(mask) == 4 and mask.null_count() == 0
    assert where.mask(PAPERS.select("id", *(n for n in where.columns if n != "id"))).equals(mask)
    return "".join(PAPERS.filter(mask)["id"])


@pytest.mark.parametrize("condition", HOLDS)
def test_conditions(condition: str) -> None:
    assert chosen(Where((condition,))) == HOLDS[condition]


def test_all_conditions_and_one_of_the_topics() -> None:
    assert chosen(Where()) == "abcd" and not Where()
    assert chosen(Where(("year >= 2022", "venue = 'ICLR'"))) == "ad"
    assert chosen(Where(topics=("graphs", "vision"))) == "b"
    assert chosen(Where(("year < 2023",), ("agents",))) == "a"
    assert Where(("year < 2023",), ("agents",)).columns == ["year", "topics"]
    assert Where(("year < 2023",)).mask(PAPERS.clear()).to_list() == []
    assert Where(("1 = 1",)).mask(PAPERS.clear()).to_list() == []


def test_what_can_be_decided_before_texts_are_there() -> None:
    where = Where(("year > 2000", "abstract is not null", "language = 'en'", "1 = 1"), ("graphs",))
    assert where.early() == Where(("year > 2000", "1 = 1"))


REFUSED = {
    "year >": "is no SQL condition",
    "year >= 2020; drop table x": "is no SQL condition",
    "select 1": "can't be used",
    "read_csv('/etc/hostname') = 1": "read_csv can't be used",
    "jear > 2020": "did you mean year?",
    'venue = "ICLR"': "no column 'ICLR'",
    "year": "is a Int32",
    "max(year) = 2020": "one paper at a time",
    "row_number() over () = 1": "over can't",
    "date >= '2023-01-01'": "date '2023-06-01'",
    'year = "max"(year)': "max can't",
    "year = (select 1)": "select or over can't",
}


@pytest.mark.parametrize("condition", REFUSED)
def test_refused(condition: str) -> None:
    with pytest.raises(UsageError, match="--where") as caught:
        Where((condition,))
    assert REFUSED[condition] in str(caught.value)


def test_topics_by_name() -> None:
    check_topics(["agents"], ["agents", "graphs"])
    with pytest.raises(UsageError, match="did you mean 'graphs'"):
        check_topics(["graph"], ["agents", "graphs"])
    with pytest.raises(UsageError, match="none"):
        check_topics(["graph"], [])
