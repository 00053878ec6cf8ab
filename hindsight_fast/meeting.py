"""What may meet: vectors of ideas and of papers that are worth comparing."""

from collections.abc import Collection
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.encoding import CountingEncoder
from hindsight_fast.errors import ArtefactError, EncoderError, UsageError
from hindsight_fast.papers.text import MEETING_VERSIONS, TEXT_VERSION
from hindsight_fast.pool import Pool
from hindsight_fast.store import UNIT_TOLERANCE

MEETING = ("float32", "float16")
"""Precisions whose vectors, of the same weights, may meet unnamed; others move more matches."""


class TextEncoder(CountingEncoder, Protocol):
    """What scoring asks of an encoder (`hindsight_fast.load_encoder` gives one)."""

    @property
    def name(self) -> str: ...

    @property
    def flops_per_text(self) -> float: ...

    def reference(self) -> CountingEncoder: ...


def check_same_space(pool: Pool, encoder: TextEncoder) -> None:
    """Vectors of different weights, or of text rules far apart, never meet: it means nothing.

    Raises
    ------
    EncoderError
        The encoder is not the one that made the pool's vectors.
    ArtefactError
        The papers' text was cleaned by another rule than ideas are now.
    """
    if encoder.fingerprint != pool.encoder_fingerprint:
        raise EncoderError(
            f"the pool's vectors were made by {pool.encoder}@{pool.encoder_fingerprint[:8]}, this "
            f"encoder is {encoder.name}@{encoder.fingerprint[:8]}: use the same, or encode the "
            "store again"
        )
    if pool.text_version not in MEETING_VERSIONS:
        raise ArtefactError(
            f"the papers' text was cleaned by rule {pool.text_version}, ideas would be by "
            f"{TEXT_VERSION}: build the store again with this version"
        )


def check_precision(pool: Pool, named: Collection[str]) -> None:
    """Vectors that move similarities meet others only where somebody named their precision.

    Raises
    ------
    EncoderError
        Nobody did.
    """
    if pool.precision not in {*MEETING, *named}:
        raise EncoderError(
            f"the papers of this pool were encoded in {pool.precision}, which moves similarities: "
            f"allow it by name with --allow-precision {pool.precision} "
            f"(allow={{{pool.precision!r}}} in Python), or encode the store in float32"
        )


def check_unit_rows(vectors: NDArray[np.float32], dim: int) -> None:
    """Vectors of ideas are unit vectors; none is all zeros, as that of a paper may be.

    Raises
    ------
    UsageError
        If shape or dtype are others, or a row is not a finite unit vector.
    """
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or vectors.shape[1] != dim or vectors.dtype != np.float32:
        raise UsageError(
            f"vectors have shape {vectors.shape} and dtype {vectors.dtype}; "
            f"(n, {dim}) and float32 were expected"
        )
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    bad = np.flatnonzero(~(np.abs(norms - 1.0) <= UNIT_TOLERANCE))  # catches NaN as well
    if bad.size:
        raise UsageError(
            f"vector {bad[0]} has norm {norms[bad[0]]:.4g}, and {bad.size} in all are no unit "
            "vectors: normalise them first"
        )
