"""Files of unfinished work that a later process may rely on: flushed, and known by their hash."""

import os
from pathlib import Path
from typing import Any

from hindsight_fast.errors import ArtefactError
from hindsight_fast.storage._files import full_hash, open_regular, storage_errors


def flushed_facts(path: Path) -> dict[str, Any]:
    """Flush a finished file to disk; returns what `is_whole` knows it by, to be noted.

    Raises
    ------
    StorageError
        The file system refuses.
    """
    with storage_errors(f"write {path}"), open_regular(path) as file:
        os.fsync(file.fileno())
        return {"size": os.fstat(file.fileno()).st_size, "blake2b": full_hash(file)}


def is_whole(path: Path, facts: object) -> bool:
    """Tell whether a file is there, and all its bytes are those that were noted."""
    try:
        with storage_errors(f"read {path}"), open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            return facts == {"size": size, "blake2b": full_hash(file)}
    except ArtefactError:
        return False
