"""Encoders by their names: finding them, fetching them, opening them."""

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hindsight_models as models
from hindsight_fast.config import usable_threads
from hindsight_fast.errors import EncoderError
from hindsight_fast.storage import home, storage_errors
from hindsight_fast.store import is_encoder_name

TYPICAL_TOKENS = 256
"""Length of an idea or abstract, for what encoding one costs."""


class Encoder:
    """A model folder, opened; `load_encoder` makes one.

    Attributes
    ----------
    card : hindsight_models.Card
        What the model is: theta, longest input, where the weights came from.
    name, fingerprint : str
        Its name, and a hash of all that changes a vector.
    dim : int
        Length of a vector.
    device : str
        What it really runs on.
    threads : int
        Batches computed at once.
    theta : float
        The similarity of a match that the card recommends.
    flops_per_text : float
        Floating-point operations of a text of `TYPICAL_TOKENS` tokens, about; 0 if unknown.

    Raises
    ------
    EncoderError
        The folder is no model or not whole, or the engine or the device can't be had.
    """

    def __init__(self, folder: Path, *, device: str = "auto", threads: int | None = None) -> None:
        with _translated():
            self._inner = models.load(folder, device=device, threads=threads)
        self.card = self._inner.card
        self.name, self.dim, self.theta = self.card.name, self.card.dim, self.card.theta
        self.fingerprint = self.card.fingerprint()
        self.device, self.threads = self._inner.device, self._inner.threads
        self.flops_per_text = _flops(folder, min(TYPICAL_TOKENS, self.card.max_tokens))

    def encode(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Encode (title, abstract) pairs to unit vectors, float32 of shape (n, dim).

        Raises
        ------
        EncoderError
            The model failed.
        """
        return self.encode_counted(pairs).vectors

    def encode_counted(
        self, pairs: Sequence[tuple[str, str]], progress: Callable[[int], None] | None = None
    ) -> models.Encoded:
        """Like `encode`, with the tokens of each text and whether it was cut.

        Parameters
        ----------
        progress
            Called with the number of texts done since the last call.

        Raises
        ------
        EncoderError
            The model failed.
        """
        with _translated():
            return self._inner.encode_counted(pairs, progress)


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except models.ModelError as error:
        raise EncoderError(str(error)) from error


def _flops(folder: Path, tokens: int) -> float:
    """Two operations per weight of the layers and token, and the products of attention."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
        width, layers = int(config["hidden_size"]), int(config["num_hidden_layers"])
        weights = layers * (4 * width**2 + 2 * width * int(config["intermediate_size"]))
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0  # unknown: `auto` then finds any scan too dear
    return 2.0 * tokens * weights + 4.0 * layers * width * tokens**2


def engine() -> str:
    """Return what computes: the version of onnxruntime, and the devices that it was built for.

    Raises
    ------
    EncoderError
        It is not installed; the message says how to.
    """
    with _translated():
        return models.engine_facts()


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
    for name in sorted({*models.KNOWN, *here}):
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


def get_model(name: str) -> tuple[Path, bool]:
    """Fetch a known model into `models_home()`; returns its folder and whether it was fetched.

    Raises
    ------
    EncoderError
        It is not known, or could not be fetched or proven.
    StorageError
        No space or no rights.
    """
    was_here = name in installed_models()
    with storage_errors(f"write {models_home() / name}"), _translated():
        return models.get(name, models_home()), not was_here


def verify_model(name_or_path: str | Path) -> dict[str, Any]:
    """Check all bytes of a model, and its golden vectors by each of its graphs.

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
    with _translated():
        proof = models.verify(folder)
    return {
        "name": proof.card.name,
        "folder": str(folder),
        "fingerprint": proof.card.fingerprint(),
        "n_golden": proof.n_golden,
        "worst_cosine": proof.worst_cosine,
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
        advice = f"`hindsight-fast models get {name_or_path}` fetches it"
    else:
        here = ", ".join(sorted({*models.KNOWN, *installed_models()}))
        advice = f"known are {here}; any folder with a card.json will do as well"
    raise EncoderError(f"there is no model {str(name_or_path)!r} in {models_home()}: {advice}")


def load_encoder(
    name_or_path: str | Path, *, device: str = "auto", threads: int | None = None
) -> Encoder:
    """Open an encoder by its name, or from a model folder. Nothing is fetched.

    Parameters
    ----------
    device
        ``cpu``, ``cuda``, ``cuda:1``, or ``auto``: a GPU where one answers.
    threads
        At most, and by default, as many as this process may use.

    Raises
    ------
    EncoderError
        No such model is here, it is damaged, or the device can't be had.
    UsageError
        Fewer than one thread was asked for.
    """
    return Encoder(find_model(name_or_path), device=device, threads=usable_threads(threads))
