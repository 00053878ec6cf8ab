"""What is read together (a file, shards that are joined, answers), and whether it is good."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import DataError, UsageError
from hindsight_fast.papers import answers, readers, s2_bulk
from hindsight_fast.papers.options import COLUMNS, Options
from hindsight_fast.papers.readers import S2_BULK, Batch, Given, s2_graph, streams
from hindsight_fast.papers.readers.s2_shards import s2_dataset
from hindsight_fast.papers.records import clean
from hindsight_fast.papers.schema import REJECT_SCHEMA, Role
from hindsight_fast.papers.sources import find_files

_SHOWN = 5


class Unit(NamedTuple):
    """Files that are read together.

    Attributes
    ----------
    names : dict of pathlib.Path to str
        The files, and what errors and rejects call them.
    role : Role
        What its records are.
    read : callable
        ``read(counts)`` yields batches, with the file that each comes from, and fills `counts`
        (a Counter) with what the format has to tell beside them.
    may_be_empty : bool
        Whether it is fine that no record comes of them.
    """

    names: dict[Path, str]
    role: Role
    read: Callable[[Counter[str]], Iterator[tuple[Path, Batch]]]
    may_be_empty: bool = False


def units_of(paths: Sequence[Path], role: Role, options: Options, work: Path) -> Iterator[Unit]:
    """Group files into units, by what they hold.

    Raises
    ------
    UsageError, DataError, StorageError
        A file that can't be opened, shards that don't belong together, or a mapping of columns
        where no file has any of its own.
    """
    if options.mapping and role == Role.RECORD:
        _check_mapping([*paths, *find_files(options.dates)], options)
    shards: dict[str, list[Path]] = {}
    of_shards: dict[Path, str] = {}
    collected: dict[Path, dict[Path, str]] = {}
    for path in paths:
        names = {path: options.names.get(path, str(path))}
        if (folder := answers.folder_of(path)) is not None:
            collected.setdefault(folder, {}).update(names)
            continue
        with naming(names):
            dataset = _s2_dataset(path, options.format)
        if dataset is None:
            yield Unit(names, role, partial(_read_file, path, options, shards))
        else:
            shards.setdefault(dataset, []).append(path)
            of_shards |= names
    for folder, names in collected.items():
        read = partial(_read_collected, folder, list(names), options, shards)
        yield Unit(names, role, read)
    if shards.keys() - ({"paper-ids"} if len(of_shards) < len(paths) else ()):
        with naming(of_shards):
            s2_bulk.check(shards)
        folder = work / f"s2_bulk_{role.name}"
        yield Unit(of_shards, role, partial(_read_shards, shards, folder, role, options))


def _check_mapping(paths: Sequence[Path], options: Options) -> None:
    names = {path: options.names.get(path, str(path)) for path in paths}
    found: list[str] = []
    with naming(names):
        for path in paths:
            if (format := _format(path, options)) == readers.own.READER.name:
                return
            found.append(f"{names[path]} is {format}")
    if found:
        more = f" (and {len(found) - 1} more are of such formats)" if found[1:] else ""
        raise UsageError(
            f"{found[0]}{more}, whose columns are known: --map is for tables with columns of your "
            "own; leave it out"
        )


def _format(path: Path, options: Options) -> str:
    if answers.folder_of(path) is not None:
        return answers.KIND
    if _s2_dataset(path, options.format) is not None:
        return S2_BULK
    return readers.find(path, streams.head(path), options.format).name


def units_of_updates(diffs: s2_bulk.Diffs, options: Options, work: Path) -> Iterator[Unit]:
    """The papers that diffs between Semantic Scholar's releases bring, as one unit."""
    paths = [path for shards in diffs.updates.values() for path in shards]
    names = {path: options.names.get(path, str(path)) for path in paths}
    if "papers" in diffs.updates:
        read = partial(_read_updates, diffs, work / "updates", options)
        yield Unit(names, Role.RECORD, read, may_be_empty=True)  # all may be deleted again


def _s2_dataset(path: Path, format: str) -> str | None:
    head = streams.head(path)
    if format not in ("auto", S2_BULK):
        return None
    dataset = s2_dataset(head)
    if dataset is None and format == S2_BULK:
        raise DataError(f"{path} is no shard of Semantic Scholar's bulk datasets")
    return dataset


def _read_file(
    path: Path, options: Options, shards: Mapping[str, Sequence[Path]], counts: Counter[str]
) -> Iterator[tuple[Path, Batch]]:
    head = streams.head(path)
    reader = readers.find(path, head, options.format)

    def batches() -> Iterator[tuple[Path, Batch]]:
        for batch in reader.read(path, head, _given(options)):
            yield path, batch

    if reader.name != s2_graph.READER.name:
        return batches()
    return s2_bulk.with_corpus_ids(batches, shards.get("paper-ids", ()), counts)


