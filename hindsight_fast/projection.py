"""Papers as bytes along axes, so that an exact scan multiplies few and small numbers.

`hindsight_kernels.pruned_scan` finds the same papers along any axes; which and how many decide
only how long it takes. Axes are the first principal components, turned at random among themselves:
so all have about the same variance, and a byte says as much of each. Their number makes

    PAIR + BYTE axes + PREPARING d axes / papers + RESCORING d (share of papers that are rescored)

least, in products of float32 per paper and idea. The share is measured on a sample, some papers of
which are taken for ideas: as the mean over a scan, which at first knows little of what is near. It
doesn't grow as K does, so it is measured for larger K too.

Files: scan-mean.npy (float32 (d,)), scan-axes.npy (float32 (d, a)), scan-codes.npy (uint8 (n, a))
and scan-bounds.npy (float32 (n, 5)); see `hindsight_kernels.Projected`.
"""

import math
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.codes import Principal, principal
from hindsight_fast.errors import ArtefactError
from hindsight_fast.storage import create_array, map_array
from hindsight_kernels import Limits, Multiply, Projected, project
from hindsight_models import ModelError

MEAN, AXES, CODES, BOUNDS = FILES = (
    "scan-mean.npy",
    "scan-axes.npy",
    "scan-codes.npy",
    "scan-bounds.npy",
)

FEWEST: Final = 20_000
"""Of fewer papers the plain scan takes no time worth saving."""

PAIR, BYTE, RESCORING, PREPARING = 60.0, 0.25, 100.0, 6.0
"""In products of float32: what an idea and a paper take beside their bytes, a byte, and a paper
that is rescored, per number of its vector (most of that is waiting for it); and what an idea takes
alone, per number of the axes (three products in float64). Two threads of a Xeon with AMX take 70
and 0.13 for the first two; a processor without VNNI takes more for a byte."""

_BOUNDS = 5
_IDEAS = 64
_STEP = 32
_PARTS = 3.0 ** -np.arange(6)  # of a scan's papers, where the share is measured
_QUANTISED = 3.2 / 12**0.5  # error of a row of bytes, in lengths per step: the largest of some
# hundred numbers is some 3.2 times their root mean square
_LONGEST = 3.0  # of unit vectors, the mean's norm and their variance are at most 1 each
_SEED = 20230601
_LARGEST_K = 1_000_000
_MORE = (1, 2, 4, 8, 16, 32, 64, 128)  # K, in the K that axes are chosen for


def build_projection(
    vectors: NDArray[np.float32], eligible: NDArray[np.bool_], folder: Path, k: int
) -> dict[str, Any] | None:
    """Write the files into a folder, for a scan for the k nearest.

    Parameters
    ----------
    vectors : ndarray of shape (n, d), float32
        Unit rows; may be memory-mapped.
    eligible : ndarray of shape (n,), bool
        Which rows can be found.
    folder
        Exists; publishing it is the caller's business.
    k

    Returns
    -------
    dict or None
        Facts for the manifest, among them what this scan costs (see `cost`); None, and no files,
        where the plain scan does as well.

    Raises
    ------
    StorageError
        No space, or no rights.
    ArtefactError
        A vector is none: NaN, infinite, or far from unit length.
    """
    rows = np.flatnonzero(eligible)
    if len(rows) < FEWEST:
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        found = principal(vectors, rows)
        longest = np.linalg.norm(found.mean) + found.variances.sum() / len(found.sample)
    if not longest <= _LONGEST:
        raise ArtefactError("a vector is no unit vector: `hindsight-fast verify` says where")
    chosen = _axes(found, len(rows), k)
    if chosen is None:
        return None
    n_axes, rescoring = chosen.n_axes, chosen.rescoring
    n, d = vectors.shape
    mean = create_array(folder / MEAN, np.float32, (d,))
    axes = create_array(folder / AXES, np.float32, (d, n_axes))
    mean[:], axes[:] = found.mean, turned(found.components[:, :n_axes])
    codes = create_array(folder / CODES, np.uint8, (n, n_axes))
    bounds = create_array(folder / BOUNDS, np.float32, (n, _BOUNDS))
    try:
        limits = project(vectors, mean, axes, codes, bounds).limits
    except ValueError as error:
        raise ArtefactError(f"{error}: `hindsight-fast verify` says where") from error
    kept = found.variances[:n_axes].sum() / found.variances.sum()
    return {
        "n_axes": n_axes,
        "variance": float(kept),
        "products": PAIR + (BYTE + PREPARING * d / len(rows)) * n_axes,
        "rescoring": rescoring,
        "k": k,
        "limits": limits._asdict(),
    }


