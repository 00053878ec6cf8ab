"""Impact by the published recipe."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import reference
from hindsight_fast.errors import UsageError
from hindsight_fast.impact import impact, paper_impact


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


def test_an_unknown_recipe_is_named() -> None:
    nothing = np.zeros(0, bool)
    assert impact("paper", np.zeros(0, np.int64), nothing, nothing).size == 0
    with pytest.raises(UsageError, match=r"no impact recipe 'log'; known are paper"):
        impact("log", np.zeros(0, np.int64), nothing, nothing)
