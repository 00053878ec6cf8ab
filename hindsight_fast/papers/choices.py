"""Which record of a paper gives each of its values: `merging` says by which rules."""

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers import dates, duplicates, venues
from hindsight_fast.papers.schema import PAPER_SCHEMA, Role
from hindsight_fast.papers.venues import Table

STATUSES: Final = ("retracted", "withdrawn", "paratext", "ok", "stub", "title_only")
"""Of several the first counts."""

OF_WITNESSES: Final = STATUSES[:2]
"""What a witness may say of a paper."""

IS_RECORD: Final = pl.col("role") <= Role.OLD
"""Whether a row is no witness."""

_DATED = ("group", "date", "date_precision", "date_kind", "date_origin")


def best_first(records: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Order the records of each group from the best; all columns decide, never the rows' order.

    Adds what is compared: ``fresh``, ``place``, ``not_stub``, ``abstract_bytes``, ``n_topics``.
    """
    plain = [name for name in PAPER_SCHEMA if name not in ("id", "authors", "topics")]
    compared = records.with_columns(
        fresh=~_superseded(records),
        place=venues.rank(records["venue"], table),
        not_stub=pl.col("status") != "stub",
        abstract_bytes=pl.col("abstract").str.len_bytes(),
        n_topics=pl.col("topics").list.len(),
    )
    best = [
        IS_RECORD,
        pl.col("fresh"),
        pl.col("doi").is_not_null(),
        pl.col("place"),
        pl.col("arxiv_id").is_not_null(),
        pl.col("citations").is_not_null(),
    ]
    smaller = [
        pl.col("id"),
        *(pl.col(name) for name in plain),
        *(pl.col(name).list.join("\n") for name in ("authors", "topics")),
    ]
    descending = [False] + [True] * len(best) + [False] * len(smaller)
    return compared.sort("group", *best, *smaller, descending=descending, nulls_last=True)


def _superseded(records: pl.DataFrame) -> pl.Series:
    """Tell which papers of an older store have a newer record of the same id or corpus id.

    What other sources told of a paper does not give way to a record of Semantic Scholar's.
    """
    old = pl.col("role") == Role.OLD
    none = pl.repeat(False, records.height, eager=True)
    if not records.select(old.any()).item():
        return none
    newer = pl.col("role") == Role.RECORD
    keyed = records.with_row_index("at").with_columns(
        pl.col("id").str.replace(duplicates.SUFFIX, "")
    )
    of_s2 = pl.col("id").str.starts_with("CorpusId:").fill_null(False)
    for by, known in (
        (["group", "id"], ~of_s2),
        (["group", "corpus_id", "source"], pl.col("corpus_id").is_not_null()),
    ):
        there = keyed.filter(old & known)
        there = there.join(keyed.filter(newer & known), on=by, how="semi", nulls_equal=True)
        none = none.scatter(there["at"], True)
    return none


def with_chosen_date(ranked: pl.DataFrame) -> pl.DataFrame:
    """Add ``dated``: whether a record's date is the one chosen for its group."""
    chosen = _chosen_dates(ranked).with_columns(dated=pl.lit(True))
    return ranked.join(chosen, on=list(_DATED), how="left", maintain_order="left")


def dated_earlier(ranked: pl.DataFrame) -> pl.Series:
    """Tell the groups that are dated earlier, or at all, by files given for their dates."""
    told = pl.col("role") == Role.DATED
    some = ranked.filter(told.any().over("group"))
    without = _chosen_dates(some.filter(~told)).select("group", without="date")
    both = _chosen_dates(some).join(without, on="group", how="left", maintain_order="left")
    return both.filter((pl.col("date") < pl.col("without")).fill_null(True))["group"]


def _chosen_dates(records: pl.DataFrame) -> pl.DataFrame:
    ours = dict(zip(dates.EVIDENCE_SCHEMA, _DATED, strict=True))
    known = records.drop_nulls("date").select(pl.col(name).alias(to) for to, name in ours.items())
    return dates.choose(known).rename(ours)


def statuses() -> list[pl.Expr]:
    """Conditions of which the first that a record of a group meets tells the group's status."""
    status = pl.col("status")
    said = [(status == one) & (IS_RECORD | pl.lit(one in OF_WITNESSES)) for one in STATUSES]
    return [*said, IS_RECORD & status.is_not_null()]


def turned_down(ranked: pl.DataFrame, table: Table) -> pl.Expr:
    """Tell which venues are conferences whose Findings another record of the paper names."""
    findings = ranked.select("group", venue=venues.findings_of(ranked["venue"], table))
    pairs = findings.drop_nulls().unique()
    if pairs.is_empty():
        return pl.lit(False)
    both = pl.struct("group", "venue")
    return both.is_in(pairs.select(both).to_series().implode())


class Pick:
    """Choices of one record per group: row numbers, -1 where there is none.

    Parameters
    ----------
    ranked : polars.DataFrame
        n rows, groups together, the best record of each first; ``fresh`` is False where a record
        gives way to all others.
    """

    def __init__(self, ranked: pl.DataFrame) -> None:
        self._ranked = ranked.with_columns(at=pl.int_range(pl.len()))
        groups = ranked["group"].to_numpy()
        self._starts = np.flatnonzero(np.diff(groups, prepend=-1))
        self._groups = groups[self._starts]

    def first(self, *wanted: pl.Expr) -> NDArray[np.int64]:
        """First record of which an expression holds, of the first expression that holds at all."""
        chosen = np.full(len(self._starts), -1)
        for expression in wanted:
            mask = self._ranked.select(expression.fill_null(False)).to_series().to_numpy()
            rows = np.where(mask, np.arange(len(mask)), len(mask))
            rows = np.minimum.reduceat(rows, self._starts)
            chosen = np.where((chosen < 0) & (rows < len(mask)), rows, chosen)
        return chosen

    def top(self, wanted: pl.Expr, *by: str) -> NDArray[np.int64]:
        """Record of those wanted with the largest `by`; ties go to the better record."""
        rows = self._ranked.filter(wanted).select("at", "group", "fresh", *by)
        rows = rows.sort("fresh", *by, descending=True, nulls_last=True, maintain_order=True)
        rows = rows.unique("group", keep="first", maintain_order=True)
        chosen = np.full(len(self._starts), -1)
        chosen[np.searchsorted(self._groups, rows["group"].to_numpy())] = rows["at"].to_numpy()
        return chosen

    def values(self, name: str, rows: NDArray[np.int64]) -> pl.Series:
        """Take the values of a column, one per group."""
        places = pl.Series(rows)
        return self._ranked[name].gather(places.set(places < 0, None))

    def ranks(self, rows: NDArray[np.int64], values: pl.Series) -> pl.Series:
        """Places within their groups, null where there is no value."""
        places = pl.Series(rows - self._starts, dtype=pl.Int32)
        return places.set(values.is_null(), None)

    def as_chosen(self, name: str, of_chosen: str, rows: NDArray[np.int64]) -> pl.Expr:
        """Of which records a column holds what another does in the one chosen, null if none is."""
        sizes = np.diff(self._starts, append=self._ranked.height)
        chosen = self.values(of_chosen, rows).gather(np.repeat(np.arange(len(rows)), sizes))
        return pl.lit(self._ranked[name].eq_missing(chosen))

    def summed(self, name: str) -> pl.Series:
        """Sum a column over the records of each group, witnesses left out."""
        values = self._ranked.select(pl.when(IS_RECORD).then(name).otherwise(0)).to_series()
        return pl.Series(np.add.reduceat(values.to_numpy(), self._starts), dtype=pl.Int32)
