"""Vectors to codes of one byte along each principal axis that matters.

    code = clip(rint((x - mean) @ axes), -127, 127)

The columns of `axes` are principal components (orthonormal) times one common scale, so the squared
L2 distance of codes is that of the vectors, but for rounding and for the axes left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CODES_VERSION = 1
"""Changes whenever the same vectors would have other codes."""

CHUNK = 8192
"""Rows looked at together."""

_SAMPLE = 20_000
_COVERED = 0.9999  # share of components inside the range of a code; one odd paper can't stretch it
_AXES_STEP = 32  # the number of axes is a multiple: whole registers, no tail


@dataclass(frozen=True, slots=True)
class ToCode:
    """From vectors (n, d), float32, to codes (n, a), int8."""

    mean: NDArray[np.float32]
    axes: NDArray[np.float32]

    def __call__(self, vectors: NDArray[np.float32]) -> NDArray[np.int8]:
        turned = np.clip(np.rint((vectors - self.mean) @ self.axes), -127, 127)
        codes: NDArray[np.int8] = np.nan_to_num(turned).astype(np.int8)  # NaN finds anything
        return codes


class Principal(NamedTuple):
    """Where vectors lie.

    Attributes
    ----------
    mean : ndarray of shape (d,), float32
        Of all rows.
    sample : ndarray of shape (m, d), float32
        Some of them, less the mean.
    variances : ndarray of shape (d,), float64
        Of the sample along each component (times m), largest first, none below 0.
    components : ndarray of shape (d, d), float64
        Orthonormal columns, in that order.
    """

    mean: NDArray[np.float32]
    sample: NDArray[np.float32]
    variances: NDArray[np.float64]
    components: NDArray[np.float64]


def principal(vectors: NDArray[np.float32], rows: NDArray[np.int64]) -> Principal:
    """Find the mean of some rows (n, d), at least one, and principal components of a sample.

    Summed in float64 and in order, so the same for the same rows.
    """
    total = np.zeros(vectors.shape[1])
    for some in chunks(rows):
        total += vectors[some].sum(axis=0, dtype=np.float64)
    mean = (total / len(rows)).astype(np.float32)
    sample = vectors[rows[:: -(-len(rows) // _SAMPLE)]] - mean
    values, components = np.linalg.eigh(sample.T.astype(np.float64) @ sample)
    return Principal(mean, sample, np.maximum(values[::-1], 0), components[:, ::-1])


def fit(
    vectors: NDArray[np.float32], rows: NDArray[np.int64], variance: float
) -> tuple[ToCode, float]:
    """Fit the mean of all rows and principal components of a sample; also the share kept.

    Parameters
    ----------
    vectors : ndarray of shape (n, d), float32
        May be memory-mapped.
    rows : ndarray of shape (m,), int64
        Which of them; at least one.
    variance
        Least share of their variance around the mean that the axes must keep.
    """
    mean, sample, variances, components = principal(vectors, rows)
    kept = np.cumsum(variances)
    if not kept[-1] > 1e-12:  # all vectors are the mean
        return ToCode(mean, np.eye(len(mean), min(len(mean), _AXES_STEP), dtype=np.float32)), 1.0
    kept /= kept[-1]
    wanted = int(np.searchsorted(kept, variance)) + 1
    n_axes = min(-(-wanted // _AXES_STEP) * _AXES_STEP, len(mean))
    axes = components[:, :n_axes].astype(np.float32)
    reach = float(np.quantile(np.abs(sample @ axes), _COVERED))
    return ToCode(mean, np.ascontiguousarray(axes * (127 / reach))), float(kept[n_axes - 1])


def share_kept(to_code: ToCode, vectors: NDArray[np.float32], rows: NDArray[np.int64]) -> float:
    """Return the share of the variance of some rows around `to_code.mean` that its axes keep."""
    sample = vectors[rows[:: -(-len(rows) // _SAMPLE)]] - to_code.mean
    whole = float(np.square(sample, dtype=np.float64).sum())
    scale = float(np.square(to_code.axes[:, 0], dtype=np.float64).sum())
    kept = float(np.square(sample @ to_code.axes, dtype=np.float64).sum())
    return kept / scale / whole if whole > 1e-12 else 1.0


def chunks(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Give the rows, `CHUNK` at a time."""
    for start in range(0, len(rows), CHUNK):
        yield rows[start : start + CHUNK]
