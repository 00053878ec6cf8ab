"""The exact scan: by kernels on the CPU, or on a GPU that holds the papers, with equal results."""

import threading
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.errors import EncoderError
from hindsight_fast.model_folders import translated
from hindsight_fast.pool import Pool
from hindsight_fast.projection import byte_products
from hindsight_kernels import pruned_scan, scan
from hindsight_models import OutOfMemoryError

if TYPE_CHECKING:
    from hindsight_models import Nearest

_HALF_IS_FASTER = 8
"""A GPU multiplies in float16 about so many times as fast as in float32, which the scan needs."""

_FEW = 64
"""Of fewer ideas, "auto" doesn't send the papers to a GPU: the CPU has found theirs by then."""


class Scan:
    """Nominates every paper that could be among an idea's k nearest.

    Parameters
    ----------
    pool
        Where the papers are.
    k
        How many nearest papers must be among the nominated.
    threads
        On the CPU.
    device
        "cpu", "cuda", "cuda:N", or "auto": the GPU that encodes, where there is one.
    encodes_on
        The encoder's device.
    memory
        Bytes that may be taken of the GPU's memory; None: half of what is free.

    Attributes
    ----------
    device : str
        Where it is to run. What "auto" took may turn out to be of no use when ideas come, or
        later, when another takes its memory; then it is the CPU, and `note` says why.
    note : str
    ideas : Counter of str
        How many ideas were scanned for on each device. A GPU leaves to the CPU those that have too
        many papers at nearly the same similarity.

    Raises
    ------
    UsageError
        The device's name makes no sense.
    EncoderError
        A GPU was asked for by name and can't be used.
    """

    def __init__(
        self,
        pool: Pool,
        k: int,
        *,
        threads: int,
        device: str = "auto",
        encodes_on: str = "cpu",
        memory: int | None = None,
    ) -> None:
        self._pool, self._k, self._threads, self._memory = pool, k, threads, memory
        self._may_change = device == "auto"
        if self._may_change:
            first = encodes_on.split(",")[0]
            device = first if first.startswith("cuda") else "cpu"
        self.device, self.note = device, ""
        self.ideas = Counter[str]()
        self._nearest: Nearest | None = None
        self._opening, self._counting = threading.Lock(), threading.Lock()
        if not self._may_change and device != "cpu":
            self.device = self._open(device).device

    def nominate(self, vectors: NDArray[np.float32]) -> NDArray[np.int32]:
        """Rows of papers for each of n unit vectors, (n, c), padded with -1.

        Raises
        ------
        EncoderError
            The GPU failed.
        ValueError
            The pool's vectors can't be vectors; see `scan`.
        """
        nearest = self._on_gpu(len(vectors))
        if nearest is None:
            return self._on_cpu(vectors)
        with translated():
            try:
                rows, complete = nearest.nominate(vectors, self._k)
            except OutOfMemoryError as error:
                if not self._may_change:
                    raise
                self._leave(nearest, error)
                return self._on_cpu(vectors)
        self._count(nearest.device, int(complete.sum()))
        if complete.all():
            return rows
        others = self._on_cpu(vectors[~complete])
        width = max(rows.shape[1], others.shape[1])
        joined = np.full((len(vectors), width), -1, np.int32)
        joined[:, : rows.shape[1]] = rows
        joined[~complete, : others.shape[1]] = others
        return joined

    def products(self, precision: str) -> float:
        """What an idea costs, in products per paper, each as long as one of its encoding.

        Parameters
        ----------
        precision
            Of the encoder.
        """
        if self.device == "cpu":
            return self._pool.scan_products(self._k)
        dim = float(self._pool.vectors.shape[1])
        return dim if precision == "float32" else dim * _HALF_IS_FASTER

    def _on_cpu(self, vectors: NDArray[np.float32]) -> NDArray[np.int32]:
        self._count("cpu", len(vectors))
        return scan_on_cpu(self._pool, vectors, self._pool.impact, self._k, threads=self._threads)

    def _count(self, device: str, n_ideas: int) -> None:
        with self._counting:
            self.ideas[device] += n_ideas

    def _on_gpu(self, n_ideas: int) -> "Nearest | None":
        with self._opening:
            if self.device == "cpu":
                return None
            if self._nearest is None:
                if n_ideas < _FEW:
                    return None
                try:
                    return self._open(self.device)
                except EncoderError as error:
                    if not self._may_change:
                        raise
                    self.note = f"scanned on the CPU, not on {self.device}: {error}"
                    self.device = "cpu"
            return self._nearest

    def _leave(self, nearest: "Nearest", why: OutOfMemoryError) -> None:
        with self._opening:
            self.note = f"scanned on the CPU, no longer on {nearest.device}: {why}"
            self.device, self._nearest = "cpu", None

    def _open(self, device: str) -> "Nearest":
        from hindsight_models import Nearest

        with translated():
            self._nearest = Nearest(
                self._pool.vectors, self._pool.impact >= 0, device, self._memory
            )
        return self._nearest


def scan_on_cpu(
    pool: Pool,
    vectors: NDArray[np.float32],
    impact: NDArray[np.float32],
    k: int,
    *,
    threads: int,
) -> NDArray[np.int32]:
    """Rows of papers among which the k nearest of each of n unit vectors are, (n, c), padded.

    Parameters
    ----------
    impact : ndarray of shape (N,), float32
        The pool's, or less than 0 for more papers that don't count.
    """
    arrays = (vectors, pool.vectors, impact)
    if pool.projection is not None and pool.scan_products(k) < vectors.shape[1]:
        multiply = byte_products()
        if multiply is not None:  # without, float32 products of bytes take longer than the scan
            with translated():
                return pruned_scan(*arrays, pool.projection, k, threads=threads, multiply=multiply)
    return scan(*arrays, k, threads=threads)
