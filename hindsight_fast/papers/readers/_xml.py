"""Elements of an XML file, one at a time, in bounded memory, whatever the file holds.

Nothing is expanded or fetched: a document type declaration, which entities need, is refused, as
is whatever else no record of a paper needs (see the limits). A file damaged anywhere is refused
as a whole, with the line: XML does not say where the next record begins.

Names are ``namespace}name``, or ``name`` where there is no namespace.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from xml.parsers import expat

from hindsight_fast.errors import DataError
from hindsight_fast.papers.readers import streams

LONGEST_ELEMENT: Final = 4 << 20
"""Bytes of a record; one of three thousand authors takes some 200 KiB."""

DEEPEST: Final = 64
MOST_NAMES: Final = 10_000
"""Names of elements and attributes, all of which a parser remembers."""

_PIECE = 1 << 18
_ENCODINGS = ("utf-8", "utf8", "us-ascii", "ascii")


class Element:
    """An element: its name, attributes, line, and what is in it."""

    __slots__ = ("attributes", "line", "name", "parts")

    def __init__(self, name: str, attributes: Mapping[str, str], line: int) -> None:
        self.name = name
        self.attributes = attributes
        self.line = line
        self.parts: list[str | Element] = []

    def children(self, name: str) -> "list[Element]":
        """Elements of that name directly in this one."""
        return [part for part in self.parts if not isinstance(part, str) and part.name == name]

    def child(self, name: str) -> "Element | None":
        """The first of them, or None."""
        return next(iter(self.children(name)), None)

    def text(self) -> str:
        """All text in it, in order."""
        return "".join(part if isinstance(part, str) else part.text() for part in self.parts)

    def text_of(self, name: str) -> str | None:
        """Text of the first element of that name directly in this one, or None."""
        child = self.child(name)
        return None if child is None else child.text()


class Root(NamedTuple):
    """What a document begins with."""

    name: str
    attributes: Mapping[str, str]


class _Found(Exception):
    def __init__(self, name: str, attributes: Mapping[str, str]) -> None:
        self.root = Root(name, attributes)


def root(head: bytes) -> Root | None:
    """Name the root element of a document; None where it is no XML or begins with too much else.

    Of a document type declaration, which is read no further, the root that it announces.
    """

    def element(name: str, attributes: Mapping[str, str]) -> None:
        raise _Found(name, attributes)

    def doctype(name: str, *_: object) -> None:
        raise _Found(name, {})

    parser = expat.ParserCreate("utf-8", "}")
    parser.StartElementHandler = element
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(head, False)
    except _Found as found:
        return found.root
    except expat.ExpatError:
        pass
    return None


def elements(
    path: Path, wanted: frozenset[str], expected: str, is_root: Callable[[Root], bool]
) -> Iterator[tuple[tuple[Element, ...], Element]]:
    """Read the elements of some names, each with those that it stands in.

    Parameters
    ----------
    path : pathlib.Path
    wanted : frozenset of str
        One of them inside another belongs to that one.
    expected : str
        What the file should be, for an error.
    is_root : callable
        Tells whether the root element says that it is that.

    Yields
    ------
    outer : tuple of Element
        The elements open around it, from the root, without their parts.
    element : Element

    Raises
    ------
    DataError
        Where the file is not whole XML, has another root, or holds what is refused (see above).
    """
    names: dict[str, str] = {}
    parser = expat.ParserCreate("utf-8", "}", names)
    tree = _Tree(path, wanted, expected, is_root, parser)
    fed = 0
    with streams.open_bytes(path) as stream:
        while True:
            piece = stream.read(_PIECE)
            try:
                parser.Parse(piece, not piece)
            except expat.ExpatError as error:
                raise DataError(
                    f"{path} is not whole XML: {expat.ErrorString(error.code)} at line "
                    f"{error.lineno}; copy or download the file again"
                ) from error
            fed += len(piece)
            tree.check(fed, len(names))
            yield from tree.done
            tree.done.clear()
            if not piece:
                return


class _Tree:
    """Builds the wanted elements; of the others it keeps those that are open, without parts."""

    def __init__(
        self,
        path: Path,
        wanted: frozenset[str],
        expected: str,
        is_root: Callable[[Root], bool],
        parser: "expat.XMLParserType",
    ) -> None:
        self._path = path
        self._wanted = wanted
        self._expected = expected
        self._is_root = is_root
        self._parser = parser
        self._open: list[Element] = []
        self._inside = 0  # how many of the open ones, the last, are a wanted one and within it
        self._begun = 0  # byte at which that one begins
        self.done: list[tuple[tuple[Element, ...], Element]] = []
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._doctype

    def check(self, fed: int, names: int) -> None:
        """Refuse what grows without bound."""
        begun = self._begun if self._inside else self._parser.CurrentByteIndex
        if fed - begun > LONGEST_ELEMENT:
            raise self._refused(f"an element of more than {LONGEST_ELEMENT >> 20} MiB")
        if names > MOST_NAMES:
            raise self._refused(f"more than {MOST_NAMES} different names of elements")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        element = Element(name, attributes, self._parser.CurrentLineNumber)
        if self._inside:
            self._open[-1].parts.append(element)
            self._inside += 1
        elif name in self._wanted:
            self._inside, self._begun = 1, self._parser.CurrentByteIndex
        if not self._open and not self._is_root(Root(name, attributes)):
            raise self._other(name)
        if len(self._open) == DEEPEST:
            raise self._refused(f"elements nested more than {DEEPEST} deep")
        self._open.append(element)

    def _end(self, _: str) -> None:
        element = self._open.pop()
        if self._inside:
            self._inside -= 1
            if not self._inside:
                self.done.append((tuple(self._open), element))

    def _text(self, text: str) -> None:
        if self._inside:
            self._open[-1].parts.append(text)

    def _declaration(self, _: str, encoding: str | None, __: int) -> None:
        if encoding is not None and encoding.lower() not in _ENCODINGS:
            raise self._refused(f"text in the encoding {encoding[:40]!r}; UTF-8 is expected")

    def _doctype(self, name: str, *_: object) -> None:
        if name.lower() == "html":
            raise self._other(name)
        raise self._refused("a document type declaration, which is not read")

    def _refused(self, what: str) -> DataError:
        return DataError(f"{self._path}: line {self._parser.CurrentLineNumber} holds {what}")

    def _other(self, name: str) -> DataError:
        page = ", a web page" if name.rpartition("}")[2].lower() == "html" else ""
        return DataError(
            f"{self._path}: {self._expected} is expected; this begins with <{name[:80]}>{page}"
        )
