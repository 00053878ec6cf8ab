"""Which files are meant: those named, and those of papers in the folders named."""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from hindsight_fast.errors import DataError, StorageError
from hindsight_fast.papers import answers
from hindsight_fast.papers.readers import READERS, looks, streams
from hindsight_fast.papers.readers.lines import is_object
from hindsight_fast.papers.readers.s2_shards import s2_dataset

_NAMED = re.compile(
    r"^[^.].*\.(?:parquet|(?:jsonl|ndjson|json|csv|xml|bib|bibtex)(?:\.gz|\.zst)?)$"
)
_PACKED = (".gz", ".zst")
_ABOUT = re.compile(  # what lies beside data, and downloads that have not ended
    r"^(?:[._]|readme|licen[cs]e|manifest|changelog|release[-_]notes|checksums?)"
    r"|\.(?:txt|md|rst|html?|pdf|log|ya?ml|toml|ini|cfg|py|sh|r|ipynb|tex|sha256|md5"
    r"|part|partial|tmp|crdownload|download|aria2|lock)(?:\.gz|\.zst)?$"
)


def find_files(sources: Iterable[Path]) -> list[Path]:
    """Find the files to read.

    Of a folder, all in it and below that hold papers: by their endings (parquet, jsonl, json,
    csv, xml, bib), else by their content (``part_000``, ``20240101_000_abc.gz``); not what is
    hidden or lies beside data (README.txt), nor what this package made (a store, a pool, a run),
    but for a collection, of which the raw answers are meant. A file that is meant twice, however
    spelled, comes once, as spelled first.

    Raises
    ------
    DataError
        A folder without such files, or a file whose name is not UTF-8.
    ArtefactError
        A collection that is damaged.
    StorageError
        A folder that the system does not let be read.
    """
    found: dict[str, Path] = {}
    for source in sources:
        for path in _files_of(source):
            _check_name(path)
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def _files_of(source: Path) -> list[Path]:
    """The files of papers in a folder and below; anything else stands for itself."""
    if not source.is_dir():
        return [source]
    found: list[Path] = []
    for folder, inner, files in os.walk(source, onerror=_refuse_folder):
        kind = _made_here(folder, files)
        if kind == answers.KIND:
            answers.check_all_there(Path(folder))
            inner[:], files = [answers.RAW], []
        elif kind:
            if Path(folder) == source:
                raise DataError(
                    f"{source} is what this package made (its manifest says so), not a source: "
                    "name the files that it was made from"
                )
            inner.clear()
            continue
        inner[:] = [name for name in inner if not name.startswith(".")]
        found.extend(path for path in (Path(folder, name) for name in files) if _is_meant(path))
    if not found:
        raise DataError(
            f"{source} is a folder without files of papers: parquet, .jsonl, .json, .csv, .xml or "
            ".bib, or others with such content (hidden ones, stores, pools and runs left out)"
        )
    return sorted(found)


def _check_name(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise DataError(f"{os.fsencode(path)!r} is no name in UTF-8; rename the file") from None


def _refuse_folder(error: OSError) -> NoReturn:
    raise StorageError(f"{error.filename} can't be read: {error.strerror}") from error


def _is_meant(path: Path) -> bool:
    """Whether a file of a folder is one of papers."""
    name = path.name.lower()
    if _NAMED.search(name):
        # A link that leads nowhere stays, so that it is said to be missing.
        return path.is_file() or not path.exists()
    return not _ABOUT.search(name) and path.is_file() and _holds_papers(path)


def _holds_papers(path: Path) -> bool:
    """Whether a file of another name has a content that is known, or a damaged one."""
    try:
        head = streams.head(path)
    except DataError:  # to be said when it is read: a shard that is skipped would be lost
        return path.name.lower().endswith(_PACKED)
    if looks.binary(head) is not None:
        return False
    known = any(reader.sniff(path, head) for reader in READERS[:-1])
    ours = (found for found in looks.outlines(head) if "title" in found.record)
    return known or s2_dataset(head) is not None or next(ours, None) is not None


def _made_here(folder: str, files: list[str]) -> str:
    """What a folder is that this package made, as its manifest says; "" of any other."""
    manifest = Path(folder, "manifest.json")
    if manifest.name not in files or not manifest.is_file():
        return ""
    try:
        content: Any = json.loads(manifest.read_bytes())
    except (ValueError, RecursionError, OSError):
        return ""
    known = is_object(content) and {"format_version", "kind"} <= content.keys()
    return str(content["kind"]) if known else ""
