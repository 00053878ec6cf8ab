"""Pairs of texts to unit vectors."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight_models.batches import Batch, fill, plan_cpu, plan_cuda
from hindsight_models.card import TOKENIZER_FILE, Card
from hindsight_models.errors import ModelError
from hindsight_models.folder import check_files
from hindsight_models.session import Session
from hindsight_models.tokenizing import Tokenizer, Tokens

_CHUNK = 256  # texts tokenised and sorted together; few, so that the first batch soon starts
_WAITING = 64  # batches that may wait for a runner
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
    """

    vectors: NDArray[np.float32]
    n_tokens: NDArray[np.int32]
    truncated: NDArray[np.bool_]


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
    threads
        Batches computed at once on the CPU; at most, and by default, the processors that the
        process may run on.
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
        threads: int | None = None,
        fused: bool = False,
    ) -> None:
        if threads is not None and threads < 1:
            raise ModelError(f"threads is {threads}; expected at least 1")
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
    def fingerprint(self) -> str:
        """Digest of everything that changes a vector."""
        return self.card.fingerprint()

    def encode(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Unit vectors of (head, body) texts, float32 of shape (n, dim)."""
        return self.encode_counted(pairs).vectors

    def encode_counted(
        self,
        pairs: Sequence[tuple[str, str]],
        progress: Callable[[int], None] | None = None,
    ) -> Encoded:
        """Unit vectors of texts, with token counts.

        Parameters
        ----------
        pairs
            (head, body) of each text.
        progress
            Called in this thread with the number of texts done since the last call.

        Raises
        ------
        ModelError
            The model failed, or gave a vector that is not finite and unit.
        """
        session = self._open_in_this_process()
        out = Encoded(
            np.empty((len(pairs), self.dim), np.float32),
            np.zeros(len(pairs), np.int32),
            np.zeros(len(pairs), np.bool_),
        )
        stop = threading.Event()
        running: set[Future[int]] = set()
        with ThreadPoolExecutor(self.threads, "encode") as pool:
            try:
                for start in range(0, len(pairs), _CHUNK):
                    tokens = self._tokenizer.many(pairs[start : start + _CHUNK])
                    stop_ = start + len(tokens)
                    out.n_tokens[start:stop_] = [len(t.ids) for t in tokens]
                    out.truncated[start:stop_] = [t.truncated for t in tokens]
                    for batch in self._plan(tokens):
                        running = _report(running, _WAITING, progress)
                        task = pool.submit(_run, session, batch, tokens, out.vectors, start, stop)
                        running.add(task)
                _report(running, 0, progress)
            finally:
                stop.set()
        return out

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


def _report(
    running: set[Future[int]], allowed: int, progress: Callable[[int], None] | None
) -> set[Future[int]]:
    """Wait until at most `allowed` batches are under way, telling what was done."""
    while len(running) > allowed:
        done, running = wait(running, return_when=FIRST_COMPLETED)
        n_done = sum(task.result() for task in done)
        if progress is not None and n_done:
            progress(n_done)
    return running


def _run(
    session: Session,
    batch: Batch,
    tokens: Sequence[Tokens],
    vectors: NDArray[np.float32],
    start: int,
    stop: threading.Event,
) -> int:
    """Encode one batch into its rows of `vectors`; the number of its texts."""
    if stop.is_set():
        return 0
    ids, mask = fill(batch, [t.ids for t in tokens])
    result = session.run(ids, mask)[: len(batch.members)]
    norms = np.linalg.norm(result.astype(np.float64), axis=1)
    wrong = ~(np.abs(norms - 1.0) < UNIT_TOLERANCE)  # NaN is wrong too
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ModelError(
            f"text {start + batch.members[first]} got a vector of norm {norms[first]:.7g}, not 1; "
            "hindsight-fast models verify tells whether the model is whole"
        )
    vectors[[start + member for member in batch.members]] = result
    return len(batch.members)


def _usable_processors() -> int:
    """How many processors this process may run on; macOS doesn't tell, and has no such limit."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return here or 1


def load(folder: Path, *, device: str = "auto", threads: int | None = None) -> Encoder:
    """Open a model folder; see `Encoder`."""
    return Encoder(folder, device=device, threads=threads)
