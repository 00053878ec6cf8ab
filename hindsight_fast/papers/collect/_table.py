"""The table of a collection: its raw answers in the columns that readers give."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from hindsight_fast.papers import readers
from hindsight_fast.papers.collect._pages import Kept
from hindsight_fast.papers.readers import Batch, streams
from hindsight_fast.papers.records import RAW_SCHEMA
from hindsight_fast.storage import storage_errors

_PART = 1 << 16  # records


def write_table(raw: Path, pages: list[Kept], out: Path) -> dict[str, int]:
    """Write all records of some pages, in order, as parquet.

    A record that several pages have is there several times, as `build` reads them. Counts of
    citations that don't say of when they are, are of the day when they came.

    Parameters
    ----------
    raw : Path
        Folder of the answers.
    pages : list of Kept
    out : Path
        The table: columns of `RAW_SCHEMA` but for ``line``.

    Returns
    -------
    dict
        ``n_records``; ``n_ids``, how many of them differ in their ids; ``n_rejects``, how many
        records no reader could make anything of.

    Raises
    ------
    DataError
        An answer that no reader knows: a fault of this package.
    StorageError
        The file system refuses.
    """
    parts = out.with_name(f".{out.name}.parts")
    with storage_errors(f"write {out}"):
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir()
        n_rejects, names = 0, list[Path]()
        for frames, rejects in _grouped(raw, pages):
            n_rejects += rejects
            names.append(parts / f"{len(names):06d}.parquet")
            pl.concat(frames).write_parquet(names[-1])
        table = pl.scan_parquet(names, glob=False)
        table.sink_parquet(out)
        ids = table.select(pl.len(), pl.col("id").n_unique()).collect().row(0)
        shutil.rmtree(parts)
    return {"n_records": int(ids[0]), "n_ids": int(ids[1]), "n_rejects": n_rejects}


def _grouped(raw: Path, pages: list[Kept]) -> Iterator[tuple[list[pl.DataFrame], int]]:
    """Records of some pages together, and how many others were rejects."""
    schema = {name: dtype for name, dtype in RAW_SCHEMA.items() if name != "line"}
    frames, rejects = [pl.DataFrame(schema=schema)], 0
    for page in pages:
        if page.file is None:
            continue
        for batch in _batches(raw / page.file):
            frames.append(_dated(batch.records, page.at[:10]).select(list(schema)))
            rejects += batch.rejects.height
        if sum(frame.height for frame in frames) >= _PART:
            yield frames, rejects
            frames, rejects = frames[:1], 0
    yield frames, rejects


def _batches(path: Path) -> Iterator[Batch]:
    head = streams.head(path)
    return readers.find(path, head, "auto").read(path, head, {}, None)


def _dated(records: pl.DataFrame, day: str) -> pl.DataFrame:
    counted = pl.col("citations").is_not_null() & pl.col("citations_as_of").is_null()
    return records.with_columns(
        citations_as_of=pl.when(counted).then(pl.lit(day)).otherwise("citations_as_of")
    )
