"""Published vectors in JSON lines: Semantic Scholar's shards, and papers as its API gives them.

    {"corpusid": 1, "model": "specter_v2", "vector": "[0.1, -0.2, ...]"}
    {"externalIds": {"DOI": "..."}, "embedding": {"model": "specter_v2", "vector": [0.1, ...]}}

The numbers are cut out of a line before it is parsed as JSON, and are read by a kernel. Where that
doesn't work, the line is parsed as a whole, which is slower and decides.
"""

import re
from collections import deque
from collections.abc import Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers.readers import streams
from hindsight_fast.papers.readers.lines import Bad, is_object, json_object
from hindsight_fast.published._papers import ID_SCHEMA
from hindsight_fast.published._records import Batch, Refusals, Wanted, join
from hindsight_fast.published._vectors import Refuse, read_texts

LONGEST_LINE: Final = 4 << 20
"""Bytes; a vector of 65,536 numbers takes about a third of that."""

_BLOCK = 8 << 20  # bytes read at a time; a table of ids is made and joined for each
_VECTOR = re.compile(rb'"vector"\s*:\s*("?)\s*\[')
_STAND_IN = "\x1a numbers"
_WITHOUT = b'"vector":"\\u001a numbers"'
_CORPUS_ID = re.compile(r"(?:corpusid:\s*)?0*(\d{1,18})", re.IGNORECASE)


class Block(NamedTuple):
    """Whole lines of a file; None in place of one that is too long."""

    first_line: int
    data: bytes | None


def blocks(stream: IO[bytes]) -> Generator[Block]:
    """Cut a stream into whole lines, some MiB together; a byte order mark at its start is dropped.

    Raises
    ------
    Exception
        Whatever reading raises.
    """
    line, rest, skipping = 1, b"", False
    while piece := stream.read(_BLOCK):
        if line == 1 and not rest:
            piece = piece.removeprefix(b"\xef\xbb\xbf")
        if skipping:
            _, end, piece = piece.partition(b"\n")
            line, skipping = line + len(end), not end
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield Block(line, b"".join((rest, memoryview(piece)[:cut])))
            line += piece.count(b"\n", 0, cut)
            rest = b""
        rest += piece[cut:]
        if len(rest) > LONGEST_LINE:
            yield Block(line, None)
            rest, skipping = b"", True
    if rest:
        yield Block(line, rest)


def batches(path: Path, wanted: Wanted, threads: int) -> Generator[Batch]:
    """Read the records of a file: this thread reads and decompresses, others parse.

    Raises
    ------
    DataError
        The file is damaged, or a vector is of another model.
    StorageError
        It can't be read.
    """
    with streams.open_bytes(path) as stream, ThreadPoolExecutor(threads) as pool:
        waiting = deque[Future[Batch]]()
        try:
            for block in blocks(stream):
                waiting.append(pool.submit(parse, block, path, wanted))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


class _Place(NamedTuple):
    """Where in a block a record is, and its numbers (nothing, where it must be parsed whole)."""

    line: int
    begin: int
    end: int
    start: int
    stop: int


def parse(block: Block, path: Path, wanted: Wanted) -> Batch:
    """Read the records of a block.

    Raises
    ------
    DataError
        A vector is of another model.
    """
    data, refused, n_unnamed = block.data, Refusals(), 0
    places, ids = list[_Place](), list[tuple[int | None, str | None, str | None, str | None]]()
    if data is None:
        refused.add(block.first_line, "too_long", f"more than {LONGEST_LINE} bytes")
        data = b""
    for line, begin, end in _lines(block.first_line, data):
        if end - begin > LONGEST_LINE:
            refused.add(line, "too_long", f"more than {LONGEST_LINE} bytes")
            continue
        record, start, stop = _without_numbers(data, begin, end)
        if isinstance(record, Bad):
            refused.add(line, "unreadable", record.reason)
            continue
        model = _model(record)
        n_unnamed += model is None
        if model is not None:
            wanted.check_model(model, f"{path}, line {line}")
        ids_here = _ids(record)
        if ids_here == (None,) * len(ids_here):
            refused.add(line, "no_id")
        elif not _vector(record):
            refused.add(line, "no_vector")
        else:
            places.append(_Place(line, begin, end, start, stop))
            ids.append(ids_here)
    where = np.array(places, np.int64).reshape(-1, len(_Place._fields))

    def read(found: NDArray[np.int64], refuse: Refuse) -> NDArray[np.float32]:
        def whole(i: int) -> object:
            place = places[int(found[i])]
            record = json_object(data[place.begin : place.end])
            return None if isinstance(record, Bad) else _vector(record)

        starts, stops = where[found, 3].copy(), where[found, 4].copy()
        return read_texts(data, starts, stops, wanted.dim, whole, refuse)

    table = pl.DataFrame(ids, schema=ID_SCHEMA, orient="row")
    return join(table, where[:, 0], n_unnamed, refused, wanted, read)


def _lines(number: int, data: bytes) -> Generator[tuple[int, int, int]]:
    """(number, begin, end) of the lines that aren't blank."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin)
        end = len(data) if end < 0 else end
        if end - begin > 2 or data[begin:end].strip():
            yield number, begin, end
        number, begin = number + 1, end + 1


def _without_numbers(data: bytes, begin: int, end: int) -> tuple[Mapping[str, Any] | Bad, int, int]:
    """A record with a word in place of its vector's numbers, and where these are.

    Nowhere, if they can't be told apart before the record is parsed; then it is as it is.
    """
    if opening := _VECTOR.search(data, begin, end):
        quote, start = opening[1], opening.end()
        stop = data.find(b"]", start, end)
        after = stop + 1 + len(quote)
        if stop >= 0 and data[stop + 1 : after] == quote:
            record = json_object(data[begin : opening.start()] + _WITHOUT + data[after:end])
            if not isinstance(record, Bad) and _vector(record) == _STAND_IN:
                return record, start, stop
    return json_object(data[begin:end]), begin, begin


def _inner(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = record.get(name)
    return value if is_object(value) else {}


def _vector(record: Mapping[str, Any]) -> Any:
    return record.get("vector") or _inner(record, "embedding").get("vector")


def _model(record: Mapping[str, Any]) -> Any:
    model = record.get("model")
    return _inner(record, "embedding").get("model") if model is None else model


def _ids(record: Mapping[str, Any]) -> tuple[int | None, str | None, str | None, str | None]:
    """What the record says of its paper, in the order of `ID_SCHEMA`."""
    external = _inner(record, "externalIds")

    def first(*values: Any) -> str | None:
        return next((str(v) for v in values if isinstance(v, str | int) and v != ""), None)

    get = record.get
    corpus = first(get("corpusid"), get("corpusId"), get("corpus_id"), external.get("CorpusId"))
    number = _CORPUS_ID.fullmatch(corpus.strip()) if corpus else None
    return (
        int(number[1]) if number else None,
        first(get("doi"), external.get("DOI")),
        first(get("arxiv_id"), external.get("ArXiv")),
        first(get("id"), get("paper_id"), get("paperId")),
    )
