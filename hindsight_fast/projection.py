"""What the exact scan looks at first: papers along the axes on which they differ most.

`hindsight_kernels.pruned_scan` finds the same papers along any axes; which and how many decide
only how long it takes. Axes are principal components. Their number makes

    (axes + 3) + RESCORING d (share of papers that are rescored)

least, in products per paper and idea; the share is measured on a sample, some papers of which are
taken for ideas.

Files: scan-mean.npy (float32 (d,)), scan-axes.npy (float32 (d, a)), scan-coordinates.npy (float16
(n, a)) and scan-bounds.npy (float32 (n, 3)); see `hindsight_kernels.Projected`.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.codes import Principal, principal
from hindsight_fast.errors import ArtefactError
from hindsight_fast.storage import create_array, map_array
from hindsight_kernels import Limits, Projected, project

MEAN: Final = "scan-mean.npy"
AXES: Final = "scan-axes.npy"
COORDINATES: Final = "scan-coordinates.npy"
BOUNDS: Final = "scan-bounds.npy"
FILES: Final = (MEAN, AXES, COORDINATES, BOUNDS)

FEWEST: Final = 20_000
"""Of fewer papers the plain scan takes no time worth saving."""

RESCORING: Final = 250
"""How many of a matrix product's products take as long as one of a paper that is rescored. Most of
that is waiting for its vector, and others are rescored on the way. Chosen by time: for 1,000,000
made-up papers 100 gives 112 axes and 2.4 s for 512 ideas, 250 gives 128 axes and 1.5 s."""

_BOUNDS = 3  # products of an idea and paper beside those of axes
_IDEAS = 64
_STEP = 16


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
        Facts for the manifest, among them what this scan costs in products per paper and idea;
        None, and no files, where the plain scan does as well.

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
    with np.errstate(invalid="ignore"):
        found = principal(vectors, rows)
    if not np.isfinite(found.mean).all() or not np.isfinite(found.variances).all():
        raise ArtefactError("a vector is NaN or infinite: `hindsight-fast verify` says where")
    n_axes, products = _number_of_axes(found, len(rows), k)
    if n_axes is None:
        return None
    n, d = vectors.shape
    mean = create_array(folder / MEAN, np.float32, (d,))
    axes = create_array(folder / AXES, np.float32, (d, n_axes))
    mean[:], axes[:] = found.mean, found.components[:, :n_axes]
    coordinates = create_array(folder / COORDINATES, np.float16, (n, n_axes))
    bounds = create_array(folder / BOUNDS, np.float32, (n, 3))
    try:
        limits = project(vectors, mean, axes, coordinates, bounds).limits
    except ValueError as error:
        raise ArtefactError(f"{error}: `hindsight-fast verify` says where") from error
    kept = found.variances[:n_axes].sum() / found.variances.sum()
    return {
        "n_axes": n_axes,
        "variance": float(kept),
        "products": products,
        "k": k,
        "limits": limits._asdict(),
    }


def cost(facts: dict[str, Any], k: int) -> float:
    """What a scan for the k nearest costs, about, in products per paper and idea.

    Of 100,000 made-up papers, a scan along axes took 0.6 times the plain scan's time for K = 20 and
    1.2 times for 100; of 1,000,000 papers, 0.3 times for 20, 0.9 for 300 and 3.2 for 1,000.

    Parameters
    ----------
    facts
        By `build_projection`, for some other k perhaps: so many more papers are rescored.
    """
    first = int(facts["n_axes"]) + _BOUNDS
    return first + (float(facts["products"]) - first) * k / int(facts["k"])


def _number_of_axes(found: Principal, n: int, k: int) -> tuple[int | None, float]:
    """By how many axes a scan of n papers costs least, and what; None where all axes would."""
    rows = found.sample.astype(np.float64)
    d = rows.shape[1]
    offset = rows @ found.mean
    turned = rows @ found.components
    ideas = turned[:: -(-len(turned) // _IDEAS)]
    # Each idea is one of the papers, and finds itself first.
    nearest = 1 + max(1, round(k * len(rows) / n))
    similarity = ideas @ turned.T + offset
    least = np.partition(similarity, -nearest, axis=1)[:, -nearest]
    outside, of_ideas = (np.einsum("ij,ij->i", some, some) for some in (turned, ideas))
    along = np.zeros_like(similarity)
    best: int | None = None
    cost = float(d)
    for stop in range(_STEP, d, _STEP):
        some = slice(stop - _STEP, stop)
        along += ideas[:, some] @ turned[:, some].T
        outside = outside - np.einsum("ij,ij->i", turned[:, some], turned[:, some])
        of_ideas = of_ideas - np.einsum("ij,ij->i", ideas[:, some], ideas[:, some])
        rest = np.sqrt(np.maximum(of_ideas, 0)[:, None] * np.maximum(outside, 0))
        rescored = float((along + rest + offset >= least[:, None]).mean())
        if (this := stop + _BOUNDS + RESCORING * d * rescored) < cost:
            best, cost = stop, this
    return best, cost


def open_projection(folder: Path, facts: dict[str, Any], n: int, d: int) -> Projected:
    """Map the files of a folder.

    Raises
    ------
    ArtefactError
        A file or a fact is missing or of another kind.
    """
    try:
        n_axes, limits = int(facts["n_axes"]), Limits(**facts["limits"])
        if not (0 < n_axes <= d and all(isinstance(one, float) and one >= 0 for one in limits)):
            raise ValueError(f"{n_axes} axes, {limits}")
        if not (0 <= float(facts["products"]) <= d and int(facts.get("k", 1)) >= 1):
            raise ValueError(f"{facts['products']} products for K = {facts.get('k')}")
    except (KeyError, TypeError, ValueError) as error:
        raise ArtefactError(f"{folder}: no facts of a projection: {error}") from error
    return Projected(
        np.array(map_array(folder / MEAN, np.float32, (d,))),
        np.array(map_array(folder / AXES, np.float32, (d, n_axes))),
        map_array(folder / COORDINATES, np.float16, (n, n_axes)),
        map_array(folder / BOUNDS, np.float32, (n, 3)),
        limits,
    )
