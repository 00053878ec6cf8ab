"""Idea files to one table of ideas, in input order, bad records included.

Fields: id, system, topic, title, problem, method, text, knowledge_date. Other names that the
field uses are mapped (`ALIASES`); what means nothing here is kept, as a JSON object, in `extra`.
A file's `date` is no knowledge date: it says when an idea was written down, not what it knew.
"""

import json
import sys
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import polars as pl

from hindsight_fast.errors import DataError, UsageError
from hindsight_fast.papers.readers import lines, streams, tables
from hindsight_fast.papers.text import without_surrogates

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

TEXT_FIELDS = ("title", "problem", "method", "text")
"""Those that are encoded."""

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


Content = Mapping[str, Any] | lines.Bad
"""What a record holds, or why it can't be read."""


class _Read(NamedTuple):
    """A record of a file: where it stands, and what it holds, or its line of JSON."""

    place: str
    raw: Content | bytes

    def content(self) -> Content:
        return lines.json_object(self.raw) if isinstance(self.raw, bytes) else self.raw


def ideas_frame(ideas: Iterable[Idea] | pl.DataFrame) -> pl.DataFrame:
    """Ideas as a frame with all columns of `IDEA_SCHEMA`; names are mapped as in a file."""
    records: Iterable[Mapping[str, Any]]
    if isinstance(ideas, pl.DataFrame):
        if dict(ideas.schema) == IDEA_SCHEMA:
            return ideas
        records = ideas.iter_rows(named=True)
    else:
        records = (asdict(_checked(idea)) for idea in ideas)
    return _frame([_row(record, place) for place, record in enumerate(records)])


def text_fields(record: Mapping[str, Any]) -> dict[str, str]:
    """Title, problem, method and text of a record, under any of their names; those that it has."""
    row = _row(record, 0)
    return {name: text for name in TEXT_FIELDS if (text := row[name])}


def _checked(idea: object) -> Idea:
    if not isinstance(idea, Idea):
        raise UsageError(f"an Idea was expected, or a frame of ideas; found {type(idea).__name__}")
    return idea


def read_ideas(
    path: Path,
    *,
    batch: int = 2048,
    limit: int | None = None,
    strict: bool = False,
    skip: Container[int] = (),
) -> Iterator[pl.DataFrame]:
    """Frames of at most `batch` ideas, in file order; a bad record is a row with its status.

    Parameters
    ----------
    skip
        Numbers of frames, from 0 on, that are left out; what they hold is hardly looked at.

    Raises
    ------
    DataError
        If the file can't be read at all, no record of the first batch has a field of an idea,
        or, with `strict`, at the first bad record.
    """
    records = islice(_records(path), _most(limit))
    number = 0
    while chunk := list(islice(records, batch)):
        if number not in skip:
            contents = [one.content() for one in chunk]
            if number == 0:
                _check_known(path, chunk[0].place, contents)
            rows = [_row(one, number * batch + i) for i, one in enumerate(contents)]
            for record, content, row in zip(chunk, contents, rows, strict=True):
                if strict and row["status"] == "unreadable":
                    reason = getattr(content, "reason", "nested too deeply")
                    raise DataError(f"{path}, {record.place}: {reason}")
            yield _frame(rows)
        number += 1


def count_ideas(path: Path, limit: int | None = None) -> int:
    """How many records a file of ideas has, up to a limit, in a part of the time of reading them.

    Raises
    ------
    DataError
        As `read_ideas` does.
    """
    if _form(path) == "parquet":
        n = tables.count(path)
        return n if limit is None else min(n, limit)
    return sum(1 for _ in islice(_records(path), _most(limit)))


def _most(limit: int | None) -> int | None:
    return None if limit is None else min(limit, sys.maxsize)


def ideas_at(path: Path, places: Collection[int]) -> pl.DataFrame:
    """The ideas at some places of a file, from 0 on, in file order; no more of it is read."""
    records = islice(_records(path), max(places, default=-1) + 1)
    wanted = (one for one in enumerate(records) if one[0] in places)
    return _frame([_row(record.content(), place) for place, record in wanted])


