"""The papers of a store after a diff: `diffs` tells what changes.

The records of Semantic Scholar's that papers are made of are found by corpus id in one pass over
the papers; the texts of update files are put on disk by the part of the papers that they belong to.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from hindsight_fast.papers.options import Old
from hindsight_fast.papers.records import RAW_SCHEMA, Rules, clean
from hindsight_fast.papers.s2_bulk import shards
from hindsight_fast.papers.s2_bulk.adding import newest
from hindsight_fast.papers.s2_bulk.buckets import Buckets
from hindsight_fast.papers.s2_bulk.deletes import positions
from hindsight_fast.papers.s2_bulk.diffs import Diffs
from hindsight_fast.papers.s2_bulk.shards import Decoded, WithId
from hindsight_fast.papers.schema import MERGE_SCHEMA, PAPER_SCHEMA

_RECORD = r"^s2 CorpusId:([0-9]{1,18})$"
_SAID = ("retracted", "withdrawn", "paratext")  # by a source, whatever the texts show
_COLUMNS = [name for name in MERGE_SCHEMA if name in PAPER_SCHEMA and name != "id"]
_STAY = ("title", "date", "status")
_RENEWED = (
    *("authors", "venue", "year", "field", "kind", "url"),
    *("citations", "citations_source", "citations_as_of", "citations_dated"),
)
"""Columns of which the newer record alone tells, if at all; of others it may leave gaps."""

_TEXTS = {"abstract": shards.ABSTRACTS, "tldr": shards.TLDRS}
_FLAGS = ("deleted", "renewed", "abstract", "tldr")
_PIECES: dict[str, pl.DataType] = {
    "part": pl.Int64(),
    "row": pl.Int64(),
    "own": pl.Int64(),
    "at": pl.Int32(),
    "n_records": pl.Int32(),
}


def changed(old: Old, diffs: Diffs, work: Path, rules: Rules, counts: Counter[str]) -> Old:
    """Apply diffs to the papers of a store.

    Memory grows by about 60 bytes for each record of Semantic Scholar's in them.

    Parameters
    ----------
    old : Old
        Its parts are read once here, and again each time that those of the result are.
    diffs : Diffs
    work : pathlib.Path
        A folder that is not there yet, for the texts of update files. The result reads from it.
    rules : Rules
        For new texts.
    counts : Counter of str
        Gets, of records that papers are made of, ``s2_old_deleted`` and ``s2_old_renewed``; of
        papers ``s2_old_removed`` (no record is left); of records whose text is replaced or taken
        away ``s2_old_abstract`` and ``s2_old_tldr``; ``unused_<dataset>`` of files.

    Returns
    -------
    Old

    Raises
    ------
    DataError, StorageError
        An update file is missing, damaged or can't be read; no space or no rights in `work`.
    """
    pieces = _Pieces(old)
    pieces.mark("deleted", diffs.deletes["papers"].ids)
    for path in diffs.updates.get("papers", ()):
        for batch in shards.decoded(path, shards.Key):
            ids = shards.keys([record.corpusid for record in batch.records])
            pieces.mark("renewed", ids.filter(~diffs.deletes["papers"].mask(ids, path)))
    texts = {
        name: Buckets(work / name, pieces.n_parts, schema | {"part": pl.Int64()}, "part")
        for name, schema in _TEXTS.items()
    }
    pieces.mark("abstract", diffs.deletes["abstracts"].ids)
    pieces.mark("tldr", diffs.deletes["tldrs"].ids)
    for name, found in (
        ("abstract", _texts(diffs, pieces, "abstracts", shards.Abstract, shards.abstracts)),
        ("tldr", _texts(diffs, pieces, "tldrs", shards.Tldr, shards.tldrs)),
    ):
        for frame in found:
            pieces.mark(name, frame["corpusid"])
            texts[name].add(frame)
    counts.update(pieces.counts())
    counts.update({f"unused_{dataset}": n for dataset, n in diffs.unused.items()})
    merges = _merges(old.merges, pieces)

    def parts() -> Iterator[pl.DataFrame]:
        for number, part in enumerate(old.parts()):
            of_part = pieces.of(number)
            if of_part.is_empty():
                yield part
                continue
            found = {
                name: newest(bucket.read(number).drop("part")) for name, bucket in texts.items()
            }
            yield _edited(part, of_part, old.merges, found, rules)

    return Old(parts, merges, old.conflicts)


def _texts(
    diffs: Diffs,
    pieces: "_Pieces",
    dataset: str,
    kind: type[WithId],
    table: Callable[[Decoded[WithId]], pl.DataFrame],
) -> Iterator[pl.DataFrame]:
    """Texts of update files that papers take, with the part that these are in."""
    for path in diffs.updates.get(dataset, ()):
        for batch in shards.decoded(path, kind):
            ids = shards.keys([record.corpusid for record in batch.records])
            part = pieces.parts_of(ids)
            taken = (part >= 0) & ~diffs.deletes[dataset].mask(ids, path)
            yield table(batch.chosen(taken)).with_columns(part.filter(taken))


class _Pieces:
    """The records of Semantic Scholar's that papers are made of, and what becomes of each.

    Columns: number of the part and row in it of the paper, corpus id, place among the paper's
    records (0 where there is one), how many these are.
    """

    def __init__(self, old: Old) -> None:
        found = [pl.DataFrame(schema=_PIECES)]
        records = _records_of(old.merges)
        self.n_parts = 0
        for part in old.parts():
            found.append(_pieces_of(part, records).with_columns(part=pl.lit(self.n_parts)))
            self.n_parts += 1
        columns = [pl.col(name).cast(dtype) for name, dtype in _PIECES.items()]
        self._rows = pl.concat(frame.select(columns) for frame in found).sort("part", "row", "at")
        self._starts = np.searchsorted(self._rows["part"].to_numpy(), np.arange(self.n_parts + 1))
        own = self._rows["own"].to_numpy()
        self._order = np.argsort(own, kind="stable")
        self._own = own[self._order]
        self._flags = {name: np.zeros(len(own), np.bool_) for name in _FLAGS}

    def mark(self, flag: str, ids: pl.Series) -> None:
        """Set a flag of the records with these corpus ids."""
        places = positions(self._own, ids)
        there = np.unique(self._own[places[places >= 0]])
        self._flags[flag][self._order[np.isin(self._own, there)]] = True

    def parts_of(self, ids: pl.Series) -> pl.Series:
        """Part of the (first) paper of each corpus id, -1 where there is none."""
        places = positions(self._own, ids)
        parts = np.append(self._rows["part"].to_numpy(), -1)
        order = np.append(self._order, len(self._order))
        return pl.Series("part", parts[order[places]])

    def marked(self) -> pl.DataFrame:
        """All records, with their flags."""
        return self._rows.with_columns(pl.Series(name, flag) for name, flag in self._flags.items())

    def of(self, number: int) -> pl.DataFrame:
        """The records of those papers of a part of which any has a flag."""
        start, end = self._starts[number : number + 2].tolist()
        flags = [pl.Series(name, flag[start:end]) for name, flag in self._flags.items()]
        rows = self._rows.slice(start, end - start).with_columns(flags)
        return rows.filter(pl.any_horizontal(_FLAGS).any().over("row"))

    def counts(self) -> dict[str, int]:
        """How many records have each flag, and how many papers are left without any."""
        by_paper = (
            self.marked()
            .group_by("part", "row")
            .agg(pl.col("deleted").sum(), pl.col("n_records").first())
        )
        removed = by_paper.filter(pl.col("deleted") >= pl.col("n_records")).height
        return {f"s2_old_{name}": int(flag.sum()) for name, flag in self._flags.items()} | {
            "s2_old_removed": removed
        }


def _pieces_of(part: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """Records of the papers of a part; those of papers of several are among `records`."""
    n_records = pl.col("n_records").fill_null(1)
    papers = part.select("id", "source", "corpus_id", n_records).with_row_index("row")
    alone = papers.filter(n_records == 1, source="s2").drop_nulls("corpus_id")
    several = papers.filter(n_records > 1).join(records, on="id")
    return pl.concat(
        [
            alone.select("row", "n_records", own="corpus_id", at=pl.lit(0, pl.Int32)),
            several.select("row", "n_records", "own", "at"),
        ]
    )


def _records_of(merges: pl.DataFrame) -> pl.DataFrame:
    """The records that papers of several are made of: ``id``, ``at`` and ``own``.

    The last is the corpus id of Semantic Scholar's; the others are left out.
    """
    return (
        merges.select(
            "id", "records", at=pl.int_ranges(pl.col("records").list.len(), dtype=pl.Int32)
        )
        .explode("records", "at")
        .select("id", "at", own=pl.col("records").str.extract(_RECORD, 1).cast(pl.Int64))
        .drop_nulls("own")
    )


def _merges(merges: pl.DataFrame, pieces: _Pieces) -> pl.DataFrame:
    """Take deleted and renewed records out of what is told of papers of several."""
    lost = pieces.marked().filter(pl.col("deleted") | pl.col("renewed"))
    places = _records_of(merges).join(lost, on="own", how="semi").group_by("id").agg("at")
    fewer: list[dict[str, Any]] = []
    for row in merges.join(places, on="id").iter_rows(named=True):
        gone: list[int] = row.pop("at")
        left = [place for place in range(len(row["records"])) if place not in gone]
        if len(left) > 1:
            now = {place: number for number, place in enumerate(left)}
            at = {name: now.get(row[name]) for name in _COLUMNS}
            fewer.append(at | {"id": row["id"], "records": [row["records"][i] for i in left]})
    rest = merges.join(places, on="id", how="anti")
    return pl.concat([rest, pl.DataFrame(fewer, schema=MERGE_SCHEMA)]).sort("id")


def _edited(
    part: pl.DataFrame,
    pieces: pl.DataFrame,
    merges: pl.DataFrame,
    texts: dict[str, pl.DataFrame],
    rules: Rules,
) -> pl.DataFrame:
    """Change the papers of a part that `pieces` are of; the others stay as they are."""
    of_row = pieces.group_by("row").agg(
        *(pl.col("at").filter(pl.col(flag)).alias(f"{flag} at") for flag in _FLAGS),
        left=pl.col("own").filter(~pl.col("deleted")).min(),
    )
    told_by = merges.select("id", "records", pl.col(_COLUMNS).name.suffix(" by"))
    numbered = part.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    papers = numbered.join(of_row, on="row").join(told_by, on="id", how="left")
    papers = papers.with_columns(pl.col("n_records").fill_null(1))
    papers = papers.filter(pl.col("deleted at").list.len() < pl.col("n_records"))
    edited = _stripped(papers)
    for name, frame in texts.items():
        edited = _with_text(edited, name, _longest(frame, pieces))
    stay = numbered.join(of_row, on="row", how="anti")
    columns = ["row", *PAPER_SCHEMA]
    both = pl.concat(frame.select(columns) for frame in (stay, _recleaned(edited, rules)))
    return both.sort("row").drop("row")


def _is_by(flag: str, name: str) -> pl.Expr:
    """Tell whether the value of a column comes from a record that has the flag."""
    by = pl.when(pl.col("n_records") == 1).then(0).otherwise(pl.col(f"{name} by"))
    return pl.col(f"{flag} at").list.contains(by.cast(pl.Int32)).fill_null(False)


def _stripped(papers: pl.DataFrame) -> pl.DataFrame:
    """Take away what records told that are deleted or renewed; note what is needed later."""
    lost = pl.col("deleted at").list.concat("renewed at")
    n_left = pl.col("n_records") - lost.list.len().cast(pl.Int32)
    places = pl.int_ranges(pl.col("records").list.len(), dtype=pl.Int32)
    first_left = pl.col("records").list.get(places.list.set_difference(lost).list.min())
    source = pl.coalesce(first_left.str.extract(r"^([^\[].*) \S+$", 1), "source")
    instead = {"corpus_id": pl.col("left"), "source": source}
    stripped: list[pl.Expr] = []
    for name in _COLUMNS:
        is_lost = _is_by("deleted", name)
        if name in (*_RENEWED, "source"):
            is_lost |= _is_by("renewed", name)
        if name not in _STAY:
            value = pl.when(is_lost).then(instead.get(name, pl.lit(None))).otherwise(pl.col(name))
            stripped.append(value.alias(name))
    return papers.with_columns(
        *stripped,
        *(pl.col(name).alias(f"{name} before") for name in _TEXTS),
        *(_is_by(name, name).alias(f"{name} replaced") for name in _TEXTS),
        n_records=pl.max_horizontal(n_left, 1).cast(pl.Int32),
    )


def _longest(texts: pl.DataFrame, pieces: pl.DataFrame) -> pl.DataFrame:
    """The longest new text of each paper, by ``row``."""
    text = pl.col(texts.columns[1])
    known = pieces.filter(~pl.col("deleted")).select("row", corpusid="own")
    found = known.join(texts, on="corpusid").sort(
        "row", text.str.len_bytes(), "corpusid", descending=[False, True, False], nulls_last=True
    )
    return found.unique("row", keep="first", maintain_order=True)


def _with_text(papers: pl.DataFrame, name: str, texts: pl.DataFrame) -> pl.DataFrame:
    """Put new texts (and licences) in place of those that they replace."""
    columns = [column for column in (name, "license") if column in texts.columns]
    joined = papers.join(
        texts.select("row", pl.col(columns).name.suffix(" new")), on="row", how="left"
    )
    n_bytes = [pl.col(column).str.len_bytes().fill_null(0) for column in (f"{name} new", name)]
    taken = pl.col(f"{name} replaced") | (n_bytes[0] > n_bytes[1])
    new = {column: pl.col(f"{column} new") for column in columns}
    if "license" in new:
        new["license"] = pl.coalesce("license new", "license")
    return joined.with_columns(
        pl.when(taken).then(value).otherwise(pl.col(column)).alias(column)
        for column, value in new.items()
    )


def _recleaned(papers: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """Clean new texts, and tell anew what depends on them."""
    given = {"id": pl.col("row").cast(pl.String)}
    given |= {name: pl.col(name) for name in ("title", *_TEXTS)}
    raw = papers.select(
        given.get(name, pl.lit(None)).cast(dtype).alias(name) for name, dtype in RAW_SCHEMA.items()
    )
    now = clean(raw, rules).papers.select(
        pl.col("id").cast(pl.Int64).alias("row"),
        pl.col(*_TEXTS, "status", "language").name.suffix(" now"),
    )
    joined = papers.join(now, on="row", how="left")
    is_new = {name: pl.col(name).ne_missing(pl.col(f"{name} before")) for name in _TEXTS}
    texts = {
        name: pl.when(new).then(pl.col(f"{name} now")).otherwise(pl.col(name))
        for name, new in is_new.items()
    }
    said = pl.col("status").is_in(_SAID)
    now_said = {"status": is_new["abstract"] & ~said, "language": is_new["abstract"]}
    return joined.with_columns(
        **texts,
        **{
            name: pl.when(when).then(pl.col(f"{name} now")).otherwise(pl.col(name))
            for name, when in now_said.items()
        },
    )
