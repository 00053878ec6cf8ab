"""Pairs of texts to unit vectors."""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_models.batches import Batch, fill, plan_cpu, plan_cuda
from hindsight_models.card import TOKENIZER_FILE, Card
from hindsight_models.errors import ModelError, TextError
from hindsight_models.folder import check_files
from hindsight_models.session import Session
from hindsight_models.tokenizing import Tokenizer, Tokens

CHUNK = 256
"""Texts tokenised and sorted together; few, so that the first batch soon starts."""

_WAITING = 64  # batches that may wait for a runner
PRECISIONS = ("float32", "float16", "bfloat16", "int8")
UNIT_TOLERANCE = 1e-5  # float32 rounding leaves 1e-6; an error of 1e-3 would move matches


class Encoded(NamedTuple):
    """Vectors and what was sent to the model.

    Attributes
    ----------
    vectors
        float32 of shape (n, dim), unit rows, in the order of the texts.
    n_tokens
        int32 of shape (n,): tokens sent, special ones included, after any cut.
    truncated
        bool of shape (n,): the text was longer than the model takes.
    retried
        bool of shape (n,): the vector was not finite and unit at a lower precision, and was
        computed again in float32.
    """

    vectors: NDArray[np.float32]
    n_tokens: NDArray[np.int32]
    truncated: NDArray[np.bool_]
    retried: NDArray[np.bool_]

    @classmethod
    def empty(cls, n: int, dim: int) -> "Encoded":
        """Room for n texts."""
        return cls(
            np.empty((n, dim), np.float32),
            np.zeros(n, np.int32),
            np.zeros(n, np.bool_),
            np.zeros(n, np.bool_),
        )

    @classmethod
    def joined(cls, parts: Sequence["Encoded"], dim: int) -> "Encoded":
        """Parts one after another."""
        out = cls.empty(sum(len(part.vectors) for part in parts), dim)
        start = 0
        for part in parts:
            stop = start + len(part.vectors)
            for whole, piece in zip(out, part, strict=True):
                whole[start:stop] = piece
            start = stop
        return out

    def rows(self, at: NDArray[np.int64]) -> "Encoded":
        """The texts at these places, in that order."""
        return Encoded(self.vectors[at], self.n_tokens[at], self.truncated[at], self.retried[at])


Progress = Callable[[int, int], None]
"""Called with the texts and the tokens done since the last call."""


