"""Records of one paper to the one paper, and which record each of its values comes from.

The paper's date is chosen by `dates.choose`; its citations are the largest count of one record,
with that record's source and day, never a sum; its dated counts are of that day if any are, else
they say of which (``@2025-03-01``); its venue is the one
that says most (`venues.rank`), but no conference whose Findings another record names; its abstract
the longest, a stub only where there is no other; it was revised when the last of the records says
so; all else comes from the best record (DOI, venue, arXiv id, citations, then the smaller id), gaps
filled from the next best. A retraction of one record retracts all. A witness (`Role`) gives its
date, its retraction and, where no record has one, its DOI and arXiv id.

The id of a paper of an older store stays. Where a newer record has its id or corpus id, the rest
of the old paper fills gaps only.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers import citations, conflicts, duplicates, identifiers
from hindsight_fast.papers.choices import (
    IS_RECORD,
    Pick,
    best_first,
    dated_earlier,
    statuses,
    turned_down,
    with_chosen_date,
)
from hindsight_fast.papers.schema import MERGE_SCHEMA, PAPER_SCHEMA, WITNESS_FACTS, Role
from hindsight_fast.papers.venues import Table

NAMED: Final[dict[str, pl.DataType]] = {
    "group": pl.Int64(),  # a number of the paper's own
    "identity": pl.String(),  # as in `duplicates.KEYS`, of the record that its id comes from
    "pinned": pl.Boolean(),  # the id is one of an older store and stays
}
"""Columns of a merged paper besides `PAPER_SCHEMA`."""


class Merged(NamedTuple):
    """Papers after merging.

    Attributes
    ----------
    papers : polars.DataFrame
        Columns of `PAPER_SCHEMA`, ordered by id; ids are unique.
    merges : polars.DataFrame
        Columns of `MERGE_SCHEMA`, ordered by id.
    conflicts : polars.DataFrame
        Columns of `CONFLICT_SCHEMA`.
    unchanged : polars.Series
        Ids of papers of an older store that are made of several records, none of them new.
    n_suffixed : int
        Papers whose id belonged to several and got a suffix.
    n_made : int
        Records without an id, which got one; witnesses don't count.
    n_too_many : int
        See `duplicates.Groups`.
    n_dated_earlier : int
        Papers that files of dates gave an earlier date, or their only one.
    """

    papers: pl.DataFrame
    merges: pl.DataFrame
    conflicts: pl.DataFrame
    unchanged: pl.Series
    n_suffixed: int
    n_made: int
    n_too_many: int
    n_dated_earlier: int


class Each(NamedTuple):
    """Papers made of several records each.

    Attributes
    ----------
    papers : polars.DataFrame
        Columns of `NAMED` and `PAPER_SCHEMA`, ordered by group.
    merges : polars.DataFrame
        ``group``, the columns of `MERGE_SCHEMA` but for ``id``, ``old_ids`` (List(String)): of
        each of ``records`` the id if it is a paper of an older store, else null; and
        ``dated_earlier`` (Boolean): whether files of dates gave it an earlier date, or its only.
    apart : polars.DataFrame
        Columns of `conflicts.OF_ONE`: papers whose records say different things.
    """

    papers: pl.DataFrame
    merges: pl.DataFrame
    apart: pl.DataFrame


def merge(papers: pl.DataFrame, table: Table, old: pl.DataFrame | None = None) -> Merged:
    """Merge the records of each paper into one, all in memory.

    Parameters
    ----------
    papers : polars.DataFrame
        Columns of `PAPER_SCHEMA` and ``role`` (`Role`, UInt8; all are records where it is
        missing). Ids may be null or repeat. The order of rows does not matter.
    table : Table
        Tells how much a venue's name says.
    old : polars.DataFrame, optional
        What an older store told of merges, columns of `MERGE_SCHEMA`.

    Returns
    -------
    Merged
    """
    papers, n_made = prepared(papers)
    keys = duplicates.keys_of(papers, table).with_row_index("row")
    keys = keys.with_columns(pl.col("row").cast(pl.Int64))
    groups = duplicates.find_groups(lambda key, others: iter([shared_rows(keys, key, others)]))
    group = pl.Series("group", groups.of(np.arange(papers.height)))
    records = narrowed(papers).with_columns(keys["identity"], group)
    several = records["group"].is_duplicated()
    each = one_each(records.filter(several), table)
    alone = records.filter(~several & IS_RECORD).with_columns(pinned=pl.col("role") == Role.OLD)
    named, n_suffixed = tell_apart(pl.concat([alone.select(each.papers.columns), each.papers]))

    def texts(what: str, rows: pl.Series) -> pl.Series:
        if what != "title":
            return records[what].gather(rows).cast(pl.String)
        titles = named.select(pl.col("group").alias("row"), "title")
        return rows.alias("row").to_frame().join(titles, on="row", maintain_order="left")["title"]

    ids = named.select("group", "id")
    shared = groups.shared.with_columns(group.gather(groups.shared["row"]))
    within = conflicts.within(each.apart.join(named.select("group", "id", "title"), on="group"))
    return Merged(
        named.select(list(PAPER_SCHEMA)).sort("id"),
        in_full(each.merges.join(ids, on="group"), old).sort("id"),
        conflicts.ordered(conflicts.listed(shared, ids, texts), within),
        alone.filter(pl.col("pinned") & (pl.col("n_records") > 1))["id"],
        n_suffixed,
        n_made,
        groups.n_too_many,
        int(each.merges["dated_earlier"].sum()),
    )


def prepared(papers: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Give every record an id, a role and a number of records; also count the ids made."""
    if "role" not in papers.columns:
        papers = papers.with_columns(role=pl.lit(Role.RECORD, dtype=pl.UInt8))
    n_made = papers.filter(IS_RECORD)["id"].null_count()
    papers, _ = identifiers.fill_missing(papers)
    return papers.with_columns(pl.col("n_records").fill_null(1)), n_made


