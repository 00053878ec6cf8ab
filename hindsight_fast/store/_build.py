"""From a table of papers to a store."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from hindsight_fast.config import fingerprint
from hindsight_fast.errors import ArtefactError, DataError, StorageError
from hindsight_fast.papers import venues
from hindsight_fast.papers.schema import PAPER_SCHEMA, REJECT_SCHEMA, PaperTable
from hindsight_fast.papers.text import TEXT_VERSION
from hindsight_fast.storage import (
    create_array,
    existing,
    link_artefact,
    link_unfinished,
    publish,
    read_manifest,
    refuse_running,
    storage_errors,
    unfinished,
)
from hindsight_fast.store._identity import columns_hash, content_id, facts_id
from hindsight_fast.store._lookup import write_lookup
from hindsight_fast.store._read import (
    CITATIONS,
    DATES,
    KIND,
    PAPERS,
    REJECTS,
    UNDATED,
    VECTORS_FOLDER,
    Store,
    encoders_in,
    open_vectors,
)

ROW_GROUP = 16_384  # rows that are read together when a slice of papers is
_ORIGIN = ("file", "source")  # where records came from, which makes no other papers of them


def build_store(table: PaperTable, out: Path, *, overwrite: bool = False) -> Store:
    """Order papers by date and write them as a store; the same papers give the same bytes.

    A store that already holds just these papers, from whatever file they come, is opened and
    nothing is written.

    Parameters
    ----------
    table
        Papers in any order, with distinct ids.
    out
        The folder to make.
    overwrite
        Replace another or damaged store that is there. Vectors in it stay where papers, texts,
        dates and status are the same, as they are when only counts or venues have changed.

    Raises
    ------
    DataError
        An id is missing or comes twice.
    UsageError
        `out` holds something else.
    StorageError
        No space, no rights, or another process is writing there.
    """
    papers = table.papers.select(list(PAPER_SCHEMA)).sort("date", "id", nulls_last=True)
    rejects = table.rejects.select(list(REJECT_SCHEMA)).sort("file", "line", "reason", "record")
    _check_ids(papers["id"])
    ids = {"content_id": content_id(papers, TEXT_VERSION), "facts_id": facts_id(papers)}
    counts = dict(sorted(table.counts.items()))
    mark = fingerprint([ids, counts, _values_hash(papers), _rejects_hash(rejects)])
    if existing(out, KIND, mark, overwrite=overwrite) is not None:
        return Store.open(out)
    with publish(out, KIND, mark, overwrite=overwrite) as staging:
        folder = staging.folder
        _write_parquet(papers, folder / PAPERS)
        _write_parquet(rejects, folder / REJECTS)
        n = papers.height
        days = papers["date"].to_physical().fill_null(UNDATED)
        create_array(folder / DATES, np.int32, (n,))[:] = days
        create_array(folder / CITATIONS, np.int64, (n,))[:] = papers["citations"].fill_null(-1)
        staging.body |= ids | {
            "n": n,
            "text_version": TEXT_VERSION,
            "lookup_bytes": write_lookup(papers, folder),
            "counts": counts,
            "coverage": _coverage(papers),
        }
        if overwrite:
            _keep_vectors(out, folder, papers, ids["content_id"], mark)
    return Store.open(out)


def _values_hash(frame: pl.DataFrame) -> str:
    """Hash what the rows say, leaving out where they were read."""
    columns = [name for name in frame.columns if name not in _ORIGIN]
    return columns_hash(frame, columns, "")


def _rejects_hash(rejects: pl.DataFrame) -> str:
    """Hash the rejects in an order that no file's name decides."""
    return _values_hash(rejects.sort("line", "reason", "record"))


def _keep_vectors(old: Path, new: Path, papers: pl.DataFrame, content: str, mark: str) -> None:
    """Take over the vectors of a store that is replaced, where they hold for these papers."""
    if not _is_encoded_alike(old, papers, content, mark):
        refuse_running(old / VECTORS_FOLDER)
        return
    for name in encoders_in(old):
        kept = new / VECTORS_FOLDER / name
        try:
            link_artefact(old / VECTORS_FOLDER / name, kept)
            open_vectors(kept, content, papers.height)
        except ArtefactError:
            shutil.rmtree(kept, ignore_errors=True)
    for partial in unfinished(old / VECTORS_FOLDER):
        link_unfinished(partial, new / VECTORS_FOLDER / partial.name)


def _is_encoded_alike(old: Path, papers: pl.DataFrame, content: str, mark: str) -> bool:
    """Tell whether encoding gives the same for these papers as for those of the store `old`.

    Which papers are encoded depends on date and status, and on nothing else beyond their texts.
    """
    decide = ["date", "status"]
    try:
        there = read_manifest(old)
        if there.fingerprint == mark:
            return True  # the very same papers, whatever is damaged
        return there.text("content_id") == content and (
            Store.open(old).papers(decide).equals(papers.select(decide))
        )
    except (ArtefactError, StorageError):
        return False


def _check_ids(ids: pl.Series) -> None:
    if ids.null_count():
        raise DataError(f"{ids.null_count()} papers have no id")
    repeated = ids.filter(ids.is_duplicated())
    if len(repeated):
        raise DataError(f"the id {repeated[0]!r} comes {(ids == repeated[0]).sum()} times")


def _write_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Write with every setting fixed, so that equal tables are equal bytes."""
    with storage_errors(f"write {path}"):
        frame.rechunk().write_parquet(
            path,
            compression="zstd",
            compression_level=3,
            statistics=False,
            row_group_size=ROW_GROUP,
        )


def _coverage(papers: pl.DataFrame) -> dict[str, Any]:
    known = papers["citations"].is_not_null()
    venue = venues.is_known(papers["venue"], venues.table())
    return {
        "status": tally(papers["status"]),
        "date_kind": tally(papers["date_kind"]),
        "date_precision": tally(papers["date_precision"]),
        "undated": papers["date"].null_count(),
        "citations_known": int(known.sum()),
        "venue_known": int(venue.sum()),
        "both_known": int((known & venue).sum()),
    }


def tally(values: pl.Series) -> dict[str, int]:
    """Count the values of a column of text, nulls left out, in alphabetical order."""
    counted = values.drop_nulls().value_counts().sort(values.name)
    return dict(zip(counted[values.name].to_list(), counted["count"].to_list(), strict=True))
