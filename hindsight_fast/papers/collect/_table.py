"""The table of a collection: its raw answers in the columns that readers give."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from hindsight_fast.papers import answers
from hindsight_fast.papers.readers import Given
from hindsight_fast.papers.records import RAW_SCHEMA
from hindsight_fast.storage import storage_errors

_PART = 1 << 16  # records


def write_table(folder: Path, files: Sequence[str], out: Path) -> dict[str, int]:
    """Write all records of some answers, in order, as parquet.

    A record that several answers have is there several times, as `build` reads them.

    Parameters
    ----------
    folder : Path
        With `raw` and the list of the answers.
    files : sequence of str
        Names in `raw`.
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
        for frames, rejects in _grouped(folder, files):
            n_rejects += rejects
            names.append(parts / f"{len(names):06d}.parquet")
            pl.concat(frames).write_parquet(names[-1])
        table = pl.scan_parquet(names, glob=False)
        table.sink_parquet(out)
        counts = table.select(pl.len(), pl.col("id").n_unique()).collect().row(0)
        shutil.rmtree(parts)
    return {"n_records": int(counts[0]), "n_ids": int(counts[1]), "n_rejects": n_rejects}


def _grouped(folder: Path, files: Sequence[str]) -> Iterator[tuple[list[pl.DataFrame], int]]:
    """Records of some answers together, and how many others were rejects."""
    schema = {name: dtype for name, dtype in RAW_SCHEMA.items() if name != "line"}
    frames, rejects = [pl.DataFrame(schema=schema)], 0
    for _, batch in answers.read(folder, [folder / answers.RAW / file for file in files], Given()):
        frames.append(batch.records.select(list(schema)))
        rejects += batch.rejects.height
        if sum(frame.height for frame in frames) >= _PART:
            yield frames, rejects
            frames, rejects = frames[:1], 0
    yield frames, rejects
