"""Bytes of what is written, from the formats themselves: N papers, d numbers a vector, a axes.

What has a fixed width is counted. What is text is estimated: the averages are those of 50,178 real
papers of machine-learning conferences (title and abstract 1,231 bytes, 234 tokens of SPECTER2's,
438 bytes in a store's parquet file).
"""

from typing import Final

TEXT_PER_TOKEN: Final = 5.4
"""Bytes of title and abstract."""
COMPRESSED: Final = 0.36
"""Of that, in parquet."""
OTHER_COLUMNS: Final = 60
"""Bytes of a paper's other columns there: authors, ids, dates, venue, source."""
NAMED: Final = 160
"""Bytes of id, title, venue, url and the date's precision, which lie uncompressed in the lookup."""
GATHERED: Final = 700
"""Bytes of a record beside its text while papers are gathered: other columns, and hashed keys."""
SCORED: Final = 250
"""Bytes of an idea in the score table."""
MATCHED: Final = 30
"""Bytes of a line in the table of matches."""


def vectors(n: int, d: int) -> int:
    """float32."""
    return 4 * n * d


def projection(n: int, d: int, axes: int) -> int:
    """A byte along each axis, five float32 bounds, the mean and the axes in float32."""
    return n * (axes + 20) + 4 * d * (axes + 1)


def graph(n: int, axes: int, connectivity: int) -> int:
    """usearch's file: of each paper its key (8), level (2 and 2), links and code.

    Links are 4 bytes each and 4 for their number: 2 M on the lowest level, and M on each other one,
    of which a paper is on 1 / (M - 1) in the mean.
    """
    m = connectivity
    links = 4 + 4 * 2 * m + (4 + 4 * m) / (m - 1)
    return round(n * (8 + 2 + 2 + links + axes))


def index(n: int, d: int, axes: int, connectivity: int) -> int:
    """The graph, the mean and axes, and which row each of its keys is."""
    return graph(n, axes, connectivity) + 4 * d * (axes + 1) + 4 * n


def impact(n: int) -> int:
    """float32."""
    return 4 * n


def lookup(n: int, named: float = NAMED) -> int:
    """Five texts of each paper and where each starts, dates, their kinds and citations."""
    return round(n * (named + 5 * 8 + 4 + 1 + 8))


def papers(n: int, tokens: float) -> int:
    """The parquet file of papers."""
    return round(n * (tokens * TEXT_PER_TOKEN * COMPRESSED + OTHER_COLUMNS))


def gathered(n: int, tokens: float) -> int:
    """What lies on disk beside the store while it is built."""
    return round(n * (tokens * TEXT_PER_TOKEN + GATHERED))
