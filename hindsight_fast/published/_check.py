"""Whether published vectors are those of our own encoder: some of the papers are encoded again."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.agreement import SAME_MODEL, Agreement, compare
from hindsight_fast.encoders import Encoder
from hindsight_fast.errors import DataError
from hindsight_fast.store import Store

SAMPLE: Final = 256
"""Papers that are encoded again."""

FAR: Final = 0.005
"""A paper whose cosine is further below the mean had another text, most likely."""

_BLOCK = 16_384  # papers read together


class Check(NamedTuple):
    """What `check_published` found.

    Attributes
    ----------
    agreement : Agreement
        Of ours (the reference) and the published vectors.
    far : dict of str to float
        Papers whose cosine is more than `FAR` below the mean, by id, the lowest first.
    """

    agreement: Agreement
    far: dict[str, float]

    @property
    def passed(self) -> bool:
        """Whether these are vectors of our encoder."""
        return self.agreement.same_model

    def facts(self) -> dict[str, Any]:
        """The same for a manifest."""
        return {**self.agreement.facts(), "passed": self.passed, "far": self.far}


def check_published(
    store: Store,
    encoder: Encoder,
    rows: NDArray[np.int64],
    read: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    *,
    force: bool = False,
) -> Check:
    """Encode some papers again, always the same ones of the same rows, and compare.

    Parameters
    ----------
    rows : ndarray of shape (m,), int64
        Papers with a published vector, ascending; at least one.
    read
        Gives the published vectors of some of them.
    force
        Raise no error for vectors that are not ours.

    Raises
    ------
    DataError
        The mean cosine is below `SAME_MODEL`, or papers are nearer to others' vectors.
    EncoderError
        The model failed.
    """
    drawn = draw(rows, SAMPLE)
    papers = _texts(store, drawn)
    pairs = cast(list[tuple[str, str]], papers.select("title", "abstract").rows())
    ours, theirs = encoder.encode(pairs), read(drawn)
    agreement = compare(ours, theirs, encoder.theta)
    check = Check(agreement, _far(papers["id"], ours, theirs, agreement.cosine_mean))
    if not check.passed and not force:
        raise DataError(
            f"the published vectors are not those of {encoder.name}: of {agreement.n} papers that "
            f"were encoded again, the {agreement.in_words()}; the mean must be {SAME_MODEL}, and a "
            "paper's own vector the nearest. "
            f"{_advice(check)}. --force takes them all the same; --overwrite begins anew, with "
            "other files or none"
        )
    return check


def draw(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """At most `n` of the rows, ascending: those with the smallest hash (splitmix64's)."""
    x = rows.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return np.sort(rows[np.argsort(x, kind="stable")[:n]])


def _texts(store: Store, rows: NDArray[np.int64]) -> pl.DataFrame:
    """id, title, abstract of ascending rows."""
    frames = list[pl.DataFrame]()
    for block in np.unique(rows // _BLOCK).tolist():
        start, stop = block * _BLOCK, min((block + 1) * _BLOCK, store.n)
        inside = rows[(rows >= start) & (rows < stop)]
        frames.append(store.papers(["id", "title", "abstract"], start, stop)[inside - start])
    return pl.concat(frames)


def _far(
    ids: pl.Series, ours: NDArray[np.float32], theirs: NDArray[np.float32], mean: float
) -> dict[str, float]:
    cosines = np.einsum("ij,ij->i", ours.astype(np.float64), theirs.astype(np.float64))
    order = np.argsort(cosines, kind="stable")
    return {ids[i]: float(cosines[i]) for i in order.tolist() if cosines[i] < mean - FAR}


def _advice(check: Check) -> str:
    median, n_far = check.agreement.cosine_p50, len(check.far)
    if check.agreement.cosine_mean >= SAME_MODEL:
        return "They belong to other papers"
    if median < SAME_MODEL:
        return "They were made by another model or adapter, or with another rule for texts"
    shown = ", ".join(list(check.far)[:5])
    return (
        f"Half of them agree (median {median:.5f}), {n_far} are far off ({shown}): those papers "
        "had other texts there, or are other papers"
    )
