"""Two sets of vectors of the same texts, against the definition written out."""

import numpy as np
import pytest
from numpy.typing import NDArray

from hindsight_fast import agreement
from hindsight_fast.agreement import compare
from hindsight_fast.errors import UsageError


def units(n: int, d: int = 12, seed: int = 0) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).standard_normal((n, d)) + 1.0
    return unit(rows)


def moved(vectors: NDArray[np.float32], by: float) -> NDArray[np.float32]:
    rows = vectors + by * np.random.default_rng(9).standard_normal(vectors.shape)
    return unit(rows)


def unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    vectors: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1)[:, None]).astype(np.float32)
    return vectors


@pytest.mark.parametrize("block", [1, 7, 512])
@pytest.mark.parametrize("n", [2, 30])
def test_it_is_the_definition(monkeypatch: pytest.MonkeyPatch, n: int, block: int) -> None:
    monkeypatch.setattr(agreement, "_BLOCK", block)
    reference, theta = units(n), 0.4
    other = moved(reference, 0.05)
    found = compare(reference, other, theta)
    cosines, errors, same, own = list[float](), list[float](), list[bool](), list[bool]()
    for i in range(n):
        r, o = reference[i].astype(float), other[i].astype(float)
        cosines.append(r @ o / np.linalg.norm(r) / np.linalg.norm(o))
        own.append(int(np.argmax([r @ each.astype(float) for each in other])) == i)
        for j in set(range(n)) - {i}:
            before, after = (float(r @ each[j].astype(float)) for each in (reference, other))
            errors.append(abs(before - after))
            same.append((before >= theta) == (after >= theta))
    assert found.n == n and found.theta == theta
    assert found.cosine_mean == pytest.approx(np.mean(cosines), abs=1e-12)
    assert found.cosine_min == pytest.approx(min(cosines), abs=1e-12)
    low = [found.cosine_p1, found.cosine_p5, found.cosine_p50]
    assert low == pytest.approx(list(np.percentile(cosines, [1, 5, 50])), abs=1e-12)
    assert found.similarity_error == pytest.approx(max(errors), abs=1e-12)
    assert found.decisions == np.mean(same)
    assert found.own_nearest == np.mean(own)
    assert n == 2 or 0 < np.mean(same) < 1


def test_equal_vectors_agree_exactly_even_at_a_similarity_that_is_theta() -> None:
    reference = units(40)
    for theta in (0.5, float(reference[0] @ reference[1])):
        found = compare(reference, reference.copy(), theta)
        assert (found.cosine_mean, found.cosine_min) == (1.0, 1.0)
        assert (found.similarity_error, found.decisions) == (0.0, 1.0)
    assert "100.00% of decisions at theta" in found.in_words()


def test_vectors_of_other_texts_are_found_out_even_where_all_are_alike() -> None:
    alike = unit(units(40).astype(float) * 1e-3 + np.eye(12)[0])
    shuffled = compare(alike, np.roll(alike, 1, axis=0), 0.9)
    assert shuffled.cosine_mean > agreement.SAME_MODEL and not shuffled.same_model
    assert "only 0% are nearest to their own" in shuffled.in_words()
    twice = np.concatenate([alike, alike])  # a text that comes twice is as near to the other
    assert compare(twice, twice, 0.9).same_model


def test_a_single_text_has_no_pairs() -> None:
    one = compare(units(1), moved(units(1), 0.01), 0.9)
    assert one.n == 1 and one.cosine_min < 1 and one.own_nearest == 1
    assert one.similarity_error is None and one.decisions is None
    assert "decisions" not in one.in_words() and one.facts()["decisions"] is None


def test_what_can_not_be_compared_is_refused() -> None:
    good = units(4)
    with_nan, with_zero = good.copy(), good.copy()
    with_nan[2, 1] = np.nan
    with_zero[3] = 0
    for other in (with_nan, with_zero):
        for pair in ((good, other), (other, good)):
            with pytest.raises(UsageError, match="1 of the vectors"):
                compare(*pair, 0.9)
    for other in (good[:3], good[:, :5], good[0]):
        with pytest.raises(UsageError, match="can't be compared"):
            compare(good, other, 0.9)
    with pytest.raises(UsageError, match="at least one row"):
        compare(good[:0], good[:0], 0.9)
