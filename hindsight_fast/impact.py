"""Impact of a paper, h(p): the published recipe, and where variants will join it.

A recipe is a function of the facts of a pool's papers. Its name goes into the pool's identity and
the signature of every score, so a variant is a new name in `RECIPES` and never a changed one.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.errors import UsageError

__all__ = ["NOT_ELIGIBLE", "RECIPES", "impact", "in_words", "paper_impact"]

NOT_ELIGIBLE = np.float32(-1)
CITATION_WEIGHT = 0.6
VENUE_WEIGHT = 0.4

Recipe = Callable[[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]], NDArray[np.float32]]


def paper_impact(
    citations: NDArray[np.int64], top_venue: NDArray[np.bool_], eligible: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Return h = 0.6 c + 0.4 v (arXiv 2603.15164).

    c is the citation count, min-max normalised over the eligible papers, and 0 for all of them
    where maximum and minimum are equal; a paper whose count is unknown is taken to have none. v is
    1 for a main-track paper of a top venue, else 0. Computed in float64, rounded once.

    Parameters
    ----------
    citations : ndarray of shape (n,), int64
        -1 (any negative number) where unknown.
    top_venue, eligible : ndarray of shape (n,), bool

    Returns
    -------
    ndarray of shape (n,), float32
        Between 0 and 1; -1 where not eligible.
    """
    counts = np.maximum(citations, 0)
    known = counts[eligible]
    low, high = (int(known.min()), int(known.max())) if known.size else (0, 0)
    share = (counts - low) / max(high - low, 1)
    h = CITATION_WEIGHT * share + VENUE_WEIGHT * top_venue
    return np.where(eligible, h, NOT_ELIGIBLE).astype(np.float32)


RECIPES: Mapping[str, Recipe] = {"paper": paper_impact}


def impact(
    recipe: str,
    citations: NDArray[np.int64],
    top_venue: NDArray[np.bool_],
    eligible: NDArray[np.bool_],
) -> NDArray[np.float32]:
    """Return the impact of each paper by the named recipe (see `paper_impact`).

    Raises
    ------
    UsageError
        There is no such recipe.
    """
    if recipe not in RECIPES:
        raise UsageError(f"no impact recipe {recipe!r}; known are {', '.join(RECIPES)}")
    return RECIPES[recipe](citations, top_venue, eligible)


def in_words(recipe: str, citations: int | None, impact: float, low: int, high: int) -> str:
    """Say how an impact by the recipe `paper` came about; of others, only what it is.

    Parameters
    ----------
    citations
        The paper's count; None if unknown.
    low, high
        Between which counts were normalised.
    """
    if recipe != "paper":
        return f"{impact:.4f} by the recipe {recipe}"
    share = (max(citations or 0, 0) - low) / max(high - low, 1)
    counted = "an unknown number of" if citations is None else f"{citations:,}"
    venue = "a top venue" if impact - CITATION_WEIGHT * share > VENUE_WEIGHT / 2 else "no top venue"
    weight = VENUE_WEIGHT if venue == "a top venue" else 0
    return (
        f"{CITATION_WEIGHT} x {share:.4f} for {counted} citations (in this pool from {low:,} to "
        f"{high:,}) + {weight} for {venue} = {impact:.4f}"
    )
