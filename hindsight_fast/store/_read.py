"""A store and its vectors, opened."""

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import ArtefactError, UsageError
from hindsight_fast.papers import dates, venues
from hindsight_fast.papers.schema import (
    CONFLICT_SCHEMA,
    MERGE_SCHEMA,
    PAPER_SCHEMA,
    REJECT_SCHEMA,
)
from hindsight_fast.storage import Manifest, map_array, open_with, storage_errors
from hindsight_fast.store._lookup import STARTS_FILE, TEXT_FILE, TEXTS, Lookup

KIND = "store"
VECTORS_KIND = VECTORS_FOLDER = "vectors"
PAPERS, REJECTS = "papers.parquet", "rejects.parquet"
MERGES, CONFLICTS = "merges.parquet", "conflicts.parquet"
DATES, DATE_KINDS, CITATIONS = "dates.npy", "date-kinds.npy", "citations.npy"
VECTORS = "vectors.npy"
UNDATED = np.iinfo(np.int32).max
MAX_PAPERS = 2**31 - 1
NAMING: Final = (
    "id", "title", "venue", "date", "date_precision", "date_kind", "citations", "url",
)  # fmt: skip
"""What names a paper to a person."""

AT_ONCE: Final = 65_536  # rows read at a time
_ENCODER = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_CARRIED = ".carried"
_EPOCH = dt.date(1970, 1, 1)


def kind_codes(kinds: pl.Series) -> NDArray[np.uint8]:
    """What `DATE_KINDS` holds for names of kinds, some of which may be null."""
    places = {name: place for place, name in enumerate(dates.KINDS)}
    return kinds.replace_strict(places, default=len(places), return_dtype=pl.UInt8).to_numpy()


def days(date: dt.date) -> int:
    """Return the number of days since 1970-01-01."""
    return (date - _EPOCH).days


def is_encoder_name(text: str) -> bool:
    """Tell whether this can be the name of an encoder, and of the folder of its vectors."""
    return _ENCODER.fullmatch(text) is not None


class Vectors:
    """The vectors of one encoder, a row for each paper of the store.

    Attributes
    ----------
    array : ndarray of shape (n, dim), float32, read-only
        Unit rows, mapped; a row of zeros where the paper was not encoded.
    manifest : Manifest
    fingerprint : str
        Of all that they depend on: papers, encoder, precision, `since` and `taken`.
    encoder, encoder_fingerprint : str
        The encoder's name, and what its vectors depend on.
    precision : str
        What they were computed in: "float32", "float16", ...
    taken : list of str
        What was taken over from elsewhere in place of encoding (`Taken.identity`), in order.
    theta : float
        The similarity of a match that the encoder's card recommends.
    since : datetime.date or None
        Papers before this date were not encoded.
    content_hash : str
        Of their bytes.
    """

    def __init__(self, folder: Path, manifest: Manifest, content_id: str, n: int) -> None:
        self.manifest = manifest
        rows = manifest.integer("n", high=MAX_PAPERS)
        if rows != n:
            raise ArtefactError(
                f"{folder}: row count mismatch, {rows} vectors for {n} papers; encode again"
            )
        if manifest.text("content_id") != content_id:
            raise ArtefactError(
                f"{folder} was made from other papers or other texts than this store holds; "
                "encode again"
            )
        self.fingerprint = manifest.fingerprint
        self.encoder = manifest.text("encoder", 64)
        self.encoder_fingerprint = manifest.text("encoder_fingerprint", 128)
        self.precision = manifest.text("precision", 16)
        self.taken = manifest.texts("taken")
        self.theta = manifest.real("theta", -1, 1)
        self.dim = manifest.integer("dim", 1, 65_536)
        self.since = manifest.date("since") if manifest.body.get("since") else None
        self.array: NDArray[np.float32] = map_array(folder / VECTORS, np.float32, (n, self.dim))
        self.content_hash = manifest.file(VECTORS).blake2b


