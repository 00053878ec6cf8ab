"""Rules that only some rows of a column need."""

from collections.abc import Callable

import polars as pl


def on_rows(texts: pl.Series, mask: pl.Series, rule: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Apply a rule to the rows of a column that need it, which are few; the others stay."""
    rows = mask.arg_true()
    return texts.clone().scatter(rows, rule(texts.gather(rows))) if len(rows) else texts


def on_each(texts: pl.Series, pattern: str, rule: Callable[[str], str]) -> pl.Series:
    """Apply a rule to each text that a pattern is found in."""
    return on_rows(
        texts,
        texts.str.contains(pattern),
        lambda rows: pl.Series([rule(text) for text in rows], dtype=pl.String),
    )


def replace(texts: pl.Series, sign: str, pattern: str, by: str) -> pl.Series:
    """Replace a pattern in those texts that have a sign (literally) in them."""
    return on_rows(
        texts,
        texts.str.contains(sign, literal=True),
        lambda rows: rows.str.replace_all(pattern, by),
    )
