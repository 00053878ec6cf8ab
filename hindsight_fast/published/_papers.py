"""Which paper of a store a record is about."""

import threading
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers import identifiers
from hindsight_fast.store import Store

ID_SCHEMA: Final[dict[str, pl.DataType]] = {
    "corpus_id": pl.Int64(),
    "doi": pl.String(),
    "arxiv_id": pl.String(),
    "id": pl.String(),
}
"""By what a record and a paper of the store are the same; the first that the store knows counts."""


class PaperIds:
    """The ids of a store's papers, each kind read when it is first asked for.

    Memory grows with the number of papers: by about 50 bytes for each id of such a kind. May be
    used by several threads.
    """

    def __init__(self, store: Store) -> None:
        self.n = store.n
        self._store = store
        self._tables: dict[str, _Table] = {}
        self._reading = threading.Lock()

    def find(self, ids: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
        """Find the papers of records.

        Parameters
        ----------
        ids : polars.DataFrame
            Columns of `ID_SCHEMA`, as written by others.

        Returns
        -------
        rows : ndarray of shape (len(ids),), int64
            -1 where the store has no such paper, or several.
        kinds : ndarray of shape (len(ids),), int8
            By which id: a place in `ID_SCHEMA`. An "id" that is none of the store's own may be
            any of the others.
        """
        rows, kinds = np.full(ids.height, -1, np.int64), np.zeros(ids.height, np.int8)
        for kind, (name, column) in enumerate(_normalised(ids).items()):
            if column.null_count() == ids.height:
                continue
            lacking = np.flatnonzero((rows < 0) & column.is_not_null().to_numpy())
            if lacking.size:
                rows[lacking] = self._table(name).find(column.gather(lacking))
                kinds[lacking] = kind
        unknown = np.flatnonzero((rows < 0) & ids["id"].is_not_null().to_numpy())
        if unknown.size:
            rows[unknown], kinds[unknown] = self.find(_of_any_kind(ids["id"].gather(unknown)))
        return rows, kinds

    def _table(self, name: str) -> "_Table":
        with self._reading:
            if name not in self._tables:
                self._tables[name] = _Table(self._store.papers([name])[name])
            return self._tables[name]


def _normalised(ids: pl.DataFrame) -> dict[str, pl.Series]:
    """The ids as the store writes them; a DOI of arXiv is an arXiv id."""
    columns = {name: ids[name] for name in ID_SCHEMA}
    doi, arxiv_id = ids["doi"], ids["arxiv_id"]
    if doi.null_count() + arxiv_id.null_count() < 2 * ids.height:
        both = pl.DataFrame({"a": identifiers.arxiv(arxiv_id), "b": identifiers.arxiv(doi)})
        columns["arxiv_id"] = both.select(pl.coalesce("a", "b")).to_series()
        columns["doi"] = identifiers.doi(doi)
    return columns


def _of_any_kind(ids: pl.Series) -> pl.DataFrame:
    corpus_id = ids.cast(pl.Int64, strict=False)
    columns = {"corpus_id": corpus_id, "doi": ids, "arxiv_id": ids, "id": None}
    return pl.DataFrame(columns, schema=ID_SCHEMA)


class _Table:
    """The rows of ids, by hash; an id that several papers have stands for none."""

    def __init__(self, ids: pl.Series) -> None:
        self._ids = ids
        rows = np.flatnonzero(ids.is_not_null().to_numpy())
        hashes = ids.gather(rows).hash().to_numpy()
        order = np.argsort(hashes)
        hashes, rows = hashes[order], rows[order]
        same = hashes[1:] == hashes[:-1]
        once = ~(np.append(same, False) | np.insert(same, 0, False))[: len(hashes)]
        self._hashes, self._rows = hashes[once], rows[once]

    def find(self, wanted: pl.Series) -> NDArray[np.int64]:
        """Rows of ids that are not null; -1 for none."""
        if not len(self._rows) or not len(wanted):
            return np.full(len(wanted), -1, np.int64)
        at = np.searchsorted(self._hashes, wanted.hash().to_numpy())
        rows = self._rows[np.minimum(at, len(self._rows) - 1)]
        return np.where((self._ids.gather(rows) == wanted).to_numpy(), rows, -1)
