"""Is a model folder whole? Hashes of its files, and its golden vectors."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hindsight_models.card import Card, Golden
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


def verify(folder: Path) -> Card:
    """Prove a model folder: every hash, and the golden vectors by each of its graphs.

    Returns
    -------
    Card
        The folder's card.

    Raises
    ------
    ModelError
        Something is missing, damaged, or computes other vectors here.
    """
    from hindsight_models.encoder import load

    encoder = load(folder, device="cpu")
    golden = encoder.card.golden
    vectors = encoder.encode([(g.head, g.body) for g in golden])
    check_golden(folder, golden, vectors)
    return encoder.card


def check_golden(folder: Path, golden: Sequence[Golden], vectors: NDArray[np.float32]) -> None:
    """Compare computed vectors with the golden ones.

    Raises
    ------
    ModelError
        A cosine is below 0.99999.
    """
    for known, vector in zip(golden, vectors, strict=True):
        expected = np.array(known.vector)
        cosine = float(vector @ expected / np.linalg.norm(expected))
        if not cosine >= MIN_COSINE:
            raise ModelError(
                f"{folder}: the vector of {known.head!r} has cosine {cosine:.6f} to the known "
                f"one, less than {MIN_COSINE}; fetch the model again"
            )
