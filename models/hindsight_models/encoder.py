"""Pairs of texts to unit vectors."""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_models.batches import Batch
from hindsight_models.card import TOKENIZER_FILE, Card
from hindsight_models.engines import Opened, open_float32, open_fused, open_sessions
from hindsight_models.errors import ModelError, TextError
from hindsight_models.folder import check_files
from hindsight_models.running import Runners, is_wrong
from hindsight_models.tokenizing import Tokenizer, Tokens

CPU_CHUNK, CUDA_CHUNK = 256, 4096
"""Texts tokenised and planned together: few, so that the first batch soon starts, but on CUDA as
many as it takes to fill few shapes."""

_WAITING = 64  # batches that may wait for a runner


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

    On the CPU in float32 a text's vector is the same to the bit alone, in any batch and with any
    number of threads. Safe to call from several threads. A forked child opens the model anew on
    the CPU; one that computes on CUDA or in bfloat16 is refused there.

    Parameters
    ----------
    folder
        Model folder; its files must match its card.
    device
        "cpu", "cuda" (every GPU), "cuda:N", or "auto": CUDA where it works.
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

    Attributes
    ----------
    device_note
        Why "auto" did not take CUDA or float16; empty where there is nothing to say.

    Raises
    ------
    ModelError
        A folder that is not whole, or a device or a precision that can't be had.
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
        usable = _usable_processors()
        self._folder, self._fused, self._gpu_mem = folder, fused, gpu_mem
        self._cpu_threads = min(threads or usable, usable)
        self.card = Card.read(folder)
        check_files(folder, self.card)
        self._open(device, precision)

    def _open(self, device: str, precision: str) -> None:
        if self._fused:
            opened = Opened([open_fused(self._folder, self.card)], "")
        else:
            opened = open_sessions(
                self._folder, self.card, device, precision, self._cpu_threads, self._gpu_mem
            )
        self.device_note = opened.note
        self._runners = Runners(
            opened.sessions,
            partial(open_float32, self._folder, self.card, gpu_mem=self._gpu_mem),
            threads=self._cpu_threads,
            longest=self.card.max_tokens,
        )
        self._tokenizer = Tokenizer(self._folder / TOKENIZER_FILE, self.card)
        self._pid = os.getpid()

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
        """What is really used: "cpu", or GPUs like "cuda:0,cuda:1"."""
        return self._runners.device

    @property
    def precision(self) -> str:
        """What is computed with: "float32", "float16", "bfloat16" or "int8"."""
        return self._runners.precision

    @property
    def threads(self) -> int:
        """Batches under way at once."""
        return self._runners.count

    @property
    def chunk_size(self) -> int:
        """How many texts `encode_chunks` should get at a time."""
        return CUDA_CHUNK if self._runners.on_cuda else CPU_CHUNK

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
        size = self.chunk_size
        chunks = (pairs[start : start + size] for start in range(0, len(pairs), size))
        return Encoded.joined(list(self.encode_chunks(chunks, progress)), self.dim)

    def encode_chunks(
        self, chunks: Iterable[Sequence[tuple[str, str]]], progress: Progress | None = None
    ) -> Generator[Encoded]:
        """Chunk after chunk in order, while the texts of later ones are under way already.

        Which texts of a chunk are computed together depends on that chunk alone; `chunk_size` is a
        good number of them. Otherwise like `encode_counted`.
        """
        self._open_in_this_process()
        runners = self._runners
        stop = threading.Event()
        waiting: deque[_Chunk] = deque()
        start = 0
        with ThreadPoolExecutor(self.threads, "encode") as pool:
            try:
                for pairs in chunks:
                    tokens = self._tokenizer.many(pairs, parallel=runners.on_cuda)
                    chunk = _Chunk(start, tokens, self.dim)
                    start += len(chunk.ids)
                    waiting.append(chunk)
                    for batch in runners.plan([len(ids) for ids in chunk.ids]):
                        _settle(waiting, _WAITING, progress)
                        chunk.running.add(pool.submit(_run, runners, batch, chunk, stop))
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

    def warm_up(self) -> None:
        """On CUDA, compute each shape of a batch once, so that no later batch is slowed by it."""
        self._open_in_this_process()
        self._runners.warm_up()

    def _open_in_this_process(self) -> None:
        if self._pid == os.getpid():
            return
        # OpenVINO's threads stay behind too, and closing what they belong to aborts the child.
        if self._runners.on_cuda or self.precision == "bfloat16":
            raise ModelError(
                f"{self.name} was loaded on {self.device} in {self.precision} before this process "
                "was forked; load it in the process that uses it, or start processes with 'spawn'"
            )
        self._open("cpu", self.precision)


class _Chunk:
    """Texts under way together: their tokens, their results, and the batches not yet done."""

    def __init__(self, start: int, tokens: Sequence[Tokens], dim: int) -> None:
        self.start, self.ids = start, [each.ids for each in tokens]
        self.out = Encoded.empty(len(tokens), dim)
        self.running: set[Future[Batch]] = set()
        self.out.n_tokens[:] = [len(each.ids) for each in tokens]
        self.out.truncated[:] = [each.truncated for each in tokens]

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


def _run(runners: Runners, batch: Batch, chunk: _Chunk, stop: threading.Event) -> Batch:
    """Encode one batch into its rows of the chunk's vectors."""
    if stop.is_set():
        return Batch([], 0, 0)
    vectors, again = runners.run(batch, chunk.ids)
    wrong = is_wrong(vectors)
    if wrong.any():
        first = int(np.argmax(wrong))
        text = chunk.start + batch.members[first]
        norm = np.linalg.norm(vectors[first].astype(np.float64))
        raise TextError(
            text,
            f"text {text} got a vector of norm {norm:.7g}, not 1; "
            "hindsight-fast models verify tells whether the model is whole",
        )
    chunk.out.vectors[batch.members] = vectors
    chunk.out.retried[batch.members] = again
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
