"""The nearest papers, exactly and as many as are wanted, also among some papers only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.encoding import encode_texts
from hindsight_fast.errors import UsageError
from hindsight_fast.model_folders import translated
from hindsight_fast.pool import Pool, damage
from hindsight_fast.projection import byte_products
from hindsight_fast.scoring import Scorer
from hindsight_kernels import Projected, match, pruned_scan, scan

Step = Callable[[int, int], None]
"""Called with what is done of how many."""

_BATCH = 1024  # ideas whose lists are in memory several times over
_TEXTS = 256  # encoded between two signs of progress


@dataclass(frozen=True, slots=True)
class Near:
    """The nearest papers of m ideas, best first.

    Attributes
    ----------
    rows : ndarray of shape (m, w), int32
        -1 where there are fewer.
    similarities : ndarray of shape (m, w), float32
        -inf where there are fewer.
    """

    rows: NDArray[np.int32]
    similarities: NDArray[np.float32]

    @property
    def nearest(self) -> NDArray[np.float32]:
        """(m,) similarities of the nearest paper; -inf where there is none."""
        return self.similarities[:, 0]


def nearest(
    vectors: NDArray[np.float32],
    papers: NDArray[np.float32],
    eligible: NDArray[np.bool_],
    wanted: int,
    *,
    own: NDArray[np.int32] | None = None,
    projection: Projected | None = None,
    threads: int,
    step: Step = lambda done, total: None,
) -> Near:
    """Find the `wanted` eligible papers nearest to each vector, itself left out.

    Parameters
    ----------
    vectors : ndarray of shape (m, d), float32
    papers : ndarray of shape (N, d), float32
    eligible : ndarray of shape (N,), bool
    own : ndarray of shape (m,), int32
        Which of the papers a vector is itself; -1 where none.
    projection
        Of just these papers and the eligible ones of them.
    """
    impact = np.where(eligible, np.float32(0), np.float32(-1))
    more = wanted + (own is not None)
    rows = np.full((len(vectors), wanted), -1, np.int32)
    similarities = np.full((len(vectors), wanted), -np.inf, np.float32)
    for start in range(0, len(vectors), _BATCH):
        some = slice(start, start + _BATCH)
        arrays = (vectors[some], papers, impact)
        multiply = None if projection is None else byte_products()
        if projection is None or multiply is None:
            candidates = scan(*arrays, more, threads=threads)
        else:
            with translated():
                candidates = pruned_scan(
                    *arrays, projection, more, threads=threads, multiply=multiply
                )
        if own is not None:
            candidates[candidates == own[some, None]] = -1
        found = match(*arrays, candidates, wanted, 0.0, threads=threads)
        rows[some], similarities[some] = found.rows, found.similarities
        step(min(some.stop, len(vectors)), len(vectors))
    return Near(rows, similarities)


def nearest_of_pool(
    pool: Pool,
    vectors: NDArray[np.float32],
    wanted: int,
    own: NDArray[np.int32],
    threads: int,
    step: Step = lambda done, total: None,
) -> Near:
    """`nearest` among all papers of a pool.

    Without its projection: along few axes too many papers look as near as the last of hundreds
    (512 of 100,000 took 6 times as long with it as without, where 20 took half).

    Raises
    ------
    ArtefactError
        The pool's vectors were damaged since it was opened.
    """
    with damage(pool):
        return nearest(
            vectors,
            pool.vectors,
            pool.impact >= 0,
            wanted,
            own=own if (own >= 0).any() else None,
            threads=threads,
            step=step,
        )


def cosines(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Similarities of rows, (n, d) and (n, d) to (n,), rounded as those of the kernel are."""
    found = np.empty(len(left), np.float32)
    for start in range(0, len(left), _BATCH):
        some = slice(start, start + _BATCH)
        found[some] = np.einsum("ij,ij->i", left[some], right[some], dtype=np.float64)
    return found


def encode(
    scorer: Scorer, texts: Sequence[tuple[str, str]], step: Step = lambda done, total: None
) -> NDArray[np.float32]:
    """Vectors of texts, (n, d), some at a time for a sign of progress.

    Raises
    ------
    UsageError
        The scorer has no encoder.
    """
    if scorer.encoder is None:
        raise UsageError(
            "texts need an encoder: give the Scorer one, or let papers stand in for ideas"
        )
    vectors = np.empty((len(texts), scorer.pool.vectors.shape[1]), np.float32)
    for start in range(0, len(texts), _TEXTS):
        some = texts[start : start + _TEXTS]
        encoded = encode_texts(scorer.encoder, some, scorer.cache)
        vectors[start : start + len(some)] = encoded.vectors
        step(start + len(some), len(texts))
    return vectors
