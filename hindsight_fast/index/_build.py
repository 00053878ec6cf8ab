"""Building an index in parts, each of which survives a kill, until every paper can be found."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.codes import CHUNK
from hindsight_fast.config import usable_threads
from hindsight_fast.errors import UsageError
from hindsight_fast.index._config import (
    DTYPE,
    FILES,
    GRAPH,
    METRIC,
    PART,
    ROWS,
    STRAYS,
    IndexConfig,
    IndexFacts,
    index_fingerprint,
)
from hindsight_fast.index._graph import VERSION, Graph
from hindsight_fast.index._links import read_layout, read_saved
from hindsight_fast.index._order import near_order, write_in_order
from hindsight_fast.index._taking import Old, Plan, plan
from hindsight_fast.storage import flushed_facts, is_whole, link_known, storage_errors

SMALLEST_PART: Final = 2**18
"""Papers; a part also has at least an eighth of those before it, so that saving the graph again
and again costs little beside building it."""


_PART: Final = f"{PART}graph-"


class Work(Protocol):
    """Where it is noted what is done, so that another process can go on (`storage.Steps`)."""

    @property
    def noted(self) -> list[Mapping[str, Any]]:
        """What earlier processes noted, in order."""
        ...

    def note(self, record: Mapping[str, Any]) -> None:
        """Note a step, which a power cut can't undo."""
        ...


def build_index(
    vectors: NDArray[np.float32],
    eligible: NDArray[np.bool_],
    folder: Path,
    config: IndexConfig,
    *,
    threads: int,
    progress: Callable[[int], None] | None = None,
    work: Work | None = None,
    old: Old | None = None,
) -> IndexFacts:
    """Build an index over the eligible rows and write its files into a folder.

    Parameters
    ----------
    vectors : ndarray of shape (n, d), float32
        Unit rows; may be memory-mapped.
    eligible : ndarray of shape (n,), bool
        Which rows can be found; at least one.
    folder
        Exists; publishing it is the caller's business.
    threads
        Clamped to the usable processors; one if `config.deterministic`.
    progress
        Called with the number of papers done since the last call.
    work
        The journal of `folder`: what it notes of an index of just these vectors, rows and settings
        is not made again. Files that it doesn't name must not be in the folder, nor anything that
        another user wrote: a graph can be such that who loads it crashes.
    old
        An index to take over from, where most of its papers are among these.

    Raises
    ------
    UsageError
        No row is eligible: an empty pool has no index.
    StorageError
        A file could not be written.
    """
    rows = np.flatnonzero(eligible)
    if not len(rows):
        raise UsageError("an index of no papers was asked for; an empty pool has none")
    threads = 1 if config.deterministic else usable_threads(threads)
    advance = progress or _nobody
    job = _Job(folder, config, threads, work)
    if (made := job.made()) is not None:
        advance(made.n_papers)
        return made
    planned = job.plan(vectors, rows, old)
    graph, done = job.begin(planned)
    advance(int((planned.rows[:done] >= 0).sum()) + len(planned.copies))
    while done < len(planned.rows):
        stop = part_end(done, len(planned.rows))
        codes = _codes(vectors, planned, done, stop)
        order = near_order(codes)  # what an addition looks at, the one before has looked at too
        for start in range(0, len(order), CHUNK):
            some = order[start : start + CHUNK]
            graph.add(done + some, codes[some], threads)
            advance(len(some))
        graph, done = job.save_part(graph, stop, last=stop == len(planned.rows)), stop
    return job.finish(graph, planned, len(rows))


def _codes(vectors: NDArray[np.float32], planned: Plan, start: int, stop: int) -> NDArray[np.int8]:
    """Codes of the keys start..stop-1."""
    codes = np.empty((stop - start, planned.to_code.axes.shape[1]), np.int8)
    for at in range(start, stop, CHUNK):
        rows = planned.rows[at : min(at + CHUNK, stop)]
        codes[at - start : at - start + len(rows)] = planned.to_code(vectors[rows])
    return codes


def _nobody(_: int) -> None:
    """Nobody watches."""


