"""Source files to cleaned records, a chunk at a time, with what is counted on the way."""

import difflib
import gc
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import HindsightError, UsageError
from hindsight_fast.papers import s2_bulk, topics, venues
from hindsight_fast.papers._ahead import ahead
from hindsight_fast.papers.options import COLUMNS, Options
from hindsight_fast.papers.readers import Batch
from hindsight_fast.papers.records import RAW_SCHEMA, clean
from hindsight_fast.papers.schema import PAPER_SCHEMA, REJECT_SCHEMA, Role
from hindsight_fast.papers.sources import find_files
from hindsight_fast.papers.units import Seen, naming, others, units_of, units_of_updates

CHUNK_RECORDS: Final = 1 << 16
CHUNK_BYTES: Final = 80 << 20
"""Records are cleaned as soon as there are so many, or so much text: batches of many small files
come together."""

_INTERVAL = 5e-4  # seconds until a thread that waits gets the interpreter's lock
_AHEAD = 2  # batches that are read while others are cleaned

_GIVEN: dict[str, pl.DataType] = {
    "unit": pl.Int64(),
    "file": pl.String(),
    "source": pl.String(),
    "role": pl.UInt8(),
}


class Chunk(NamedTuple):
    """Some records.

    Attributes
    ----------
    papers : polars.DataFrame
        Columns of `PAPER_SCHEMA` and ``role`` (`Role`, UInt8); ids may be null or repeat.
    rejects : polars.DataFrame
        Columns of `REJECT_SCHEMA`.
    """

    papers: pl.DataFrame
    rejects: pl.DataFrame


class _Held(NamedTuple):
    """A batch that waits to be cleaned; None: the end of its unit."""

    unit: int
    path: Path
    batch: Batch | None


