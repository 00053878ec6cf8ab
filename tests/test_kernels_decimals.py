"""decimals: the float32 of Python's float, to the bit, or nothing."""

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hindsight_kernels.decimals import NOT_PLAIN, decimals


def read(lists: list[str], dim: int) -> tuple[NDArray[np.float32], list[int]]:
    """The lists one after another in one text, with something between them."""
    pieces = [text.encode() for text in lists]
    stops = np.cumsum([len(piece) + 1 for piece in pieces], dtype=np.int64) - 1
    starts = stops - np.array([len(piece) for piece in pieces], np.int64)
    text = np.frombuffer(b"7".join([*pieces, b""]), np.uint8)
    values, counts = decimals(text, starts, stops, dim)
    return values, counts.tolist()


def bits(value: float) -> int:
    """Of float32(float64); overflow is infinity."""
    with np.errstate(over="ignore"):
        return int(np.float32(value).view(np.uint32))


def read_one(text: str) -> int | None:
    """Bits of a list of one, None where it was left to others."""
    values, counts = read([text], 1)
    assert counts[0] in (1, NOT_PLAIN)
    return int(values[0].view(np.uint32)[0]) if counts[0] == 1 else None


PLAIN = [
    "0", "-0", "0.0", "-0.0", "0e5", "1", "-1", "1.0", "0.5", "3.141592653589793", "1e5", "1E5",
    "1e+5", "1e-5", "-2.5e-07", "0.1", "0.0001", "0.012345678901234567", "123456789012345678",
    "0.00000000000000000123456789012345678e10", "1e22", "1e-22", "3.4028235e28", "1e40", "7e-30",
    "999999999999999999e21", "16777215", "1.17549435e-22", " 1", "1 ", "\t1\n", "00012.5",
    "1.1754943508222875", "-7.006492321624085e-10", "0.30000001192092896", "5.877472e-10",
]  # fmt: skip


@pytest.mark.parametrize("text", PLAIN)
def test_plain_numbers_are_read(text: str) -> None:
    assert read_one(text) == bits(float(text))


LEFT = [
    "", " ", ",", "-", "+1", ".5", "1.", "1.e5", "e5", "1e", "1e+", "1e5.5", "0x10", "1_000", "nan",
    "NaN", "Infinity", "-Infinity", "null", "true", '"1"', "[1]", "1.2.3", "1 2", "--1", "1-", "١",
    "1234567890123456789", "0.1234567890123456789", "1e99999", "1e400", "1e-400",
    "1e-46", "1.4e-45", "16777217", "1.00000005960464478", "{}", "1,", "1;2", "1e00005", "1e45",
]  # fmt: skip


@pytest.mark.parametrize("text", LEFT)
def test_what_is_not_proven_is_left_to_others(text: str) -> None:
    assert read_one(text) is None


def test_numbers_are_counted_and_too_many_are_not_kept() -> None:
    values, counts = read(["1,2,3", "4, 5", "6,7,8,9", "10,x,12", "", "-1.5 ,2e0,\n3"], 3)
    assert counts == [3, 2, 4, NOT_PLAIN, NOT_PLAIN, 3]
    assert values[[0, 5]].tolist() == [[1, 2, 3], [-1.5, 2, 3]]


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["repr32", "repr64", "e32", "f9"]))
def test_decimals_of_any_float32_are_read_to_the_bit(pattern: int, form: str) -> None:
    value = np.uint32(pattern).view(np.float32)
    if not np.isfinite(value):
        return
    wide = float(value)
    text = {
        "repr32": str(value),  # the shortest decimals that stand for it
        "repr64": repr(wide),  # those of the same number as float64: Semantic Scholar's
        "e32": f"{wide:.8e}",
        "f9": f"{wide:.17g}",
    }[form]
    found = read_one(text)
    assert found in (None, bits(float(text)))
    if 1e-25 < abs(wide) < 1e25:
        # Few decimals may lie in the middle of two float32, which no interval proves.
        assert found == pattern or (found is None and is_midway(text, value))


def is_midway(text: str, value: np.float32) -> bool:
    """Whether a decimal number lies just between a float32 and one of its neighbours."""
    neighbours = (np.nextafter(value, np.float32(side)) for side in (-np.inf, np.inf))
    return any(
        2 * Fraction(text) == Fraction(float(value)) + Fraction(float(n)) for n in neighbours
    )


def test_a_number_in_the_middle_of_two_is_left_to_others() -> None:
    value = np.uint32(1_315_108_002).view(np.float32)
    assert str(value) == "9.519208e+08" and is_midway("9.519208e+08", value)
    assert read_one("9.519208e+08") is None and not is_midway("9.519207e+08", value)


@settings(deadline=None, max_examples=100)
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 17))
def test_decimals_of_any_float64_are_read_to_the_bit_or_not(value: float, digits: int) -> None:
    for text in (repr(value), f"{value:.{digits}g}"):
        assert read_one(text) in (None, bits(float(text)))


@settings(deadline=None, max_examples=100)
@given(st.integers(2**23, 2**24 - 1), st.integers(-8, 8), st.integers(-30, 30))
def test_numbers_near_the_middle_of_two_float32(mantissa: int, ulps: int, power: int) -> None:
    middle = (mantissa + 0.5) * 2.0**power
    (pattern,) = struct.unpack("<q", struct.pack("<d", middle))
    (value,) = struct.unpack("<d", struct.pack("<q", pattern + ulps))
    assert read_one(repr(value)) in (None, bits(value))


def test_most_numbers_are_plain() -> None:
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((50, 768))
    values, counts = read([", ".join(map(repr, row)) for row in wide.tolist()], 768)
    assert counts == [768] * 50
    np.testing.assert_array_equal(values, wide.astype(np.float32))


def test_wrong_arrays_are_refused() -> None:
    text, at = np.frombuffer(b"1,2", np.uint8), np.array([0])
    with pytest.raises(ValueError, match="reaches outside the text of 3 bytes"):
        decimals(text, at, np.array([4]), 2)
    with pytest.raises(ValueError, match="reaches outside"):
        decimals(text, np.array([-1]), np.array([2]), 2)
    with pytest.raises(ValueError, match="reaches outside"):
        decimals(text, np.array([2]), np.array([1]), 2)
    with pytest.raises(ValueError, match="2 lists begin, 1 end"):
        decimals(text, np.array([0, 1]), np.array([1]), 2)
    with pytest.raises(TypeError, match="starts is int32"):
        decimals(text, at.astype(np.int32), at, 2)  # pyright: ignore[reportArgumentType]
    values, counts = decimals(text, at[:0], at[:0], 2)
    assert values.shape == (0, 2) and counts.shape == (0,)
