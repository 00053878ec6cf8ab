"""Source files to papers in their final order, in bounded memory.

The way of `read_papers`, by other means: cleaned records go to disk file by file, each file in the
final order; of all records only hashes of what the rules of `duplicates` compare are looked at
together, one key at a time; only records of papers that have several are read again, merged, and
written back; and the files are read as one. In memory are, beside what `Limits` allows, a bit of
each record, and what there is to tell of those that are merged, refused or in conflict.
"""

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

import polars as pl

from hindsight_fast.papers import conflicts
from hindsight_fast.papers._ahead import ahead
from hindsight_fast.papers.duplicates import Groups, find_groups
from hindsight_fast.papers.gathering._keys import Keys
from hindsight_fast.papers.gathering._limits import Limits
from hindsight_fast.papers.gathering._merge import merge_groups, tell_apart
from hindsight_fast.papers.gathering._papers import Papers
from hindsight_fast.papers.gathering._spill import spill
from hindsight_fast.papers.intake import Intake
from hindsight_fast.papers.merging import Each, in_full, with_old
from hindsight_fast.papers.options import Options
from hindsight_fast.papers.read import COUNTED, counted, totals
from hindsight_fast.papers.schema import REJECT_SCHEMA, Gathered

__all__ = ["Gathered", "Limits", "Options", "gather"]


def gather(
    sources: Sequence[Path],
    work: Path,
    options: Options | None = None,
    limits: Limits | None = None,
) -> Gathered:
    """Read papers from files, clean them and merge duplicates, in bounded memory.

    The result is that of `read_papers`, whatever the order of files.

    Parameters
    ----------
    sources : sequence of pathlib.Path
        Files, or folders of them.
    work : pathlib.Path
        An empty folder for what does not fit into memory (about the size of the texts), which the
        caller makes and removes. What is returned reads from it.
    options : Options, optional
    limits : Limits, optional

    Returns
    -------
    Gathered

    Raises
    ------
    UsageError, DataError
        As `read_papers`.
    StorageError
        No space or no rights in `work`.
    """
    options, limits = options or Options(), limits or Limits()
    intake = Intake(sources, options, work)
    rejects = [pl.DataFrame(schema=REJECT_SCHEMA)]

    def records() -> Generator[pl.DataFrame]:
        for chunk in intake.chunks():
            rejects.append(chunk.rejects)
            yield chunk.papers

    papers = Papers(work / "papers", limits.batch_rows)
    keys = Keys(work / "keys", limits)
    with closing(ahead(records(), 1)) as cleaned:  # some are cleaned while others are written
        n_made = spill(cleaned, papers, keys, options.venues, limits)
    groups = find_groups(keys.take)
    each = merge_groups(groups, papers, keys, options.venues, work / "bins", limits.bin_bytes)
    n_suffixed = tell_apart(papers, keys, options.venues)
    old = None if intake.reused is None else intake.reused.merges
    merges, listed = _told(groups, each, papers, old)
    if intake.reused is not None:
        unchanged = papers.fetch(keys.of_several(papers.alive), ["id"])["id"]
        merges = with_old(merges, unchanged, intake.reused.merges)
        listed = with_old(listed, unchanged, intake.reused.conflicts)
    n = Counter[str]()
    for part in papers.narrow(COUNTED):
        n.update(counted(part, options.venues))
    refused = pl.concat(rejects).sort("file", "line")
    counts = totals(intake.counts, n, refused.height)
    counts |= {"ids_suffixed": n_suffixed, "ids_made": n_made}
    counts["too_many_alike"] = groups.n_too_many
    if "n_dates" in counts:
        counts["n_dated_earlier"] = int(each.merges["dated_earlier"].sum())
    return Gathered(
        lambda: ahead(papers.parts(limits.part_bytes), 1),
        n["n_papers"],
        refused,
        merges,
        listed,
        counts,
        intake.ignored,
    )


def _told(
    groups: Groups, each: Each, papers: Papers, old: pl.DataFrame | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tables of merges and conflicts, by the papers' final ids."""

    def named(numbers: pl.Series, *columns: str) -> pl.DataFrame:
        """What papers say, by the rows that they had once; those that are none are left out."""
        places = papers.places(numbers.to_numpy())
        there = places >= 0
        return papers.fetch(places[there], columns).with_columns(
            numbers.filter(there).alias("group")
        )

    def texts(what: str, rows: pl.Series) -> pl.Series:
        if what == "title":
            return named(rows, "title")["title"]
        return papers.fetch(rows.to_numpy(), [what])[what].cast(pl.String)

    merges = each.merges.join(named(each.merges["group"], "id"), on="group")
    shared = groups.shared.with_columns(
        group=pl.Series(groups.of(groups.shared["row"].to_numpy()), dtype=pl.Int64)
    )
    listed = conflicts.listed(shared, named(shared["group"].unique(), "id"), texts)
    apart = each.apart.join(named(each.apart["group"].unique(), "id", "title"), on="group")
    return (
        in_full(merges, old).sort("id"),
        conflicts.ordered(listed, conflicts.within(apart)),
    )
