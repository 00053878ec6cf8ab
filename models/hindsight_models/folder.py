"""Are the files of a model folder those of its card?"""

import hashlib
from pathlib import Path

from hindsight_models.card import Card
from hindsight_models.errors import ModelError


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
