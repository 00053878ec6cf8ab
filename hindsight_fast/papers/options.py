"""How papers are read from files, and which of them are wanted."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from hindsight_fast.errors import UsageError
from hindsight_fast.papers import venues
from hindsight_fast.papers.choosing import Where
from hindsight_fast.papers.records import RAW_SCHEMA, Rules
from hindsight_fast.papers.topics import Topic
from hindsight_fast.papers.venues import Table

MAX_BAD: Final = 0.1
"""Default of `Options.max_bad`. A wrong mapping or format spoils nearly every record, damage in
transit a few in a thousand; a tenth lies well between."""

COLUMNS: Final = tuple(name for name in RAW_SCHEMA if name != "line")
"""What a source may tell of a paper."""


class Old(NamedTuple):
    """The papers of an older store.

    Attributes
    ----------
    parts : callable
        ``parts()`` yields frames with the columns of `PAPER_SCHEMA`.
    merges, conflicts : polars.DataFrame
        Columns of `MERGE_SCHEMA`, of `CONFLICT_SCHEMA`.
    """

    parts: Callable[[], Iterator[pl.DataFrame]]
    merges: pl.DataFrame
    conflicts: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Options:
    """How papers are read from files.

    Attributes
    ----------
    names : mapping of pathlib.Path to str
        What rejects and errors call a file, where its path says nothing (``-`` for standard
        input that was spooled); by default the path as given.
    format : str
        Name of a reader; ``auto``: each file's content decides.
    mapping : mapping of str to str
        Our column name to the files'.
    limit : int or None
        Read only the first so many records of each file, for a first try.
    max_bad : float
        Share of rejects above which a file is refused, from 0 to 1. One reject alone never is
        reason enough unless this is 0; a file of which no record is a paper always is.
    today : datetime.date
        Dates more than 400 days after it are not believed; the current day (UTC) by default.
    venues : Table
        The venues that names are matched with; those that ship by default.
    topics : tuple of Topic
        Papers are tagged with those that hold.
    where : Where
        Records of which it does not hold are left out: they only tell what they know of the
        dates, the ids and the retraction of a paper that another record is kept of.
    dates : tuple of pathlib.Path
        Files (or folders of them) whose records tell only that, too, and are no papers.
    reuse : Old or None
        Papers that are there already, and keep their ids (`Role.OLD`).
    updates, deletes : tuple of pathlib.Path
        Files of diffs between Semantic Scholar's releases, which change those papers.
    progress : callable or None
        Called with the number of records of each batch.

    Raises
    ------
    UsageError
        An option that makes no sense: an unknown column in the mapping, a limit or share out of
        range.
    """

    names: Mapping[Path, str] = field(default_factory=dict[Path, str])
    format: str = "auto"
    mapping: Mapping[str, str] = field(default_factory=dict[str, str])
    limit: int | None = None
    max_bad: float = MAX_BAD
    today: date = field(default_factory=lambda: datetime.now(UTC).date())
    venues: Table = field(default_factory=venues.table)
    topics: tuple[Topic, ...] = ()
    where: Where = field(default_factory=Where)
    dates: tuple[Path, ...] = ()
    reuse: Old | None = None
    updates: tuple[Path, ...] = ()
    deletes: tuple[Path, ...] = ()
    progress: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        for ours in self.mapping:
            if ours not in COLUMNS:
                close = difflib.get_close_matches(ours, COLUMNS, 1)
                hint = f", did you mean {close[0]!r}?" if close else "."
                raise UsageError(
                    f"papers have no column {ours!r}{hint} Ours are: {', '.join(COLUMNS)}"
                )
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"a limit of {self.limit} records; at least 1 is expected")
        if (self.updates or self.deletes) and self.reuse is None:
            raise UsageError("updates and deletes change an older store: name it with --reuse")
        if not 0 <= self.max_bad <= 1:
            raise UsageError(f"a share of {self.max_bad} rejects; from 0 to 1 is expected")

    @property
    def rules(self) -> Rules:
        """What the cleaning of a record depends on."""
        return Rules(self.today, self.venues, self.topics)