def find_idea(text_or_path: str, idea_id: str | None) -> pl.DataFrame:
    """One idea: a text as it is, or the one of that id (default: the first) of a file.

    What has white space and names no file is a text; a single word must name one.

    Raises
    ------
    DataError
        No such file, or no such idea in it.
    """
    path = Path(text_or_path)
    if idea_id is None and len(text_or_path.split()) > 1 and not _names_a_file(path):
        return ideas_frame([Idea(text=text_or_path)])
    seen = list[str]()
    # "#2" is the name of a second idea that has none; a shell takes that for a comment.
    for wanted in (idea_id,) if idea_id is None else (idea_id, f"#{idea_id}"):
        for frame in read_ideas(path):
            seen += frame["idea_id"].head(3).to_list()
            found = frame if wanted is None else frame.filter(pl.col("idea_id") == wanted)
            if found.height:
                return found.head(1)
    raise DataError(
        f"{path} has no idea with id {idea_id!r}; it has {', '.join(dict.fromkeys(seen[:5]))} ..."
    )


def _names_a_file(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a long text, or one with a NUL, names no file
        return False


def _form(path: Path) -> str:
    form = tables.form(path, streams.head(path))
    if form is None:
        raise DataError(
            f"{path} is no table of ideas: .jsonl, .json, .csv or .parquet is expected "
            "(.gz and .zst of the text ones too)"
        )
    return form


def _records(path: Path) -> Iterator[_Read]:
    form = _form(path)
    if form == "parquet":
        rows = (row for frame in tables.frames(path, None) for row in frame.iter_rows(named=True))
        yield from (_Read(f"record {number}", row) for number, row in enumerate(rows, start=1))
    elif form == "jsonl":
        yield from (_Read(f"line {number}", raw) for number, raw in lines.json_lines(path))
    else:
        yield from (_Read(f"line {r.line}", r.content) for r in lines.records(path, form))


def _check_known(path: Path, place: str, contents: list[Content]) -> None:
    """A file without any field of an idea is another kind of file, not a thousand empty ideas."""
    readable = [content for content in contents if not isinstance(content, lines.Bad)]
    if not readable:
        reason = getattr(contents[0], "reason", "")
        raise DataError(f"{path} has no readable idea; {place}: {reason}")
    names = {str(name) for content in readable for name in content}
    known = {_FIELDS[_key(name)][0] for name in names if _key(name) in _FIELDS}
    if not known.intersection(TEXT_FIELDS):
        found, expected = ", ".join(sorted(names)[:12]), ", ".join(TEXT_FIELDS)
        raise DataError(f"{path} has no ideas: it has {found}; expected one of {expected}")


def _key(name: object) -> str:
    return str(name).casefold().replace("_", " ").replace("-", " ").strip()


def _row(content: Mapping[str, Any] | lines.Bad, place: int) -> dict[str, str | None]:
    """One record as a row of `IDEA_SCHEMA`; without an id it is named by its place: #1, #2."""
    nothing: dict[str, str | None] = dict.fromkeys(IDEA_SCHEMA)
    unreadable = {**nothing, "idea_id": f"#{place + 1}", "status": "unreadable"}
    if isinstance(content, lines.Bad):
        return unreadable
    try:
        return _known_fields(content, place)
    except RecursionError:  # nested too deeply to be written down
        return unreadable


def _known_fields(content: Mapping[str, Any], place: int) -> dict[str, str | None]:
    row: dict[str, str | None] = dict.fromkeys(IDEA_SCHEMA)
    row["status"] = "ok"
    ranks: dict[str, int] = {}
    names: dict[str, str] = {}
    extra: dict[str, Any] = {}
    for name, value in content.items():
        field, rank = _FIELDS.get(_key(name), ("", 0))
        text = _text(value)
        if field and text is not None:
            if not text.strip():
                continue
            if field in ranks:  # two names of one field: the better one wins, the other is kept
                loser = name if rank > ranks[field] else names[field]
                extra[str(loser)] = text if rank > ranks[field] else row[field]
            if rank < ranks.get(field, len(_FIELDS)):
                row[field], ranks[field], names[field] = text, rank, name
        elif isinstance(value, dict) and name == "extra":
            extra |= cast(dict[str, Any], value)
        elif value is not None:
            extra[str(name)] = value
    row["idea_id"] = row["idea_id"] or f"#{place + 1}"
    row["extra"] = _json(extra) if extra else None
    return row


def _json(extra: dict[str, Any]) -> str:
    """JSON text; numbers that JSON has no name for become null."""
    try:
        return json.dumps(extra, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(extra, default=str), parse_constant=lambda _: None))


def _text(value: object) -> str | None:
    """Text of a string, a number, or a list of strings (steps); None of anything else."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float | date):
        return str(value)
    if isinstance(value, list):
        parts = cast(list[object], value)
        if all(isinstance(part, str) for part in parts):
            return without_surrogates("\n".join(map(str, parts)))
    return None


def _frame(rows: list[dict[str, str | None]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=IDEA_SCHEMA)
