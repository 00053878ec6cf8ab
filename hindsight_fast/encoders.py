"""Encoders: opening one, and what its work costs."""

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hindsight_models as models
from hindsight_fast.config import usable_threads
from hindsight_fast.model_folders import find_model, translated

TYPICAL_TOKENS = 256
"""Length of an idea or abstract, for what encoding one costs."""


class Encoder:
    """A model folder, opened; `load_encoder` makes one.

    Attributes
    ----------
    folder : Path
        The model folder.
    card : hindsight_models.Card
        What the model is: theta, longest input, where the weights came from.
    name, fingerprint : str
        Its name, and a hash of all that changes a vector.
    dim : int
        Length of a vector.
    device : str
        What it really runs on.
    device_note : str
        Why ``auto`` did not take CUDA or float16; empty where there is nothing to say.
    precision : str
        What it computes with: "float32", "float16", "bfloat16" or "int8". Vectors are known by
        fingerprint and precision.
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

    def __init__(
        self,
        folder: Path,
        *,
        device: str = "auto",
        precision: str = "auto",
        threads: int | None = None,
        gpu_mem: int | None = None,
    ) -> None:
        with translated():
            self._inner = models.load(
                folder, device=device, precision=precision, threads=threads, gpu_mem=gpu_mem
            )
        self.folder, self.card = folder, self._inner.card
        self.name, self.dim, self.theta = self.card.name, self.card.dim, self.card.theta
        self.fingerprint = self.card.fingerprint()
        self.device, self.threads = self._inner.device, self._inner.threads
        self.precision, self.device_note = self._inner.precision, self._inner.device_note
        self.flops_per_text = _flops(folder, min(TYPICAL_TOKENS, self.card.max_tokens))

    @property
    def chunk_size(self) -> int:
        """How many texts `encode_chunks` should get at a time."""
        return self._inner.chunk_size

    def in_words(self) -> str:
        """Return what computes: name, device, precision, and why it's not what ``auto`` prefers."""
        note = f"; {self.device_note}" if self.device_note else ""
        return f"{self.name} on {self.device} in {self.precision}{note}"

    def warm_up(self) -> None:
        """On CUDA, compute each shape of a batch once, so that no later batch is slowed by it.

        Raises
        ------
        EncoderError
            The model failed.
        """
        with translated():
            self._inner.warm_up()

    def reference(self) -> "Encoder":
        """The same model in float32 on the CPU, to measure others by; itself where it is that.

        Raises
        ------
        EncoderError
            It can't be opened so.
        """
        if (self.precision, self.device) == ("float32", "cpu"):
            return self
        return Encoder(self.folder, device="cpu", precision="float32", threads=usable_threads())

    def encode(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Encode (title, abstract) pairs to unit vectors, float32 of shape (n, dim).

        Raises
        ------
        EncoderError
            The model failed.
        """
        return self.encode_counted(pairs).vectors

    def encode_counted(
        self, pairs: Sequence[tuple[str, str]], progress: models.Progress | None = None
    ) -> models.Encoded:
        """Like `encode`, with the tokens of each text and whether it was cut.

        Parameters
        ----------
        progress
            Called with the texts and the tokens done since the last call.

        Raises
        ------
        EncoderError
            The model failed.
        """
        with translated():
            return self._inner.encode_counted(pairs, progress)

    def encode_chunks(
        self,
        chunks: Iterable[Sequence[tuple[str, str]]],
        progress: models.Progress | None = None,
    ) -> Generator[models.Encoded]:
        """Chunk after chunk in order, while the texts of later ones are under way already.

        Otherwise like `encode_counted`.
        """
        with translated():
            yield from self._inner.encode_chunks(chunks, progress)

    def count_tokens(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.int32]:
        """Tokens that each text would send to the model, int32 of shape (n,)."""
        return self._inner.count_tokens(pairs)


def _flops(folder: Path, tokens: int) -> float:
    try:
        return flops(json.loads((folder / "config.json").read_bytes()), tokens)
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0  # unknown: `auto` then finds any scan too dear


def flops(config: Mapping[str, Any], tokens: float) -> float:
    """Floating-point operations of a text: two per weight of the layers and token, and attention's.

    Parameters
    ----------
    config
        The model's ``config.json``.
    tokens
        Length of the text.
    """
    width, layers = int(config["hidden_size"]), int(config["num_hidden_layers"])
    weights = layers * (4 * width**2 + 2 * width * int(config["intermediate_size"]))
    return 2.0 * tokens * weights + 4.0 * layers * width * tokens**2


def engine() -> str:
    """Return what computes: the version of onnxruntime, and the devices that it was built for.

    Raises
    ------
    EncoderError
        It is not installed; the message says how to.
    """
    with translated():
        return models.engine_facts()


def gpus() -> str:
    """Return how many GPUs can be computed with, or what is missing for it."""
    from hindsight_models.engines import gpus as found

    with translated():
        return found()


def precisions() -> dict[str, str | None]:
    """Return each precision, and why it can't be had on this machine (None: it can)."""
    from hindsight_models.engines import precisions as found

    with translated():
        return found()


def load_encoder(
    name_or_path: str | Path,
    *,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    gpu_mem: int | None = None,
) -> Encoder:
    """Open an encoder by its name, or from a model folder. Nothing is fetched.

    Parameters
    ----------
    device
        ``cpu``, ``cuda`` (every GPU), ``cuda:1``, or ``auto``: GPUs where they answer.
    precision
        ``float32``, ``float16`` (CUDA), ``bfloat16`` (processors that have it), ``int8`` (CPU), or
        ``auto``: float32 on the CPU, float16 on CUDA.
    threads
        At most, and by default, as many as this process may use.
    gpu_mem
        Bytes that the engine may take of a GPU's memory; default: all.

    Raises
    ------
    EncoderError
        No such model is here, it is damaged, or the device or the precision can't be had.
    UsageError
        Fewer than one thread was asked for.
    """
    return Encoder(
        find_model(name_or_path),
        device=device,
        precision=precision,
        threads=usable_threads(threads),
        gpu_mem=gpu_mem,
    )
