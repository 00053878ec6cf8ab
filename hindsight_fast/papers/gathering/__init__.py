"""Source files to papers in their final order, in bounded memory."""

from collections.abc import Sequence
from pathlib import Path

from hindsight_fast.papers.options import Options
from hindsight_fast.papers.read import read_table
from hindsight_fast.papers.schema import Gathered

__all__ = ["Gathered", "Options", "gather"]


def gather(sources: Sequence[Path], work: Path, options: Options | None = None) -> Gathered:
    """Read papers from files, clean them and merge duplicates, in bounded memory.

    The result is that of `read_papers`, whatever the order of files.

    Parameters
    ----------
    sources : sequence of pathlib.Path
        Files, or folders of them.
    work : pathlib.Path
        A folder for what does not fit into memory, which the caller makes and removes. What is
        returned reads from it.
    options : Options, optional

    Returns
    -------
    Gathered

    Raises
    ------
    UsageError, DataError
        As `read_papers`.
    StorageError
        No space or no rights in `work`.
    """
    return read_table(sources, options or Options()).gathered()
