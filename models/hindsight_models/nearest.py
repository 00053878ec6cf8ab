"""Papers that could be nearest, by matrix products on a GPU whose memory holds the papers.

A graph of one product and one TopK gives, for each query and each block of papers, the c largest
products and whose they are. A product a of query q and paper x is a float32 sum of d products in
some order, fused or not, without TF32, so that (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., section 3.1) it is within

    eps = (gamma_d + u + 2 gamma'_d) |q| R + underflow,    R = max |x|,

of the similarity, itself a float64 sum rounded to float32: gamma_d = d u / (1 - d u), u = 2**-24,
and gamma'_d with u' = 2**-53. Let a_K be the K-th largest product of all blocks. K papers have a
similarity of at least L = a_K - eps, so only a paper with a + eps >= L can be among the K nearest.
A block's papers that were not named have no larger product than its c-th; where that one is below
L - eps, none of them counts. Queries of which this can't be said for every block (near ties,
copies) are run again with a larger c, and in the end left to another scan.
"""

import os
import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hindsight_models import cuda
from hindsight_models.errors import ModelError, OutOfMemoryError, RequestError
from hindsight_models.products import error_bound, graph, prove, wrong
from hindsight_models.session import ArraySession

T = TypeVar("T")
F32 = NDArray[np.float32]

BLOCK = 65_536
"""Papers per product."""

QUERIES = 1024
"""Queries per product, at most."""

_DEVICE = re.compile(r"cpu|cuda(?::(\d{1,3}))?")
_LEAST_BLOCK = 1024
_NARROWEST, _WIDEST = 32, 512  # c; up to 32 onnxruntime's TopK is fastest
_WIDER = 4  # times c, for what was not certain
_HELD = 1 << 24  # products of all blocks that are looked at together
_PLACED = 4096  # queries that are on the device together
_LARGEST = 1e15  # product of norms up to which no float32 sum overflows, as in the CPU's scan
_AT_ONCE = 4096  # papers whose norms are measured together


class Nominated(NamedTuple):
    """What was found for each of n queries."""

    rows: NDArray[np.int32]
    """(n, c) rows of papers, ascending, padded with -1."""
    complete: NDArray[np.bool_]
    """(n,) whether all that count are among them; of others the rows mean nothing."""


