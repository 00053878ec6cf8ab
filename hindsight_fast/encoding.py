"""The engine's side of encoders: finding them, and turning a store's papers into vectors."""

import datetime as dt
import hashlib
import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

import hindsight_models as models
from hindsight_fast.config import fingerprint, usable_threads
from hindsight_fast.errors import EncoderError
from hindsight_fast.storage import create_array, existing, home, publish, storage_errors
from hindsight_fast.store import Store, Vectors, is_encoder_name

__all__ = [
    "Encoder",
    "download_size",
    "embed_store",
    "encode_texts",
    "engine",
    "get_model",
    "installed_models",
    "known_models",
    "load_encoder",
    "models_home",
    "verify_model",
]

TYPICAL_TOKENS = 256
"""Length of an idea or abstract, for what encoding one costs."""

_CHUNK = 16_384  # papers read and encoded at a time


class CountingEncoder(Protocol):
    """What encoding asks of an encoder."""

    def encode_counted(
        self, pairs: Sequence[tuple[str, str]], progress: Callable[[int], None] | None = None
    ) -> models.Encoded: ...


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


def encode_texts(encoder: CountingEncoder, pairs: Sequence[tuple[str, str]]) -> models.Encoded:
    """Encode texts, equal ones once; every row is its own text's.

    Raises
    ------
    EncoderError
        The model failed.
    """
    place = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    encoded = encoder.encode_counted(list(place))
    if len(place) == len(pairs):
        return encoded
    rows = np.array([place[pair] for pair in pairs], np.int64)
    return models.Encoded(encoded.vectors[rows], encoded.n_tokens[rows], encoded.truncated[rows])


# Papers ------------------------------------------------------------------------------------------


def embed_store(
    store: Store,
    encoder: Encoder,
    *,
    since: dt.date | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Vectors:
    """Encode the papers of a store that a pool could hold: dated, with title and abstract.

    Equal texts are encoded once; the row of a paper that isn't encoded is all zeros. Vectors that
    are there already, of the same encoder and for at least these papers, are returned as they are.

    Parameters
    ----------
    since
        Leave out papers dated before this day.
    overwrite
        Replace vectors that are there: of another model, of other papers, or damaged. What is whole
        and just what was asked for is kept.
    progress
        Called with the number of distinct texts done, and of all.

    Raises
    ------
    UsageError
        Vectors of another model under the same name, or of fewer papers, are there.
    ArtefactError
        The store is damaged, or was replaced meanwhile; or, without `overwrite`, the vectors that
        are there are damaged or belong to other papers.
    StorageError
        No space, no rights, or another process is encoding.
    EncoderError
        The model failed.
    """
    folder = store.vectors_folder(encoder.name)
    mark = fingerprint([store.content_id, encoder.name, encoder.fingerprint, since])
    there = _vectors_there(store, encoder, since, mark, overwrite=overwrite)
    if there is not None:
        return there
    plan = _plan(store, since)
    with publish(folder, "vectors", mark, overwrite=overwrite) as staging:
        array = create_array(staging.folder / "vectors.npy", np.float32, (store.n, encoder.dim))
        totals = _fill(array, store, encoder, plan, progress)
        staging.body |= totals | {
            "n": store.n,
            "dim": encoder.dim,
            "content_id": store.content_id,
            "text_version": store.text_version,
            "encoder": encoder.name,
            "encoder_fingerprint": encoder.fingerprint,
            "precision": encoder.card.precision,
            "theta": encoder.theta,
            "theta_note": encoder.card.theta_note,
            "device": encoder.device,
            "since": since and since.isoformat(),
            "n_encoded": len(plan.rows),
            "n_texts": len(plan.first),
        }
    return store.vectors(encoder.name)


def _vectors_there(
    store: Store, encoder: Encoder, since: dt.date | None, mark: str, *, overwrite: bool
) -> Vectors | None:
    """The vectors that are there, if they are to stay."""
    if overwrite:
        folder = store.vectors_folder(encoder.name)
        if existing(folder, "vectors", mark, overwrite=True) is None:
            return None
        there = store.vectors(encoder.name)
        return there if there.theta == encoder.theta else None  # a card's newer theta is wanted
    if encoder.name not in store.encoders():
        return None
    there = store.vectors(encoder.name)
    covered = there.since is None or (since is not None and there.since <= since)
    return there if there.encoder_fingerprint == encoder.fingerprint and covered else None


class _Plan(NamedTuple):
    """Which rows get a vector: all of them, and for each the row whose text is encoded for it."""

    rows: NDArray[np.int64]
    source: NDArray[np.int64]
    first: NDArray[np.int64]  # the distinct ones of `source`, ascending


def _plan(store: Store, since: dt.date | None) -> _Plan:
    low, high = store.window(since or dt.date.min, dt.date.max)
    found: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    keys: list[bytes] = []
    for start in range(low, high, _CHUNK):
        texts = _texts(store, start, min(start + _CHUNK, high))
        found.append(texts["row"].to_numpy())
        keys += [
            hashlib.blake2b(f"{len(title)} {title}{abstract}".encode(), digest_size=16).digest()
            for title, abstract in texts.select("title", "abstract").iter_rows()
        ]
    rows = np.concatenate(found)
    _, at, inverse = np.unique(np.array(keys, "V16"), return_index=True, return_inverse=True)
    source = rows[at[inverse]] if len(rows) else rows
    return _Plan(rows, source, np.unique(source))


def _texts(store: Store, start: int, stop: int) -> pl.DataFrame:
    """Columns row, title, abstract of those of rows [start, stop) that have a text to encode."""
    papers = store.papers(["title", "abstract", "status"], start, stop)
    return (
        papers.with_row_index("row", start)
        .filter((pl.col("status") == "ok") & (pl.col("title") != "") & (pl.col("abstract") != ""))
        .select(pl.col("row").cast(pl.Int64), "title", "abstract")
    )


def _fill(
    array: NDArray[np.float32],
    store: Store,
    encoder: Encoder,
    plan: _Plan,
    progress: Callable[[int, int], None] | None,
) -> dict[str, int]:
    done, total, totals = 0, len(plan.first), {"n_tokens": 0, "n_truncated": 0}

    def advance(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, total)

    advance(0)
    for start in range(0, store.n, _CHUNK):
        low, high = np.searchsorted(plan.first, (start, start + _CHUNK))
        rows = plan.first[low:high]
        if not rows.size:
            continue
        texts = _texts(store, start, min(start + _CHUNK, store.n))
        texts = texts.filter(pl.col("row").is_in(rows.tolist()))
        pairs = cast(list[tuple[str, str]], texts.select("title", "abstract").rows())
        encoded = encoder.encode_counted(pairs, advance)
        array[texts["row"].to_numpy()] = encoded.vectors
        totals["n_tokens"] += int(encoded.n_tokens.sum(dtype=np.int64))
        totals["n_truncated"] += int(encoded.truncated.sum())
    copies = np.flatnonzero(plan.rows != plan.source)
    for start in range(0, len(copies), _CHUNK):
        part = copies[start : start + _CHUNK]
        array[plan.rows[part]] = array[plan.source[part]]
    return totals
