"""Golden vectors: made at export, and every model folder's proof.

They come from the float64 twin, never from the graph. With an adapter, the twin also tells what
the vectors would be without it: a graph that lacks the adapter gives perfectly fine vectors, those
of the base model, and no error anywhere else.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hindsight_models.card import (
    ADAPTER_FILE,
    CONFIG_FILE,
    FUSED_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    Card,
    Golden,
    check_text,
)
from hindsight_models.encoder import Encoder
from hindsight_models.errors import ModelError
from hindsight_models.twin import unit_vectors
from hindsight_models.weights import BertConfig

MIN_COSINE = 0.99999
# Of vectors with an adapter to those without: far enough from agreement to tell the two apart.
_SAME = 0.9999

_PARAGRAPH = (
    "Each of the nine laboratories was given the same protocol, the same reagents and a sealed "
    "list of the outcomes that we had predicted, and reported every run, failed ones included. "
)
TEXTS = (
    ("Magnetism", ""),
    ("", "An abstract whose title was lost in the export of the library."),
    ("Why do wide networks generalise?", "A bound that is not vacuous at width 4,096."),
    ("Zur Elektrodynamik bewegter Körper", "Naïve ansätze, μ-opioid receptors, 高温超伝導 & CO₂."),
    ("Sampling from $p(x) \\propto e^{-f(x)}$", "Mixing in O(d^{1/3}) steps, up to log factors."),
    ("A replication across nine laboratories", _PARAGRAPH),
    ("A replication across nine laboratories, in detail", _PARAGRAPH * 3),
    ("A report that no model reads to its end", _PARAGRAPH * 20),
)
"""From one word to more than 512 tokens; the short ones, which come first, show an adapter too."""
_N_SHORT = 5


class Proof(NamedTuple):
    """What was found of a whole model folder.

    Attributes
    ----------
    card
        The folder's card.
    n_golden
        Number of texts with known vectors.
    worst_cosine
        Least cosine of a computed to a known vector, over texts and float32 graphs; None where the
        card has no such texts.
    """

    card: Card
    n_golden: int
    worst_cosine: float | None


def verify(folder: Path) -> Proof:
    """Prove a model folder: every hash, and golden vectors by its float32 graphs, on the CPU.

    That of float16 is proven where it computes, whenever a GPU is opened.

    Returns
    -------
    Proof

    Raises
    ------
    ModelError
        Something is missing, damaged, or computes other vectors here.
    """
    encoder = Encoder(folder, device="cpu")
    check_text(folder, encoder.card)
    encoders = [encoder]
    if FUSED_FILE in encoder.card.files:
        encoders.append(Encoder(folder, device="cpu", fused=True))
    golden = encoder.card.golden
    texts = [(each.head, each.body) for each in golden]
    cosines = [check_golden(folder, golden, each.encode(texts)) for each in encoders]
    return Proof(encoder.card, len(golden), min(cosines) if golden else None)


def check_golden(folder: Path, golden: Sequence[Golden], vectors: NDArray[np.float32]) -> float:
    """Compare computed vectors with the golden ones; returns the least cosine, 1 of none.

    Raises
    ------
    ModelError
        A cosine is below 0.99999.
    """
    worst = 1.0
    for known, vector in zip(golden, vectors, strict=True):
        expected = np.array(known.vector)
        cosine = float(vector @ expected / np.linalg.norm(expected))
        if not cosine >= MIN_COSINE:
            raise ModelError(
                f"{folder}: the vector of {known.head!r} has cosine {cosine:.6f} to the known "
                f"one, less than {MIN_COSINE}; fetch the model again"
            )
        worst = min(worst, cosine)
    return worst


def golden_vectors(folder: Path, card: Card) -> tuple[Golden, ...]:
    """`TEXTS` with the vectors that the twin gives them, from a folder's own files."""
    vectors = _twin(folder, card, TEXTS, adapted=card.adapter is not None)
    if not np.isfinite(vectors).all():
        raise ModelError(f"{folder}: the weights give no vectors, or of no length; damaged?")
    return tuple(
        Golden(head, body, tuple(vector.tolist()))
        for (head, body), vector in zip(TEXTS, vectors, strict=True)
    )


def prove(folder: Path, card: Card) -> None:
    """Prove a new folder on this machine's CPU: `verify`, and that its adapter is active.

    Raises
    ------
    ModelError
        The graph gives other vectors than the golden ones; those of the base model; or the
        adapter changes none of them.
    """
    if card.adapter is not None:
        _check_adapter(folder, card)
    verify(folder)


def _check_adapter(folder: Path, card: Card) -> None:
    short = card.golden[:_N_SHORT]
    texts = [(each.head, each.body) for each in short]
    adapted = np.array([each.vector for each in short])
    plain = _twin(folder, card, texts, adapted=False)
    alike = _cosines(adapted, plain)
    if alike.min() >= _SAME:
        raise ModelError(
            f"{folder}: the adapter is of no effect: with and without it, {len(texts)} texts have "
            f"vectors of cosine {alike.min():.6f} or more; is {ADAPTER_FILE} a trained one?"
        )
    computed = Encoder(folder, device="cpu").encode(texts)
    if (_cosines(computed, plain) > _cosines(computed, adapted)).any():
        raise ModelError(f"{folder}: adapter not active: the graph gives the base model's vectors")


def _cosines(some: NDArray[np.floating], others: NDArray[np.floating]) -> NDArray[np.floating]:
    norms = np.linalg.norm(some, axis=1) * np.linalg.norm(others, axis=1)
    cosines: NDArray[np.floating] = np.einsum("nd,nd->n", some, others) / norms
    return cosines


def _twin(
    folder: Path, card: Card, texts: Sequence[tuple[str, str]], *, adapted: bool
) -> NDArray[np.float64]:
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids: list[list[int]] = []
    for head, body in texts:
        found = tokenizer.encode(card.separator.join(part for part in (head, body) if part)).ids
        cut = len(found) > card.max_tokens
        ids.append([*found[: card.max_tokens - 1], found[-1]] if cut else found)
    return unit_vectors(
        ids,
        BertConfig.read(folder / CONFIG_FILE),
        folder / WEIGHTS_FILE,
        card.pooling,
        folder / ADAPTER_FILE if adapted else None,
    )