class Nearest:
    """Nominates every paper that could be among a query's k nearest.

    Papers are packed into blocks without those that are nobody's neighbour. As many blocks as fit
    stay on the device; the others are sent there for every call.

    Parameters
    ----------
    vectors : ndarray of shape (N, d), float32
        Of the papers; may be memory-mapped. Read block by block, never copied as a whole.
    eligible : ndarray of shape (N,), bool
        Which papers take part.
    device
        "cuda" (the first GPU), "cuda:N", or "cpu", which is slower than a scan made for it.
    memory
        Bytes that may be taken of the GPU's memory; None: half of what is free.

    Attributes
    ----------
    device : str
        "cpu" or "cuda:N".
    n_blocks, n_resident : int
        How many there are, and how many of them stay on the device.

    Raises
    ------
    RequestError
        The device's name makes no sense.
    ModelError
        It can't be used, or does not multiply in float32 as it should.
    """

    def __init__(
        self,
        vectors: F32,
        eligible: NDArray[np.bool_],
        device: str = "cuda",
        memory: int | None = None,
    ) -> None:
        number = _number(device)
        self.device = "cpu" if number is None else f"cuda:{number}"
        self._vectors, self._pid = vectors, os.getpid()
        self._rows, self._longest = _usable(vectors, eligible)
        self._relative, self._absolute = error_bound(vectors.shape[1])
        self._queries, self._working = QUERIES, threading.Lock()
        self._resident: list[Any] = []
        if number is None:
            self._block, self._session = BLOCK, ArraySession(graph(), None)
            prove(self._session, vectors.shape[1], self.device)
        else:
            self._lay_out(number, cuda.free_memory(number) // 2 if memory is None else memory)

    @property
    def n_blocks(self) -> int:
        return -(-len(self._rows) // self._block)

    @property
    def n_resident(self) -> int:
        return len(self._resident)

    def _lay_out(self, number: int, memory: int) -> None:
        """Send blocks to a GPU; smaller and fewer ones where it has less memory than it said."""
        d = self._vectors.shape[1]
        while True:
            self._block, n_resident, for_runs = _plan(len(self._rows), d, memory)
            try:
                self._session = ArraySession(graph(), number, for_runs)
                prove(self._session, d, self.device)
                while len(self._resident) < n_resident and self._keep_one_more():
                    pass
                self._warm_up()
                return
            except OutOfMemoryError:
                self._resident.clear()
                memory //= 2

    def _keep_one_more(self) -> bool:
        """Whether one more block could stay on the device."""
        before = len(self._resident)
        block = self._send(before)
        if len(self._resident) < before:  # for this one another had to leave
            return False
        self._resident.append(block)
        return True

    def nominate(self, queries: F32, k: int) -> Nominated:
        """Every paper that could be among the k nearest of each query, and some more.

        Parameters
        ----------
        queries : ndarray of shape (n, d), float32
            One with NaN or inf has no neighbours.
        k : int
            At least 1.

        Returns
        -------
        Nominated

        Raises
        ------
        OutOfMemoryError
            Not even one query fits on the device.
        ModelError
            The device failed, or this is a forked child.
        """
        if self._pid != os.getpid() and self.device != "cpu":
            raise ModelError(
                f"a process that was forked can't use {self.device}: start processes with 'spawn'"
            )
        with self._working:
            return self._nominate(np.ascontiguousarray(queries), k)

    def _nominate(self, queries: F32, k: int) -> Nominated:
        n = len(queries)
        norms = np.sqrt(np.einsum("ij,ij->i", queries, queries, dtype=np.float64)) * (1 + 1e-9)
        finite = np.isfinite(norms)
        norms[~finite] = 0
        errors = self._relative * self._longest * norms + self._absolute
        complete = ~finite if len(self._rows) else np.ones(n, bool)
        left = np.flatnonzero(~complete & (norms * self._longest <= _LARGEST))
        found: list[tuple[NDArray[np.intp], NDArray[np.int32]]] = []
        width = min(max(_NARROWEST, 1 << (3 * k // 2 - 1).bit_length()), _WIDEST)
        while left.size and width <= _WIDEST:
            at_once = max(1, min(_HELD // (width * self.n_blocks), _PLACED))
            for start in range(0, left.size, at_once):
                those = left[start : start + at_once]
                some = queries[those]
                values, rows, beyond = self._shrinking(partial(self._largest, some, width))
                self._check(some, values, rows, errors[those])
                rows, sure = _certain(values, rows, beyond, errors[those], k)
                found.append((those[sure], rows))
                complete[those[sure]] = True
            left = left[~complete[left]]
            width *= _WIDER
        nominated = np.full((n, max((rows.shape[1] for _, rows in found), default=0)), -1, np.int32)
        for those, rows in found:
            nominated[those, : rows.shape[1]] = rows
        return Nominated(nominated, complete)

    def _shrinking(self, work: Callable[[], T]) -> T:
        """The work's result; with fewer queries at once wherever memory runs out."""
        while True:
            try:
                return work()
            except OutOfMemoryError:
                if self._queries == 1:
                    raise
                self._queries //= 2

    def _warm_up(self) -> None:
        """The largest run comes first: an engine's memory then has room for all others."""
        if len(self._rows):
            zeros = np.zeros((QUERIES, self._vectors.shape[1]), np.float32)
            self._shrinking(lambda: self._products([self._place(zeros[: self._queries])], 0, 1))

    def _largest(self, queries: F32, width: int) -> tuple[F32, NDArray[np.int32], F32]:
        """Each block's largest products and their rows, (n, blocks * c), and what bounds others."""
        n, n_rows = len(queries), len(self._rows)
        counts = [
            min(width, n_rows - start, self._block) for start in range(0, n_rows, self._block)
        ]
        values, rows = np.empty((n, sum(counts)), np.float32), np.empty((n, sum(counts)), np.int32)
        beyond = np.full(n, -np.inf, np.float32)
        starts = range(0, n, self._queries)
        placed = [self._place(queries[start:][: self._queries]) for start in starts]
        at = 0
        for number, count in enumerate(counts):
            here = self._rows[number * self._block :][: self._block]
            products, places = self._products(placed, number, count)
            if not (places.min() >= 0 and places.max() < len(here)):
                raise ModelError(f"{self.device} named papers that are none: scan on the CPU")
            values[:, at : at + count], rows[:, at : at + count] = products, here[places]
            if count < len(here):
                np.maximum(beyond, products[:, -1], out=beyond)
            at += count
        return values, rows, beyond

    def _products(
        self, placed: list[Any], number: int, count: int
    ) -> tuple[F32, NDArray[np.int64]]:
        """A block's largest products and their places in it, both (n, count), largest first."""
        resident = number < len(self._resident)
        papers = self._resident[number] if resident else self._send(number)
        wanted = {"count": np.array([count], np.int64)}
        runs = [self._session.run({"queries": some, "papers": papers}, wanted) for some in placed]
        return np.concatenate([run[0] for run in runs]), np.concatenate([run[1] for run in runs])

    def _send(self, number: int) -> Any:
        """Put a block on the device."""
        rows = self._rows[number * self._block :][: self._block]
        return self._place(_taken(self._vectors, rows))

    def _place(self, array: F32) -> Any:
        """Put an array on the device, in the place of blocks that were to stay if it must be."""
        while True:
            try:
                return self._session.place(array)
            except OutOfMemoryError:
                if not self._resident:
                    raise
                self._resident.pop()

    def _check(self, queries: F32, values: F32, rows: NDArray[np.int32], errors: Any) -> None:
        """A device that went wrong since it was proven: the largest product is known to hold."""
        each, best = np.arange(len(queries)), values.argmax(axis=1)
        papers = self._vectors[rows[each, best]]
        right = np.einsum("ij,ij->i", queries, papers, dtype=np.float64)
        apart = np.abs(right - values[each, best])
        if not (apart <= errors).all():
            raise wrong(self.device, float(apart.max()))


def _certain(
    values: F32, rows: NDArray[np.int32], beyond: F32, errors: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Which queries have all that counts among these, and of them the rows that could count."""
    lower = np.full(len(values), -np.inf)
    if values.shape[1] >= k:
        lower = np.partition(values, -k, axis=1)[:, -k] - errors
    sure = (beyond + errors < lower) | (beyond == -np.inf)
    few = values[sure] + errors[sure, None] >= lower[sure, None]
    counts = few.sum(axis=1)
    none = np.iinfo(np.int32).max
    kept = np.full((len(few), int(counts.max(initial=0))), none, np.int32)
    kept[np.arange(kept.shape[1]) < counts[:, None]] = rows[sure][few]
    kept.sort(axis=1)
    kept[kept == none] = -1
    return kept, sure


def _number(device: str) -> int | None:
    """Number of the GPU; None: the CPU."""
    named = _DEVICE.fullmatch(device)
    if named is None:
        raise RequestError(f"device is {device!r}; expected cpu, cuda or cuda:N")
    if device == "cpu":
        return None
    number, count = int(named[1] or 0), cuda.device_count()
    if number >= count:
        raise ModelError(f"there is no {device}: GPUs are counted from 0, and here are {count}")
    return number


def _usable(vectors: F32, eligible: NDArray[np.bool_]) -> tuple[NDArray[np.int32], float]:
    """Rows of papers that can be neighbours, and a bound of their norms."""
    rows = np.flatnonzero(eligible).astype(np.int32)
    usable, longest = np.ones(len(rows), bool), 0.0
    for start in range(0, len(rows), _AT_ONCE):
        some = _taken(vectors, rows[start : start + _AT_ONCE])
        squares = np.einsum("ij,ij->i", some, some, dtype=np.float64)
        finite = np.isfinite(squares)
        usable[start : start + _AT_ONCE] = finite
        longest = max(longest, squares[finite].max(initial=0.0))
    return rows[usable], float(np.sqrt(longest)) * (1 + 1e-9)


def _taken(vectors: F32, rows: NDArray[np.int32]) -> F32:
    """Some rows, ascending; a view where they follow each other."""
    if rows.size and rows[-1] - rows[0] + 1 == rows.size:
        return vectors[rows[0] : rows[-1] + 1]
    return vectors[rows]


def _plan(n: int, d: int, memory: int) -> tuple[int, int, int]:
    """Papers of a block, how many blocks may stay on the device, bytes that are left for runs."""
    block, queries = BLOCK, 4 * _PLACED * d
    # Beside what stays: queries, one block, and products, with half as much again for the TopK.
    while (needed := queries + block * (4 * d + 6 * QUERIES)) > memory:
        block //= 2
        if block < _LEAST_BLOCK:
            raise ModelError(
                f"{memory:,} bytes of the GPU's memory are too few to scan vectors of {d} numbers: "
                "allow more, end what else uses it (nvidia-smi lists it), or scan on the CPU"
            )
    resident = min(-(-n // block), (memory - needed) // (4 * block * d))
    return block, resident, memory - queries - 4 * block * d * (resident + 1)