def part_end(done: int, total: int) -> int:
    """Return where the part that begins at `done` ends."""
    return min(done + max(SMALLEST_PART, done // 8), total)


class _Job:
    """The files of one index in the making, and what is noted of them."""

    def __init__(self, folder: Path, config: IndexConfig, threads: int, work: Work | None) -> None:
        self._folder, self._config, self._threads, self._work = folder, config, threads, work
        self._dim = 0
        noted = [] if work is None else [one for one in work.noted if "index" in one]
        self._noted = [one for one in noted if self._is_there(one)]

    def _is_there(self, record: Mapping[str, Any]) -> bool:
        return all(is_whole(self._folder / n, facts) for n, facts in record["files"].items())

    def _note(self, what: str, names: tuple[str, ...], **more: Any) -> None:
        if self._work is not None:
            files = {name: flushed_facts(self._folder / name) for name in names}
            self._work.note({"index": what, "files": files, **more})

    def _last(self, what: str) -> Mapping[str, Any] | None:
        return next((one for one in reversed(self._noted) if one["index"] == what), None)

    def made(self) -> IndexFacts | None:
        """What was noted of the whole index, if it is there."""
        if (record := self._last("made")) is None:
            return None
        self._remove_parts(f"{PART}*")
        return IndexFacts(**record["facts"])

    def plan(self, vectors: NDArray[np.float32], rows: NDArray[np.int64], old: Old | None) -> Plan:
        """The plan that was noted, or a new one."""
        record = self._last("planned")
        if record is not None and (not record["facts"]["start"] or self._last("part")):
            planned = Plan.read(self._folder, record["facts"])
        else:
            self._noted = []
            self._remove_parts(f"{PART}*")
            planned = plan(vectors, rows, self._config, old)
            if planned.start and old is not None:
                link_known(old.folder / GRAPH, self._part(planned.start), old.files[GRAPH])
                self._note("part", (self._part(planned.start).name,), done=planned.start)
            self._note("planned", planned.write(self._folder), facts=planned.facts())
        self._dim = planned.to_code.axes.shape[1]
        return planned

    def begin(self, planned: Plan) -> tuple[Graph, int]:
        """The graph as far as it is there, and how many keys are in it."""
        record = self._last("part")
        done = planned.start if record is None else int(record["done"])
        if not done:
            return Graph(self._dim, self._config), 0
        return self._open(self._part(done)), done

    def save_part(self, graph: Graph, done: int, *, last: bool) -> Graph:
        """Save a graph with its first `done` keys; a deterministic build goes on from the file."""
        if self._work is None and not self._config.deterministic and not last:
            return graph
        graph.save(self._part(done))
        self._note("part", (self._part(done).name,), done=done)
        self._remove_parts(f"{_PART}*", but=self._part(done))
        # What usearch keeps in memory is more than what it saves, and tells on the links.
        return self._open(self._part(done)) if self._config.deterministic else graph

    def finish(self, graph: Graph, planned: Plan, n_papers: int) -> IndexFacts:
        """Make findable what isn't, and name the files as they are to stay."""
        rows, folder = planned.rows, self._folder
        path, strays = self._part(len(rows)), np.empty(0, np.int32)
        saved = read_saved(path)
        lost = saved.keys[~saved.reached]
        lost = lost[rows[lost] >= 0]
        if len(lost):
            # Under another key, since nothing can be taken out of a graph. One thread: another
            # that adds what is near at the same moment is one of the reasons.
            keys = np.arange(len(rows), len(rows) + len(lost))
            graph.add(keys, graph.codes(lost), 1)
            rows = np.concatenate([rows, rows[lost]])
            rows[lost] = -1
            path = self._part(len(rows))
            graph.save(path)
            saved = read_saved(path)
            strays = np.sort(saved.keys[~saved.reached & (rows[saved.keys] >= 0)]).astype(np.int32)
        with storage_errors(f"write the index into {folder}"):
            for name in (ROWS, STRAYS, GRAPH):  # it may be another's too, by a link
                (folder / name).unlink(missing_ok=True)
            np.save(folder / ROWS, rows)
            np.save(folder / STRAYS, strays)
        layout = read_layout(path)
        write_in_order(layout, near_order(layout.links.codes), folder / GRAPH)
        facts = self._facts(planned, n_papers, len(strays))
        self._note("made", FILES, facts=dataclasses.asdict(facts))
        self._remove_parts(f"{PART}*")
        return facts

    def _facts(self, planned: Plan, n_papers: int, n_unreachable: int) -> IndexFacts:
        to_code = planned.to_code
        return IndexFacts(
            fingerprint=index_fingerprint(self._config, to_code),
            n_papers=n_papers,
            n_copies=len(planned.copies),
            n_taken=planned.n_taken,
            not_taken=planned.why,
            n_unreachable=n_unreachable,
            dim=len(to_code.mean),
            n_axes=self._dim,
            variance=planned.variance,
            dtype=DTYPE,
            metric=METRIC,
            n_bytes=sum((self._folder / name).stat().st_size for name in FILES),
            threads=self._threads,
            usearch=VERSION,
        )

    def _open(self, path: Path) -> Graph:
        return Graph.load(path, self._dim, self._config)

    def _part(self, done: int) -> Path:
        return self._folder / f"{_PART}{done}.usearch"

    def _remove_parts(self, pattern: str, but: Path | None = None) -> None:
        with storage_errors(f"write the index into {self._folder}"):
            for path in self._folder.glob(pattern):
                if path != but:
                    path.unlink()
