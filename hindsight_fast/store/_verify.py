"""Is every byte of a store as it was written, and do its parts tell the same?"""

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import ArtefactError
from hindsight_fast.papers.schema import PAPER_SCHEMA
from hindsight_fast.storage import verify_folder
from hindsight_fast.store._identity import content_id, facts_id
from hindsight_fast.store._read import KIND, UNDATED, VECTORS_KIND, Store

_CHUNK = 16_384  # rows looked at together
UNIT_TOLERANCE = 1e-5  # float32 rounding leaves 1e-6; 1e-3 would move matches


def verify_store(path: Path) -> list[str]:
    """Check a store with all its vectors; returns what was checked, a phrase each.

    Raises
    ------
    ArtefactError
        Naming the first thing that is wrong.
    """
    manifest = verify_folder(path, KIND)
    store = Store(path, manifest)
    papers = store.papers()
    if dict(papers.schema) != PAPER_SCHEMA or papers.height != store.n:
        raise ArtefactError(f"{path}: papers.parquet is not the table that the manifest describes")
    if content_id(papers, store.text_version) != store.content_id:
        raise ArtefactError(f"{path}: ids or texts are not those that the manifest names")
    if facts_id(papers) != store.facts_id:
        raise ArtefactError(f"{path}: dates, venues or counts are not those of the manifest")
    days = papers["date"].to_physical().fill_null(UNDATED).to_numpy()
    if not np.array_equal(days, store.dates) or (np.diff(days) < 0).any():
        raise ArtefactError(f"{path}: the papers are not in order of date")
    for start in range(0, store.n, _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, store.n))
        found = store.lookup(rows)
        expected = papers[start : start + _CHUNK].select(found.columns)
        if not found.equals(expected.with_columns(pl.col(pl.String).replace("", None))):
            raise ArtefactError(f"{path}: the lookup files name other papers than papers.parquet")
    checked = [f"{len(manifest.files)} files", f"{store.n} papers"]
    for encoder in store.encoders():
        verify_folder(store.vectors_folder(encoder), VECTORS_KIND)
        check_unit_rows(store.vectors(encoder).array, f"vectors of {encoder} in {path}")
        checked.append(f"vectors of {encoder}")
    return checked


def check_unit_rows(array: NDArray[np.float32], what: str) -> None:
    """Check that every row is finite and of length 1, or all zeros.

    Raises
    ------
    ArtefactError
        Naming the first that is not.
    """
    for start in range(0, len(array), _CHUNK):
        rows = array[start : start + _CHUNK]
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        wrong = ~((np.abs(norms - 1) < UNIT_TOLERANCE) | (norms == 0))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ArtefactError(f"{what}: row {start + row} has length {norms[row]:.7g}, not 1")
