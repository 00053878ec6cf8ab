"""What is counted of a store's papers, as data and in a few lines."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from hindsight_fast.papers import venues
from hindsight_fast.store import Store

_SHOWN = 25
"""Rows of a list, where the whole would be long."""

_KNOWN = (
    "abstract", "authors", "date", "year", "venue", "citations", "citations_dated", "doi",
    "arxiv_id", "corpus_id", "field", "kind", "language", "license", "topics",
)  # fmt: skip


_UNKNOWN = "unknown"
_SOME = ("topics", "citations_source")
"""Counted where they are known; of the other columns, unknown ones are counted as such."""


class Tally(NamedTuple):
    """How often each value comes, the most frequent first or in their own order."""

    title: str
    counts: dict[str, int]
    note: str = ""


class DataReport(NamedTuple):
    """Counts of a store.

    Attributes
    ----------
    store : str
        Its folder's name.
    counts : dict of str to int
        What became of the records (`Gathered.counts`).
    n : int
        Papers.
    known : dict of str to int
        Papers for which each column says something.
    tallies : list of Tally
        Papers by year, venue, source and so on.
    citations : dict
        Papers with known counts, median, 99th percentile, maximum; `top`: the most cited.
    merged : dict of str to int
        Of papers made of several records, how many are of 2, of 3, ...
    winners : dict of str to dict of str to int
        For each column, which sources its value was taken from where records were merged.
    conflicts : list of dict
        The first of each kind, with how many there are.
    rejects : dict of str to int
        Records that are no papers, by reason.
    """

    store: str
    counts: dict[str, int]
    n: int
    known: dict[str, int]
    tallies: list[Tally]
    citations: dict[str, Any]
    merged: dict[str, int]
    winners: dict[str, dict[str, int]]
    conflicts: list[dict[str, Any]]
    rejects: dict[str, int]


def examine(store: Store) -> DataReport:
    """Count what a store holds, in bounded memory."""
    known = Counter[str](dict.fromkeys(_KNOWN, 0))
    values: dict[str, Counter[str]] = {name: Counter() for name in _VALUES}
    for piece in store.pieces(*_READ):
        known.update({name: piece[name].count() for name in _KNOWN})
        for name, expression in _VALUES.items():
            values[name].update(_counted(piece.select(expression.alias("value"))["value"]))
    merges = store.merges()
    reasons = store.rejects()["reason"].str.replace(r" at (?:byte|column) .*$", "")
    return DataReport(
        store=store.path.name,
        counts=store.manifest.table("counts"),
        n=store.n,
        known=dict(known),
        tallies=list(_tallies(store, values)),
        citations=_citations(store),
        merged=_in_order(_counted(merges["records"].list.len().cast(pl.String)), int),
        winners=_winners(merges),
        conflicts=_conflicts(store.conflicts()),
        rejects=_first(_counted(reasons)),
    )


def _tallies(store: Store, values: Mapping[str, Counter[str]]) -> Iterator[Tally]:
    yield Tally("Papers by year", _in_order(values["year"], str))
    groups = _by_what_they_name(store, values["venue"])
    yield Tally("Papers by venue", _first(groups["known"]) | _sums(groups), "main tracks")
    yield Tally(
        "Names of venues that are not known",
        _first(groups["not known"]),
        f"{len(groups['not known']):,} names; `hindsight-fast venues check` lists them with the "
        "nearest known name",
    )
    for name, (title, note) in _TITLES.items():
        yield Tally(title, _first(values[name]), note)
    yield Tally("Citations", _in_order(values["citations"], _lower))


def _by_what_they_name(store: Store, counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Counts of venue names, by what a name says."""
    names = pl.Series("venue", list(counts), dtype=pl.String)
    table = store.venues
    tests = {
        "known": venues.is_known(names, table),
        "preprint servers": venues.is_preprint(names, table),
        "submissions, rejected ones among them": venues.is_undecided(names, table),
        "workshops, Findings, demos and the like": venues.is_side_event(names, table),
        "no venue": names == _UNKNOWN,
    }
    groups: dict[str, dict[str, int]] = {what: {} for what in (*tests, "not known")}
    for row, name in enumerate(names):
        what = next((what for what, holds in tests.items() if holds[row]), "not known")
        groups[what][name] = counts[name]
    return groups