class Intake:
    """Reads, checks and cleans the sources.

    Parameters
    ----------
    sources : sequence of pathlib.Path
        Files, or folders of them.
    options : Options
    work : pathlib.Path
        An empty folder, for what can't be joined in memory.

    Attributes
    ----------
    counts : Counter of str
        ``n_in``, ``n_left_out``, ``n_dates`` and ``n_dates_rejects`` (of files given for their
        dates), what formats count (`s2_bulk`), and ``malformed_<column>``. Whole when all chunks
        are read.
    reused : Old or None
        The older store, as diffs leave it.

    Raises
    ------
    UsageError
        No source, or an unknown format.
    DataError, StorageError
        A file that is missing or can't be read.
    """

    def __init__(self, sources: Sequence[Path], options: Options, work: Path) -> None:
        if not sources and options.reuse is None:
            raise UsageError("no source: name at least one file of papers")
        self.counts: Counter[str] = Counter()
        self._options = options
        self._columns = frozenset[str]()
        self.reused = options.reuse
        dated = find_files(options.dates)
        diffs = s2_bulk.diffs(options.updates, options.deletes)
        if options.reuse is not None and (options.updates or options.deletes):
            self.reused = s2_bulk.changed(
                options.reuse, diffs, work / "changed", options.rules, self.counts
            )
        self._units = [
            *units_of_updates(diffs, options, work),
            *units_of(find_files(sources), Role.RECORD, options, work),
            *units_of(dated, Role.DATED, options, work),
        ]
        self._seen = {number: Seen() for number in range(len(self._units))}

    @property
    def ignored(self) -> tuple[str, ...]:
        """Columns of the files that are not ours, by name."""
        return tuple(sorted(self._columns - {*COLUMNS, *self._options.mapping.values()}))

    def chunks(self) -> Iterator[Chunk]:
        """Read everything, once.

        Raises
        ------
        UsageError
            A column of the mapping that no source has.
        DataError
            A file that is damaged or refused; the message names it and says why.
        """
        yield from self._old()
        held: list[_Held] = []
        records, size = 0, 0
        with closing(ahead(self._batches(), _AHEAD)) as items:
            while (item := self._next(items, held)) is not None:
                held.append(item)
                if item.batch is not None:
                    self._advance(item.batch.records.height + item.batch.rejects.height)
                    records += item.batch.records.height
                    size += int(item.batch.records.estimated_size())
                del item
                if records >= CHUNK_RECORDS or size >= CHUNK_BYTES:
                    yield self._cleaned(held)
                    records, size = 0, 0
        yield self._cleaned(held)
        self._check_mapping()

    def _batches(self) -> Generator[_Held]:
        with _at_ease():
            yield from self._read()

    def _read(self) -> Generator[_Held]:
        for number, unit in enumerate(self._units):
            counts: Counter[str] = Counter()
            with naming(unit.names):
                for path, batch in unit.read(counts):
                    yield _Held(number, path, batch)
            self.counts += counts
            yield _Held(number, Path(), None)

    def _next(self, items: Iterator[_Held], held: list[_Held]) -> _Held | None:
        try:
            return next(items, None)
        except HindsightError:
            self._cleaned(held)  # what is wrong with the files before is said first
            raise

    def _advance(self, n: int) -> None:
        if self._options.progress is not None:
            self._options.progress(n)

    def _old(self) -> Iterator[Chunk]:
        """Papers of an older store, as records that are clean already."""
        options = self._options
        for part in self.reused.parts() if self.reused else ():
            self._advance(part.height)
            papers = part.select(list(PAPER_SCHEMA)).with_columns(
                venues.resolve(part["venue"], options.venues).alias("venue"),
                topics.tag(options.topics, part["title"], part["abstract"]).alias("topics"),
                pl.col("n_records").fill_null(1),
                role=pl.lit(Role.OLD, dtype=pl.UInt8),
            )
            yield self._chosen(papers, pl.DataFrame(schema=REJECT_SCHEMA))

    def _cleaned(self, held: list[_Held]) -> Chunk:
        """Clean the batches that wait, all at once, and judge the units that end with them."""
        waiting = [(each.unit, each.path, each.batch) for each in held if each.batch is not None]
        ended = [each.unit for each in held if each.batch is None]
        held.clear()
        batches = [batch for _, _, batch in waiting]
        given = self._given([(number, path) for number, path, _ in waiting])
        raw = pl.concat(
            [pl.DataFrame(schema=RAW_SCHEMA), *(batch.records for batch in batches)],
            rechunk=True,  # `pl.format` fails where a chunk is empty
        )
        of_raw = _repeated([batch.records.height for batch in batches])
        cleaned = clean(raw.with_columns(line=pl.int_range(pl.len())), self._options.rules)
        bad = cleaned.rejects["line"]
        of_paper = given[of_raw[others(raw.height, bad)]]
        papers = cleaned.papers.with_columns(
            pl.col("source").fill_null(of_paper["source"]), of_paper["role"]
        )
        refused = cleaned.rejects.with_columns(raw["line"].gather(bad))
        rejects = pl.concat([refused, *(batch.rejects for batch in batches)])
        of_unread = _repeated([batch.rejects.height for batch in batches])
        of_reject = given[np.concatenate([of_raw[bad.to_numpy()], of_unread])]
        rejects = rejects.with_columns(of_reject["unit", "file", "role"])
        for malformed in (cleaned.malformed, *(batch.malformed for batch in batches)):
            self.counts.update({f"malformed_{name}": n for name, n in malformed.items()})
        for number, _, batch in waiting:
            self._columns |= batch.columns
            self._seen[number].add_columns(batch.columns)
        for number, n in of_paper["unit"].value_counts().iter_rows():
            self._seen[number].add_papers(n)
        for (number, *_), part in rejects.partition_by("unit", as_dict=True).items():
            self._seen[number].add_rejects(part.select(list(REJECT_SCHEMA)))
        for number in ended:
            self._seen.pop(number).judge(self._units[number], self._options)
        of_dates = rejects["role"] == Role.DATED
        self.counts["n_dates_rejects"] += int(of_dates.sum())
        return self._chosen(papers, rejects.filter(~of_dates).select(list(REJECT_SCHEMA)))

    def _given(self, batches: list[tuple[int, Path]]) -> pl.DataFrame:
        """What is known of each batch's records without reading them."""
        return pl.DataFrame(
            [
                (number, self._units[number].names[path], path.name, self._units[number].role)
                for number, path in batches
            ],
            schema=_GIVEN,
            orient="row",
        )

    def _chosen(self, papers: pl.DataFrame, rejects: pl.DataFrame) -> Chunk:
        """Tell what the condition leaves out, and count."""
        where = self._options.where
        if where:
            out = ~where.mask(papers) & (papers["role"] <= Role.OLD)
            left = pl.lit(Role.LEFT_OUT, dtype=pl.UInt8)
            papers = papers.with_columns(role=pl.when(out).then(left).otherwise("role"))
        sums = papers.group_by("role").agg(pl.col("n_records").sum())
        n: dict[int, int] = dict(sums.iter_rows())
        self.counts["n_dates"] += n.pop(Role.DATED, 0)
        self.counts["n_left_out"] += n.get(Role.LEFT_OUT, 0)
        self.counts["n_in"] += sum(n.values()) + rejects.height
        return Chunk(papers, rejects)

    def _check_mapping(self) -> None:
        for ours, theirs in self._options.mapping.items():
            if theirs not in self._columns:
                close = difflib.get_close_matches(theirs, self._columns, 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise UsageError(f"no source has the column {theirs!r} mapped to {ours!r}{hint}")


def _repeated(heights: list[int]) -> NDArray[np.int64]:
    """The number of each frame, as often as it has rows."""
    return np.repeat(np.arange(len(heights)), heights)


@contextmanager
def _at_ease() -> Generator[None]:
    """Let the threads that read and clean give way to each other at once, and undisturbed.

    Records have no cycles: looking for some took a quarter of the time of reading them. Between
    two calls of polars the interpreter's lock is asked for some hundred times a chunk.
    """
    was_on, interval = gc.isenabled(), sys.getswitchinterval()
    gc.disable()
    sys.setswitchinterval(_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        if was_on:
            gc.enable()
