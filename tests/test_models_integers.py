"""Products of bytes: exact, whatever the processor multiplies with."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hindsight_fast import projection
from hindsight_kernels.pruned import by_blas
from hindsight_models import IntegerProducts, ModelError

PRODUCTS = IntegerProducts()


def bytes_of(
    seed: int, m: int, a: int, n: int, *, extreme: bool
) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    rng = np.random.default_rng(seed)
    if extreme:
        rows = rng.choice(np.array([0, 1, 255], np.uint8), (m, a))
        return rows, rng.choice(np.array([-64, 64], np.int8), (a, n))
    return rng.integers(0, 256, (m, a), np.uint8), rng.integers(-64, 65, (a, n), np.int8)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.sampled_from([1, 2, 17, 1024]),
    a=st.sampled_from([0, 1, 3, 64, 100, 768, 2100]),
    n=st.sampled_from([1, 5, 16, 130]),
    extreme=st.booleans(),
)
def test_sums_are_exact(seed: int, m: int, a: int, n: int, extreme: bool) -> None:
    rows, columns = bytes_of(seed, m, a, n, extreme=extreme)
    expected = rows.astype(np.int64) @ columns.astype(np.int64)
    for product in (PRODUCTS, by_blas):
        found = product(rows, columns)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)


def test_several_threads_multiply_at_once() -> None:
    given = [bytes_of(seed, 300, 128, 64, extreme=True) for seed in range(16)]
    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(PRODUCTS, rows, columns) for rows, columns in given]
        found = [one.result() for one in waiting]
    for (rows, columns), products in zip(given, found, strict=True):
        np.testing.assert_array_equal(products, rows.astype(np.int64) @ columns.astype(np.int64))


def test_wrong_sums_are_noticed_and_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on AVX2 without VNNI, where a pair of large products doesn't fit."""
    right = IntegerProducts.__call__

    def saturating(self: IntegerProducts, rows: Any, columns: Any) -> NDArray[np.int32]:
        return np.minimum(right(self, rows, columns), 2**15 - 1)

    monkeypatch.setattr(IntegerProducts, "__call__", saturating)
    with pytest.raises(ModelError, match="wrong on this processor"):
        IntegerProducts()
    projection.byte_products.cache_clear()
    try:
        with pytest.warns(UserWarning, match="slower than it could be"):
            assert projection.byte_products() is None
    finally:
        projection.byte_products.cache_clear()
