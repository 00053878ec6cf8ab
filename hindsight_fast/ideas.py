"""Idea files to one table of ideas, in input order, bad records included.

Fields: id, system, topic, title, problem, method, text, knowledge_date. Other names that the
field uses are mapped (`ALIASES`); what means nothing here is kept, as a JSON object, in `extra`.
A file's `date` is no knowledge date: it says when an idea was written down, not what it knew.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from hindsight_fast.errors import DataError
from hindsight_fast.papers.readers.tables import read_records

IDEA_SCHEMA: dict[str, pl.DataType] = {
    "idea_id": pl.String(),
    "system": pl.String(),
    "topic": pl.String(),
    "title": pl.String(),
    "problem": pl.String(),
    "method": pl.String(),
    "text": pl.String(),
    "knowledge_date": pl.String(),
    "extra": pl.String(),  # JSON object of the fields that mean nothing here
    "status": pl.String(),  # ok, or unreadable
}
"""Columns of the table of ideas."""

ALIASES: dict[str, tuple[str, ...]] = {
    "idea_id": ("id", "idea_id", "name"),
    "system": ("system", "generator"),
    "topic": ("topic",),
    "title": ("title",),
    "problem": ("problem", "problem statement", "research problem", "research question"),
    "method": ("method", "proposed method", "methodology", "approach", "experiment"),
    "text": ("text", "idea", "abstract", "description", "proposal", "content"),
    "knowledge_date": ("knowledge_date", "knowledge cutoff"),
}
"""Names of each field, the first found wins; case, `_` and `-` don't matter."""

_FIELDS = {
    alias.replace("_", " "): (field, rank)
    for field, aliases in ALIASES.items()
    for rank, alias in enumerate(aliases)
}


@dataclass(frozen=True, slots=True)
class Idea:
    """A research idea: a problem and a method, or one text."""

    problem: str = ""
    method: str = ""
    title: str = ""
    text: str = ""
    id: str = ""
    system: str = ""
    topic: str = ""
    knowledge_date: str = ""


def ideas_frame(ideas: Iterable[Idea] | pl.DataFrame) -> pl.DataFrame:
    """Ideas as a frame with all columns of `IDEA_SCHEMA`.

    Raises
    ------
    DataError
        If a frame has none of the text columns.
    """
    records: Iterable[Mapping[str, Any]]
    if isinstance(ideas, pl.DataFrame):
        records = ideas.iter_rows(named=True)
    else:
        records = (asdict(idea) for idea in ideas)
    return _frame([_row(record, place) for place, record in enumerate(records)])


def read_ideas(
    path: Path, *, batch: int = 2048, limit: int | None = None, strict: bool = False
) -> Iterator[pl.DataFrame]:
    """Frames of at most `batch` ideas, in file order; a bad record is a row with its status.

    Raises
    ------
    DataError
        If the file can't be read at all, or, with `strict`, at the first bad record.
    """
    records = islice(read_records(path), limit)
    for start, chunk in enumerate(iter(lambda: list(islice(records, batch)), [])):
        rows: list[dict[str, str]] = []
        for record in chunk:
            if strict and record.error:
                raise DataError(f"{path}, line {record.line}: {record.error}")
            rows.append(_row(record.fields, start * batch + len(rows)))
        yield _frame(rows)


def find_idea(text_or_path: str, idea_id: str | None) -> pl.DataFrame:
    """One idea: a text as it is, or the one of that id (default: the first) of a file."""
    path = Path(text_or_path)
    if idea_id is None and not _is_file(path):
        return ideas_frame([Idea(text=text_or_path)])
    for frame in read_ideas(path):
        found = frame if idea_id is None else frame.filter(pl.col("idea_id") == idea_id)
        if found.height:
            return found.head(1)
    raise DataError(f"{path} has no idea with id {idea_id!r}" if idea_id else f"{path} has no idea")
