"""Papers along a few axes, and how much of each that leaves out, for `pruned`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_kernels.match import check_array

EXTRA = 3  # terms of a product beside the coordinates: see `pruned`
_AT_ONCE = 4096  # papers projected together
_COORDINATE = 6e4  # float16 still holds it
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
    """Papers along a few axes, with what that leaves out.

    Attributes
    ----------
    mean : ndarray of shape (d,), float32
    axes : ndarray of shape (d, a), float32
        Nearly orthonormal columns.
    coordinates : ndarray of shape (N, a), float16
        t of each paper.
    bounds : ndarray of shape (N, 3), float32
        |e| and |V'e|, rounded up, and m.(x - m). NaN for a paper with NaN or inf.
    limits : Limits
    """

    mean: NDArray[np.float32]
    axes: NDArray[np.float32]
    coordinates: NDArray[np.float16]
    bounds: NDArray[np.float32]
    limits: Limits


def project(
    papers: NDArray[np.float32],
    mean: NDArray[np.float32],
    axes: NDArray[np.float32],
    coordinates: NDArray[np.float16],
    bounds: NDArray[np.float32],
) -> Projected:
    """Fill `coordinates` and `bounds`, which may be memory-mapped.

    Parameters
    ----------
    papers : ndarray of shape (N, d), float32
    mean : ndarray of shape (d,), float32
    axes : ndarray of shape (d, a), float32
        Nearly orthonormal columns; whatever they are, what is nominated is right, or refused where
        numbers are too large.
    coordinates : ndarray of shape (N, a), float16
    bounds : ndarray of shape (N, 3), float32

    Returns
    -------
    Projected
        Of these arrays.

    Raises
    ------
    ValueError
        A coordinate is beyond 60,000, or a bound beyond float32: far from unit vectors.
    """
    m, v = mean.astype(np.float64), axes.astype(np.float64)
    largest = np.zeros(4)
    for start in range(0, len(papers), _AT_ONCE):
        some = slice(start, min(start + _AT_ONCE, len(papers)))
        rows = papers[some].astype(np.float64)
        finite = np.isfinite(rows).all(axis=1, keepdims=True)
        y = np.where(finite, rows, m) - m
        turned = y @ v
        if turned.size and not np.abs(turned).max() <= _COORDINATE:
            raise ValueError(f"a coordinate is {np.abs(turned).max():.3g}, not near 1")
        coordinates[some] = turned
        t = coordinates[some].astype(np.float64)
        e = y - t @ v.T
        size = norms(y)
        measured = np.stack([above(norms(e), size), above(norms(e @ v), size), y @ m], axis=1)
        if not np.abs(measured).max(initial=0) <= _FLT_MAX:
            raise ValueError(f"a bound is {np.abs(measured).max():.3g}, far from unit vectors")
        bounds[some] = np.where(finite, measured, np.nan)
        of_some = np.concatenate([above(norms(t), size)[:, None], np.abs(measured)], axis=1)
        largest = np.maximum(largest, of_some.max(axis=0))
    slack = float(np.linalg.norm(v.T @ v - np.eye(v.shape[1])))
    length, outside, inside, offset = largest.tolist()
    limits = Limits(length, outside, inside, offset, slack * (1 + 1e-9))
    return Projected(mean, axes, coordinates, bounds, limits)


def checked(projected: Projected, papers: NDArray[np.float32]) -> Projected:
    mean = check_array("mean", projected.mean, np.float32, 1, copy=True)
    axes = check_array("axes", projected.axes, np.float32, 2, copy=True)
    coordinates = check_array("coordinates", projected.coordinates, np.float16, 2, copy=False)
    bounds = check_array("bounds", projected.bounds, np.float32, 2, copy=False)
    n, d = papers.shape
    shapes = (mean.shape, axes.shape[:1], coordinates.shape, bounds.shape)
    if shapes != ((d,), (d,), (n, axes.shape[1]), (n, EXTRA)):
        raise ValueError(f"papers are {papers.shape}, but their projections are {shapes}")
    return Projected(mean, axes, coordinates, bounds, projected.limits)


def norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    norms: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return norms


def above(norms: NDArray[np.float64], size: NDArray[np.float64]) -> NDArray[np.float32]:
    """float32 and no less than norms of rows that were computed from others of `size`."""
    raised = norms * (1 + 1e-9) + 1e-12 * size
    return np.nextafter(raised.astype(np.float32), np.float32(np.inf))
