"""Records whose columns are ours already, in batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import polars as pl

from hindsight_fast.papers.readers import lines, tables
from hindsight_fast.papers.readers._batch import Batch
from hindsight_fast.papers.readers.columns import BAD_SCHEMA
from hindsight_fast.papers.records import RAW_SCHEMA

BETWEEN: Final = "\x1f"
"""Separates names of authors, as no name holds it."""


def batches(
    records: Iterable[lines.Record],
    limit: int | None,
    finish: Callable[[pl.DataFrame], pl.DataFrame],
) -> Iterator[Batch]:
    """Group records into batches of bounded size.

    Parameters
    ----------
    records : iterable of lines.Record
        All good ones hold the same names: texts without lone surrogates, or None.
    limit : int or None
        At most so many of them.
    finish : callable
        Makes of columns of those names, and ``line``, the raw ones, but for ``authors``: names with
        `BETWEEN` between. Those of `RAW_SCHEMA` that are not there will be null, others go.

    Yields
    ------
    Batch
        Without names of columns: the file's are not ours.
    """
    for group in tables.batches(islice(records, limit)):
        yield _batch(group, finish)


def _batch(group: list[lines.Record], finish: Callable[[pl.DataFrame], pl.DataFrame]) -> Batch:
    numbers: list[int] = []
    contents: list[Mapping[str, Any]] = []
    bad: list[tuple[int, str, str]] = []
    for line, _, content in group:
        if isinstance(content, lines.Bad):
            bad.append((line, content.reason, content.record))
        else:
            numbers.append(line)
            contents.append(content)
    frame = pl.DataFrame({"line": pl.Series(numbers, dtype=pl.Int64)})
    if contents:
        values = {name: [content[name] for content in contents] for name in contents[0]}
        given = pl.DataFrame(values, schema=dict.fromkeys(values, pl.String()))
        frame = finish(frame.hstack(given)).with_columns(pl.col("authors").str.split(BETWEEN))
    columns = [
        pl.col(name) if name in frame.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in RAW_SCHEMA.items()
    ]
    rejects = pl.DataFrame(bad, schema=BAD_SCHEMA, orient="row")
    return Batch(frame.select(columns), rejects, frozenset())
