"""Model folders by their names: which are here, which can be had, and are they whole."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hindsight_models as models
from hindsight_fast.errors import EncoderError, UsageError
from hindsight_fast.storage import home, storage_errors
from hindsight_fast.store import is_encoder_name


@contextmanager
def translated() -> Generator[None]:
    """Turn what the models raise into what the engine does."""
    try:
        yield
    except models.RequestError as error:
        raise UsageError(str(error)) from error
    except models.ModelError as error:
        raise EncoderError(str(error)) from error


def models_home() -> Path:
    """Return the folder in which models are kept."""
    return home() / "models"


def installed_models() -> list[str]:
    """Return the names of the models that are here."""
    found = models_home().glob("*/card.json")
    return sorted(card.parent.name for card in found if is_encoder_name(card.parent.name))


def known_models() -> list[dict[str, Any]]:
    """Return name, dim, theta, installed, about of each model that is known or here.

    `dim` and `theta` are None where only the model itself could tell.
    """
    here = installed_models()
    rows: list[dict[str, Any]] = []
    for name in (*models.KNOWN, *(name for name in here if name not in models.KNOWN)):
        row: dict[str, Any] = {"name": name, "dim": None, "theta": None}
        row |= {"installed": name in here, "about": ""}
        if name in models.KNOWN:
            facts = models.KNOWN[name].facts
            row |= {"theta": facts.theta, "about": facts.sources.get("weights", "")}
        if name in here:
            try:
                card = models.Card.read(models_home() / name)
            except models.ModelError as error:
                row["about"] = str(error)
            else:
                about = row["about"] or card.sources.get("weights", "")
                row |= {"dim": card.dim, "theta": card.theta, "about": about}
        rows.append(row)
    return rows


def download_size(name: str) -> int:
    """Return the bytes that fetching a model costs; 0 where it is not one that can be fetched."""
    return models.KNOWN[name].download_bytes if name in models.KNOWN else 0


def get_model(name: str, progress: Callable[[int, int], None] | None = None) -> tuple[Path, bool]:
    """Fetch a known model into `models_home()`; returns its folder and whether it was fetched.

    One that is there is fetched again where it is damaged, or not what this version would make.

    Parameters
    ----------
    progress
        Called with the bytes that are here and those of all; first before anything is fetched.

    Raises
    ------
    EncoderError
        It is not known, or could not be fetched or proven.
    UsageError
        Something else is in its place.
    StorageError
        No space or no rights.
    """
    with storage_errors(f"write {models_home() / name}"), translated():
        return models.get(name, models_home(), progress)


def verify_model(name_or_path: str | Path) -> dict[str, Any]:
    """Check all bytes of a model, and its golden vectors by its graphs in float32.

    Returns
    -------
    dict
        name, folder, fingerprint, n_golden and worst_cosine (of computed to golden vectors; None
        where n_golden is 0).

    Raises
    ------
    EncoderError
        Naming the first thing that is wrong.
    """
    folder = find_model(name_or_path)
    with translated():
        proof = models.verify(folder)
    return {
        "name": proof.card.name,
        "folder": str(folder),
        "fingerprint": proof.card.fingerprint(),
        "n_golden": proof.n_golden,
        "worst_cosine": proof.worst_cosine,
    }


def model_facts(folder: Path) -> dict[str, Any]:
    """Return fingerprint, dim, theta, adapter and sources of a model, as its card says.

    Raises
    ------
    EncoderError
        No card, or a damaged one.
    """
    with translated():
        card = models.Card.read(folder)
    return {
        "fingerprint": card.fingerprint(),
        "dim": card.dim,
        "theta": card.theta,
        "adapter": card.adapter,
        "sources": dict(card.sources),
    }


def find_model(name_or_path: str | Path) -> Path:
    """Return the folder of a model that is named, or given as a folder.

    Raises
    ------
    EncoderError
        It is not here; the message says how to get it.
    """
    if isinstance(name_or_path, str) and is_encoder_name(name_or_path):
        folder = models_home() / name_or_path
        if folder.is_dir():
            return folder
    folder = Path(name_or_path).expanduser()
    if (folder / "card.json").is_file():
        return folder
    if name_or_path in models.KNOWN:
        megabytes = download_size(str(name_or_path)) / 1e6
        advice = f"`hindsight-fast models get {name_or_path}` fetches it ({megabytes:.0f} MB, once)"
        if manual := models.by_hand(models.KNOWN[str(name_or_path)]):
            advice += f". Without a network: {manual}"
    else:
        here = ", ".join(sorted({*models.KNOWN, *installed_models()}))
        advice = f"known are {here}; any folder with a card.json will do as well"
    raise EncoderError(f"there is no model {str(name_or_path)!r} in {models_home()}: {advice}")
