"""Keys of all records on disk, hashed, of which few columns are in memory at a time."""

import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers.duplicates import KEYS, keys_of
from hindsight_fast.papers.gathering._limits import Limits
from hindsight_fast.papers.gathering._rows import TEXT_BYTES, Rows
from hindsight_fast.papers.schema import Role
from hindsight_fast.papers.venues import Table

_BITS: Final = 64

_SCHEMA: Final[dict[str, pl.DataType]] = {
    "row": pl.Int64(),
    "name": pl.Int128(),  # of the id as it stands, with suffix
    **{name: pl.Int128() if dtype == pl.String() else dtype for name, dtype in KEYS.items()},
    "role": pl.UInt8(),
    "n_records": pl.Int32(),
    "bytes": pl.Int64(),  # about so much text
}
"""Texts are 128-bit hashes, salted anew in each run: among a thousand million texts two are taken
for one with a chance of less than 1 in 10^20."""


class Keys:
    """What the rules of `duplicates` compare, by row.

    Parameters
    ----------
    folder : pathlib.Path
        Where its files go; it is made.
    limits : Limits
    """

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._rows = Rows(folder, _SCHEMA, limits.batch_rows)
        self._at_once = limits.key_rows
        self._salts = [secrets.randbits(_BITS) for _ in range(2)]

    @property
    def n(self) -> int:
        """How many rows there are."""
        return self._rows.n

    def of(self, papers: pl.DataFrame, table: Table) -> pl.DataFrame:
        """Take the keys of records.

        Parameters
        ----------
        papers : polars.DataFrame
            n rows, columns of `PAPER_SCHEMA` and ``role``.
        table : Table

        Returns
        -------
        polars.DataFrame
            n rows, as `add` takes them.
        """
        keys = keys_of(papers, table)
        texts = [name for name, dtype in KEYS.items() if dtype == pl.String()]
        return papers.select("role", "n_records", TEXT_BYTES).with_columns(
            self._hashed(papers["id"]).alias("name"),
            *(self._hashed(keys[name]) if name in texts else keys[name] for name in KEYS),
        )

    def of_merged(self, papers: pl.DataFrame) -> pl.DataFrame:
        """Take the keys of merged papers (``id``, ``pinned``) that are told apart by them."""
        role = pl.when("pinned").then(Role.OLD.value).otherwise(Role.RECORD.value)
        named = papers.select(role=role.cast(pl.UInt8))
        return named.with_columns(self._hashed(papers["id"]).alias("name"))

    def _hashed(self, texts: pl.Series) -> pl.Series:
        """Hash texts; null stays null."""
        high, low = (texts.hash(salt) for salt in self._salts)
        frame = pl.DataFrame({"high": high, "low": low, "there": texts.is_not_null()})
        signed = pl.col("high").cast(pl.Int128) - 2 ** (_BITS - 1)
        both = signed * 2**_BITS + pl.col("low").cast(pl.Int128)
        return frame.select(pl.when("there").then(both).alias(texts.name)).to_series()

    def add(self, keys: pl.DataFrame) -> None:
        """Add the keys of rows, after all others."""
        row = pl.int_range(self.n, self.n + keys.height, eager=True).alias("row")
        self._rows.add(keys.with_columns(row))

    def fetch(self, rows: NDArray[np.int64], columns: Sequence[str]) -> pl.DataFrame:
        """Read columns of rows by their numbers."""
        return self._rows.fetch(rows, columns)

    def take(
        self, key: str, others: Sequence[str], among: NDArray[np.bool_] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Find rows whose key another has too, see `duplicates.Take`.

        With `among`, one value per row, only rows that it marks count.
        """
        n_passes = -(-self.n // self._at_once)
        for number in range(n_passes):
            there = pl.col(key).is_not_null()
            if n_passes > 1:
                there &= pl.col(key).hash() % n_passes == number
            found = [
                self._rows.scan(file, ["row", key]).filter(there).collect()
                for file in self._rows.files
            ]
            rows = pl.concat([pl.DataFrame(schema=_only("row", key)), *found])
            if among is not None:
                rows = rows.filter(pl.Series(among[rows["row"].to_numpy()]))
            rows = rows.filter(pl.col(key).is_duplicated())
            yield rows.hstack(self.fetch(rows["row"].to_numpy(), others))

    def of_several(self, among: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Rows, of those marked, that are papers of an older store made of several records."""
        several = (pl.col("role") == Role.OLD) & (pl.col("n_records") > 1)
        found = [
            self._rows.scan(file, ["row", "role", "n_records"]).filter(several).collect()
            for file in self._rows.files
        ]
        rows = pl.concat([pl.DataFrame(schema=_only("row", "role", "n_records")), *found])["row"]
        return rows.filter(pl.Series(among[rows.to_numpy()])).to_numpy()


def _only(*names: str) -> dict[str, pl.DataType]:
    return {name: _SCHEMA[name] for name in names}
