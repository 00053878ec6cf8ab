"""From gathered papers to a store, a part at a time."""

import contextlib
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.config import fingerprint
from hindsight_fast.errors import ArtefactError, DataError, StorageError
from hindsight_fast.papers import venues
from hindsight_fast.papers.schema import (
    PAPER_SCHEMA,
    Gathered,
    PaperTable,
    check_counts,
)
from hindsight_fast.papers.text import TEXT_VERSION
from hindsight_fast.storage import ArrayWriter, Manifest, existing, prepare, publish
from hindsight_fast.store._carrying import carry_vectors, keep_vectors
from hindsight_fast.store._coverage import Coverage, check_shares
from hindsight_fast.store._identity import (
    CONTENT,
    FACTS,
    ColumnsHash,
    columns_hash,
    content_hash,
    facts_hash,
)
from hindsight_fast.store._lookup import LookupWriter
from hindsight_fast.store._read import (
    CITATIONS,
    CONFLICTS,
    DATE_KINDS,
    DATES,
    KIND,
    MERGES,
    PAPERS,
    REJECTS,
    UNDATED,
    Store,
    kind_codes,
    read_rows,
)
from hindsight_fast.store._tables import TableWriter, write_table

_ORIGIN = ("file", "source", "records")  # where records came from; no other papers for that
_OTHERS = tuple(name for name in PAPER_SCHEMA if name not in (*CONTENT, *FACTS, *_ORIGIN))


def build_store(
    papers: Gathered | PaperTable,
    out: Path,
    *,
    overwrite: bool = False,
    reuse: Store | None = None,
    allow_drop: bool = False,
    table: venues.Table | None = None,
) -> Store:
    """Write papers as a store; the same papers give the same bytes.

    A store that already holds just these papers, from whatever file they come, is opened and
    nothing is written. Memory does not grow with the number of papers, but for some bytes of each.

    Parameters
    ----------
    papers
        With distinct ids.
    out
        The folder to make.
    overwrite
        Replace another or damaged store that is there. Vectors in it stay where papers, texts,
        dates and status are the same, as they are when only counts or venues have changed; else
        they are taken over by text (`carry_vectors`).
    reuse
        A store of which vectors are taken over by text, before those of one that is replaced.
    allow_drop
        Write even papers of which a far smaller share has abstracts, dates, venues or citations
        than of the store that is replaced or reused.
    table
        The venues that names were matched with; those that ship by default.

    Raises
    ------
    DataError
        An id is missing or comes twice; or a share has dropped.
    UsageError
        `out` holds something else.
    ArtefactError
        What is reused is damaged; or, without `overwrite`, what is at `out` is.
    StorageError
        No space, no rights, or another process is writing there.
    """
    gathered = papers if isinstance(papers, Gathered) else papers.gathered()
    with publish(out, KIND, None, overwrite=overwrite) as staging:
        staged = _write(gathered, staging.folder, table or venues.table())
        mark = staged.manifest.fingerprint
        is_there = existing(out, KIND, mark, overwrite=overwrite) is not None
        if not is_there:
            staging.fingerprint = mark
            staging.body |= staged.manifest.body
            replaced = _at(out) if overwrite else None
            earlier = reuse or replaced
            if earlier is not None and not allow_drop:
                check_shares(earlier, out, staged.n, staging.body["coverage"]["have"])
            if overwrite:
                keep_vectors(out, staged)
            if reuse is not None:
                carry_vectors(reuse, staged)
            if replaced is not None:
                carry_vectors(replaced, staged, skip_damaged=True)
    store = Store.open(out)
    if is_there and reuse is not None:
        carry_vectors(reuse, store)
    return store


def _at(path: Path) -> Store | None:
    """The store that is there, if it can be read."""
    try:
        return Store.open(path)
    except (ArtefactError, StorageError):
        return None


def is_store_there(out: Path, *, overwrite: bool = False) -> bool:
    """Refuse a place before the work, as far as can be told; say whether a store is there.

    Raises
    ------
    UsageError, ArtefactError, StorageError
        As `build_store`, but for a store that turns out to hold other papers.
    """
    return (prepare(out, KIND, None, overwrite=overwrite) / "manifest.json").exists()


def _write(gathered: Gathered, folder: Path, table: venues.Table) -> Store:
    """Write all files but the manifest; the store that they are has what is to be in it."""
    coverage, id_hashes = Coverage(table), [np.zeros(0, np.uint64)]
    content, facts, others = content_hash(TEXT_VERSION), facts_hash(), ColumnsHash(_OTHERS, "")
    with (
        TableWriter(folder / PAPERS, PAPER_SCHEMA) as rows,
        contextlib.closing(LookupWriter(folder)) as lookup,
        contextlib.closing(ArrayWriter(folder / DATES, np.int32)) as dates,
        contextlib.closing(ArrayWriter(folder / DATE_KINDS, np.uint8)) as kinds,
        contextlib.closing(ArrayWriter(folder / CITATIONS, np.int64)) as citations,
        contextlib.closing(gathered.parts()) as parts,
    ):
        for part in parts:
            papers = part.select(list(PAPER_SCHEMA))
            if papers["id"].null_count():
                raise DataError(f"{papers['id'].null_count()} papers have no id")
            for one in (rows, lookup, coverage, content, facts, others):
                one.add(papers)
            dates.append(papers["date"].to_physical().fill_null(UNDATED).to_numpy())
            kinds.append(kind_codes(papers["date_kind"]))
            citations.append(papers["citations"].fill_null(-1).to_numpy())
            id_hashes.append(papers["id"].hash().to_numpy())
    counts = dict(sorted(gathered.counts.items()))
    rejects = gathered.rejects.sort("file", "line", "reason", "record")
    check_counts(counts, coverage.n, rejects.height)
    write_table(rejects, folder / REJECTS)
    write_table(gathered.merges, folder / MERGES)
    write_table(gathered.conflicts, folder / CONFLICTS)
    _check_ids(np.concatenate(id_hashes), folder / PAPERS)
    ids = {"content_id": content.hexdigest(), "facts_id": facts.hexdigest()}
    mark = fingerprint(
        [
            ids,
            counts,
            table.added,
            others.hexdigest(),
            _values_hash(rejects.sort("line", "reason", "record")),  # whatever its file's name
            _values_hash(gathered.merges),
            _values_hash(gathered.conflicts),
        ]
    )
    body = ids | {
        "n": coverage.n,
        "text_version": TEXT_VERSION,
        "lookup_bytes": lookup.n_bytes,
        "counts": counts,
        "coverage": coverage.facts(),
    }
    if table.added:
        body["venues_added"] = table.added
    return Store(folder, Manifest(folder, KIND, mark, body))


def _values_hash(frame: pl.DataFrame) -> str:
    """Hash what the rows say, leaving out where they were read."""
    return columns_hash(frame, [name for name in frame.columns if name not in _ORIGIN], "")


def _check_ids(hashes: NDArray[np.uint64], written: Path) -> None:
    """Refuse ids that come again; where two hashes are equal, the ids themselves are compared."""
    ordered = np.sort(hashes)
    if not (ordered[1:] == ordered[:-1]).any():
        return
    ids = read_rows(written, PAPER_SCHEMA, ["id"])["id"]
    repeated = ids.filter(ids.is_duplicated())
    if len(repeated):
        raise DataError(f"the id {repeated[0]!r} comes {(ids == repeated[0]).sum()} times")
