"""A vector as others write it, to a unit vector."""

import json
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.papers.readers.lines import is_list
from hindsight_kernels.decimals import NOT_PLAIN, decimals

Refuse = Callable[[int, str, str], None]
"""Called with the place of a vector, a key of `REASONS`, and what was found."""


def read_texts(
    data: bytes,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    dim: int,
    whole: Callable[[int], object],
    refuse: Refuse,
) -> NDArray[np.float32]:
    """Read vectors that are text.

    Parameters
    ----------
    data
        Holds the numbers of vector i at [starts[i], stops[i]), without brackets.
    whole
        Gives vector i as JSON has it, where the kernel leaves it to a careful reader.
    refuse
        Called for each that is none; its row is then NaN.

    Returns
    -------
    ndarray of shape (n, dim), float32
    """
    values, counts = decimals(np.frombuffer(data, np.uint8), starts, stops, dim)
    for i in np.flatnonzero(counts != dim).tolist():
        found = careful(whole(i), dim) if counts[i] == NOT_PLAIN else _wrong_length(counts[i], dim)
        if isinstance(found, tuple):
            refuse(i, *found)
            values[i] = np.nan
        else:
            values[i] = found
    return values


def careful(vector: object, dim: int) -> NDArray[np.float32] | tuple[str, str]:
    """Read a vector that JSON holds as a list, or as a string with one.

    Otherwise return a key of `REASONS`, and what was found.
    """
    try:
        numbers: object = json.loads(vector) if isinstance(vector, str) else vector
    except (ValueError, RecursionError):
        numbers = vector
    if not is_list(numbers) or not all(type(number) in (int, float) for number in numbers):
        return "not_numbers", str(vector)[:80]
    if len(numbers) != dim:
        return _wrong_length(len(numbers), dim)
    try:
        with np.errstate(over="ignore"):
            return np.array([float(number) for number in numbers]).astype(np.float32)
    except OverflowError:  # an integer beyond float64
        return "not_finite", ""


def _wrong_length(found: int, dim: int) -> tuple[str, str]:
    return "wrong_length", f"{found} numbers, {dim} were expected"


def read_lists(lengths: NDArray[np.int64], dim: int, refuse: Refuse) -> NDArray[np.bool_]:
    """Tell which lists have the right length; `refuse` is called for each other."""
    for i in np.flatnonzero(lengths != dim).tolist():
        refuse(i, *_wrong_length(lengths[i], dim))
    right: NDArray[np.bool_] = lengths == dim
    return right


def to_unit(
    values: NDArray[np.floating],
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
    """Scale rows to length 1, in float64.

    Parameters
    ----------
    values : ndarray of shape (m, dim)

    Returns
    -------
    units : ndarray of shape (m, dim), float32
    finite, nonzero : ndarray of shape (m,), bool
        A row is a unit vector where its length is both.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", values, values, dtype=np.float64)
        finite, nonzero = np.isfinite(squares), squares != 0
        lengths = np.where(finite & nonzero, np.sqrt(squares), 1.0)
        units = np.empty(values.shape, np.float32)
        np.divide(values, lengths[:, None], out=units, casting="same_kind")
    return units, finite, nonzero
