"""Impact by the published recipe and by its variants."""

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import reference
from hindsight_fast.errors import UsageError
from hindsight_fast.impact import RECIPES, citations_within, impact, paper_impact
from hindsight_fast.papers.schema import PAPER_SCHEMA


def h(
    citations: list[int], venue: list[bool] | None = None, eligible: list[bool] | None = None
) -> NDArray[np.float32]:
    n = len(citations)
    return paper_impact(
        np.array(citations, np.int64),
        np.array(venue or [False] * n),
        np.array(eligible or [True] * n),
    )


def test_one_extreme_rules_the_rest() -> None:
    expected = np.array([0, 3e-6, 6e-6, 1.5e-5, 3e-5, 0.6], np.float32)
    np.testing.assert_array_equal(h([0, 1, 2, 5, 10, 200_000]), expected)


def test_equal_counts_say_nothing() -> None:
    assert h([7, 7, 7]).tolist() == [0, 0, 0]
    assert h([7]).tolist() == [0]
    np.testing.assert_array_equal(h([7, 7], [True, False]), np.array([0.4, 0], np.float32))


def test_unknown_counts_as_none_and_others_do_not_count() -> None:
    np.testing.assert_array_equal(h([-1, 5, 10]), np.array([0, 0.3, 0.6], np.float32))
    found = h([10, 20, 10**9], [True, True, True], [True, True, False])
    np.testing.assert_array_equal(found, np.array([0.4, 1, -1], np.float32))
    assert h([3], eligible=[False]).tolist() == [-1]
    assert paper_impact(np.zeros(0, np.int64), np.zeros(0, bool), np.zeros(0, bool)).shape == (0,)


counts = st.one_of(st.integers(-1, 5), st.integers(0, 2**62))


@given(st.lists(st.tuples(counts, st.booleans(), st.booleans()), max_size=20))
def test_like_the_slow_twin(papers: list[tuple[int, bool, bool]]) -> None:
    columns = [list(column) for column in zip(*papers, strict=True)] or [[], [], []]
    found = paper_impact(
        np.array(columns[0], np.int64), np.array(columns[1], bool), np.array(columns[2], bool)
    )
    np.testing.assert_allclose(found, reference.paper_impact(*columns), rtol=1e-6)
    assert ((found == -1) | ((found >= 0) & (found <= 1))).all()


FACTS: dict[str, pl.DataType] = {
    name: PAPER_SCHEMA[name]
    for name in ("citations", "date", "date_precision", "citations_dated", "citations_as_of")
}
tokens = st.lists(
    st.tuples(st.integers(2019, 2026), st.integers(0, 12), st.integers(0, 99)), max_size=4
).map(
    lambda each: " ".join(
        f"{year}-{month:02}:{n}" if month else f"{year}:{n}" for year, month, n in sorted(each)
    )
)
days_named = st.dates(dt.date(2022, 1, 1), dt.date(2026, 6, 1)).map(" @{}".format)
facts = st.fixed_dictionaries(
    {
        "citations": st.none() | st.integers(0, 30),
        "date": st.dates(dt.date(2019, 11, 1), dt.date(2025, 6, 30)),
        "date_precision": st.sampled_from(["day", "month", "year"]),
        "citations_dated": st.none()
        | tokens
        | st.builds(str.__add__, tokens.filter(bool), days_named),
        "citations_as_of": st.none() | st.dates(dt.date(2022, 1, 1), dt.date(2026, 6, 1)),
    }
)


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "paper"])
@given(papers=st.lists(st.tuples(facts, st.booleans(), st.booleans()), max_size=12))
def test_variants_are_like_their_slow_twins(
    recipe: str, papers: list[tuple[dict[str, Any], bool, bool]]
) -> None:
    rows, top, eligible = map(list, zip(*papers, strict=True)) if papers else ([], [], [])
    found = impact(
        recipe, pl.DataFrame(rows, schema=FACTS), np.array(top, bool), np.array(eligible, bool)
    )
    expected = np.array(reference.variant_impact(recipe, rows, top, eligible))
    np.testing.assert_allclose(found.values, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(found.dropped, np.array(eligible, bool) & (expected == -1))


def test_citations_of_the_first_months() -> None:
    row = {
        "date": dt.date(2023, 7, 1),
        "date_precision": "day",
        "citations_as_of": dt.date(2025, 11, 17),
    }
    cases = {
        "2015:0 2023:10 2024:20": 10 + 20 * 182 / 366,  # until 2024-07-01
        "2015:0 2024-02:3 2024-06:4 2024-07:5": 7,
        "2015:0 2022:2 2023-06:1": 3,  # cited before it was dated
        "2015:0": 0,
        "2024:5": np.nan,  # not counted from the beginning
        "2015:0 2024:20 @2024-08-01": 20 * 182 / 214,  # of the year's first 214 days
        "2015:0 2024:20 @2024-06-30": np.nan,  # ended before the 12 months did
        "2015:0 2024:20 @2024-02-30": np.nan,
        None: np.nan,
    }
    rows = [row | {"citations_dated": dated} for dated in cases]
    papers = pl.DataFrame(rows, schema={k: v for k, v in FACTS.items() if k != "citations"})
    np.testing.assert_allclose(citations_within(papers, 12), list(cases.values()))
    assert np.isnan(citations_within(papers, 48)).all()  # 2027 is not over


def test_the_papers_recipe_on_a_table() -> None:
    papers = pl.DataFrame({"citations": [None, 5, 10, 99]})
    top, eligible = np.array([False, True, False, False]), np.array([True, True, True, False])
    found = impact("paper", papers, top, eligible)
    np.testing.assert_array_equal(found.values, np.array([0, 0.7, 0.6, -1], np.float32))
    assert not found.dropped.any()
    dropped = impact("known", papers, top, eligible)
    np.testing.assert_array_equal(dropped.values, np.array([-1, 0.4, 0.6, -1], np.float32))
    assert dropped.dropped.tolist() == [True, False, False, False]


def test_an_unknown_recipe_is_named() -> None:
    nothing = np.zeros(0, bool)
    none = pl.DataFrame(schema={"citations": pl.Int64()})
    assert impact("paper", none, nothing, nothing).values.size == 0
    with pytest.raises(UsageError, match=r"no impact recipe 'square'; known are paper, known, log"):
        impact("square", none, nothing, nothing)
