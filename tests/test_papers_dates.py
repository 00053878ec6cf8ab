"""Reading dates, and choosing among several."""

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight_fast.papers import dates, read_papers, records, venues
from hindsight_fast.papers.dates import EVIDENCE_SCHEMA
from hindsight_fast.papers.records import RAW_SCHEMA, Rules
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
    "2023-06-01T12:00:00.123456+00:00": ("2023-06-01", "day"),
    "2023-06-01T12:00": ("2023-06-01", "day"),
    "July 5-10 2020": ("2020-07-05", "day"),
    "July 30–August 4 2017": ("2017-07-30", "day"),
    "October-November 2018": ("2018-10-01", "month"),
    "7--11 November 2021": ("2021-11-07", "day"),
    "2020 Nov 3": ("2020-11-03", "day"),
    "2020 Nov": ("2020-11-01", "month"),
    "2023-05-01/2023-05-05": ("2023-05-01", "day"),
    " 2023 ": ("2023-01-01", "year"),
    "2027-12-31": ("2027-12-31", "day"),
}
REFUSED = (
    "bad", "12-08-20", "0020-08-12", "9999-12-31", "2028-01-05", "1799-12-31", "2023-02-30",
    "2023-13-01", "Wed, 31 Feb 2023 10:00:00 GMT", "2023-02-30T10:00:00Z",
    "13 2022", "202306", "２０２３", "Spring 2023", "-1", "1970-1-1-1", "2023-06-01x",
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


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SHAPES: tuple[Callable[[datetime], str], ...] = (
    lambda t: t.isoformat(),
    lambda t: t.isoformat(" ") + "Z",
    lambda t: t.isoformat(timespec="milliseconds") + "+05:30",
    lambda t: f"Tue, {t.day} {_MONTHS[t.month - 1]} {t.year} {t:%H:%M:%S} GMT",
    lambda t: f"Tue, {t:%d} {_MONTHS[t.month - 1]} {t.year} {t:%H:%M:%S} UTC",
    lambda t: f"Tuesday, {t:%d} {_MONTHS[t.month - 1]} {t.year} {t:%H:%M:%S} +0200",
)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.datetimes(datetime(1800, 1, 1), datetime(2027, 12, 31)), st.integers(0, 5)),
        min_size=1,
    )
)
def test_times_of_machines_are_their_days(times: list[tuple[datetime, int]]) -> None:
    texts = pl.Series([_SHAPES[shape](time) for time, shape in times])
    frame = dates.parse(texts, TODAY)
    assert frame["start"].to_list() == [time.date() for time, _ in times]
    assert set(frame["precision"]) == {"day"} and not frame["malformed"].any()


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


def _chosen_by_row(evidence: list[list[Evidence]]) -> list[Evidence]:
    columns: list[dates.Evidence] = []
    for place in range(max(map(len, evidence))):
        found = [each[place] if place < len(each) else (None, "day", "year") for each in evidence]
        start, precision, kind = (
            pl.Series(column, dtype=pl.String) for column in zip(*found, strict=True)
        )
        columns.append(dates.Evidence(start.str.to_date(), precision, kind, "year"))
    return dates.choose_each(columns).drop("origin").cast({"start": pl.String}).rows()


@settings(deadline=None)
@given(st.lists(st.lists(_one, min_size=1, max_size=5), min_size=1, max_size=8))
def test_choosing_agrees_with_slow_twin(evidence: list[list[Evidence]]) -> None:
    expected = [choose_date(each) for each in evidence]
    assert _chosen(evidence) == expected
    assert _chosen_by_row(evidence) == expected


def test_no_evidence_is_no_date() -> None:
    nothing = dates.Evidence(pl.Series([None], dtype=pl.Date), "day", "venue", "year")
    assert dates.choose_each([nothing]).rows() == [(None, None, None, None)]
    assert dates.choose(pl.DataFrame(schema=EVIDENCE_SCHEMA)).height == 0


def _dated(**facts: str) -> tuple[str | None, ...]:
    """Date, precision, kind and origin of one record."""
    raw = pl.DataFrame([{"title": "A title of its own"} | facts], schema=RAW_SCHEMA)
    papers = records.clean(raw, Rules(TODAY, venues.table())).papers
    return papers.select(
        pl.col("date").cast(pl.String), "date_precision", "date_kind", "date_origin"
    ).row(0)


