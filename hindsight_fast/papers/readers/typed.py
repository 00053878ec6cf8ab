"""Records of JSON files as typed objects: only the fields that are wanted, fast.

msgspec reads a record; what it refuses is read again the slow way (`lines.json_value`), which
alone decides what is bad, and why. What both read is the same. A number of thousands of digits in
a field that nobody wants is all that the slow way would refuse and the fast one doesn't see.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from hindsight_fast.papers.readers import lines, looks, streams, tables
from hindsight_fast.papers.readers.columns import Bads, shown
from hindsight_fast.papers.readers.lines import Bad, is_list, is_object
from hindsight_fast.papers.text import without_surrogates

T = TypeVar("T")

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
    whole : callable, optional
        Records that an object at the top of a JSON document holds in another way, or None.
    """

    record: type[T]
    format: str
    lists: tuple[str, ...] = ()
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
    reading = _Reading(wanted, form == "json", limit)
    with streams.open_bytes(path) as stream:
        if form == "json":
            for in_array, unit in lines.document(path, stream):
                reading.add(reading.n + 1, unit, not in_array)
                if reading.is_full():
                    yield reading.taken()
                if reading.is_done():
                    break
        else:
            for number, line in streams.lines(stream):
                reading.add(number, line, False)
                if reading.is_full():
                    yield reading.taken()
                if reading.is_done():
                    break
    if reading.records or reading.bad:
        yield reading.taken()


class _Reading(Generic[T]):
    """Records collected from the units of a file: its lines, or the values of a document."""

    def __init__(self, wanted: Wanted[T], counted: bool, limit: int | None) -> None:
        self._wanted = wanted
        self._decode = msgspec.json.Decoder(wanted.record).decode
        self._lists = [_list_decoder(name, wanted.record) for name in wanted.lists]
        self._step = int(counted)
        self._limit = limit
        self._before = self._size = 0
        self.numbers: list[int] = []
        self.records: list[T] = []
        self.bad: Bads = []

    @property
    def n(self) -> int:
        """How many records there were so far."""
        return self._before + len(self.records) + len(self.bad)

    def is_full(self) -> bool:
        n = len(self.records) + len(self.bad)
        return n >= tables.BATCH_RECORDS or self._size >= tables.BATCH_BYTES

    def is_done(self) -> bool:
        return self._limit is not None and self.n >= self._limit

    def taken(self) -> Some[T]:
        some = Some(self.numbers, self.records, self.bad)
        self._before, self._size = self.n, 0
        self.numbers, self.records, self.bad = [], [], []
        return some

    def add(self, number: int, unit: bytes | None, at_top: bool) -> None:
        """Add what a unit holds, which stands at `number`; None for a line that is too long."""
        if unit is None:
            bad = lines.too_long()
            self.bad.append((number, bad.reason, bad.record))
            return
        self._size += len(unit)
        try:
            if not unit.isascii():
                unit.decode()  # what is not wanted is not looked at
            record = self._decode(unit)
        except _REFUSED:
            if unit.strip() and not self._add_list(number, unit):
                self._add_all(number, self._entries(lines.json_value(unit), at_top))
            return
        held = self._wanted.whole(record) if at_top and self._wanted.whole else None
        if held is None:
            self.records.append(record)
            self.numbers.append(number)
        else:
            self._add_all(number, held)

    def _add_list(self, number: int, unit: bytes) -> bool:
        """Add the records of an answer, if it is a good one."""
        for decode in self._lists:
            try:
                entries = decode(unit)
            except _REFUSED:
                continue
            for entry in self._within_limit(entries):
                if entry is None:
                    self.bad.append((number, _NULL, ""))
                else:
                    self.records.append(entry)
                    self.numbers.append(number)
                number += self._step
            return True
        return False

    def _add_all(self, number: int, entries: list[Any]) -> None:
        for entry in self._within_limit(entries):
            record = entry if isinstance(entry, Bad) else self._converted(entry)
            if isinstance(record, Bad):
                self.bad.append((number, record.reason, without_surrogates(record.record)))
            else:
                self.records.append(record)
                self.numbers.append(number)
            number += self._step

    def _within_limit(self, entries: list[Any]) -> list[Any]:
        return entries if self._limit is None else entries[: self._limit - self.n]

    def _entries(self, value: Any, at_top: bool) -> list[Any]:
        """Records that a value holds, or itself."""
        held: list[Any] | None = None
        if is_list(value):
            held = value if self._wanted.lists else None
        elif is_object(value):
            held = self._wanted.whole(value) if at_top and self._wanted.whole else None
            lists = (value.get(name) for name in self._wanted.lists)
            held = next((one for one in lists if is_list(one)), held)
        return [value] if held is None else held

    def _converted(self, entry: Any) -> "T | Bad":
        if entry is None:
            return Bad(_NULL, "")
        if not is_object(entry):
            return Bad("not an object", str(entry)[:200])
        try:
            return msgspec.convert(entry, self._wanted.record)
        except (msgspec.ValidationError, RecursionError) as error:
            here = self._wanted.format
            odd = looks.odd_record(entry) if looks.record_format(entry.keys()) != here else None
            reason = f"looks like {odd}" if odd else f"no record of {here}: {error}"
            return Bad(reason, shown(entry))


def _list_decoder(name: str, record: type[T]) -> Callable[[bytes], list[T | None]]:
    answer = msgspec.defstruct("Answer", [(name, list[record | None])])  # type: ignore[valid-type]
    decode = msgspec.json.Decoder(answer).decode
    return lambda unit: getattr(decode(unit), name)