def _sums(groups: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {
        f"({what})": sum(group.values())
        for what, group in groups.items()
        if group and what != "known"
    }


_TITLES = {
    "source": ("Papers by source", ""),
    "status": ("Status", "only papers that are ok come into pools"),
    "date_kind": ("What the date rests on", "venue and year are weak"),
    "date_origin": ("Evidence for the date", ""),
    "date_precision": ("Precision of the date", ""),
    "kind": ("Kind", ""),
    "language": ("Language", ""),
    "topics": ("Topics", ""),
    "citations_source": ("Source of the citation count", ""),
}
_BANDS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


def _band() -> pl.Expr:
    """Name the band of a count: ``0``, ``1``, ``2-4``, ... ``10000+``."""
    labels = [str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in pairwise(_BANDS)]
    labels.append(f"{_BANDS[-1]}+")
    place = pl.sum_horizontal((pl.col("citations") >= low).cast(pl.Int8) for low in _BANDS)
    return place.replace_strict(
        range(1, len(_BANDS) + 1), labels, default=None, return_dtype=pl.String
    )


def _lower(band: str) -> int:
    return int(band.rstrip("+").split("-")[0])


_VALUES = {
    "year": pl.col("date").dt.year().cast(pl.String).fill_null("undated"),
    "venue": pl.col("venue").fill_null(_UNKNOWN),
    "topics": pl.col("topics").explode().drop_nulls(),
    "citations": _band().drop_nulls(),
    "citations_source": pl.when(pl.col("citations").is_not_null()).then("citations_source"),
} | {name: pl.col(name).fill_null(_UNKNOWN) for name in _TITLES if name not in _SOME}
_READ = sorted({*_KNOWN, *_TITLES, "venue", "date", "citations"})


def _counted(values: pl.Series) -> dict[str, int]:
    counted = values.drop_nulls().alias("value").value_counts()
    return dict(zip(counted["value"].to_list(), counted["count"].to_list(), strict=True))


def _in_order(counts: Mapping[str, int], key: Callable[[str], Any]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts, key=key)}


def _first(counts: Mapping[str, int], shown: int = _SHOWN) -> dict[str, int]:
    """The most frequent, and the others together."""
    names = sorted(counts, key=lambda name: (-counts[name], name))
    first = {name: counts[name] for name in names[:shown]}
    rest = sum(counts[name] for name in names[shown:])
    return first | ({f"{len(names) - shown:,} others": rest} if rest else {})


def _citations(store: Store) -> dict[str, Any]:
    known = np.flatnonzero(store.citations >= 0)
    counts = np.sort(store.citations[known])
    top = known[np.lexsort((known, -store.citations[known]))[:10]]
    named = store.lookup(top).select("id", "title", "venue", "date", "citations")
    return {
        "n": len(known),
        "median": int(counts[(len(counts) - 1) // 2]) if len(counts) else None,
        "p99": int(counts[(len(counts) - 1) * 99 // 100]) if len(counts) else None,
        "max": int(counts[-1]) if len(counts) else None,
        "top": named.with_columns(pl.col("date").cast(pl.String)).to_dicts(),
    }


def _winners(merges: pl.DataFrame) -> dict[str, dict[str, int]]:
    """Where merged values come from: the record's source, its first word in `records`."""
    found = dict[str, dict[str, int]]()
    for name in merges.columns[2:]:
        taken = merges.select(pl.col("records").list.get(pl.col(name), null_on_oob=True))
        found[name] = _first(_counted(taken.to_series().str.extract(r"^\[?(\S+)", 1)), 5)
    return {name: counts for name, counts in found.items() if counts}


def _conflicts(conflicts: pl.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind,
            "n": rows.height,
            "first": rows.head(10).with_columns(pl.col("ids").list.join(", ")).to_dicts(),
        }
        for (kind,), rows in sorted(conflicts.group_by("kind", maintain_order=True))
    ]


def as_json(report: DataReport) -> dict[str, Any]:
    """The report as JSON-like data."""
    return report._asdict() | {"tallies": [tally._asdict() for tally in report.tallies]}


def lines(report: DataReport) -> list[str]:
    """Say the main things in a few lines."""
    n = max(report.n, 1)
    told = [
        f"{report.n:,} papers; known: "
        + ", ".join(f"{name} {count / n:.0%}" for name, count in report.known.items())
    ]
    for tally in report.tallies:
        values = list(tally.counts.items())
        if values and tally.title != "Papers by year":
            shown = ", ".join(f"{name} {count:,}" for name, count in values[:8])
            told.append(f"{tally.title}: {shown}{', ...' if len(values) > 8 else ''}")
    years = next(tally.counts for tally in report.tallies if tally.title == "Papers by year")
    if years:
        told.append("by year: " + ", ".join(f"{y} {c:,}" for y, c in list(years.items())[-12:]))
    for one in report.conflicts:
        told.append(f"conflicts, {one['kind']}: {one['n']:,}")
    if report.rejects:
        told.append("rejects: " + ", ".join(f"{r} {c:,}" for r, c in report.rejects.items()))
    return told