class Store:
    """Papers in order of date; use `Store.open`.

    Attributes
    ----------
    path : Path
    manifest : Manifest
    n : int
        Number of papers.
    content_id, facts_id : str
        Hashes of ids and texts, and of all other facts.
    text_version : int
        The rule by which the texts were cleaned.
    dates : ndarray of shape (n,), int32, read-only
        First day of each paper's date, in days since 1970-01-01; `UNDATED` for none. Ascending.
    date_kinds : ndarray of shape (n,), uint8, read-only, or None
        Place of each date's kind in `dates.KINDS`; larger for none. None: an older store.
    citations : ndarray of shape (n,), int64, read-only
        -1 where unknown.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self.n = manifest.integer("n", high=MAX_PAPERS)
        self.content_id = manifest.text("content_id", 64)
        self.facts_id = manifest.text("facts_id", 64)
        self.text_version = manifest.integer("text_version")
        self.dates: NDArray[np.int32] = map_array(path / DATES, np.int32, (self.n,))
        self.citations: NDArray[np.int64] = map_array(path / CITATIONS, np.int64, (self.n,))
        self.date_kinds: NDArray[np.uint8] | None = None
        if DATE_KINDS in manifest.files:
            self.date_kinds = map_array(path / DATE_KINDS, np.uint8, (self.n,))
        self._papers = _identity(path / PAPERS)
        self._lookup = Lookup(path, self.n, manifest.integer("lookup_bytes"))

    @classmethod
    def open(cls, path: str | Path) -> "Store":
        """Open a store; its files are mapped, not read.

        Raises
        ------
        ArtefactError
            It is missing, damaged, or something else.
        """
        folder = Path(path)

        def read(manifest: Manifest) -> Store:
            for name in (PAPERS, DATES, CITATIONS, TEXT_FILE, STARTS_FILE):
                manifest.file(name)
            return cls(folder, manifest)

        return open_with(folder, KIND, read)

    @property
    def venues(self) -> venues.Table:
        """The venues that names were matched with."""
        if "venues_added" not in self.manifest.body:
            return venues.table()
        return venues.extended(self.manifest.text("venues_added", 1 << 22), str(self.path))

    def papers(
        self, columns: Sequence[str] | None = None, start: int = 0, stop: int | None = None
    ) -> pl.DataFrame:
        """Read rows [start, stop) of the table of papers.

        Parameters
        ----------
        columns
            Some of `PAPER_SCHEMA`, all by default; null where the store is older than a column.
        """
        end = self.n if stop is None else stop
        papers = read_rows(self.path / PAPERS, PAPER_SCHEMA, columns, start, end)
        with storage_errors(f"read {self.path / PAPERS}"):
            if _identity(self.path / PAPERS) != self._papers:
                raise ArtefactError(f"{self.path} was replaced while it was in use; start again")
            return papers

    def pieces(self, *columns: str) -> Iterator[pl.DataFrame]:
        """Read these columns (all without a name) of all rows, `AT_ONCE` rows at a time."""
        for start in range(0, self.n, AT_ONCE):
            yield self.papers(columns or None, start, min(start + AT_ONCE, self.n))

    def rejects(self) -> pl.DataFrame:
        """Read the records that are no papers, and why: `REJECT_SCHEMA`."""
        return self._table(REJECTS, REJECT_SCHEMA)

    def merges(self) -> pl.DataFrame:
        """Read what became of which records, ordered by id: `MERGE_SCHEMA`."""
        return self._table(MERGES, MERGE_SCHEMA)

    def conflicts(self) -> pl.DataFrame:
        """Read where records disagree: `CONFLICT_SCHEMA`."""
        return self._table(CONFLICTS, CONFLICT_SCHEMA)

    def _table(self, name: str, schema: dict[str, pl.DataType]) -> pl.DataFrame:
        """A table of the store; stores of format 1 have fewer of them."""
        if name not in self.manifest.files:
            return pl.DataFrame(schema=schema)
        return read_rows(self.path / name, schema)

    def lookup(
        self, rows: NDArray[np.integer[Any]], columns: Sequence[str] = NAMING
    ) -> pl.DataFrame:
        """Name a few papers: the columns of `NAMING`, `date_kind` null where the store is older.

        Parameters
        ----------
        rows : ndarray of shape (m,)
            Rows of the store, in any order.
        columns
            Those that are wanted; fewer take less time.

        Raises
        ------
        IndexError
            A row is negative or too large.
        ArtefactError
            The files are damaged.
        """
        wanted = rows.astype(np.int64)
        if wanted.size and (wanted.min() < 0 or wanted.max() >= self.n):
            raise IndexError(f"rows must be from 0 to {self.n - 1}")
        texts = self._lookup.texts(wanted, [name for name in columns if name in TEXTS])
        known = {one.name: one for one in texts}
        if "date" in columns:
            date = pl.Series("date", self.dates[wanted])
            known_days = date.filter(date != UNDATED)
            if not known_days.is_between(days(dt.date.min), days(dt.date.max)).all():
                raise ArtefactError(f"{self.path / DATES} holds no dates; build the store again")
            known["date"] = date.set(date == UNDATED, None).cast(pl.Date)
        if "date_kind" in columns:
            known["date_kind"] = self._kinds(wanted)
        if "citations" in columns:
            counts = pl.Series("citations", self.citations[wanted])
            known["citations"] = counts.set(counts < 0, None)
        return pl.DataFrame([known[name] for name in columns])

    def _kinds(self, rows: NDArray[np.int64]) -> pl.Series:
        """What the dates of these papers say; null where there is none or the store is older."""
        names = pl.Series("date_kind", [*dates.KINDS, None], dtype=pl.String)
        if self.date_kinds is None:
            return names[-1:].new_from_index(0, len(rows))
        return names.gather(np.minimum(self.date_kinds[rows], len(dates.KINDS)))

    def names(self, papers: pl.DataFrame, start: int) -> bool:
        """Tell whether `lookup` names the papers of rows from `start` on as this table does."""
        return self._lookup.names(papers, start)

    def window(self, start: dt.date, until: dt.date) -> tuple[int, int]:
        """Return the rows [low, high) of the papers whose date starts on start ... until."""
        low = int(np.searchsorted(self.dates, np.int32(days(start)), "left"))
        high = int(np.searchsorted(self.dates, np.int32(days(until)), "right"))
        return low, max(low, high)

    def encoders(self) -> list[str]:
        """Return the names of the encoders whose vectors are here."""
        return encoders_in(self.path)

    def carried(self) -> dict[str, int]:
        """Tell of how many papers vectors were taken over by text, for each encoder.

        They wait for `embed_store`, which encodes the others.
        """
        carried = {name: self.carried_vectors(name) for name in carried_in(self.path)}
        return {
            name: vectors.manifest.integer("n_carried", high=self.n)
            for name, vectors in carried.items()
            if vectors is not None
        }

    def carried_vectors(self, encoder: str) -> Vectors | None:
        """Open the vectors that were taken over by text; a row of zeros where there is none.

        Raises
        ------
        ArtefactError
            They are damaged, or belong to other papers.
        """
        folder = carried_folder(self.path, encoder)
        if encoder not in carried_in(self.path):
            return None
        return open_vectors(folder, self.content_id, self.n)

    def vectors_folder(self, encoder: str) -> Path:
        """Return where the vectors of an encoder belong.

        Raises
        ------
        UsageError
            That is no name of an encoder.
        """
        if not is_encoder_name(encoder):
            raise UsageError(f"{encoder!r} is no name of an encoder")
        return self.path / VECTORS_FOLDER / encoder

    def vectors(self, encoder: str | None = None) -> Vectors:
        """Open the vectors of an encoder, which may be left out where there is just one.

        Raises
        ------
        UsageError
            No such vectors are here, or several and none was named.
        ArtefactError
            They are damaged, or belong to other papers.
        """
        here = self.encoders()
        listed = ", ".join(here) or "none"
        if encoder is None:
            if len(here) > 1:
                raise UsageError(f"{self.path} has vectors of {listed}; name one with --encoder")
            if not here:
                raise UsageError(
                    f"{self.path} has no vectors yet; make them with "
                    f"`hindsight-fast embed {self.path} --encoder NAME`"
                )
            encoder = here[0]
        folder = self.vectors_folder(encoder)
        if encoder not in here:
            raise UsageError(
                f"{self.path} has no vectors of {encoder} (it has: {listed}); make them with "
                f"`hindsight-fast embed {self.path} --encoder {encoder}`"
            )
        return open_vectors(folder, self.content_id, self.n)


def topics_of(store: Store) -> set[str]:
    """Name the topics that papers of a store have."""
    return {
        name
        for piece in store.pieces("topics")
        for name in piece["topics"].explode().drop_nulls().unique()
    }


def read_rows(
    path: Path,
    schema: dict[str, pl.DataType],
    columns: Sequence[str] | None = None,
    start: int = 0,
    stop: int | None = None,
) -> pl.DataFrame:
    """Read rows [start, stop) of a parquet file; null where it lacks a column of the schema.

    Raises
    ------
    ArtefactError
        It is damaged, or another table.
    StorageError
        The file system refuses.
    """
    lazy = pl.scan_parquet(
        path,
        glob=False,
        hive_partitioning=False,
        schema=schema,
        missing_columns="insert",
        extra_columns="ignore",
    ).slice(start, None if stop is None else stop - start)
    with storage_errors(f"read {path}"):
        try:
            return (lazy if columns is None else lazy.select(columns)).collect()
        # A panic is no PolarsError, and no Exception.
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise ArtefactError(f"{path} can't be read: {str(error)[:200]}") from error


def carried_folder(store: Path, encoder: str) -> Path:
    """Return where vectors lie that were taken over by text, until their papers are encoded."""
    return store / VECTORS_FOLDER / f".{encoder}{_CARRIED}"


def encoders_in(store: Path) -> list[str]:
    """Return the names of the encoders whose vectors are in the folder of a store."""
    return [name for name in _artefacts_in(store / VECTORS_FOLDER) if is_encoder_name(name)]


def carried_in(store: Path) -> list[str]:
    """Return the names of the encoders of which vectors were taken over and wait for the others."""
    hidden = [name for name in _artefacts_in(store / VECTORS_FOLDER) if name.endswith(_CARRIED)]
    names = [name[1:].removesuffix(_CARRIED) for name in hidden if name[0] == "."]
    return [name for name in names if is_encoder_name(name)]


def _artefacts_in(folder: Path) -> list[str]:
    with storage_errors(f"read {folder}"):
        if not folder.is_dir():
            return []
        return sorted(f.name for f in folder.iterdir() if (f / "manifest.json").exists())


def open_vectors(folder: Path, content_id: str, n: int) -> Vectors:
    """Open the vectors of `n` papers with just these ids and texts."""
    return open_with(
        folder, VECTORS_KIND, lambda manifest: Vectors(folder, manifest, content_id, n)
    )


def _identity(path: Path) -> tuple[int, int]:
    with storage_errors(f"read {path}"):
        facts = path.stat()
    return facts.st_dev, facts.st_ino
