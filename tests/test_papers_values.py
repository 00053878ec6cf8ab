"""Citation counts and identifiers as people write them, and what a record makes of its values."""

from datetime import date
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight_fast.papers import citations, identifiers, records, text, venues
from hindsight_fast.papers.records import RAW_SCHEMA, Cleaned, Rules

COUNTS = {
    "12": 12, " 7 ": 7, "12.0": 12, "+5": 5, "0": 0,
    "-1": None, "": None, "-1.0": None,
    "12.9": None, "-3": None, "true": None, "1.2k": None, "1,234": None, "9" * 30: None, "١٢": None,
}  # fmt: skip
UNKNOWN = ("-1", "", "-1.0")


def test_citations() -> None:
    counts, malformed = citations.parse(pl.Series([*COUNTS, None]))
    assert counts.to_list() == [*COUNTS.values(), None]
    assert counts.dtype == pl.Int64
    refused = [value is None and text not in UNKNOWN for text, value in COUNTS.items()]
    assert malformed.to_list() == [*refused, False]


ARXIV = {
    "2405.14012": "2405.14012",
    "2405.14012v2": "2405.14012",
    "arXiv:2405.14012 [cs.CL]": "2405.14012",
    "http://arxiv.org/abs/2405.14012v1": "2405.14012",
    "https://www.arxiv.org/pdf/2405.14012v3.pdf": "2405.14012",
    "10.48550/arXiv.2405.14012": "2405.14012",
    "https://doi.org/10.48550/arXiv.2405.14012": "2405.14012",
    "https://doi.org/10.48550%2FARXIV.2405.14012": "2405.14012",
    "DOI 10.48550/arXiv.cs/0601001v2": "cs/0601001",
    "info:doi/10.48550/arXiv.2405.14012.": "2405.14012",
    "10.48550/arXiv.2405.140123": None,
    "oai:arXiv.org:hep-th/9901001": "hep-th/9901001",
    "arXiv:2405.14012v1 [cs.CL] 3 May 2024": "2405.14012",
    "cs.CL/0601001": "cs/0601001",
    "hep-th/9901001v2": "hep-th/9901001",
    "0704.0001": "0704.0001",
    "2413.00001": None,
    "0601.0001": None,
    "1401.00001": None,
    "1812.1234": None,
    "12405.14012": None,
    "acl/0601001": None,
    "https://example.org/abs/2405.14012": None,
    "n/a": None,
}
DOIS = {
    "10.1145/ABC.1": "10.1145/abc.1",
    "https://doi.org/10.1145/ABC.1": "10.1145/abc.1",
    "doi:10.1145/x.": "10.1145/x",
    "DOI 10.1145/x": "10.1145/x",
    "https://www.doi.org/10.1145%2Fx%3C1%3E?y=1": "10.1145/x<1>",
    "http://dx.doi.org/10.1145/x#y": "10.1145/x",
    "10.48550/arXiv.2405.14012": None,
    "10.1/x": None,
    "11.1145/x": None,
    "": None,
}


def test_arxiv_ids() -> None:
    assert identifiers.arxiv(pl.Series([*ARXIV, None])).to_list() == [*ARXIV.values(), None]


def test_an_arxiv_id_that_is_only_mentioned_is_not_the_papers() -> None:
    mentions = [
        "https://github.com/a/b?ref=arxiv.org/abs/1706.03762",
        "see arxiv.org/abs/1706.03762",
        "https://example.org/10.48550/arXiv.1706.03762",
    ]
    assert identifiers.arxiv(pl.Series(mentions)).to_list() == [None] * 3
    links = ["http://arxiv.org/pdf/1706.03762v2", "https://www.arxiv.org/abs/1706.03762"]
    assert identifiers.arxiv(pl.Series(links)).to_list() == ["1706.03762"] * 2


def test_dois() -> None:
    assert identifiers.doi(pl.Series([*DOIS, None])).to_list() == [*DOIS.values(), None]
    urls = pl.Series(["https://doi.org/10.1145/ABC.1?x=1", "https://example.org/10.1145/x"])
    assert identifiers.doi_in_url(urls).to_list() == ["10.1145/abc.1", None]


RULES = Rules(date(2026, 11, 30), venues.table())


def _clean(*facts: dict[str, Any]) -> Cleaned:
    rows = [{"title": f"Title {place}"} | row for place, row in enumerate(facts)]
    return records.clean(pl.DataFrame(rows, schema=RAW_SCHEMA), RULES)