def turned(axes: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Other axes of the same space: columns (d, a), turned at random among themselves."""
    n_axes = axes.shape[1]
    rng = np.random.default_rng(_SEED)
    turn = np.linalg.qr(rng.standard_normal((n_axes, n_axes)))[0]
    other: NDArray[np.float64] = axes.astype(np.float64) @ turn
    return other


def is_current(facts: Mapping[str, Any]) -> bool:
    """Whether a projection has the facts of this version; `pool --overwrite` makes it anew."""
    return isinstance(facts.get("rescoring"), list)


def cost(facts: dict[str, Any], k: int) -> float:
    """What a scan for the k nearest costs, about, in products per paper and idea.

    Parameters
    ----------
    facts
        By `build_projection`, for some other k perhaps: so many more papers are rescored.
    """
    rescoring = [float(one) for one in facts["rescoring"]]
    known = [int(facts["k"]) * more for more in _MORE]
    # Of no papers none is rescored; beyond the last as many more as there are more neighbours.
    some = float(np.interp(k, [0.0, *known], [0.0, *rescoring]))
    return float(facts["products"]) + some * max(1.0, k / known[-1])


class _Chosen(NamedTuple):
    """A number of axes, and products for rescoring, for each of `_MORE`."""

    n_axes: int
    rescoring: list[float]


def _axes(found: Principal, n: int, k: int) -> _Chosen | None:
    """By how many axes a scan of n papers costs least; None where the plain scan does."""
    rows = found.sample.astype(np.float64)
    m, d = rows.shape
    offset = rows @ found.mean
    along_all = rows @ found.components
    ideas = along_all[:: -(-m // _IDEAS)]
    similarity = ideas @ along_all.T + offset
    ordered = np.sort(similarity, axis=1)

    # A scan looks at the best of each of two parts when it saw 1,024 papers, and then 3 times more.
    own = PREPARING * d / n
    looks = 2 * (1 + math.log(max(n / 2048, 1), 3))

    def rescored(bound: NDArray[np.float64], k: float) -> float:
        """Products per paper, for this upper bound of each similarity."""
        # Each idea is one of the papers, and finds itself first.
        places = np.minimum(1 + np.maximum(1, np.rint(k * m / (n * _PARTS))), m).astype(int)
        shares = [float((bound >= ordered[:, -place, None]).mean()) for place in places]
        # At each look at the 2 k most promising half of them lie in the processor's cache.
        return float(RESCORING * d * (_PARTS @ shares / _PARTS.sum() + k * looks / n))

    of_all, of_ideas = (np.einsum("ij,ij->i", some, some) for some in (along_all, ideas))
    along, inside, w = np.zeros_like(similarity), np.zeros(m), np.zeros(len(ideas))
    chosen: _Chosen | None = None
    lowest, best = float(d), similarity
    for start in range(0, d, _STEP):
        some = slice(start, min(start + _STEP, d))
        along += ideas[:, some] @ along_all[:, some].T
        inside += np.einsum("ij,ij->i", along_all[:, some], along_all[:, some])
        w += np.einsum("ij,ij->i", ideas[:, some], ideas[:, some])
        rounding, of_rounded = _QUANTISED / 127 * np.sqrt(inside), _QUANTISED / 64 * np.sqrt(w)
        left_out = np.sqrt(np.maximum(of_all - inside, 0) + rounding**2)
        of_left_out = np.sqrt(np.maximum(of_ideas - w, 0) + of_rounded**2)
        bound = along + offset + np.outer(of_left_out, left_out)
        bound += np.outer(np.sqrt(w), rounding) + np.outer(of_rounded, np.sqrt(inside))
        if (this := PAIR + (BYTE + own) * some.stop + rescored(bound, k)) < lowest:
            lowest, best = this, bound.copy()
            chosen = _Chosen(some.stop, [])
    if chosen is not None:
        chosen.rescoring.extend(rescored(best, more * k) for more in _MORE)
    return chosen


@cache
def byte_products() -> Multiply | None:
    """Fast products of bytes for `pruned_scan`, or None, where it must do without."""
    try:
        # It needs onnx and onnxruntime, which opening a pool does not.
        from hindsight_models import IntegerProducts

        return IntegerProducts()
    except (ImportError, ModelError) as error:
        warnings.warn(f"the exact scan is slower than it could be: {error}", stacklevel=2)
        return None


def open_projection(folder: Path, facts: dict[str, Any], n: int, d: int) -> Projected:
    """Map the files of a folder.

    Raises
    ------
    ArtefactError
        A file or a fact is missing or of another kind.
    """
    try:
        n_axes, limits = facts["n_axes"], Limits(**facts["limits"])
        products: object = facts["products"]
        rescoring: list[object] = facts["rescoring"]
        if not (type(n_axes) is int and 0 < n_axes <= d):
            raise ValueError(f"{n_axes!r} axes")
        if not (is_current(facts) and len(rescoring) == len(_MORE)):
            raise ValueError(f"rescoring {rescoring!r}")
        for one in (*limits, products, *rescoring):
            if not (isinstance(one, float) and 0 <= one < math.inf):
                raise ValueError(f"{one!r} among {limits}, {products!r} and {rescoring!r}")
        if not (type(facts["k"]) is int and 1 <= facts["k"] <= _LARGEST_K):
            raise ValueError(f"K = {facts['k']!r}")
    except (KeyError, TypeError, ValueError) as error:
        raise ArtefactError(f"{folder}: no facts of a projection: {str(error)[:200]}") from error
    return Projected(
        np.array(map_array(folder / MEAN, np.float32, (d,))),
        np.array(map_array(folder / AXES, np.float32, (d, n_axes))),
        map_array(folder / CODES, np.uint8, (n, n_axes)),
        map_array(folder / BOUNDS, np.float32, (n, _BOUNDS)),
        limits,
    )