def narrowed(papers: pl.DataFrame) -> pl.DataFrame:
    """Drop what a witness does not tell."""
    if papers["role"].max() in (None, Role.RECORD, Role.OLD):
        return papers
    return papers.with_columns(
        pl.when(IS_RECORD).then(name).alias(name)
        for name in PAPER_SCHEMA
        if name not in WITNESS_FACTS
    )


def shared_rows(keys: pl.DataFrame, key: str, others: Sequence[str]) -> pl.DataFrame:
    """Rows whose `key` is shared, see `duplicates.Take`."""
    shared = pl.col(key).is_not_null() & pl.col(key).is_duplicated()
    return keys.filter(shared).select("row", key, *others)


def in_full(merges: pl.DataFrame, old: pl.DataFrame | None) -> pl.DataFrame:
    """Name, in place of a paper of an older store, the records that it is made of.

    Without that, a later diff would take the first of them for all that the paper told.

    Parameters
    ----------
    merges : polars.DataFrame
        As in `Each`, and ``id``.
    old : polars.DataFrame or None
        Columns of `MERGE_SCHEMA`.

    Returns
    -------
    polars.DataFrame
        Columns of `MERGE_SCHEMA`.
    """
    columns = list(MERGE_SCHEMA)
    has_old = merges["old_ids"].list.drop_nulls().list.len() > 0
    if old is None or not has_old.any():
        return merges.select(columns)
    pieces = (
        merges.filter(has_old)
        .with_columns(at=pl.int_ranges(pl.col("records").list.len(), dtype=pl.Int32))
        .explode("records", "old_ids", "at")
        .join(
            old.rename(lambda name: f"old {name}"),
            left_on="old_ids",
            right_on="old id",
            how="left",
            maintain_order="left",
        )
        .with_columns(all=pl.coalesce("old records", pl.concat_list("records")))
        .with_columns(n=pl.col("all").list.len().cast(pl.Int32))
        .with_columns(start=(pl.col("n").cum_sum() - pl.col("n")).over("id"))
    )
    places = [
        (pl.col("start") + pl.col(f"old {name}").fill_null(0))
        .filter(pl.col("at") == pl.col(name))
        .first()
        .alias(name)
        for name in columns
        if name not in ("id", "records")
    ]
    full = pieces.group_by("id").agg(pl.col("all").explode().alias("records"), *places)
    return pl.concat([merges.filter(~has_old).select(columns), full.select(columns)])


def with_old(told: pl.DataFrame, unchanged: pl.Series, old: pl.DataFrame) -> pl.DataFrame:
    """Add to `merges` or `conflicts` what an older store told of papers that are unchanged.

    Parameters
    ----------
    told : polars.DataFrame
        Columns of `MERGE_SCHEMA`, or of `CONFLICT_SCHEMA`.
    unchanged : polars.Series of String
        See `Merged`.
    old : polars.DataFrame
        The same of the older store. Of its conflicts only those within one paper stay: the others
        are found anew.
    """
    if "ids" not in old.columns:
        return pl.concat([told, old.filter(pl.col("id").is_in(unchanged.implode()))]).sort("id")
    of_one = pl.col("kind").is_in(conflicts.WITHIN)
    stayed = pl.col("ids").list.first().is_in(unchanged.implode())
    return conflicts.ordered(told, old.filter(of_one & stayed))


