"""Columns and types of the table of papers, of its rejects, and the counts that must add up."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import polars as pl

from hindsight_fast.errors import HindsightError

PAPER_SCHEMA: dict[str, pl.DataType] = {
    "id": pl.String(),
    "title": pl.String(),
    "abstract": pl.String(),
    "authors": pl.List(pl.String()),
    "venue": pl.String(),  # name in data/venues.toml (its main track), else as written
    "year": pl.Int32(),
    "date": pl.Date(),  # first day of the interval that the date stands for
    "date_precision": pl.String(),  # day | month | year
    "date_kind": pl.String(),  # first_public | venue | year
    "date_origin": pl.String(),  # which evidence it is (`dates.ORIGINS`)
    "revised": pl.Date(),  # of the last version known: its texts may tell what was found by then
    "citations": pl.Int64(),  # null: unknown, which is not 0
    "citations_source": pl.String(),
    "citations_as_of": pl.Date(),
    "citations_dated": pl.String(),  # "2015:0 2023:5 2024-03:12": by year or month of
    # citing; the first tells from when on citations are counted, and a last "@2025-03-01" till
    # when, where that is not citations_as_of
    "doi": pl.String(),
    "arxiv_id": pl.String(),
    "corpus_id": pl.Int64(),
    "field": pl.String(),
    "kind": pl.String(),
    "language": pl.String(),
    "tldr": pl.String(),
    "topics": pl.List(pl.String()),  # named filters that hold (`topics`); null: none asked for
    "license": pl.String(),
    "url": pl.String(),
    "source": pl.String(),
    "status": pl.String(),  # ok | retracted | withdrawn | paratext | title_only | stub
    "n_records": pl.Int32(),  # of the sources, that became this paper
}
"""Every paper has every column; null is unknown. Rows whose status is not ok stay out of pools."""


class Role(IntEnum):
    """What a record is to the papers of a build (column ``role``, UInt8, beside `PAPER_SCHEMA`)."""

    RECORD = 0
    OLD = 1
    """A paper of an older store: its id stays; newer records of the same id say the rest."""
    LEFT_OUT = 2
    """A witness that a condition left out: it helps to find which records are one paper, and
    gives date, arXiv id, DOI and retraction to it, but no more; alone it is no paper."""
    DATED = 3
    """A witness from a file that was given for its dates."""


WITNESS_FACTS: Final = frozenset(
    [
        "id",
        "source",
        "doi",
        "arxiv_id",
        "corpus_id",
        "status",
        "date",
        "date_precision",
        "date_kind",
        "date_origin",
        "n_records",
    ]
)
"""Columns of a witness that are looked at; the others are null where witnesses are merged."""

REJECT_SCHEMA: dict[str, pl.DataType] = {
    "file": pl.String(),
    "line": pl.Int64(),  # 1-based line of a text file, record number of a parquet file or array
    "reason": pl.String(),
    "record": pl.String(),  # its first 200 characters
}

MERGE_SCHEMA: dict[str, pl.DataType] = {
    "id": pl.String(),  # the paper's
    # "SOURCE ID" of each record that became it, best first; "[SOURCE ID]" of witnesses
    "records": pl.List(pl.String()),
    **{
        name: pl.Int32()
        for name in PAPER_SCHEMA
        if name not in ("id", "n_records", "date_precision", "date_kind", "date_origin")
    },
}
"""A row for each paper made of several records. Under a column's name: which of `records` (from 0)
its value comes from; null where it has none. ``date`` tells for its precision, kind and origin."""

CONFLICT_SCHEMA: dict[str, pl.DataType] = {
    "kind": pl.String(),  # see `duplicates`
    "key": pl.String(),  # what the records share
    "ids": pl.List(pl.String()),  # the first of them
    "n": pl.Int64(),  # how many they are
    "detail": pl.String(),
}


PART_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class PaperTable:
    """Papers after cleaning and merging, in no particular order, with what became of the rest.

    Attributes
    ----------
    papers : polars.DataFrame
        One row per paper, columns of `PAPER_SCHEMA`.
    rejects : polars.DataFrame
        One row per record that is no paper, columns of `REJECT_SCHEMA`.
    counts : dict of str to int
        At least ``n_in``, ``n_papers``, ``n_merged`` and ``n_rejects``; ``n_left_out`` where a
        condition left records out.
    ignored : tuple of str
        Columns of the sources that are not ours, by name.
    merges : polars.DataFrame
        Columns of `MERGE_SCHEMA`, ordered by id.
    conflicts : polars.DataFrame
        Columns of `CONFLICT_SCHEMA`.

    Raises
    ------
    HindsightError
        Where ``n_in != n_papers + n_merged + n_rejects + n_left_out``: a fault of this package.
    """

    papers: pl.DataFrame
    rejects: pl.DataFrame
    counts: dict[str, int] = field(default_factory=dict[str, int])
    ignored: tuple[str, ...] = ()
    merges: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MERGE_SCHEMA))
    conflicts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=CONFLICT_SCHEMA))

    def __post_init__(self) -> None:
        check_counts(self.counts, self.papers.height, self.rejects.height)
        check_columns(self.papers, PAPER_SCHEMA)
        check_columns(self.rejects, REJECT_SCHEMA)

    def gathered(self) -> "Gathered":
        """Return the same papers, in their final order, as a store takes them."""
        papers = self.papers.sort("date", "id", nulls_last=True)

        def parts() -> Generator[pl.DataFrame]:
            yield from papers.iter_slices(PART_ROWS)

        return Gathered(
            parts,
            papers.height,
            self.rejects,
            self.merges,
            self.conflicts,
            self.counts,
            self.ignored,
        )


@dataclass(frozen=True, slots=True)
class Gathered:
    """Papers after cleaning and merging, in their final order, part by part.

    Attributes
    ----------
    parts : callable
        ``parts()`` yields frames with the columns of `PAPER_SCHEMA`, none of them empty: all rows
        in order of date (first day of its interval), then id, undated ones last. It may be called
        again, as long as the folder that the papers were gathered in is there. Whoever stops early
        closes what it gives.
    n : int
        How many papers.
    rejects, merges, conflicts : polars.DataFrame
        As in `PaperTable`.
    counts : dict of str to int
        As in `PaperTable`.
    ignored : tuple of str
        Columns of the sources that are not ours, by name.
    """

    parts: Callable[[], Generator[pl.DataFrame]]
    n: int
    rejects: pl.DataFrame
    merges: pl.DataFrame
    conflicts: pl.DataFrame
    counts: dict[str, int]
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_counts(self.counts, self.n, self.rejects.height)
        check_columns(self.rejects, REJECT_SCHEMA)


def check_counts(counts: dict[str, int], n_papers: int, n_rejects: int) -> None:
    """Check that every record became a paper, part of one, or a reject, or was left out.

    Raises
    ------
    HindsightError
        Where not, or where the tables hold other numbers of rows.
    """
    left_out = counts.get("n_left_out", 0)
    total = counts["n_papers"] + counts["n_merged"] + counts["n_rejects"] + left_out
    if total != counts["n_in"] or (n_papers, n_rejects) != (
        counts["n_papers"],
        counts["n_rejects"],
    ):
        raise HindsightError(
            f"internal error: {counts['n_in']} records became {counts['n_papers']} papers, "
            f"{counts['n_merged']} merged and {counts['n_rejects']} rejects, {left_out} left out "
            f"(tables hold {n_papers} and {n_rejects}); please report this"
        )


def check_columns(frame: pl.DataFrame, schema: dict[str, pl.DataType]) -> None:
    """Check that a frame has just these columns.

    Raises
    ------
    HindsightError
        Where not.
    """
    if dict(frame.schema) != schema:
        raise HindsightError(f"internal error: columns {frame.schema} are not {schema}")
