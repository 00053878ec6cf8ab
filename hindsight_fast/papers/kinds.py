"""What sort of document a record is, in few words: `KINDS`."""

from typing import Final

import polars as pl

KINDS: Final = ("article", "preprint", "survey", "book", "dataset", "editorial", "erratum", "other")


def kind(given: pl.Series, titles: pl.Series) -> pl.Series:
    """Name the kind of each record.

    Parameters
    ----------
    given : polars.Series of String
        What the source calls it; several words separated by semicolons.
    titles : polars.Series of String

    Returns
    -------
    polars.Series of String
        One of `KINDS`, or null where nothing says it.
    """
    return given.alias("kind")
