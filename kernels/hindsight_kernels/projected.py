"""Papers as small integers along axes, and how much of each that leaves out, for `pruned`."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_kernels.match import check_array

ZERO = 128
"""The code of 0."""
STEPS = 127
"""Codes go from ZERO - STEPS to ZERO + STEPS."""
COLUMNS = 5
"""Numbers of a paper beside its codes."""

_AT_ONCE = 4096  # papers projected together
_LARGEST = 6e4  # of a coordinate: unit vectors have none above 2
_FLT_MAX = float(np.finfo(np.float32).max)


class Limits(NamedTuple):
    """What no paper exceeds, and how far axes are from orthonormal."""

    length: float
    """Largest |t|."""
    outside: float
    """Largest |e|."""
    inside: float
    """Largest |V'e|."""
    offset: float
    """Largest |m.(x - m)|."""
    slack: float
    """g, the Frobenius norm of V'V - I."""


class Projected(NamedTuple):
    """Papers along axes, with what that leaves out.

    Attributes
    ----------
    mean : ndarray of shape (d,), float32
    axes : ndarray of shape (d, a), float32
        Nearly orthonormal columns.
    codes : ndarray of shape (N, a), uint8
        t of each paper is its scale times (codes - 128).
    bounds : ndarray of shape (N, 5), float32
        The scale; |e|, |V'e| and |t|, rounded up; m.(x - m). NaN for a paper with NaN or inf.
    limits : Limits
    """

    mean: NDArray[np.float32]
    axes: NDArray[np.float32]
    codes: NDArray[np.uint8]
    bounds: NDArray[np.float32]
    limits: Limits


def project(
    papers: NDArray[np.float32],
    mean: NDArray[np.float32],
    axes: NDArray[np.float32],
    codes: NDArray[np.uint8],
    bounds: NDArray[np.float32],
) -> Projected:
    """Fill `codes` and `bounds`, which may be memory-mapped.

    Parameters
    ----------
    papers : ndarray of shape (N, d), float32
    mean : ndarray of shape (d,), float32
    axes : ndarray of shape (d, a), float32
        Nearly orthonormal columns; whatever they are, what is nominated is right, or refused where
        numbers are too large. Codes say most where all axes have about the same variance.
    codes : ndarray of shape (N, a), uint8
    bounds : ndarray of shape (N, 5), float32

    Returns
    -------
    Projected
        Of these arrays.

    Raises
    ------
    ValueError
        A coordinate is beyond 60,000, or a bound beyond float32: far from unit vectors.

    Notes
    -----
    With y = x - m, G = V'V - I and g its norm, e = y - V t has |e|^2 = |y|^2 - 2 V'y.t + |t|^2 +
    t'G t, and V'e = V'y - t - G t: one product of matrices tells both.
    """
    m, v = mean.astype(np.float64), axes.astype(np.float64)
    slack = float(np.linalg.norm(v.T @ v - np.eye(v.shape[1]))) * (1 + 1e-9)
    u = rounding(*v.shape)
    largest = np.zeros(4)
    for start in range(0, len(papers), _AT_ONCE):
        some = slice(start, min(start + _AT_ONCE, len(papers)))
        rows = papers[some].astype(np.float64)
        finite = np.isfinite(rows).all(axis=1, keepdims=True)
        y = np.where(finite, rows, m) - m
        turned = y @ v
        if turned.size and not np.abs(turned).max() <= _LARGEST:
            raise ValueError(f"a coordinate is {np.abs(turned).max():.3g}, not near 1")
        steps, scale = quantised(turned, STEPS)
        codes[some] = steps + ZERO
        t = scale[:, None].astype(np.float64) * steps
        size, length = norms(y), norms(t)
        all_sizes = size + length + norms(turned)
        squared = size**2 - 2 * np.einsum("ij,ij->i", turned, t) + length**2
        outside = np.sqrt(np.maximum(squared, 0) + 4 * u * all_sizes**2 + slack * length**2)
        inside = norms(turned - t) + slack * length
        measured = np.stack(
            [
                scale,
                above(outside, all_sizes, u),
                above(inside, all_sizes, u),
                above(length, size, u),
                y @ m,
            ],
            axis=1,
        )
        if not np.abs(measured).max(initial=0) <= _FLT_MAX:
            raise ValueError(f"a bound is {np.abs(measured).max():.3g}, far from unit vectors")
        bounds[some] = np.where(finite, measured, np.nan)
        largest = np.maximum(largest, np.abs(measured[:, [3, 1, 2, 4]]).max(axis=0))
    far = [float(one) for one in largest]
    limits = Limits(far[0], far[1], far[2], far[3], slack)
    return Projected(mean, axes, codes, bounds, limits)


def quantised(
    rows: NDArray[np.float64], steps: int
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Whole numbers from -steps to steps, and for each row what they are multiplied with."""
    largest = np.abs(rows).max(axis=1, initial=0)
    scale = (largest / steps).astype(np.float32)
    scale[scale == 0] = 1
    whole = np.clip(np.rint(rows / scale[:, None]), -steps, steps)
    return whole, scale


def checked(projected: Projected, papers: NDArray[np.float32]) -> Projected:
    """The same with arrays that kernels take, if they are of these papers, and axes of numbers.

    Raises
    ------
    TypeError, ValueError
        They aren't.
    """
    mean = check_array("mean", projected.mean, np.float32, 1, copy=True)
    axes = check_array("axes", projected.axes, np.float32, 2, copy=True)
    codes = check_array("codes", projected.codes, np.uint8, 2, copy=False)
    bounds = check_array("bounds", projected.bounds, np.float32, 2, copy=False)
    n, d = papers.shape
    shapes = (mean.shape, axes.shape[:1], codes.shape, bounds.shape)
    if shapes != ((d,), (d,), (n, axes.shape[1]), (n, COLUMNS)):
        raise ValueError(f"papers are {papers.shape}, but their projections are {shapes}")
    if not (np.isfinite(mean).all() and np.isfinite(axes).all()):
        raise ValueError("the axes of the projection, or its mean, are no numbers")
    return Projected(mean, axes, codes, bounds, projected.limits)


def norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lengths of rows."""
    found: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return found


def rounding(d: int, a: int) -> float:
    """More than what rounding adds to the length of a product of a row and axes (d, a), per length.

    Each of at most max(d, a) sums of as many products is off by gamma of their number times the
    product of lengths (Higham 2002, section 3.1); that of all is larger by the root of their
    number. Never less than 1e-12.
    """
    most = float(max(d, a))
    return max(1e-12, 4 * most * math.sqrt(most) * 2.0**-53)


def above(
    lengths: NDArray[np.float64], size: NDArray[np.float64], rounded: float
) -> NDArray[np.float32]:
    """float32 and no less than lengths of rows that were computed from others of `size`."""
    raised = lengths * (1 + 1e-9) + rounded * size
    return np.nextafter(raised.astype(np.float32), np.float32(np.inf))
