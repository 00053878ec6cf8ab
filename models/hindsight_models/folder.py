"""Is a model folder whole? Hashes of its files, and its golden vectors."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_models.card import FUSED_FILE, Card, Golden
from hindsight_models.errors import ModelError

MIN_COSINE = 0.99999


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error.strerror}") from error


def check_files(folder: Path, card: Card) -> None:
    """Check every file against the card.

    Raises
    ------
    ModelError
        A file is missing, is a link out of the folder, or has other content.
    """
    for name, expected in card.files.items():
        path = folder / name
        if not path.is_file():
            raise ModelError(f"{path} is missing; fetch the model again")
        if path.resolve().parent != folder.resolve():
            raise ModelError(f"{path} is a link out of its folder; put the file itself there")
        if sha256_of(path) != expected:
            raise ModelError(f"{path} is damaged: its hash is not the card's; fetch it again")


class Proof(NamedTuple):
    """What was found of a whole model folder.

    Attributes
    ----------
    card
        The folder's card.
    n_golden
        Number of texts with known vectors.
    worst_cosine
        Least cosine of a computed to a known vector, over texts and graphs; None where the card
        has no such texts.
    """

    card: Card
    n_golden: int
    worst_cosine: float | None


def verify(folder: Path) -> Proof:
    """Prove a model folder: every hash, and the golden vectors by each of its graphs, on the CPU.

    Returns
    -------
    Proof

    Raises
    ------
    ModelError
        Something is missing, damaged, or computes other vectors here.
    """
    from hindsight_models.encoder import Encoder

    encoder = Encoder(folder, device="cpu")
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