class Encoder:
    """A model folder, opened.

    On the CPU a text's vector is the same to the bit alone, in any batch and with any number of
    threads. Safe to call from several threads. A forked child opens the model anew on the CPU,
    and can't use CUDA.

    Parameters
    ----------
    folder
        Model folder; its files must match its card.
    device
        "cpu", "cuda", "cuda:N" or "auto".
    precision
        Of the computation: "float32", "float16", "bfloat16", "int8", or "auto": float16 on CUDA,
        float32 on the CPU. Vectors are float32 in any case.
    threads
        Batches computed at once on the CPU; at most, and by default, the processors that the
        process may run on.
    gpu_mem
        Bytes that the engine may take of a GPU's memory; default: all.
    fused
        Compute with the graph made for CUDA on the CPU too, to prove it.

    Raises
    ------
    ModelError
        A folder that is not whole, or a device that can't be had.
    """

    def __init__(
        self,
        folder: Path,
        *,
        device: str = "auto",
        precision: str = "auto",
        threads: int | None = None,
        gpu_mem: int | None = None,
        fused: bool = False,
    ) -> None:
        if threads is not None and threads < 1:
            raise ModelError(f"threads is {threads}; expected at least 1")
        if precision not in ("auto", *PRECISIONS):
            raise ModelError(f"precision is {precision!r}; expected auto, {', '.join(PRECISIONS)}")
        if precision not in ("auto", "float32"):
            raise ModelError(f"{precision} is not available yet; float32 is")
        if gpu_mem is not None and gpu_mem < 1:
            raise ModelError(f"gpu_mem is {gpu_mem} bytes; expected at least 1")
        usable = _usable_processors()
        self._folder, self._fused = folder, fused
        self.card = Card.read(folder)
        check_files(folder, self.card)
        self._pid = os.getpid()
        self._session = Session(folder, device, self.card.dim, fused=fused)
        self._tokenizer = Tokenizer(folder / TOKENIZER_FILE, self.card)
        self.threads = min(threads or usable, usable) if self.device == "cpu" else 1

    @property
    def name(self) -> str:
        """The card's name."""
        return self.card.name

    @property
    def dim(self) -> int:
        """Columns of a vector."""
        return self.card.dim

    @property
    def device(self) -> str:
        """What is really used: "cpu" or "cuda:N"."""
        return self._session.device

    @property
    def precision(self) -> str:
        """What is computed with: "float32", "float16", "bfloat16" or "int8"."""
        return "float32"

    @property
    def fingerprint(self) -> str:
        """Digest of the weights and the text rule; the precision of the computation is apart."""
        return self.card.fingerprint()

    def encode(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Unit vectors of (head, body) texts, float32 of shape (n, dim)."""
        return self.encode_counted(pairs).vectors

    def encode_counted(
        self,
        pairs: Sequence[tuple[str, str]],
        progress: Progress | None = None,
    ) -> Encoded:
        """Unit vectors of texts, with token counts.

        Parameters
        ----------
        pairs
            (head, body) of each text.
        progress
            Called in this thread with the texts and the tokens done since the last call.

        Raises
        ------
        ModelError
            The model failed, or gave a vector that is not finite and unit.
        """
        chunks = (pairs[start : start + CHUNK] for start in range(0, len(pairs), CHUNK))
        return Encoded.joined(list(self.encode_chunks(chunks, progress)), self.dim)

    def encode_chunks(
        self, chunks: Iterable[Sequence[tuple[str, str]]], progress: Progress | None = None
    ) -> Generator[Encoded]:
        """Chunk after chunk in order, while the texts of later ones are under way already.

        Texts are sorted by length within a chunk; `CHUNK` is a good number of them. Otherwise
        like `encode_counted`.
        """
        session = self._open_in_this_process()
        stop = threading.Event()
        waiting: deque[_Chunk] = deque()
        start = 0
        with ThreadPoolExecutor(self.threads, "encode") as pool:
            try:
                for pairs in chunks:
                    tokens = self._tokenizer.many(pairs)
                    chunk = _Chunk(start, tokens, Encoded.empty(len(tokens), self.dim))
                    start += len(tokens)
                    waiting.append(chunk)
                    for batch in self._plan(tokens):
                        _settle(waiting, _WAITING, progress)
                        chunk.running.add(pool.submit(_run, session, batch, chunk, stop))
                    while not waiting[0].running and waiting[0] is not chunk:
                        yield waiting.popleft().out
                while waiting:
                    while waiting[0].running:
                        wait(waiting[0].running, return_when=FIRST_COMPLETED)
                        for chunk in waiting:
                            chunk.reap(progress)
                    yield waiting.popleft().out
            finally:
                stop.set()

    def count_tokens(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.int32]:
        """Tokens that each text would send to the model, int32 of shape (n,)."""
        return np.array([len(t.ids) for t in self._tokenizer.many(pairs)], np.int32)

    def _plan(self, tokens: Sequence[Tokens]) -> list[Batch]:
        lengths = [len(t.ids) for t in tokens]
        if self.device == "cpu":
            return plan_cpu(lengths)
        return plan_cuda(lengths, self.card.max_tokens)

    def _open_in_this_process(self) -> Session:
        if self._pid != os.getpid():
            if self.device != "cpu":
                raise ModelError(
                    f"{self.name} was loaded on {self.device} before this process was forked; "
                    "load it in the process that uses it, or start processes with 'spawn'"
                )
            self._session = Session(self._folder, "cpu", self.dim, fused=self._fused)
            self._tokenizer = Tokenizer(self._folder / TOKENIZER_FILE, self.card)
            self._pid = os.getpid()
        return self._session


class _Chunk:
    """Texts under way together: their tokens, their results, and the batches not yet done."""

    def __init__(self, start: int, tokens: Sequence[Tokens], out: Encoded) -> None:
        self.start, self.tokens, self.out = start, tokens, out
        self.running: set[Future[Batch]] = set()
        out.n_tokens[:] = [len(each.ids) for each in tokens]
        out.truncated[:] = [each.truncated for each in tokens]

    def reap(self, progress: Progress | None) -> None:
        """Forget the batches that are done, telling what they held; their errors are raised."""
        done = {task for task in self.running if task.done()}
        self.running -= done
        for task in done:
            members = task.result().members
            if progress is not None and members:
                progress(len(members), int(self.out.n_tokens[members].sum(dtype=np.int64)))


def _settle(chunks: Iterable[_Chunk], allowed: int, progress: Progress | None) -> None:
    """Wait until at most `allowed` batches of the chunks are under way."""
    while True:
        for chunk in chunks:
            chunk.reap(progress)
        running = set[Future[Batch]]().union(*(chunk.running for chunk in chunks))
        if len(running) <= allowed:
            return
        wait(running, return_when=FIRST_COMPLETED)


def _run(session: Session, batch: Batch, chunk: _Chunk, stop: threading.Event) -> Batch:
    """Encode one batch into its rows of the chunk's vectors."""
    if stop.is_set():
        return Batch([], 0, 0)
    ids, mask = fill(batch, [t.ids for t in chunk.tokens])
    result = session.run(ids, mask)[: len(batch.members)]
    norms = np.linalg.norm(result.astype(np.float64), axis=1)
    wrong = ~(np.abs(norms - 1.0) < UNIT_TOLERANCE)  # NaN is wrong too
    if wrong.any():
        first = int(np.argmax(wrong))
        text = chunk.start + batch.members[first]
        raise TextError(
            text,
            f"text {text} got a vector of norm {norms[first]:.7g}, not 1; "
            "hindsight-fast models verify tells whether the model is whole",
        )
    chunk.out.vectors[batch.members] = result
    return batch


def _usable_processors() -> int:
    """How many processors this process may run on; macOS doesn't tell, and has no such limit."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return here or 1


def load(
    folder: Path,
    *,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    gpu_mem: int | None = None,
) -> Encoder:
    """Open a model folder; see `Encoder`."""
    return Encoder(folder, device=device, precision=precision, threads=threads, gpu_mem=gpu_mem)
