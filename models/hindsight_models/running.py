"""Batches on sessions: shared among devices, smaller where memory is short, again where wrong."""

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from hindsight_models.batches import (
    CUDA_TOKENS,
    Batch,
    cuda_shapes,
    fill,
    plan_cpu,
    plan_cuda,
    plan_openvino,
)
from hindsight_models.engines import Session
from hindsight_models.errors import ModelError, OutOfMemoryError

UNIT_TOLERANCE = 1e-5  # float32 rounding leaves 1e-6; an error of 1e-3 would move matches

Ids = Sequence[NDArray[np.int32]]


class Runners:
    """What computes batches, from several threads at once.

    Parameters
    ----------
    sessions
        One for each device, all of one precision.
    exact
        Opens a float32 session on a device; called when a vector of a lower precision is wrong.
    threads
        Batches at once on the CPU.
    in_flight
        Batches at once on each GPU: while one computes, another is filled or copied out.
    longest
        Tokens of the longest input.
    tokens
        Tokens of a batch on CUDA, padding included; halved whenever memory runs out.
    """

    def __init__(
        self,
        sessions: Sequence[Session],
        exact: Callable[[str], Session],
        *,
        threads: int,
        longest: int,
        in_flight: int = 2,
        tokens: int = CUDA_TOKENS,
    ) -> None:
        self.device = ",".join(each.device for each in sessions)
        self.precision = sessions[0].precision
        self.on_cuda = self.device != "cpu"
        self.tokens = tokens
        self.count = len(sessions) * (in_flight if self.on_cuda else threads)
        self._sessions, self._open_exact, self._longest = sessions, exact, longest
        self._exact: dict[str, Session] = {}
        self._changing = threading.Lock()
        self._idle: SimpleQueue[Session] = SimpleQueue()
        for number in range(self.count):
            self._idle.put(sessions[number % len(sessions)])

    def plan(self, lengths: Sequence[int]) -> list[Batch]:
        """Which texts, of these numbers of tokens, are computed together."""
        if self.on_cuda:
            return plan_cuda(lengths, self._longest, self.tokens)
        if self.precision == "bfloat16":
            return plan_openvino(lengths, self._longest)
        return plan_cpu(lengths)

    def run(self, batch: Batch, ids: Ids) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Vectors of a batch's members, float32 (n, dim), and which were computed again, bool (n,).

        A row that is not finite and unit is computed again in float32, unless it was so already;
        what `is_wrong` even then is for the caller to refuse.

        Raises
        ------
        ModelError
            The model failed, or one text alone does not fit in the device's memory.
        """
        session = self._idle.get()
        try:
            vectors = self._fitting(session, batch, ids)
            again = is_wrong(vectors)
            if self.precision == "float32":
                again[:] = False
            for row in np.flatnonzero(again).tolist():
                vectors[row] = self._in_float32(session.device, ids[batch.members[row]])
        finally:
            self._idle.put(session)
        return vectors, again

    def warm_up(self) -> None:
        """Compute every shape once on every GPU; a new shape takes memory and choices there."""
        if not self.on_cuda:
            return
        for session in self._sessions:
            for rows, length in cuda_shapes(self._longest, self.tokens):
                ids = [np.ones(length, np.int32)] * rows
                self._fitting(session, Batch(list(range(rows)), rows, length), ids)

    def _fitting(self, session: Session, batch: Batch, ids: Ids) -> NDArray[np.float32]:
        size = batch.rows * batch.length
        if self.on_cuda and batch.rows > 1 and size > self.tokens:  # planned before they shrank
            return self._in_parts(session, batch, ids)
        try:
            return session.run(*fill(batch, ids))[: len(batch.members)]
        except OutOfMemoryError as error:
            if batch.rows == 1:
                raise ModelError(
                    f"one text of {batch.length} tokens does not fit in the memory of "
                    f"{session.device}: allow more with --gpu-mem, end what else uses it "
                    f"(nvidia-smi lists it), or take --device cpu ({error})"
                ) from error
            with self._changing:
                self.tokens = min(self.tokens, size // 2)
        return self._in_parts(session, batch, ids)

    def _in_parts(self, session: Session, batch: Batch, ids: Ids) -> NDArray[np.float32]:
        parts = plan_cuda([len(ids[m]) for m in batch.members], self._longest, self.tokens)
        order = [row for part in parts for row in part.members]
        pieces = [
            self._fitting(
                session, part._replace(members=[batch.members[r] for r in part.members]), ids
            )
            for part in parts
        ]
        vectors = np.concatenate(pieces)
        vectors[order] = vectors.copy()
        return vectors

    def _in_float32(self, device: str, text: NDArray[np.int32]) -> NDArray[np.float32]:
        with self._changing:
            if device not in self._exact:
                self._exact[device] = self._open_exact(device)
        (batch,) = self.plan([len(text)])
        vector: NDArray[np.float32] = self._fitting(
            self._exact[device], batch._replace(rows=1), [text]
        )[0]
        return vector


def is_wrong(vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which rows are not finite and unit, bool of shape (n,)."""
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    unit: NDArray[np.bool_] = np.abs(norms - 1.0) < UNIT_TOLERANCE  # NaN is not
    return ~unit
