"""Which files are meant: those named, and the tables in the folders named."""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from hindsight_fast.errors import DataError, StorageError
from hindsight_fast.papers.readers.lines import is_object

_TABLE = re.compile(r"^[^.].*\.(?:parquet|(?:jsonl|json|csv)(?:\.gz|\.zst)?)$")


def find_files(sources: Iterable[Path]) -> list[Path]:
    """Find the files to read.

    Of a folder, all tables in it and below, by their endings; not what is hidden, nor what this
    package made (a store, a pool, a run). A file that is meant twice, however spelled, comes
    once, as spelled first.

    Raises
    ------
    DataError
        A folder without tables.
    StorageError
        A folder that the system does not let be read.
    """
    found: dict[str, Path] = {}
    for source in sources:
        for path in _files_of(source):
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def _files_of(source: Path) -> list[Path]:
    """The tables in a folder and below, by their endings; anything else stands for itself."""
    if not source.is_dir():
        return [source]
    found: list[Path] = []
    for folder, inner, files in os.walk(source, onerror=_refuse_folder):
        if _is_artefact(folder, files):
            inner.clear()
            continue
        inner[:] = [name for name in inner if not name.startswith(".")]
        paths = (Path(folder, name) for name in files if _TABLE.search(name.lower()))
        # A link that leads nowhere stays, so that it is said to be missing.
        found.extend(path for path in paths if path.is_file() or not path.exists())
    if not found:
        raise DataError(
            f"{source} is a folder without .jsonl, .json, .csv or .parquet files of papers "
            "(hidden ones, stores, pools and runs left out)"
        )
    return sorted(found)


def _refuse_folder(error: OSError) -> NoReturn:
    raise StorageError(f"{error.filename} can't be read: {error.strerror}") from error


def _is_artefact(folder: str, files: list[str]) -> bool:
    """Whether a folder is one that this package made: its manifest says so."""
    manifest = Path(folder, "manifest.json")
    if manifest.name not in files or not manifest.is_file():
        return False
    try:
        content: Any = json.loads(manifest.read_bytes())
    except (ValueError, RecursionError, OSError):
        return False
    return is_object(content) and {"format_version", "kind"} <= content.keys()
