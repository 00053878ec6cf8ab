"""Records of the text forms (JSON lines, a JSON array, CSV), one at a time, with line numbers.

A record that can't be read is a `Bad` one, never the end of the file. Where an object repeats a
key, its last value counts. A field of CSV longer than 128 KiB is bad (an unclosed quote, mostly),
and reading goes on with the next line. Lines and the elements of a JSON array are read one by one;
an object that holds all records is read as a whole, so its size is limited.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, TypeGuard

from hindsight_fast.errors import DataError
from hindsight_fast.papers.readers import streams, values

_SHOWN = 200


class Bad(NamedTuple):
    """A record that can't be read: why, and how it begins."""

    reason: str
    record: str


class Record(NamedTuple):
    """A record of a text form: the line it starts on, its size in bytes, and what it holds."""

    line: int
    size: int
    content: Mapping[str, Any] | Bad


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Tell whether a JSON value is an array."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a JSON value is an object."""
    return isinstance(value, dict)


def records(path: Path, form: str) -> Iterator[Record]:
    """Read the records of a text form, one at a time.

    Raises
    ------
    DataError
        Where the file as a whole can't be read (a cut JSON array, a value of more than
        `values.LARGEST_VALUE` bytes, a CSV file without header).
    """
    with streams.open_bytes(path) as stream:
        if form == "jsonl":
            yield from _json_lines(streams.lines(stream))
        elif form == "json":
            yield from _json_values(document(path, stream))
        else:
            yield from _csv(path, streams.lines(stream))


def json_lines(path: Path) -> Iterator[tuple[int, bytes | Bad]]:
    """Read the lines of a ``jsonl`` file that hold something, numbered and not parsed yet.

    Raises
    ------
    DataError
        Where the file as a whole can't be read.
    """
    with streams.open_bytes(path) as stream:
        for number, line in streams.lines(stream):
            if line is None:
                yield number, too_long()
            elif line.strip():
                yield number, line


def _json_lines(lines: Iterator[tuple[int, bytes | None]]) -> Iterator[Record]:
    for number, line in lines:
        if line is None:
            yield Record(number, 0, too_long())
        elif line.strip():
            yield Record(number, len(line), json_object(line))


def too_long() -> Bad:
    """A line that is longer than `streams.LONGEST_LINE`."""
    return Bad(f"a line longer than {streams.LONGEST_LINE} bytes", "")


def json_object(line: bytes) -> dict[str, Any] | Bad:
    """Parse a line of JSON, which should be an object."""
    value = json_value(line)
    return value if isinstance(value, Bad) or is_object(value) else _bad("not an object", line)


def json_value(line: bytes) -> Any:
    """Parse a line of JSON; `Bad` where it is none."""
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        return _bad(f"not UTF-8 at byte {error.start + 1}", line)
    except RecursionError:
        return _bad("nested too deeply", line)
    except json.JSONDecodeError as error:
        return _bad(f"not JSON: {error.msg} at column {error.colno}", line)
    except ValueError as error:
        return _bad(f"not JSON: {str(error)[:100]}", line)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value (use null)")


def _bad(reason: str, line: bytes) -> Bad:
    return Bad(reason, line[:_SHOWN].decode("utf-8", "replace"))


def listed(value: Mapping[str, Any]) -> list[Any] | None:
    """Records of an object that is no record itself, or None.

    It holds a list of objects as ``papers`` or ``ideas``, or nothing but objects, by their ids.
    """
    for name in ("papers", "ideas"):
        held = value.get(name)
        if is_list(held) and (not held or any(map(is_object, held))):
            return held
    if value and all(map(is_object, value.values())):
        return [{"id": name, **item} for name, item in value.items()]
    return None


def document(path: Path, stream: IO[bytes]) -> Iterator[tuple[bool, bytes]]:
    """Values of a JSON document, as `values.split` gives them.

    Raises
    ------
    DataError
        Where it is cut short, no JSON, or a value of it too large.
    """
    try:
        yield from values.split(stream)
    except values.TooLarge:
        raise DataError(
            f"{path} holds more than {values.LARGEST_VALUE >> 20} MiB of JSON in one piece; "
            "write one record per line instead (.jsonl), which may be of any size"
        ) from None
    except values.NotWhole as error:
        raise DataError(
            f"{path} is not whole JSON: {error}; an array of records, one per line, "
            '{"papers": [...]}, {"ideas": [...]} or {"an id": {...}} is expected'
        ) from None


def _json_values(found: Iterator[tuple[bool, bytes]]) -> Iterator[Record]:
    """Records among the values of a document: elements of arrays, objects and what they hold."""
    number = 0
    for in_array, value in found:
        content = json_object(value)
        held = None if in_array or isinstance(content, Bad) else listed(content)
        each = [content] if held is None else held
        for item in each:
            number += 1
            if isinstance(item, Bad) or is_object(item):
                yield Record(number, len(value) // len(each), item)
            else:
                yield Record(number, 0, Bad("not an object", f"{item}"[:_SHOWN]))


class _CsvLines:
    """Lines for the csv module, remembering those of the record being read."""

    def __init__(self, lines: Iterator[tuple[int, bytes | None]]) -> None:
        self._lines = lines
        self.taken: list[bytes] = []
        self.cut = False
        self.first = self.last = 0

    def start(self) -> None:
        self.taken = []
        self.cut = False
        self.first = self.last + 1

    def __iter__(self) -> "_CsvLines":
        return self

    def __next__(self) -> str:
        self.last, line = next(self._lines)
        self.cut = self.cut or line is None
        self.taken.append(line or b"")
        return self.taken[-1].decode("utf-8", "surrogateescape") + "\n"


def _csv(path: Path, lines: Iterator[tuple[int, bytes | None]]) -> Iterator[Record]:
    source = _CsvLines(lines)
    rows = csv.reader(source, strict=True)
    try:
        header = [name.strip() for name in next(row for row in rows if row)]
    except (csv.Error, StopIteration) as error:
        raise DataError(f"{path}: the header is no CSV: {error}") from error
    if len(header) == 1 and any(separator in header[0] for separator in ";\t|"):
        raise DataError(
            f"{path}: the header {header[0][:80]!r} has no comma; CSV with commas is read"
        )
    if len(header) != len(set(header)):
        twice = sorted({name for name in header if header.count(name) > 1})
        raise DataError(f"{path}: the header names {', '.join(map(repr, twice))} more than once")
    while True:
        source.start()
        try:
            row = next(rows, None)
        except csv.Error as error:
            yield _csv_record(source, Bad(f"not CSV: {error}", ""))
            continue
        if row is None:
            return
        if source.cut:
            yield _csv_record(source, too_long())
        elif not row:
            continue  # an empty line
        elif len(row) != len(header):
            found = f"{len(row)} fields, the header has {len(header)}"
            yield _csv_record(source, Bad(found, ""))
        else:
            content = dict(zip(header, row, strict=True))
            yield _csv_record(source, content)


def _csv_record(source: _CsvLines, content: Mapping[str, Any] | Bad) -> Record:
    raw = b"\n".join(source.taken)
    if not isinstance(content, Bad) and not raw.isascii():
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            content = Bad(f"not UTF-8 at byte {error.start + 1}", "")
    if isinstance(content, Bad):
        end = f" (lines {source.first} to {source.last})" if source.last > source.first else ""
        content = _bad(content.reason + end, raw)
    return Record(source.first, len(raw), content)
