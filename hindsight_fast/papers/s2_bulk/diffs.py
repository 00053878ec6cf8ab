"""What a diff between two of Semantic Scholar's releases does to the papers of a store.

A diff holds, for each dataset, update files, whose records take the place of those of the same
corpus id, and delete files, which name corpus ids that are gone. Of several diffs given at once the
order is that of the days in their names (`rows.release_day`); on one day a delete counts.

A paper of a store may be made of several records, of which one or more are Semantic Scholar's
(``source`` s2, id ``CorpusId:N``):

- an update in the papers dataset is a record like any other. The old paper keeps its id, title,
  texts and date (what is known to have been public stays known) and all that other records told;
- a delete in the papers dataset takes away what the record told, but for title and date; the paper
  itself where no other record is left;
- an update in the abstracts or tldrs takes the place of the text that the record gave, or of
  another's if it is longer; a delete takes away what the record gave.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from hindsight_fast.errors import DataError
from hindsight_fast.papers.readers import streams
from hindsight_fast.papers.readers.s2_shards import DATASETS, s2_dataset
from hindsight_fast.papers.s2_bulk.deletes import Deletes
from hindsight_fast.papers.s2_bulk.joining import Read, Settings, read

KEYED: Final = ("papers", "abstracts", "tldrs")
"""Datasets of which a diff changes papers."""

_UPDATED: Final = (*KEYED, "publication-venues")
_FOLDERS = 2
_ABOUT = re.compile(r"\.|readme", re.IGNORECASE)


class Diffs(NamedTuple):
    """What is in the files of some diffs.

    Attributes
    ----------
    updates : dict of str to list of pathlib.Path
        Update files by dataset.
    deletes : dict of str to Deletes
        What delete files name, by dataset of `KEYED`.
    unused : Counter of str
        Files of other datasets, which change nothing.
    """

    updates: dict[str, list[Path]]
    deletes: dict[str, Deletes]
    unused: Counter[str]


def diffs(updates: Iterable[Path], deletes: Iterable[Path]) -> Diffs:
    """Tell which dataset each file of some diffs belongs to, and read the delete files.

    Folders stand for the files in them and below. An update file is told by its content. A delete
    file may hold nothing but corpus ids: then the name of its dataset must be in its own name, or
    in that of one of the two folders above it. An empty file is passed over.

    Raises
    ------
    DataError
        The dataset of a file can't be told, a file is missing or damaged, or a line of a delete
        file names no corpus id.
    StorageError
        The system does not let a file be read.
    """
    updating, deleting = _by_dataset(updates), _by_dataset(deletes)
    unused = Counter({name: len(paths) for name, paths in updating.items() if name not in _UPDATED})
    unused.update({name: len(paths) for name, paths in deleting.items() if name not in KEYED})
    return Diffs(
        {name: paths for name, paths in updating.items() if name in _UPDATED},
        {name: Deletes(deleting.get(name, ())) for name in KEYED},
        unused,
    )


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """Files, and those in folders but for what is hidden or about them."""
    for path in paths:
        if path.is_dir():
            inside = (one for one in path.rglob("*") if one.is_file())
            yield from sorted(one for one in inside if not _ABOUT.match(one.name))
        else:
            yield path


def _by_dataset(paths: Iterable[Path]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in _files(paths):
        with streams.open_bytes(path) as stream:
            head = stream.read(streams.HEAD_BYTES)
        if head.strip():
            found.setdefault(s2_dataset(head) or _named(path), []).append(path)
    return found


def _named(path: Path) -> str:
    """The dataset that a file's name or that of a folder above it tells."""
    for part in (path.name, *(folder.name for folder in list(path.absolute().parents)[:_FOLDERS])):
        for dataset in DATASETS:
            if re.search(rf"(?<![a-z]){dataset}(?![a-z])", part.lower()):
                return dataset
    raise DataError(
        f"{path} does not tell which dataset of Semantic Scholar it changes: put the dataset's "
        f"name ({', '.join(KEYED)}, ...) into the file's, or its folder's"
    )


def read_updates(
    diffs: Diffs, work: Path, counts: Counter[str], settings: Settings | None = None
) -> Read:
    """Read the papers of update files, those left out that are deleted again.

    The parameters and what is raised are those of `joining.read`; `work` is not there yet. There
    is nothing to read where no update file is of the papers dataset.
    """
    if "papers" in diffs.updates:
        settings = (settings or Settings())._replace(deletes=diffs.deletes)
        yield from read(diffs.updates, work, counts, settings)
