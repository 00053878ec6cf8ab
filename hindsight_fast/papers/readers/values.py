"""A JSON document cut into its values, without reading it as a whole.

Only strings, brackets and commas are looked at, many at a time: whether a value is JSON inside is
seen when it is parsed, so that one bad value does not end a file.
"""

from collections.abc import Iterator
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

LARGEST_VALUE: Final = 512 << 20
"""Bytes; a larger value is refused, as parsing it takes several times its size."""

DEEPEST: Final = 500
"""Brackets within brackets, as far as parsers follow them."""

_BLOCK = 1 << 20
_QUOTE, _OPEN, _CLOSE, _COMMA = 1, 2, 3, 4
_BACKSLASH = ord("\\")
_KINDS: NDArray[np.uint8] = np.zeros(256, dtype=np.uint8)
for _characters, _kind in ((b'"', _QUOTE), (b"{[", _OPEN), (b"}]", _CLOSE), (b",", _COMMA)):
    _KINDS[list(_characters)] = _kind


class NotWhole(ValueError):
    """The document is cut, or no JSON between its values; the message says what is amiss."""


class TooLarge(ValueError):
    """A value of more than `LARGEST_VALUE` bytes."""


def split(stream: IO[bytes]) -> Iterator[tuple[bool, bytes]]:
    """Cut a stream into values.

    Yields
    ------
    in_array : bool
        Whether the value is an element of an array at the top; else it is an object there.
    value : bytes

    Raises
    ------
    NotWhole, TooLarge
    """
    marks = _Marks()
    before: list[bytes] = []  # earlier blocks of the value being read
    array, empty = False, False
    gone = 0
    while block := stream.read(_BLOCK):
        block = block if gone else block.removeprefix(b"\xef\xbb\xbf")
        start = 0
        for at, kind, depth in marks.of(block):
            if kind == _COMMA and not array:
                continue
            value = b"".join((*before, block[start : at + (kind == _CLOSE and not array)])).strip()
            if len(value) > LARGEST_VALUE:
                raise TooLarge
            where = f"before byte {gone + at + 1}"
            if kind == _OPEN:
                if value:
                    raise NotWhole(f"{_shown(value)} where a value begins, {where}")
                array, empty = block[at : at + 1] == b"[", True
                start = at + array
            elif depth < 0 or (kind == _CLOSE and block[at] != ord("]" if array else "}")):
                raise NotWhole(f"a bracket is closed that none has opened, {where}")
            elif not array:
                yield False, value
                start = at + 1
            else:
                if value:
                    yield True, value
                elif not (kind == _CLOSE and empty):
                    raise NotWhole(f"a value is missing {where}")
                empty, start = False, at + 1
            before = []
        before.append(block[start:])
        gone += len(block)
        if sum(map(len, before)) > LARGEST_VALUE:
            raise TooLarge
    rest = b"".join(before).strip()
    if marks.depth or marks.in_string:
        raise NotWhole(f"it is cut short, within {_shown(rest)}")
    if rest:
        raise NotWhole(f"{_shown(rest)} at its end")


def _shown(value: bytes) -> str:
    return repr(value[:30].decode("utf-8", "replace"))


class _Marks:
    """Where values begin and end, block by block."""

    def __init__(self) -> None:
        self.depth = 0
        self.in_string = False
        self._escaping = False

    def of(self, block: bytes) -> list[tuple[int, int, int]]:
        """Place, kind and depth after it of each mark: what opens or closes a value at the top,
        and the commas right inside one."""
        characters = np.frombuffer(block, dtype=np.uint8)
        kinds = _KINDS[characters]
        at = np.flatnonzero(kinds != 0)
        kind = kinds[at]
        is_quote = kind == _QUOTE
        is_quote[self._escaped(block, characters, at, is_quote)] = False
        odd = (np.cumsum(is_quote) + self.in_string) % 2 == 1  # for a quote: of what follows it
        out = ~odd & (kind != _QUOTE)
        at, kind = at[out], kind[out]
        steps = (kind == _OPEN).astype(np.int64) - (kind == _CLOSE)
        depth = self.depth + np.cumsum(steps)
        if len(odd):
            self.in_string = bool(odd[-1])
        if len(depth):
            self.depth = int(depth[-1])
            if depth.max() > DEEPEST:
                raise NotWhole("nested too deeply")
        marks = ((depth == 1) & (kind != _CLOSE)) | (depth <= 0)
        places, kinds_of, depths = (column[marks].tolist() for column in (at, kind, depth))
        return list(zip(places, kinds_of, depths, strict=True))

    def _escaped(
        self,
        block: bytes,
        characters: "NDArray[np.uint8]",
        at: "NDArray[np.int64]",
        is_quote: "NDArray[np.bool_]",
    ) -> list[int]:
        """Which of the marks are quotes after an odd number of backslashes."""
        suspects = np.flatnonzero(is_quote & ((characters[at - 1] == _BACKSLASH) | (at == 0)))
        escaped = [i for i in suspects.tolist() if self._is_escaped(block, int(at[i]))]
        self._escaping = self._is_escaped(block, len(block))
        return escaped

    def _is_escaped(self, block: bytes, place: int) -> bool:
        first = place
        while first and block[first - 1] == _BACKSLASH:
            first -= 1
        return (place - first + (self._escaping and not first)) % 2 == 1
