"""Answers of a service that a collection holds: how they are kept, the list of them, reading them.

A collection is a folder: `raw/` with each answer as it came (compressed), `pages.jsonl` that names
them, `papers.parquet` with their records, and a manifest (`collect`).
"""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindsight_fast.errors import ArtefactError
from hindsight_fast.papers import readers
from hindsight_fast.papers.readers import Batch, Given, streams
from hindsight_fast.storage import check_file, read_manifest, storage_errors, verify_folder

KIND: Final = "collection"
RAW: Final = "raw"
LIST: Final = "pages.jsonl"
TABLE: Final = "papers.parquet"


@dataclass(frozen=True, slots=True)
class Kept:
    """A page whose answer came.

    Attributes
    ----------
    query, page : int
        Which query, from 0, and which of its pages, from 1.
    name : str
        Of the query.
    n : int
        Records on it.
    total : int
        Records that the service announced of this query.
    digest : str
        Hash of their ids: no two pages have the same.
    following : str or None
        What asks for the next page.
    file : str or None
        In `raw`; an answer without records is not kept.
    size : int
        Of the file, bytes.
    blake2b : str
        Hash of the file.
    at : str
        When it came, UTC.
    """

    query: int
    page: int
    name: str
    n: int
    total: int
    digest: str
    following: str | None
    file: str | None
    size: int
    blake2b: str
    at: str

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Kept":
        """Read what `record` gave."""
        return cls(**{field.name: record[field.name] for field in fields(cls)})

    def record(self) -> dict[str, Any]:
        """Give it as JSON values."""
        return asdict(self)

    def is_whole(self, raw: Path) -> bool:
        """Tell whether its file is there as it was."""
        if self.file is None:
            return True
        path = raw / self.file
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        return hash_of(path.read_bytes()) == self.blake2b


def hash_of(content: bytes) -> str:
    """BLAKE2b, as for all files of an artefact."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def packed(body: bytes) -> bytes:
    """An answer, compressed; the same bytes each time."""
    return gzip.compress(body, 6, mtime=0)


def unpacked(content: bytes) -> bytes:
    """An answer, as it came."""
    return gzip.decompress(content)


def file_name(query: str, page: int) -> str:
    """Name the file of a page."""
    return f"{query}-{page:05d}.json.gz"


def slugs(names: list[str]) -> list[str]:
    """Make the beginnings of file names of the names of queries, no two the same."""
    made: list[str] = []
    for name in names:
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "query"
        tries = [slug, *(f"{slug}-{number}" for number in range(2, len(names) + 2))]
        made.append(next(one for one in tries if one not in made))
    return made


def write_list(path: Path, pages: list[Kept]) -> None:
    """Write the list of the pages, a line each."""
    with storage_errors(f"write {path}"), path.open("w", encoding="utf-8") as file:
        for page in pages:
            file.write(json.dumps(page.record(), ensure_ascii=False) + "\n")


def read_list(folder: Path) -> Iterator[Kept]:
    """Read the list of the pages of a finished collection.

    Raises
    ------
    ArtefactError
        It is not as it was written.
    """
    path = folder / LIST
    with storage_errors(f"read {path}"):
        lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            page = Kept.from_record(json.loads(line))
            if "/" in (page.file or ""):
                raise ValueError(f"{page.file!r} is no name of a file")
            yield page
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ArtefactError(f"{path}, line {number}: {error}") from error


def check_all_there(folder: Path) -> None:
    """Check that a finished collection has all of its answers; they are looked at when read.

    Raises
    ------
    ArtefactError
        It hasn't, or its list of them is not as it was written.
    """
    check_file(folder / LIST, read_manifest(folder).file(LIST), full=True)
    for page in read_list(folder):
        if page.file is not None and not (folder / RAW / page.file).is_file():
            raise ArtefactError(f"{folder / RAW / page.file} is missing; collect it anew")


def folder_of(path: Path) -> Path | None:
    """Tell which collection a file is an answer of; None: it is not in one's folder of answers."""
    folder = path.parent.parent
    return folder if path.parent.name == RAW and (folder / LIST).is_file() else None


def read(folder: Path, paths: Sequence[Path], given: Given) -> Iterator[tuple[Path, Batch]]:
    """Read answers of a collection.

    A count of citations that doesn't say of when it is, is of the day when the answer came.

    Parameters
    ----------
    folder : Path
        The collection.
    paths : sequence of Path
        Some of its answers.
    given : Given

    Raises
    ------
    ArtefactError
        The list of the answers is not as it was written.
    DataError
        An answer is damaged, or none that a reader knows.
    """
    pages = {page.file: page for page in read_list(folder)}
    for path in paths:
        page = pages.get(path.name)
        if page is not None:
            _check(page, folder)
        head = streams.head(path)
        reader = readers.find(path, head, "auto")
        for batch in reader.read(path, head, given):
            yield (
                path,
                batch._replace(
                    records=_dated(batch.records, None if page is None else page.at[:10])
                ),
            )


def _dated(records: pl.DataFrame, day: str | None) -> pl.DataFrame:
    counted = pl.col("citations").is_not_null() & pl.col("citations_as_of").is_null()
    return records.with_columns(
        citations_as_of=pl.when(counted).then(pl.lit(day)).otherwise("citations_as_of")
    )


def _check(page: Kept, folder: Path) -> None:
    with storage_errors(f"read {folder / RAW}"):
        if not page.is_whole(folder / RAW):
            raise ArtefactError(
                f"{folder / RAW}/{page.file} is not the answer that came; collect it anew"
            )


def verify(folder: Path) -> list[str]:
    """Check every byte of a collection.

    Returns
    -------
    list of str
        What was checked, a phrase each.

    Raises
    ------
    ArtefactError
        Naming the first file that is not as it was published.
    """
    manifest = verify_folder(folder, KIND, beside=(RAW,))
    pages = [*read_list(folder)]
    for page in pages:
        _check(page, folder)
    known = {page.file for page in pages}
    with storage_errors(f"read {folder / RAW}"):
        others = [one.name for one in folder.glob(f"{RAW}/*") if one.name not in known]
    if others:
        raise ArtefactError(f"{folder / RAW} also holds {min(others)}, which {LIST} doesn't name")
    return [f"{len(manifest.files)} files", f"{len(pages)} answers"]