def tell_apart(papers: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Give ids that several papers have a suffix, but for the pinned; also count the papers.

    Parameters
    ----------
    papers : polars.DataFrame
        With ``id``, ``identity`` and ``pinned``.
    """
    rows = (papers["id"].is_duplicated() & ~papers["pinned"]).arg_true()
    ids = suffixed(papers["id"].gather(rows), papers["identity"].gather(rows))
    return papers.with_columns(papers["id"].scatter(rows, ids)), len(rows)


def suffixed(ids: pl.Series, identities: pl.Series) -> pl.Series:
    """Add to ids what tells the papers apart that have them.

    All of them get a suffix, so that an id without one never changes its meaning when papers are
    added, and the order of files does not matter.
    """
    pairs = pl.DataFrame({"id": ids, "identity": identities})
    return ids + "~" + identifiers.digest(pairs, identifiers.ID_DIGITS)


def one_each(records: pl.DataFrame, table: Table) -> Each:
    """Merge each group of several records into one paper; a group of witnesses alone is none.

    Parameters
    ----------
    records : polars.DataFrame
        Columns of `PAPER_SCHEMA`, ``role``, ``identity`` and ``group`` (Int64); witnesses are
        `narrowed`.
    table : Table

    Returns
    -------
    Each
    """
    ranked = best_first(records.filter(IS_RECORD.any().over("group")), table)
    ranked = with_chosen_date(ranked).with_columns(citations.counted_on())
    pick = Pick(ranked)
    known = {name: IS_RECORD & pl.col(name).is_not_null() for name in PAPER_SCHEMA}
    named = pick.first(pl.col("role") == Role.OLD, IS_RECORD)
    cited = pick.top(known["citations"], "citations", "citations_as_of")
    dated = pick.first(pl.col("dated"))
    at = {name: pick.first(expression) for name, expression in known.items()} | {
        "id": named,
        "abstract": pick.top(known["abstract"], "not_stub", "abstract_bytes"),
        "venue": pick.top(known["venue"] & ~turned_down(ranked, table), "place"),
        "date": dated,
        "date_precision": dated,
        "date_kind": dated,
        "date_origin": dated,
        "revised": pick.top(known["revised"], "revised"),
        "citations": cited,
        "citations_source": cited,
        "citations_as_of": cited,
        "citations_dated": _counts_by_time(pick, known["citations_dated"], cited),
        "doi": pick.first(pl.col("doi").is_not_null()),
        "arxiv_id": pick.first(pl.col("arxiv_id").is_not_null()),
        "topics": pick.top(known["topics"], "n_topics"),
        "status": pick.first(*statuses()),
    }
    values = {name: pick.values(name, at[name]) for name in PAPER_SCHEMA}
    values["n_records"] = pick.summed("n_records")
    values["citations_dated"] = citations.of_day(
        values["citations_dated"],
        pick.values("counted_on", at["citations_dated"]),
        values["citations_as_of"],
    )
    of_id = {
        "group": pick.values("group", named),
        "identity": pick.values("identity", named),
        "pinned": pick.values("role", named) == Role.OLD,
    }
    ranks = {
        name: pick.ranks(at[name], values[name]) for name in MERGE_SCHEMA if name in PAPER_SCHEMA
    }
    fresh = ranked.filter(IS_RECORD & pl.col("fresh"))
    written = pl.concat_str("source", "id", separator=" ", ignore_nulls=True)
    written = pl.when(IS_RECORD).then(written).otherwise("[" + written + "]")
    old_id = pl.when(pl.col("role") == Role.OLD).then("id")
    names = ranked.group_by("group", maintain_order=True).agg(records=written, old_ids=old_id)
    return Each(
        pl.DataFrame(of_id | values, schema=NAMED | PAPER_SCHEMA),
        names.with_columns(
            *(rank.alias(name) for name, rank in ranks.items() if name != "id"),
            dated_earlier=pl.col("group").is_in(dated_earlier(ranked).implode()),
        ),
        pl.concat([conflicts.titles_apart(fresh), conflicts.counts_apart(fresh)]),
    )


def _counts_by_time(pick: Pick, known: pl.Expr, cited: NDArray[np.int64]) -> NDArray[np.int64]:
    """Choose the record that gives the dated counts: of the day of the whole count, if any is."""
    on_a_day = known & pl.col("counted_on").is_not_null()
    same = pick.as_chosen("counted_on", "citations_as_of", cited)
    rows = pick.top(on_a_day & same, "citations")
    for others in (on_a_day, known & same):
        rows = np.where(rows >= 0, rows, pick.top(others, "citations"))
    return rows
