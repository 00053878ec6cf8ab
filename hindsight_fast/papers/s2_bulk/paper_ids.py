"""Corpus ids of papers that are named by the hash in Semantic Scholar's addresses."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

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
