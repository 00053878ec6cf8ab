"""Records of JSON files as typed objects: only the fields that are wanted, fast.

msgspec reads a record; what it refuses is read again the slow way (`lines.json_value`), which
alone decides what is bad, and why. What both read is the same. A number of thousands of digits in
a field that nobody wants is all that the slow way would refuse and the fast one doesn't see.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from hindsight_fast.papers.readers import lines, looks, streams, tables
from hindsight_fast.papers.readers.columns import Bads, shown
from hindsight_fast.papers.readers.lines import Bad, is_list, is_object
from hindsight_fast.papers.text import without_surrogates

T = TypeVar("T")

_LINE_FEED, _OPENED, _CLOSED = b"\n{}"
_NULL = "null: no record was found for it"
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Wanted(Generic[T]):
    """What is wanted of a file.

    Attributes
    ----------
    record : type
        A msgspec.Struct with the wanted fields of a record, or a dict.
    format : str
        Name of the format, for reasons.
    lists : tuple of str
        Under which names an object that is no record itself holds some (an answer of an API).
    made : callable, optional
        ``made(type, value)`` makes what a field has of another type than JSON's (msgspec's
        ``dec_hook``).
    whole : callable, optional
        Records that an object at the top of a JSON document holds in another way, or None.
    """

    record: type[T]
    format: str
    lists: tuple[str, ...] = ()
    made: Callable[[type, Any], Any] | None = None
    whole: Callable[[Any], list[Any] | None] | None = None


class Some(NamedTuple, Generic[T]):
    """Some records of a file, in order: their lines, what they hold, and those that are bad."""

    numbers: list[int]
    records: list[T]
    bad: Bads


def read(path: Path, form: str, wanted: Wanted[T], limit: int | None) -> Iterator[Some[T]]:
    """Read the records of a JSON file.

    Parameters
    ----------
    path : pathlib.Path
    form : str
        ``jsonl`` (numbers are lines), or ``json`` (numbers count records).
    wanted : Wanted
    limit : int or None
        At most so many records.

    Yields
    ------
    Some
        At most `tables.BATCH_RECORDS` records, or about `tables.BATCH_BYTES`; those of one answer
        stay together.

    Raises
    ------
    DataError
        Where the file as a whole can't be read (see `lines.document`, `streams.open_bytes`).
    """
    reading = _Reading(wanted, limit)
    with streams.open_bytes(path) as stream:
        if form == "json":
            fill = partial(reading.add_values, lines.document(path, stream))
        elif limit is None:
            fill = partial(reading.add_blocks, streams.blocks(stream))
        else:
            fill = partial(reading.add_lines, streams.lines(stream))
        while fill():
            yield reading.taken()


class _Reading(Generic[T]):
    """Records collected from the units of a file: its lines, or the values of a document."""

    def __init__(self, wanted: Wanted[T], limit: int | None) -> None:
        self._wanted = wanted
        decoder = msgspec.json.Decoder(wanted.record, dec_hook=wanted.made)
        self._decode, self._decode_lines = decoder.decode, decoder.decode_lines
        self._lists = [_list_decoder(name, wanted) for name in wanted.lists]
        self._left = limit
        self._numbers: list[int] = []
        self._records: list[T] = []
        self._bad: Bads = []
        self._taken = 0
        self._split: Iterator[tuple[int, bytes]] = iter(())

    def _n(self) -> int:
        """How many records are waiting to be taken."""
        return len(self._records) + len(self._bad)

    def _room(self) -> int:
        """How many more records may be read before those that wait are taken."""
        most = tables.BATCH_RECORDS if self._left is None else min(tables.BATCH_RECORDS, self._left)
        return most - self._n()

    def taken(self) -> Some[T]:
        """Take the records that are waiting."""
        some = Some(self._numbers, self._records, self._bad)
        self._taken += self._n()
        if self._left is not None:
            self._left -= self._n()
        self._numbers, self._records, self._bad = [], [], []
        return some

    def add_blocks(self, found: Iterator[tuple[int, bytes | None]]) -> bool:
        """The same as `add_lines`, of whole blocks of lines."""
        size = 0
        while self._room() > 0 and size < tables.BATCH_BYTES:
            left = next(self._split, None)
            if left is not None:
                self._add_line(*left)
                size += len(left[1])
                continue
            number, block = next(found, (0, b""))
            if block is None:
                self._add_line(number, None)
            elif not block:
                break
            elif (records := self._all_of(block)) is None or len(records) > self._room():
                self._split = streams.split(number, block)
            else:
                self._numbers.extend(range(number, number + len(records)))
                self._records += records
                size += len(block)
        return self._n() > 0

    def _all_of(self, block: bytes) -> list[T] | None:
        """The records of a block where each line is one, and good; else None.

        Where every line begins and ends with a brace, no record goes over two of them: between
        two braces inside of a record stands a comma. So as many records as lines are one each.
        """
        raw = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(raw == _LINE_FEED)
        if not block.endswith(b"\n"):
            ends = np.append(ends, len(block))
        starts = np.append(0, ends[:-1] + 1)
        if not ((raw[starts] == _OPENED) & (raw[ends - 1] == _CLOSED)).all():
            return None
        try:
            if not block.isascii():
                block.decode()  # what is not wanted is not looked at
            records = self._decode_lines(block)
        except _REFUSED:
            return None
        return records if len(records) == len(ends) else None

    def add_lines(self, found: Iterator[tuple[int, bytes | None]]) -> bool:
        """Add lines until there are enough for a batch; False where there are no more."""
        size = 0
        while self._room() > 0 and size < tables.BATCH_BYTES:
            number, line = next(found, (0, b""))
            if not number:
                break
            self._add_line(number, line)
            size += len(line or b"")
        return self._n() > 0

    def _add_line(self, number: int, line: bytes | None) -> None:
        if line is None:
            self._bad.append((number, lines.too_long().reason, ""))
            return
        try:
            if not line.isascii():
                line.decode()  # what is not wanted is not looked at
            self._records.append(self._decode(line))
            self._numbers.append(number)
        except _REFUSED:
            self._add_otherwise(number, 0, line, None)

    def add_values(self, found: Iterator[tuple[bool, bytes]]) -> bool:
        """The same of the values of a document, whose records are numbered."""
        most, size = self._room(), 0
        for in_array, value in found if most > 0 else ():
            number = self._taken + self._n() + 1
            whole = None if in_array else self._wanted.whole
            try:
                if not value.isascii():
                    value.decode()
                record = self._decode(value)
            except _REFUSED:
                self._add_otherwise(number, 1, value, whole)
            else:
                held = whole(record) if whole else None
                if held is None:
                    self._records.append(record)
                    self._numbers.append(number)
                else:
                    self._add_all(number, 1, held)
            size += len(value)
            if self._n() >= most or size >= tables.BATCH_BYTES:
                break
        return self._n() > 0

    def _add_otherwise(
        self,
        number: int,
        step: int,
        unit: bytes,
        whole: Callable[[Any], list[Any] | None] | None,
    ) -> None:
        """Add what is no good record: an answer's, one by one, or what makes it bad."""
        if not unit.strip():
            return
        for decode in self._lists:
            try:
                entries = decode(unit)
            except _REFUSED:
                continue
            for entry in self._within_limit(entries):
                if entry is None:
                    self._bad.append((number, _NULL, ""))
                else:
                    self._records.append(entry)
                    self._numbers.append(number)
                number += step
            return
        self._add_all(number, step, self._entries(lines.json_value(unit), whole))

    def _add_all(self, number: int, step: int, entries: list[Any]) -> None:
        for entry in self._within_limit(entries):
            record = entry if isinstance(entry, Bad) else self._converted(entry)
            if isinstance(record, Bad):
                self._bad.append((number, record.reason, without_surrogates(record.record)))
            else:
                self._records.append(record)
                self._numbers.append(number)
            number += step

    def _within_limit(self, entries: list[Any]) -> list[Any]:
        return entries if self._left is None else entries[: self._left - self._n()]

    def _entries(self, value: Any, whole: Callable[[Any], list[Any] | None] | None) -> list[Any]:
        """Records that a value holds, or itself."""
        held: list[Any] | None = None
        if is_list(value):
            held = value if self._wanted.lists else None
        elif is_object(value):
            held = whole(value) if whole else None
            lists = (value.get(name) for name in self._wanted.lists)
            held = next((one for one in lists if is_list(one)), held)
        return [value] if held is None else held

    def _typed(self, entry: Any) -> T:
        return msgspec.convert(entry, self._wanted.record, dec_hook=self._wanted.made)

    def _converted(self, entry: Any) -> "T | Bad":
        if entry is None:
            return Bad(_NULL, "")
        if not is_object(entry):
            return Bad("not an object", str(entry)[:200])
        try:
            try:
                return self._typed(entry)
            except UnicodeEncodeError:  # a lone surrogate in a key
                plain = without_surrogates(json.dumps(entry, ensure_ascii=False))
                return self._typed(json.loads(plain))
        except (msgspec.ValidationError, RecursionError) as error:
            here = self._wanted.format
            odd = looks.odd_record(entry) if looks.record_format(entry.keys()) != here else None
            reason = f"looks like {odd}" if odd else f"no record of {here}: {error}"
            return Bad(reason, shown(entry))


def _list_decoder(name: str, wanted: Wanted[T]) -> Callable[[bytes], list[T | None]]:
    answer = msgspec.defstruct("Answer", [(name, list[wanted.record | None])])  # type: ignore[name-defined]
    decode = msgspec.json.Decoder(answer, dec_hook=wanted.made).decode
    return lambda unit: getattr(decode(unit), name)
