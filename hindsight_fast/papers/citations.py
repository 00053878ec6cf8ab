"""Citation counts as people write them: a count, unknown, or malformed (then unknown too).

Counts by the year or month of citing (``2015:0 2023:5 2024-03:12``) end on the day of the whole
count, or on one that they name last: ``2023:5 @2025-03-01``.
"""

from datetime import date

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


_PART = "[0-9]{4}(?:-[0-9]{2})?:[0-9]+"
_DAY = r" @([0-9]{4}-[0-9]{2}-[0-9]{2})$"
_DATED = rf"^{_PART}(?: {_PART})*(?:{_DAY})?$"


def parse_dated(texts: pl.Series, latest: date) -> pl.Series:
    """Read counts by the year or month of citing.

    Parameters
    ----------
    texts : polars.Series of String
    latest : datetime.date
        A day of counting after it is not believed.

    Returns
    -------
    polars.Series of String
        Null where a text is no such counts, or where the day that they name is none.
    """
    named = texts.str.extract(_DAY)
    days = named.str.to_date("%Y-%m-%d", strict=False)
    wrong = named.is_not_null() & ~(days <= latest).fill_null(False)
    return texts.set(~texts.str.contains(_DATED) | wrong, None)


def counted_on() -> pl.Expr:
    """Tell until when ``citations_dated`` counts, where the whole was counted ``citations_as_of``.

    Returns
    -------
    polars.Expr
        ``counted_on`` (Date), null where that is not known.
    """
    named = pl.col("citations_dated").str.extract(_DAY)
    own = named.str.to_date("%Y-%m-%d", strict=False)
    return pl.when(named.is_null()).then("citations_as_of").otherwise(own).alias("counted_on")


def of_day(dated: pl.Series, counted_on: pl.Series, as_of: pl.Series) -> pl.Series:
    """Make dated counts name the day that they end on, where that is not the whole count's.

    Parameters
    ----------
    dated : polars.Series of String
    counted_on, as_of : polars.Series of Date
    """
    plain = dated.str.replace(_DAY, "")
    told = plain + " @" + counted_on.cast(pl.String)
    return plain.zip_with(counted_on.eq_missing(as_of), told)
