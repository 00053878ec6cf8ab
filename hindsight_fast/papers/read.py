"""Source files to one table of papers, all in memory: read, clean, merge, count."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import polars as pl

from hindsight_fast.papers import venues
from hindsight_fast.papers.choices import STATUSES
from hindsight_fast.papers.intake import Intake
from hindsight_fast.papers.merging import merge, with_old
from hindsight_fast.papers.options import MAX_BAD, Options
from hindsight_fast.papers.schema import PaperTable
from hindsight_fast.papers.venues import Table

COUNTED: Final = ("status", "date", "citations", "venue", "n_records")
"""Columns of a paper that `counted` looks at."""


def read_papers(
    sources: Sequence[Path],
    *,
    names: Mapping[Path, str] | None = None,
    format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    limit: int | None = None,
    max_bad: float = MAX_BAD,
    today: date | None = None,
    progress: Callable[[int], None] | None = None,
) -> PaperTable:
    """Read papers from files, clean them and merge duplicates.

    Parameters
    ----------
    sources : sequence of pathlib.Path
        Files, or folders of them; the order does not matter. One named twice is read once. In a
        folder, what is hidden or belongs to a store, a pool or a run is left out.
    names : mapping of pathlib.Path to str, optional
        What rejects and errors call a file, where its path says nothing (``-`` for standard
        input that was spooled); by default the path as given.
    format : str, default "auto"
        Name of a reader; by default each file's content decides.
    mapping : mapping of str to str, optional
        Our column name to the files'.
    limit : int, optional
        Read only the first so many records of each file, for a first try.
    max_bad : float, default 0.1
        Share of rejects above which a file is refused, from 0 to 1. One reject alone never is
        reason enough unless this is 0; a file of which no record is a paper always is.
    today : datetime.date, optional
        Dates more than 400 days after it are not believed; the current day (UTC) by default.
    progress : callable, optional
        Called with the number of records of each batch.

    Returns
    -------
    PaperTable
        Papers ordered by id. Counts, besides those that must add up: ``n_title_only``, ``n_stub``,
        ``n_paratext``, ``n_retracted``, ``n_withdrawn``, ``n_undated``, ``n_citations``,
        ``n_venues`` (papers with known citations, a venue of the table), ``n_venues_unlisted`` (a
        venue that the table lacks), ``ids_suffixed``, ``ids_made``, ``too_many_alike`` (see
        `merging.Merged`), ``n_dated_earlier`` where files of dates were given and, where not 0,
        those of `intake.Intake`.

    Raises
    ------
    UsageError
        An option that makes no sense: unknown format or column in the mapping, a limit or share
        out of range, no source.
    DataError
        A file that can't be read or is refused; the message names it and says why.
    """
    options = Options(
        names=names or {},
        format=format,
        mapping=mapping or {},
        limit=limit,
        max_bad=max_bad,
        today=today or datetime.now(UTC).date(),
        progress=progress,
    )
    return read_table(sources, options)


def read_table(sources: Sequence[Path], options: Options) -> PaperTable:
    """Read papers as `read_papers` does, with any options."""
    with TemporaryDirectory(prefix="hindsight-papers-") as work:
        intake = Intake(sources, options, Path(work))
        chunks = list(intake.chunks())
    records = pl.concat([chunk.papers for chunk in chunks])
    rejects = pl.concat([chunk.rejects for chunk in chunks]).sort("file", "line")
    old = intake.reused
    merged = merge(records, options.venues, None if old is None else old.merges)
    merges, conflicts = merged.merges, merged.conflicts
    if old is not None:
        merges = with_old(merges, merged.unchanged, old.merges)
        conflicts = with_old(conflicts, merged.unchanged, old.conflicts)
    counts = totals(intake.counts, counted(merged.papers, options.venues), rejects.height)
    counts |= {"ids_suffixed": merged.n_suffixed, "ids_made": merged.n_made}
    counts["too_many_alike"] = merged.n_too_many
    if "n_dates" in counts:
        counts["n_dated_earlier"] = merged.n_dated_earlier
    return PaperTable(merged.papers, rejects, counts, intake.ignored, merges, conflicts)


def counted(papers: pl.DataFrame, table: Table) -> Counter[str]:
    """Count what papers are and have; the counts of parts add up.

    Parameters
    ----------
    papers : polars.DataFrame
        With the columns `COUNTED`.
    table : Table
    """
    known = venues.is_known(papers["venue"], table)
    status = papers["status"]
    return Counter(
        {
            "n_papers": papers.height,
            "n_records": int(papers["n_records"].sum()),
            **{f"n_{name}": int((status == name).sum()) for name in STATUSES if name != "ok"},
            "n_undated": papers["date"].null_count(),
            "n_citations": papers["citations"].count(),
            "n_venues": int(known.sum()),
            "n_venues_unlisted": int((venues.is_named(papers["venue"], table) & ~known).sum()),
        }
    )


def totals(records: Counter[str], papers: Counter[str], n_rejects: int) -> dict[str, int]:
    """Put together what was counted of records and of papers.

    Of records, only ``n_in`` is told where it is 0.
    """
    n_merged = papers["n_records"] - papers["n_papers"]
    told = {"n_in": records["n_in"], "n_merged": n_merged, "n_rejects": n_rejects}
    told |= {name: n for name, n in papers.items() if name != "n_records"}
    return told | {name: n for name, n in sorted(records.items()) if n}
