"""Files of published vectors: which are meant, and what is taken from each."""

import hashlib
import os
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.errors import DataError, HindsightError, UsageError
from hindsight_fast.papers.readers import streams
from hindsight_fast.published import _lines, _tables
from hindsight_fast.published._papers import ID_SCHEMA, PaperIds
from hindsight_fast.published._records import REASONS, Batch, Refusals, Wanted
from hindsight_fast.storage import sample_hash, storage_errors
from hindsight_fast.store import Store
from hindsight_models import Card

MAX_BAD: Final = 0.01
"""Default of `max_bad`. A wrong file spoils every record, damage in transit very few."""

_VERSION = 1  # of the rules by which a file becomes vectors
_ENDINGS = (".jsonl", ".json", ".gz", ".zst", ".parquet")
_HOPELESS = 1000  # records of which none is of use


def open_published(
    files: Sequence[Path],
    store: Store,
    card: Card,
    *,
    max_bad: float = MAX_BAD,
    threads: int = 1,
) -> list["PublishedFile"]:
    """Open files of published vectors for `embed_store`; little is read yet.

    Parameters
    ----------
    files
        Semantic Scholar's shards, other JSON lines or parquet tables (.gz and .zst of the former
        too), or folders of them. One named twice is read once.
    store
        Whose papers the vectors are for.
    card
        Of the model that they must be of: they name it as the card does, or one of the names
        under which others publish its vectors.
    max_bad
        Share of a file's records that may be of no use, from 0 to 1; one always may, unless 0.
    threads
        Most threads that parse; one more reads and decompresses.

    Raises
    ------
    UsageError
        A share out of range.
    DataError
        A file is missing, empty, or none of these; a folder holds none.
    StorageError
        The system does not let it be read.
    ArtefactError
        The store is damaged.
    """
    if not 0 <= max_bad <= 1:
        raise UsageError(f"a share of {max_bad} bad records; from 0 to 1 is expected")
    found: dict[str, Path] = {}
    for file in files:
        for path in _files_of(file):
            found.setdefault(os.path.realpath(path), path)
    kinds = [(path, _is_table(path)) for path in found.values()]
    names = tuple(dict.fromkeys((*card.published_as, card.name)))
    wanted = Wanted(PaperIds(store), card.dim, card.name, names)
    return [PublishedFile(path, wanted, table, max_bad, threads) for path, table in kinds]


class PublishedFile:
    """The vectors of one file, as `embed_store` takes them over.

    Attributes
    ----------
    identity : str
        Hash of the file's size and of samples of its bytes.
    label : str
        What is being done, for a person.
    counts : dict of str to int
        Complete when the vectors have been iterated. ``published_records`` is the sum of
        ``published_not_in_store``, ``published_repeated`` (a paper came before in the same file),
        ``published_bad_<reason>`` and ``published_by_<id>`` (those that were given, by the id that
        the paper was found by); ``published_unnamed`` of all don't say which model made them.
    """

    def __init__(
        self, path: Path, wanted: Wanted, is_table: bool, max_bad: float, threads: int
    ) -> None:
        self.path, self.label = path, f"reading {path.name}"
        self.identity = _identity(path)
        self.counts: dict[str, int] = {}
        self._wanted, self._is_table = wanted, is_table
        self._max_bad, self._threads = max_bad, threads

    def __iter__(self) -> Generator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Rows of the store, each once, and their unit vectors.

        Raises
        ------
        DataError
            The file is damaged, too many of its records are of no use, or one is of another
            model.
        StorageError
            It can't be read.
        """
        counts, refused = Counter[str](), Refusals()
        seen = np.zeros(self._wanted.papers.n, np.bool_)
        for batch in self._batches():
            refused.update(batch.refused)
            first = np.sort(np.unique(batch.rows, return_index=True)[1])
            first = first[~seen[batch.rows[first]]]
            rows = batch.rows[first]
            seen[rows] = True
            counts["records"] += batch.n
            counts["unnamed"] += batch.n_unnamed
            counts["not_in_store"] += batch.n_not_in_store
            counts["repeated"] += len(batch.rows) - len(first)
            kinds = np.bincount(batch.kinds[first], minlength=len(ID_SCHEMA)).tolist()
            counts.update(dict(zip((f"by_{name}" for name in ID_SCHEMA), kinds, strict=True)))
            if refused.counts.total() == counts["records"] >= _HOPELESS:
                break  # a whole shard takes minutes
            yield rows, batch.vectors[first]
        self._judge(counts["records"], refused)
        counts.update({f"bad_{reason}": refused.counts[reason] for reason in REASONS})
        self.counts = {f"published_{name}": count for name, count in counts.items()}
        self._check_counts()

    def _batches(self) -> Generator[Batch]:
        if self._is_table:
            return _tables.batches(self.path, self._wanted)
        return _lines.batches(self.path, self._wanted, self._threads)

    def _judge(self, n: int, refused: Refusals) -> None:
        """Refuse a file with too many records that are of no use."""
        n_bad = refused.counts.total()
        if n_bad < n and n_bad <= max(self._max_bad * n, 1 if self._max_bad else 0):
            return
        if not n:
            raise DataError(f"{self.path} holds no record")
        told = ", ".join(f"{count} of {REASONS[key]}" for key, count in refused.counts.items())
        first = "\n".join(f"  line {line}: {found}" for line, found in refused.examples)
        raise DataError(
            f"{self.path}: {n_bad} of {n} records are of no use ({told}; allowed is a share of "
            f"{self._max_bad:g}):\n{first}"
        )

    def _check_counts(self) -> None:
        """Every record must have become one thing."""
        counts = dict(self.counts)
        total = counts.pop("published_records")
        del counts["published_unnamed"]
        if sum(counts.values()) != total:
            raise HindsightError(
                f"internal error: {total} records of {self.path} became {counts}; please report it"
            )


def _files_of(source: Path) -> Iterable[Path]:
    """The files in a folder and below, by their endings; anything else stands for itself."""
    if not source.is_dir():
        return [source]
    with storage_errors(f"read {source}"):
        inside = sorted(path for path in source.rglob("*") if path.suffix.lower() in _ENDINGS)
        visible = [
            path
            for path in inside
            if path.is_file()
            and not any(part.startswith(".") for part in path.relative_to(source).parts)
        ]
    if not visible:
        raise DataError(f"{source} is a folder without files that end in {', '.join(_ENDINGS)}")
    return visible


def _is_table(path: Path) -> bool:
    """Tell parquet from JSON lines.

    Raises
    ------
    DataError
        It is missing, empty, not a regular file, or neither.
    StorageError
        It can't be read.
    """
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is no regular file; it is read more than once, so one is needed")
    head = streams.head(path)
    if head.startswith(b"PAR1"):
        return True
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return False
    raise DataError(
        f"{path} begins with {head[:20]!r}; expected are JSON lines, one record on each (.gz and "
        ".zst too), or parquet"
    )


def _identity(path: Path) -> str:
    with storage_errors(f"read {path}"), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        facts = f"published {_VERSION} {size} {sample_hash(file, size)}"
    return hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()
