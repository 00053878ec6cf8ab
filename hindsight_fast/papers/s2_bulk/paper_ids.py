"""Corpus ids of papers that are named by the hash in Semantic Scholar's addresses."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl

from hindsight_fast.papers.readers._batch import Batch
from hindsight_fast.papers.s2_bulk import shards

_SCHEMA: dict[str, pl.DataType] = {"sha": pl.String(), "corpus_id": pl.Int64()}


def corpus_ids(paths: Iterable[Path], wanted: pl.Series) -> pl.DataFrame:
    """Find the corpus ids of papers in shards of the paper-ids dataset.

    Several hashes may stand for one paper; any of them will do.

    Parameters
    ----------
    paths : iterable of pathlib.Path
    wanted : polars.Series of String
        Hashes of 40 hexadecimal digits; they and what is found must fit into memory.

    Returns
    -------
    polars.DataFrame
        ``sha`` (String) and ``corpus_id`` (Int64), one row per hash that was found, ordered by it.

    Raises
    ------
    DataError
        A shard is missing or damaged.
    StorageError
        The system does not let it be read.
    """
    hashes = pl.DataFrame({"sha": wanted.cast(pl.String).str.to_lowercase()}).unique()
    found = [pl.DataFrame(schema=_SCHEMA)]
    for path in paths:
        for batch in shards.decoded(path, shards.PaperId):
            records = batch.records
            rows = pl.DataFrame(
                [
                    pl.Series("sha", [record.sha for record in records], dtype=pl.String),
                    shards.keys([record.corpusid for record in records], "corpus_id"),
                ]
            )
            found.append(rows.join(hashes, on="sha", how="semi"))
    return (
        pl.concat(found)
        .drop_nulls()
        .sort("sha", "corpus_id")
        .unique("sha", keep="first")
        .sort("sha")
    )


def with_corpus_ids(
    read: Callable[[], Iterator[tuple[Path, Batch]]], paths: Sequence[Path], counts: Counter[str]
) -> Iterator[tuple[Path, Batch]]:
    """Name records by their corpus ids that are named by a hash alone.

    Parameters
    ----------
    read : callable
        Yields batches; called twice if there are shards.
    paths : sequence of pathlib.Path
        Shards of the paper-ids dataset.
    counts : Counter of str
        Gets ``s2_paper_ids``: records that are named so.
    """
    wanted = [pl.Series(dtype=pl.String)]
    for _, batch in read() if paths else ():
        unnamed = batch.records.filter(_is_unnamed())
        wanted.append(unnamed["id"])
    hashes = pl.concat(wanted)
    if hashes.is_empty():
        yield from read()
        return
    found = corpus_ids(paths, hashes).select("sha", found=pl.col("corpus_id").cast(pl.String))
    for path, batch in read():
        columns = batch.records.columns
        joined = batch.records.join(
            found, left_on=pl.col("id").str.to_lowercase(), right_on="sha", how="left"
        )
        named = _is_unnamed() & pl.col("found").is_not_null()
        counts["s2_paper_ids"] += joined.filter(named).height
        records = joined.with_columns(
            id=pl.when(named).then("CorpusId:" + pl.col("found")).otherwise("id"),
            corpus_id=pl.when(named).then("found").otherwise("corpus_id"),
        ).select(columns)
        yield path, batch._replace(records=records)


def _is_unnamed() -> pl.Expr:
    is_hash = pl.col("id").str.contains(r"^[0-9a-fA-F]{40}$").fill_null(False)
    return is_hash & pl.col("corpus_id").is_null()
