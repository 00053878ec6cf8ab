"""Citation counts as people write them: a count, unknown, or malformed (then unknown too)."""

import polars as pl

_COUNT = r"^\+?([0-9]{1,18})(?:\.0*)?$"
_UNKNOWN = r"^(?:-1(?:\.0*)?)?$"  # the usual stand-ins for "not found"


def parse(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Read citation counts.

    A count is a whole number from 0 on, also as ``12.0``. Null, empty and -1 are unknown, which
    is not 0. All else (``12.9``, ``-3``, ``true``, ``1.2k``) is malformed: unknown, and counted.

    Parameters
    ----------
    texts : polars.Series of String

    Returns
    -------
    counts : polars.Series of Int64
        Null is unknown.
    malformed : polars.Series of Boolean
    """
    stripped = texts.str.strip_chars()
    counts = stripped.str.extract(_COUNT, 1).cast(pl.Int64)
    unknown = stripped.str.contains(_UNKNOWN).fill_null(True)
    return counts.alias(texts.name), counts.is_null() & ~unknown