YEAR_2023 = ("2023-01-01", "year", "year", "year")
RECORDS: list[tuple[dict[str, str], tuple[str, ...]]] = [
    # the first version's day, wherever else the paper came out and whenever the id was given
    (
        {"arxiv_id": "2303.00001", "first_public": "Wed, 1 Mar 2023 10:00:00 GMT",
         "date": "2023-12-10", "venue": "NeurIPS", "year": "2023"},
        ("2023-03-01", "day", "first_public", "first_version"),
    ),
    (
        {"arxiv_id": "0704.0002", "first_public": "Sat, 31 Mar 2007 02:26:18 GMT"},
        ("2007-03-31", "day", "first_public", "first_version"),
    ),
    # DT-02: the id's month, not the venue's day
    (
        {"arxiv_id": "2303.00001", "date": "2023-12-10", "venue": "NeurIPS"},
        ("2023-03-01", "month", "first_public", "arxiv_id"),
    ),
    # a date in that month may be the first version's
    (
        {"arxiv_id": "2303.00001", "date": "2023-03-09", "venue": "NeurIPS"},
        ("2023-03-09", "day", "first_public", "publication_date"),
    ),
    # a preprint uploaded after the conference
    (
        {"arxiv_id": "2401.00001", "date": "2023-12-10", "venue": "NeurIPS"},
        ("2023-12-10", "day", "venue", "venue_date"),
    ),
    # DT-01: nothing but a year
    ({"year": "2023"}, YEAR_2023),
    ({"date": "2023", "venue": "A Journal of Things"}, YEAR_2023),
    # catalogues write a year as its first day
    ({"date": "2023-01-01"}, YEAR_2023),
    (
        {"date": "2023-01-01", "arxiv_id": "2305.00001"},
        ("2023-05-01", "month", "first_public", "arxiv_id"),
    ),
    # the month of the venue
    ({"year": "2023", "venue": "NeurIPS"}, ("2023-12-01", "month", "venue", "venue_month")),
    ({"date": "2022", "venue": "nips"}, ("2022-11-01", "month", "venue", "venue_month")),
    ({"venue": "ICML 2017"}, ("2017-08-01", "month", "venue", "venue_month")),
    # a book of proceedings that came out a year later
    (
        {"year": "2022", "date": "12--14 Dec 2023", "venue": "acml"},
        ("2022-12-01", "month", "venue", "venue_month"),
    ),
    # but nothing where better is known, and for nothing but the main track, in years we know
    (
        {"year": "2023", "venue": "ICLR", "arxiv_id": "2310.00001"},
        ("2023-10-01", "month", "first_public", "arxiv_id"),
    ),
    (
        {"year": "2023", "venue": "ICLR", "date": "2023-10-05"},
        ("2023-10-05", "day", "venue", "venue_date"),
    ),
    ({"year": "2023", "venue": "ICLR 2024"}, YEAR_2023),
    # a venue's name tells when it was held, though the record is dated later
    (
        {"date": "2024-05-01", "venue": "NeurIPS 2022"},
        ("2022-11-01", "month", "venue", "venue_month"),
    ),
    (
        {"date": "2024-01-01", "venue": "NeurIPS 2023"},
        ("2023-12-01", "month", "venue", "venue_month"),
    ),
    ({"year": "2024", "venue": "ACL 2023"}, ("2023-07-01", "month", "venue", "venue_month")),
    (
        {"date": "2023-10-05", "venue": "ICLR 2024"},
        ("2023-10-05", "day", "venue", "venue_date"),
    ),
    ({"date": "2023-07-09", "venue": "ACL 2023"}, ("2023-07-09", "day", "venue", "venue_date")),
    # cited as of arXiv, with its id
    (
        {"date": "2024-05-01", "venue": "arXiv preprint arXiv:2303.66666"},
        ("2023-03-01", "month", "first_public", "arxiv_id"),
    ),
    (
        {"year": "2024", "venue": "CoRR, abs/2303.55555v2"},
        ("2023-03-01", "month", "first_public", "arxiv_id"),
    ),
    (
        {"year": "2003", "venue": "arXiv e-prints (arXiv:cs/0301001)"},
        ("2003-01-01", "month", "first_public", "arxiv_id"),
    ),
    ({"year": "2023", "venue": "Notes on arXiv:2201.00001"}, YEAR_2023),
    ({"year": "2023", "venue": "NeurIPS 2023 Workshop on Things"}, YEAR_2023),
    ({"year": "2023", "venue": "Findings of ACL"}, YEAR_2023),
    ({"year": "1995", "venue": "AAAI"}, ("1995-01-01", "year", "year", "year")),
    ({"venue": "TACL 2023"}, ("2023-01-01", "year", "year", "venue_year")),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "expected"), RECORDS)
def test_the_date_of_a_record(facts: dict[str, str], expected: tuple[str, ...]) -> None:
    assert _dated(**facts) == expected


def test_origins_are_those_that_are_named() -> None:
    assert {expected[3] for _, expected in RECORDS} == set(dates.ORIGINS)


# Titles listed by a conference of 2023 or later, with the month of the preprint's arXiv id.
PREPRINTS = {
    "Are Emergent Abilities of Large Language Models a Mirage?": "2023-04",
    "Chain of Hindsight aligns Language Models with Feedback": "2023-02",
    "GPTScore: Evaluate as You Desire": "2023-02",
    "Holistic Evaluation of Language Models": "2022-11",
    "REPLUG: Retrieval-Augmented Black-Box Language Models": "2023-01",
    "Reflexion: language agents with verbal reinforcement learning": "2023-03",
    "Scaling Autoregressive Models for Content-Rich Text-to-Image Generation": "2022-06",
    "Teaching Large Language Models to Self-Debug": "2023-04",
    "Toolformer: Language Models Can Teach Themselves to Use Tools": "2023-02",
    "Visual Programming: Compositional Visual Reasoning Without Training": "2022-11",
}


def test_a_preprint_of_before_the_cutoff_is_not_dated_by_its_venue(
    shared: Path, tmp_path: Path
) -> None:
    n = 0
    for path in sorted((shared / "data" / "papers").glob("*.parquet")):
        rows = pl.read_parquet(path)
        same = rows["title"].str.to_lowercase().is_in([title.lower() for title in PREPRINTS])
        others = pl.int_range(rows.height, eager=True) < 20
        rows.filter(same | others).write_parquet(tmp_path / path.name)
        n += int(same.sum())
    if n == 0:
        pytest.skip("none of the papers is there")
    papers = read_papers([tmp_path], today=TODAY).papers
    found = {
        title.lower(): (str(day)[:7], kind)
        for title, day, kind in papers.select("title", "date", "date_kind").rows()
        if title.lower() in map(str.lower, PREPRINTS)
    }
    expected = {title.lower(): (month, "first_public") for title, month in PREPRINTS.items()}
    assert found == expected and n >= 2 * len(expected)
