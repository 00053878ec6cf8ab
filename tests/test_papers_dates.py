"""Reading dates, and choosing among several."""

from datetime import date

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight_fast.papers import dates
from hindsight_fast.papers.dates import EVIDENCE_SCHEMA
from reference import choose_date

TODAY = date(2026, 11, 30)
READ = {
    "2023": ("2023-01-01", "year"),
    "2023-06": ("2023-06-01", "month"),
    "2023-06-01": ("2023-06-01", "day"),
    "2023-06-01T12:00:00Z": ("2023-06-01", "day"),
    "2023-06-01 00:00:00": ("2023-06-01", "day"),
    "20230601": ("2023-06-01", "day"),
    "2023/6/1": ("2023-06-01", "day"),
    "2023-06-00": ("2023-06-01", "month"),
    "2023-00-00": ("2023-01-01", "year"),
    "8 2022": ("2022-08-01", "month"),
    "dec 2023": ("2023-12-01", "month"),
    "Sept. 2022": ("2022-09-01", "month"),
    "December, 2023": ("2023-12-01", "month"),
    "June/July 2022": ("2022-06-01", "month"),
    "28--30 Mar 2022": ("2022-03-28", "day"),
    "31 Jul--04 Aug 2023": ("2023-07-31", "day"),
    "May 11-16 2024": ("2024-05-11", "day"),
    "June 3rd, 2021": ("2021-06-03", "day"),
    "01-Jun-2023": ("2023-06-01", "day"),
    "Mon, 2 Apr 2007 19:18:42 GMT": ("2007-04-02", "day"),
    " 2023 ": ("2023-01-01", "year"),
    "2027-12-31": ("2027-12-31", "day"),
}
REFUSED = (
    "bad", "12-08-20", "0020-08-12", "9999-12-31", "2028-01-05", "1799-12-31", "2023-02-30",
    "2023-13-01", "13 2022", "202306", "２０２３", "Spring 2023", "-1", "1970-1-1-1", "2023-06-01x",
)  # fmt: skip


def test_parse() -> None:
    frame = dates.parse(pl.Series(list(READ)), TODAY)
    found = zip(frame["start"].cast(pl.String), frame["precision"], strict=True)
    assert dict(zip(READ, found, strict=True)) == READ
    assert not frame["malformed"].any()


def test_parse_refuses() -> None:
    frame = dates.parse(pl.Series([*REFUSED, "", None]), TODAY)
    assert frame["start"].is_null().all() and frame["precision"].is_null().all()
    assert frame["malformed"].to_list() == [True] * len(REFUSED) + [False, False]


def test_parse_nothing() -> None:
    assert (
        dates.parse(pl.Series([None, None], dtype=pl.String), TODAY)["start"].to_list()
        == [None] * 2
    )
    assert dates.parse(pl.Series([], dtype=pl.String), TODAY).height == 0


def test_end() -> None:
    frame = dates.parse(pl.Series(["2024", "2024-02", "2024-02-28"]), TODAY)
    ends = frame.select(dates.end(pl.col("start"), pl.col("precision"))).to_series()
    assert ends.to_list() == [date(2024, 12, 31), date(2024, 2, 29), date(2024, 2, 28)]


def test_arxiv_month() -> None:
    ids = pl.Series(["2405.14012", "0704.0001", "cs/0601001", "hep-th/9901001", None])
    months = [date(2024, 5, 1), date(2007, 4, 1), date(2006, 1, 1), date(1999, 1, 1), None]
    assert dates.arxiv_month(ids).to_list() == months


Evidence = tuple[str, str, str]
CHOICES: list[tuple[list[Evidence], Evidence]] = [
    # an announcement of 2025 of an arXiv id of 2018
    (
        [("2018-12-01", "month", "first_public"), ("2025-03-04", "day", "first_public")],
        ("2018-12-01", "month", "first_public"),
    ),
    # inside the id's month the day is finer
    (
        [("2025-10-01", "month", "first_public"), ("2025-10-17", "day", "first_public")],
        ("2025-10-17", "day", "first_public"),
    ),
    # a conference day there says less
    (
        [("2023-03-01", "month", "first_public"), ("2023-03-09", "day", "venue")],
        ("2023-03-01", "month", "first_public"),
    ),
    # a year of publication holds anything
    (
        [("2023-01-01", "year", "year"), ("2023-06-01", "month", "venue"),
         ("2023-03-01", "month", "first_public"), ("2023-03-09", "day", "first_public")],
        ("2023-03-09", "day", "first_public"),
    ),
    (
        [("2022-01-01", "year", "year"), ("2022-08-01", "month", "venue")],
        ("2022-08-01", "month", "venue"),
    ),
    (
        [("2022-01-01", "year", "year"), ("2023-01-05", "day", "venue")],
        ("2022-01-01", "year", "year"),
    ),
    # at the same start the better kind
    (
        [("2023-03-01", "day", "venue"), ("2023-03-01", "month", "first_public")],
        ("2023-03-01", "month", "first_public"),
    ),
]  # fmt: skip


def _table(evidence: list[list[Evidence]]) -> pl.DataFrame:
    rows = [(group, *each, "year") for group, several in enumerate(evidence) for each in several]
    columns = list(EVIDENCE_SCHEMA)
    frame = pl.DataFrame(
        rows, schema={**dict.fromkeys(columns, pl.String), "group": pl.Int64}, orient="row"
    )
    return frame.with_columns(pl.col("start").str.to_date())


def _chosen(evidence: list[list[Evidence]]) -> list[Evidence]:
    frame = dates.choose(_table(evidence)).with_columns(pl.col("start").cast(pl.String))
    assert frame["group"].to_list() == list(range(len(evidence)))
    return frame.drop("group", "origin").rows()


@pytest.mark.parametrize(("evidence", "expected"), CHOICES)
def test_choose(evidence: list[Evidence], expected: Evidence) -> None:
    assert _chosen([evidence]) == _chosen([evidence[::-1]]) == [expected]


_STARTS = {
    "year": ["2022-01-01", "2023-01-01"],
    "month": ["2022-12-01", "2023-01-01", "2023-02-01"],
    "day": ["2022-12-31", "2023-01-01", "2023-02-03", "2023-02-09"],
}
_one = st.sampled_from(["year", "month", "day"]).flatmap(
    lambda precision: st.tuples(
        st.sampled_from(_STARTS[precision]), st.just(precision), st.sampled_from(dates.KINDS)
    )
)


@given(st.lists(st.lists(_one, min_size=1, max_size=5), min_size=1, max_size=8))
def test_choose_agrees_with_slow_twin(evidence: list[list[Evidence]]) -> None:
    assert _chosen(evidence) == [choose_date(each) for each in evidence]