def _given(options: Options) -> Given:
    return Given(options.mapping, options.limit, options.venues)


def _read_collected(
    folder: Path,
    paths: Sequence[Path],
    options: Options,
    shards: Mapping[str, Sequence[Path]],
    counts: Counter[str],
) -> Iterator[tuple[Path, Batch]]:
    read = partial(answers.read, folder, paths, _given(options)._replace(mapping={}))
    return s2_bulk.with_corpus_ids(read, shards.get("paper-ids", ()), counts)


def _read_shards(
    shards: Mapping[str, Sequence[Path]],
    folder: Path,
    role: Role,
    options: Options,
    counts: Counter[str],
) -> Iterator[tuple[Path, Batch]]:
    settings = s2_bulk.Settings(keep=_keep(role, options), limit=options.limit)
    return s2_bulk.read(shards, folder, counts, settings)


def _read_updates(
    diffs: s2_bulk.Diffs, folder: Path, options: Options, counts: Counter[str]
) -> Iterator[tuple[Path, Batch]]:
    settings = s2_bulk.Settings(keep=_keep(Role.RECORD, options), limit=options.limit)
    return s2_bulk.read_updates(diffs, folder, counts, settings)


def _keep(role: Role, options: Options) -> Callable[[pl.DataFrame], pl.Series] | None:
    """What tells which records may be papers of their own, before their texts are known."""
    early = options.where.early()
    if role == Role.RECORD and not early:
        return None

    def kept(raw: pl.DataFrame) -> pl.Series:
        mask = np.zeros(raw.height, dtype=np.bool_)
        if role == Role.RECORD:
            cleaned = clean(raw.with_columns(line=pl.int_range(pl.len())), options.rules)
            mask[others(raw.height, cleaned.rejects["line"])] = early.mask(cleaned.papers)
        return pl.Series(mask)

    return kept


def others(n: int, rows: pl.Series) -> NDArray[np.int64]:
    """Numbers below `n` that are not in `rows`, ascending."""
    left = np.ones(n, dtype=np.bool_)
    left[rows.to_numpy()] = False
    return np.flatnonzero(left)


@contextmanager
def naming(names: Mapping[Path, str]) -> Generator[None]:
    """Call files in errors what the user calls them."""
    try:
        yield
    except DataError as error:
        text = str(error)
        for path, name in names.items():
            text = text.replace(str(path), name)
        raise DataError(text) from error


class Seen:
    """What was read of a unit so far."""

    def __init__(self) -> None:
        self._n_papers = 0
        self._columns = frozenset[str]()
        self._rejects: list[pl.DataFrame] = []

    def add_papers(self, n: int) -> None:
        """Note so many papers."""
        self._n_papers += n

    def add_columns(self, columns: frozenset[str]) -> None:
        """Note names of columns."""
        self._columns |= columns

    def add_rejects(self, rejects: pl.DataFrame) -> None:
        """Note rejects, columns of `REJECT_SCHEMA`."""
        self._rejects.append(rejects)

    def judge(self, unit: Unit, options: Options) -> None:
        """Refuse a unit that holds no papers, or too many rejects.

        Raises
        ------
        DataError
        """
        first, *more = unit.names.values()
        name = f"{first} (and {len(more)} more)" if more else first
        rejects = pl.concat([pl.DataFrame(schema=REJECT_SCHEMA), *self._rejects])
        n = self._n_papers + rejects.height
        if n == 0 and unit.may_be_empty:
            return
        if n == 0:
            raise DataError(f"{name} holds no record")
        wanted = options.mapping.get("title", "title")
        if self._columns and not self._n_papers and not self._columns & {"title", wanted}:
            raise DataError(
                f"{name} has no column {wanted!r}: it has {', '.join(sorted(self._columns)[:20])}; "
                f"expected are {', '.join(COLUMNS)}, or other names with --map title=THEIRS"
            )
        allowed = max(options.max_bad * n, 1 if options.max_bad else 0)
        if not self._n_papers:
            raise DataError(
                f"{name}: none of {rejects.height} records is a paper; leave it out, or say what "
                f"it is with --format or --map:\n{_shown(rejects, bool(more))}"
            )
        if rejects.height > allowed:
            raise DataError(
                f"{name}: {rejects.height} of {n} records can't be used (allowed is a share of "
                f"{options.max_bad:g}, see --max-bad):\n{_shown(rejects, bool(more))}"
            )


def _shown(rejects: pl.DataFrame, with_file: bool) -> str:
    """The first rejects, a line each."""
    lines: list[str] = []
    for file, line, reason, record in rejects.sort("file", "line").head(_SHOWN).iter_rows():
        where = f"{file}, line {line}" if with_file else f"line {line}"
        lines.append(f"  {where}: {reason}" + (f": {record[:80]}" if record else ""))
    return "\n".join(lines)
