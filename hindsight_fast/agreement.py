"""How far two sets of vectors of the same texts are apart, and what that does to matches."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.errors import UsageError

SAME_MODEL = 0.999
"""Least mean cosine of one model's vectors of the same texts. float16 of the same weights and texts
gives above 0.99999, another adapter, separator or cut far less; and theta lies in a band 0.07 wide,
so that vectors further apart decide other matches."""

OWN_NEAREST = 0.95
"""Least share of texts that are nearest to themselves: where all vectors of a model are alike, even
those of other texts have a cosine above `SAME_MODEL`. Not 1, since texts may nearly repeat."""

_BLOCK = 512  # rows multiplied at a time


@dataclass(frozen=True, slots=True)
class Agreement:
    """What `compare` found.

    Attributes
    ----------
    n : int
        Texts.
    cosine_mean, cosine_min, cosine_p1, cosine_p5, cosine_p50 : float
        Of the cosines between the two vectors of each text: mean, smallest, percentiles.
    similarity_error : float or None
        Largest |r_i . r_j - r_i . o_j| over texts i != j: by how much a similarity moves where one
        of its two vectors is the other kind. None for a single text, which has no pairs.
    theta : float
        The similarity of a match.
    decisions : float or None
        Share of those pairs that match with both kinds or with neither. None for a single text.
    own_nearest : float
        Share of texts i to which no o_j is nearer than their own o_i.
    """

    n: int
    cosine_mean: float
    cosine_min: float
    cosine_p1: float
    cosine_p5: float
    cosine_p50: float
    similarity_error: float | None
    theta: float
    decisions: float | None
    own_nearest: float

    @property
    def same_model(self) -> bool:
        """Whether both can be of one model and text rule, and of the same texts."""
        return self.cosine_mean >= SAME_MODEL and self.own_nearest >= OWN_NEAREST

    def facts(self) -> dict[str, float | None]:
        """The same for a manifest."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any] | None) -> "Agreement | None":
        """What `facts` gave, among others; None where it isn't all there."""
        names = [field.name for field in fields(cls)]
        if facts is None or not set(names) <= set(facts):
            return None
        return cls(**{name: facts[name] for name in names})

    def in_words(self) -> str:
        """Part of a sentence: "cosine 0.99998 on average, ..."."""
        words = f"cosine {self.cosine_mean:.6f} on average, {self.cosine_min:.6f} at worst"
        if self.own_nearest < OWN_NEAREST:
            words += f", and only {100 * self.own_nearest:.0f}% are nearest to their own text's"
        if self.similarity_error is None or self.decisions is None:
            return words
        return (
            f"{words}; similarities move by up to {self.similarity_error:.2g}, and "
            f"{100 * self.decisions:.2f}% of decisions at theta {self.theta:g} stay"
        )


def compare(
    reference: NDArray[np.floating], other: NDArray[np.floating], theta: float
) -> Agreement:
    """Compare two vectors of each of n texts, in float64 and in bounded memory.

    A similarity is rounded to float32 before it is held against theta, as in scoring.

    Parameters
    ----------
    reference, other : ndarray of shape (n, d)
        Unit rows; row i of both belongs to the same text.

    Raises
    ------
    UsageError
        The shapes differ or hold nothing, or a value is not finite, or a row is zero.
    """
    if reference.shape != other.shape or reference.ndim != 2 or not len(reference):
        raise UsageError(
            f"vectors of shapes {reference.shape} and {other.shape} can't be compared; "
            "expected the same (n, d), and at least one row"
        )
    cosines = np.concatenate(
        [_cosines(reference[rows], other[rows]) for rows in _blocks(len(reference))]
    )
    error, equal, nearest = 0.0, 0, np.full(len(reference), -np.inf)
    for left in _blocks(len(reference)):
        ours = reference[left].astype(np.float64)
        for right in _blocks(len(reference)):
            worst, same = _pairs(ours, reference[right], other[right], theta, left == right)
            error, equal = max(error, worst), equal + same
            found = (ours @ other[right].astype(np.float64).T).max(axis=1)
            nearest[left] = np.maximum(nearest[left], found)
    own = np.einsum("ij,ij->i", reference, other, dtype=np.float64)
    n_pairs = len(reference) * (len(reference) - 1)
    low = np.percentile(cosines, [1, 5, 50])
    return Agreement(
        n=len(reference),
        cosine_mean=float(cosines.mean()),
        cosine_min=float(cosines.min()),
        cosine_p1=float(low[0]),
        cosine_p5=float(low[1]),
        cosine_p50=float(low[2]),
        similarity_error=error if n_pairs else None,
        theta=float(theta),
        decisions=equal / n_pairs if n_pairs else None,
        own_nearest=float((own >= nearest - _ROUNDING).mean()),
    )


_ROUNDING = 1e-12  # of two ways to add up one product


def _blocks(n: int) -> list[slice]:
    return [slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]


def _cosines(reference: NDArray[np.floating], other: NDArray[np.floating]) -> NDArray[np.float64]:
    """Cosines of the rows, exactly 1 where they are equal."""
    r, o = reference.astype(np.float64), other.astype(np.float64)
    dot, of_r, of_o = (np.einsum("ij,ij->i", a, b) for a, b in ((r, o), (r, r), (o, o)))
    squares = of_r * of_o
    if bad := int((~(np.isfinite(squares) & (squares > 0))).sum()):
        raise UsageError(f"{bad} of the vectors to compare are zero or not finite")
    cosines: NDArray[np.float64] = np.minimum(dot / np.sqrt(squares), 1.0)
    return cosines


def _pairs(
    ours: NDArray[np.float64],
    reference: NDArray[np.floating],
    other: NDArray[np.floating],
    theta: float,
    has_diagonal: bool,
) -> tuple[float, int]:
    """The largest error, and the number of equal decisions, of a block of pairs."""
    columns = reference.astype(np.float64)
    similarities = ours @ columns.T
    # A product with the difference: no error where there is none, and no digits lost.
    errors = ours @ (columns - other.astype(np.float64)).T
    limit = np.float32(theta)
    before = similarities.astype(np.float32) >= limit
    after = (similarities - errors).astype(np.float32) >= limit
    equal = before == after
    if has_diagonal:
        np.fill_diagonal(errors, 0.0)
        np.fill_diagonal(equal, False)
    return float(np.abs(errors).max()), int(equal.sum())
