"""Is every byte of a store as it was written, and do its parts tell the same?"""

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import ArtefactError, HindsightError
from hindsight_fast.papers.schema import check_counts
from hindsight_fast.storage import storage_errors, unfinished, verify_folder
from hindsight_fast.store._identity import (
    CONTENT,
    FACTS,
    FIRST_TEXT_VERSION,
    content_hash,
    facts_hash,
    first_content_id,
    first_facts_id,
)
from hindsight_fast.store._read import (
    AT_ONCE,
    DATE_KINDS,
    KIND,
    MERGES,
    PAPERS,
    UNDATED,
    VECTORS_FOLDER,
    VECTORS_KIND,
    Store,
    carried_folder,
    kind_codes,
    open_vectors,
)

_CHUNK = 16_384  # vectors looked at together
UNIT_TOLERANCE = 1e-5  # float32 rounding leaves 1e-6; 1e-3 would move matches


def verify_store(path: Path) -> list[str]:
    """Check a store with all its vectors; returns what was checked, a phrase each.

    Memory does not grow with the number of papers, but with a store of the first version.

    Raises
    ------
    ArtefactError
        Naming the first thing that is wrong.
    """
    manifest = verify_folder(path, KIND, beside=(VECTORS_FOLDER,))
    store = Store(path, manifest)
    content_id, facts_id = _identities(store)
    if content_id != store.content_id:
        raise ArtefactError(f"{path}: ids or texts are not those that the manifest names")
    if facts_id != store.facts_id:
        raise ArtefactError(f"{path}: dates, venues or counts are not those of the manifest")
    _verify_counts(store, _verify_rows(store))
    _verify_merges(store)
    checked = [f"{len(manifest.files)} files", f"{store.n} papers"]
    _verify_names(path / VECTORS_FOLDER, store.encoders())
    folders = {f"vectors of {name}": store.vectors_folder(name) for name in store.encoders()}
    folders |= {
        f"vectors of {name}, taken over": carried_folder(path, name) for name in store.carried()
    }
    for what, folder in folders.items():
        verify_folder(folder, VECTORS_KIND)
        vectors = open_vectors(folder, store.content_id, store.n)
        check_unit_rows(vectors.array, f"{what} in {path}")
        checked.append(what)
    begun = [one.name[1:].removesuffix(".partial") for one in unfinished(path / VECTORS_FOLDER)]
    return checked + [f"not the unfinished vectors of {name}" for name in begun]


def _verify_names(folder: Path, encoders: list[str]) -> None:
    """Check that nothing but vectors lies where vectors do; what is hidden may."""
    with storage_errors(f"read {folder}"):
        names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    for name in names:
        if name not in encoders and name[0] != ".":
            raise ArtefactError(f"{folder / name} has no manifest of vectors; encode again")


def _identities(store: Store) -> tuple[str, str]:
    """The two hashes of what papers.parquet holds."""
    if store.text_version == FIRST_TEXT_VERSION:

        def column(name: str) -> pl.Series:
            return store.papers([name])[name]

        return first_content_id(column), first_facts_id(column)
    content, facts = content_hash(store.text_version), facts_hash()
    for papers in store.pieces(*dict.fromkeys(CONTENT + FACTS)):
        content.add(papers)
        facts.add(papers)
    return content.hexdigest(), facts.hexdigest()


def _verify_rows(store: Store) -> int | None:
    """Check order, dates and lookup files; returns the number of records, if it is known."""
    n_records, n_unknown = 0, 0
    last: tuple[int, str] = (np.iinfo(np.int32).min, "")
    wanted = ["id", "title", "venue", "date", "date_precision", "date_kind"]
    wanted += ["citations", "url", "n_records"]
    for start in range(0, store.n, AT_ONCE):
        stop = min(start + AT_ONCE, store.n)
        papers = store.papers(wanted, start, stop)
        days = papers["date"].to_physical().fill_null(UNDATED)
        if not np.array_equal(days.to_numpy(), store.dates[start:stop]):
            raise ArtefactError(f"{store.path}: dates.npy holds other dates than {PAPERS}")
        kinds = kind_codes(papers["date_kind"])
        if store.date_kinds is not None and not np.array_equal(kinds, store.date_kinds[start:stop]):
            raise ArtefactError(f"{store.path}: {DATE_KINDS} holds other kinds than {PAPERS}")
        keys = pl.DataFrame({"day": days, "id": papers["id"]})
        if not keys.equals(keys.sort("day", "id")) or keys.row(0) < last:
            raise ArtefactError(f"{store.path}: the papers are not in order of date and id")
        last = (days[-1], papers["id"][-1])
        citations = papers["citations"].fill_null(-1).to_numpy()
        if not np.array_equal(citations, store.citations[start:stop]):
            raise ArtefactError(f"{store.path}: citations.npy holds other counts than {PAPERS}")
        if not store.names(papers, start):
            raise ArtefactError(f"{store.path}: the lookup files name other papers than {PAPERS}")
        n_records += int(papers["n_records"].sum())
        n_unknown += papers["n_records"].null_count()
    return None if n_unknown else n_records


def _verify_counts(store: Store, n_records: int | None) -> None:
    """Check that every record became a paper, part of one, or a reject, or was left out."""
    counts: dict[str, int] = store.manifest.table("counts")
    try:
        check_counts(counts, store.n, store.rejects().height)
    except (HindsightError, KeyError) as error:
        raise ArtefactError(f"{store.path}: the counts don't add up: {error}") from error
    if n_records not in (None, counts["n_papers"] + counts["n_merged"]):
        raise ArtefactError(
            f"{store.path}: its papers are of {n_records} records, where {counts['n_papers']} "
            f"papers and {counts['n_merged']} merged into them were counted"
        )


def _verify_merges(store: Store) -> None:
    """Check that what is said of merges is said of papers, once of each."""
    merged = store.merges()["id"]
    pieces = store.pieces("id") if len(merged) else ()
    n_papers = sum(int(papers["id"].is_in(merged.implode()).sum()) for papers in pieces)
    if merged.n_unique() != len(merged) or n_papers != len(merged):
        raise ArtefactError(f"{store.path}: {MERGES} tells of other papers than {PAPERS}")


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
