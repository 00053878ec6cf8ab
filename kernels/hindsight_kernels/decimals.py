"""Lists of decimal numbers in text to float32: what float(), then float32(), gives, to the bit.

A number is w * 10^p, w of at most 18 significant digits and |p| <= 44. Converting w to float64
errs by a factor of 1 +- 2^-53 at most, and so does each of the one or two products or quotients
with powers of ten that are exact; so the float64 next to the number lies within 1 +- 2^-50 of what
was computed. If both ends of that interval round to the same normal float32, so does all between
them. That proves nearly every number that programs write, those of 17 digits that stand for a
float32 above all. A list that holds any other number, or anything that is no number, is left to
the caller and a slower, careful parser.
"""

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindsight_kernels._jit import F32_2D, I32, I64_IN, helper, kernel
from hindsight_kernels.match import check_array

NOT_PLAIN = -1
"""In place of a count: the list is left to the caller."""

_U8_IN = types.Array(types.uint8, 1, "C", readonly=True)
_DIGITS = np.uint64(18)  # the most that fit an int64 whatever they are
_NEAR = 2.0**-50
_LEAST = 2.0**-125  # twice the least normal float32: what is computed may err
_FAR = 1 << 20  # an exponent that no number here has
_POWERS = 10.0 ** np.arange(23)
_POWERS.flags.writeable = False
# Places and digits are unsigned: for a signed place each access would test for a negative one.
_0, _1, _4, _9, _10 = (np.uint64(n) for n in (0, 1, 4, 9, 10))
_PLUS, _COMMA, _MINUS, _POINT, _ZERO, _BIG_E, _SMALL_E, _BLANK = (ord(c) for c in "+,-.0Ee ")


@helper
def _scaled(digits: Any, power: Any) -> Any:
    """The float32 of digits * 10^power, or NaN where that can't be told here."""
    if power < -44 or power > 44:
        return np.float32(np.nan)
    value = float(np.int64(digits))
    if power < -22:
        value, power = value / _POWERS[22], power + 22
    elif power > 22:
        value, power = value * _POWERS[22], power - 22
    value = value * _POWERS[power] if power >= 0 else value / _POWERS[-power]
    rounded = np.float32(value * (1.0 - _NEAR))
    if rounded == np.float32(value * (1.0 + _NEAR)) and (value >= _LEAST or digits == _0):
        return rounded
    return np.float32(np.nan)


@helper
def _exponent(text: Any, at: Any, stop: Any) -> Any:
    """(value, its end) of what follows an e; `_FAR` where that is no number of 1 to 4 digits."""
    negative = at < stop and text[at] == _MINUS
    if negative or (at < stop and text[at] == _PLUS):
        at += _1
    first = at
    value: Any = 0
    while at < stop and at - first < _4 and np.uint64(text[at]) - np.uint64(_ZERO) <= _9:
        value = value * 10 + np.int64(text[at]) - _ZERO
        at += _1
    if at == first:
        return _FAR, at
    return (-value if negative else value), at


@helper
def _list(text: Any, at: Any, stop: Any, out: Any) -> Any:
    """Fill `out` with the numbers between commas; returns how many there are, or NOT_PLAIN.

    Those beyond the size of `out` are only counted.
    """
    count = 0
    while True:
        while at < stop and text[at] <= _BLANK:
            at += _1
        negative = at < stop and text[at] == _MINUS
        if negative:
            at += _1
        first, point, digits, significant = at, _0, _0, _0
        while at < stop:
            digit = np.uint64(text[at]) - np.uint64(_ZERO)
            if digit <= _9:
                digits = digits * _10 + digit
                significant += np.uint64(digits != _0)
            elif text[at] == _POINT and point == _0 and at != first:
                point = at + _1
            else:
                break
            at += _1
        if at in (first, point) or significant > _DIGITS:
            return NOT_PLAIN
        power = np.int64(point) - np.int64(at) if point != _0 else 0
        if at < stop and (text[at] == _SMALL_E or text[at] == _BIG_E):
            exponent, at = _exponent(text, at + _1, stop)
            power += exponent
        value = _scaled(digits, power)
        if np.isnan(value):
            return NOT_PLAIN
        if count < out.size:
            out[count] = -value if negative else value
        count += 1
        while at < stop and text[at] <= _BLANK:
            at += _1
        if at >= stop:
            return count
        if text[at] != _COMMA:
            return NOT_PLAIN
        at += _1


@kernel(_U8_IN, I64_IN, I64_IN, F32_2D, I32)
def _lists(
    text: NDArray[np.uint8],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    out: NDArray[np.float32],
    counts: NDArray[np.int32],
) -> None:
    for i in range(starts.size):
        counts[i] = _list(text, np.uint64(starts[i]), np.uint64(stops[i]), out[i])


def decimals(
    text: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64], dim: int
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Read lists of numbers as JSON writes them, without their brackets; zeros may lead.

    Parameters
    ----------
    text : ndarray of shape (m,), uint8
    starts, stops : ndarray of shape (n,), int64
        List i is text[starts[i]:stops[i]].
    dim : int
        How many numbers a list should have.

    Returns
    -------
    values : ndarray of shape (n, dim), float32
        An infinity where a number is too large. A row is meaningful where its count is `dim`.
    counts : ndarray of shape (n,), int32
        How many numbers each list has; `NOT_PLAIN` where it holds anything that is not proven to
        be read right: no number, 19 or more significant digits, a number below 2.4e-38, or one too
        near the middle of two float32. No decimals of a float32 are such a case; of lists of 768
        numbers that are any float64, one in some ten thousand is.

    Raises
    ------
    TypeError
        An array is of another dtype.
    ValueError
        A list reaches outside the text, or an array has another number of dimensions.
    """
    text = check_array("text", text, np.uint8, 1, copy=True)
    starts = check_array("starts", starts, np.int64, 1, copy=True)
    stops = check_array("stops", stops, np.int64, 1, copy=True)
    if starts.shape != stops.shape:
        raise ValueError(f"{starts.size} lists begin, {stops.size} end")
    if not ((starts >= 0) & (starts <= stops) & (stops <= text.size)).all():
        raise ValueError(f"a list reaches outside the text of {text.size} bytes")
    values = np.empty((starts.size, dim), np.float32)
    counts = np.empty(starts.size, np.int32)
    _lists(text, starts, stops, values, counts)
    return values, counts