MALFORMED = {
    "citations": ("1.2k", "-1", "12"),
    "citations_as_of": ("lately", "", "2025-01"),
    "citations_dated": ("2023: 5", "none", "2023:5 2024-03:12 @2025-03-01"),
    "date": ("bad", "n/a", "2023"),
    "first_public": ("v1", "None", "Mon, 2 Apr 2007 19:18:42 GMT"),
    "revised": ("2023-02-30", " ", "2023-02-28"),
    "year": ("23", "-", "2023.0"),
    "corpus_id": ("12a", "null", "12"),
    "arxiv_id": ("2413.00001", "nan", "2405.14012v2"),
    "doi": ("11.1145/x", "undefined", "10.1145/x"),
}


def test_what_is_not_understood_is_unknown_and_counted() -> None:
    names = ("wrong", "nothing", "good")
    facts = [{name: values[i] for name, values in MALFORMED.items()} for i in range(len(names))]
    cleaned = _clean(*facts)
    assert cleaned.malformed == dict.fromkeys(sorted(MALFORMED), 1) | cleaned.malformed
    assert set(cleaned.malformed) == set(MALFORMED)
    wrong, nothing, good = cleaned.papers.to_dicts()
    for name in set(MALFORMED) - {"first_public"}:
        assert (wrong[name], nothing[name]) == (None, None) and good[name] is not None


@pytest.mark.parametrize("day", ["2024-02-30", "2099-01-01", "2024-2-3", "2024-02-28 "])
def test_dated_counts_end_on_a_day_that_there_was(day: str) -> None:
    cleaned = _clean({"citations_dated": f"2015:0 2024:5 @{day}"})
    assert cleaned.malformed["citations_dated"] == 1
    assert cleaned.papers["citations_dated"].to_list() == [None]


def test_an_arxiv_doi_is_no_malformed_doi() -> None:
    cleaned = _clean({"doi": "10.48550/arXiv.2405.14012"})
    assert cleaned.malformed["doi"] == 0
    assert cleaned.papers.select("doi", "arxiv_id").row(0) == (None, "2405.14012")


def test_ids_are_taken_from_where_they_are() -> None:
    rows = [
        {"arxiv_id": "2405.14012", "id": "arXiv:2301.00001"},
        {"id": "arXiv:2301.00001", "url": "https://arxiv.org/abs/2405.14012"},
        {"id": "x", "url": "https://arxiv.org/abs/hep-th/9901001v2"},
        {"id": "2401.12345", "url": "https://doi.org/10.1145/ABC.1?x=1"},
        {"arxiv_id": "2812.00001", "doi": "10.1145/x", "url": "https://doi.org/10.1145/y"},
    ]
    papers = _clean(*rows).papers
    ids = ["2405.14012", "2301.00001", "hep-th/9901001", "2401.12345", None]
    assert papers["arxiv_id"].to_list() == ids
    assert papers["doi"].to_list() == [None, None, None, "10.1145/abc.1", "10.1145/x"]


def test_a_record_without_a_year_has_that_of_its_date() -> None:
    first = "Thu, 3 Oct 2022 19:18:42 GMT"
    years = _clean(
        {"first_public": first}, {"first_public": first, "year": "2024"}, {"date": "2024-05-01"}, {}
    ).papers["year"]
    assert years.to_list() == [2022, 2024, 2024, None]


def test_what_the_source_says_of_the_status() -> None:
    abstract = "We show what is so, at length, and how it came to be so."
    said = ("Retracted", "withdrawn", "paratext", "published", None)
    status = _clean(*({"abstract": abstract, "status": each} for each in said))
    assert status.papers["status"].to_list() == ["retracted", "withdrawn", "paratext", "ok", "ok"]


def _slow_authors(names: list[str | None] | None) -> list[str] | None:
    cleaned = [
        text.missing_to_null(text.clean(pl.Series([name])))[0] for name in names or [] if name
    ]
    return [name for name in cleaned if name is not None] or None


_NAMES = st.sampled_from(
    ["Ada Bee", " Ada  Bee ", "B&amp;C", "", "nan", None, "É. Ü", "C. Bal\\'azs"]
)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.none() | st.lists(_NAMES, max_size=4), min_size=1, max_size=6))
def test_authors_agree_with_slow_twin(lists: list[list[str | None] | None]) -> None:
    papers = _clean(*({"authors": names} for names in lists)).papers
    assert papers["authors"].to_list() == [_slow_authors(names) for names in lists]
