"""The vectors of a store's papers."""

import datetime as dt
import hashlib
from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.config import fingerprint
from hindsight_fast.encoders import Encoder
from hindsight_fast.storage import create_array, existing, publish
from hindsight_fast.store import Store, Vectors

_CHUNK = 16_384  # papers read and encoded at a time


def embed_store(
    store: Store,
    encoder: Encoder,
    *,
    since: dt.date | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Vectors:
    """Encode the papers of a store that a pool could hold: dated, with title and abstract.

    Equal texts are encoded once; the row of a paper that isn't encoded is all zeros. Vectors that
    are there already, of the same encoder and for at least these papers, are returned as they are.

    Parameters
    ----------
    since
        Leave out papers dated before this day.
    overwrite
        Replace vectors that are there: of another model, of other papers, or damaged. What is whole
        and just what was asked for is kept.
    progress
        Called with the number of distinct texts done, and of all.

    Raises
    ------
    UsageError
        Vectors of another model under the same name, or of fewer papers, are there.
    ArtefactError
        The store is damaged, or was replaced meanwhile; or, without `overwrite`, the vectors that
        are there are damaged or belong to other papers.
    StorageError
        No space, no rights, or another process is encoding.
    EncoderError
        The model failed.
    """
    folder = store.vectors_folder(encoder.name)
    mark = fingerprint([store.content_id, encoder.name, encoder.fingerprint, since])
    there = _vectors_there(store, encoder, since, mark, overwrite=overwrite)
    if there is not None:
        return there
    plan = _plan(store, since)
    with publish(folder, "vectors", mark, overwrite=overwrite) as staging:
        array = create_array(staging.folder / "vectors.npy", np.float32, (store.n, encoder.dim))
        totals = _fill(array, store, encoder, plan, progress)
        staging.body |= totals | {
            "n": store.n,
            "dim": encoder.dim,
            "content_id": store.content_id,
            "text_version": store.text_version,
            "encoder": encoder.name,
            "encoder_fingerprint": encoder.fingerprint,
            "precision": encoder.card.precision,
            "theta": encoder.theta,
            "theta_note": encoder.card.theta_note,
            "device": encoder.device,
            "since": since and since.isoformat(),
            "n_encoded": len(plan.rows),
            "n_texts": len(plan.first),
        }
    return store.vectors(encoder.name)


def _vectors_there(
    store: Store, encoder: Encoder, since: dt.date | None, mark: str, *, overwrite: bool
) -> Vectors | None:
    """The vectors that are there, if they are to stay."""
    if overwrite:
        folder = store.vectors_folder(encoder.name)
        if existing(folder, "vectors", mark, overwrite=True) is None:
            return None
        there = store.vectors(encoder.name)
        return there if there.theta == encoder.theta else None  # a card's newer theta is wanted
    if encoder.name not in store.encoders():
        return None
    there = store.vectors(encoder.name)
    covered = there.since is None or (since is not None and there.since <= since)
    return there if there.encoder_fingerprint == encoder.fingerprint and covered else None


class _Plan(NamedTuple):
    """Which rows get a vector: all of them, and for each the row whose text is encoded for it."""

    rows: NDArray[np.int64]
    source: NDArray[np.int64]
    first: NDArray[np.int64]  # the distinct ones of `source`, ascending


def _plan(store: Store, since: dt.date | None) -> _Plan:
    low, high = store.window(since or dt.date.min, dt.date.max)
    found: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    keys: list[bytes] = []
    for start in range(low, high, _CHUNK):
        texts = _texts(store, start, min(start + _CHUNK, high))
        found.append(texts["row"].to_numpy())
        keys += [
            hashlib.blake2b(f"{len(title)} {title}{abstract}".encode(), digest_size=16).digest()
            for title, abstract in texts.select("title", "abstract").iter_rows()
        ]
    rows = np.concatenate(found)
    _, at, inverse = np.unique(np.array(keys, "V16"), return_index=True, return_inverse=True)
    source = rows[at[inverse]] if len(rows) else rows
    return _Plan(rows, source, np.unique(source))


def _texts(store: Store, start: int, stop: int) -> pl.DataFrame:
    """Columns row, title, abstract of those of rows [start, stop) that have a text to encode."""
    papers = store.papers(["title", "abstract", "status"], start, stop)
    return (
        papers.with_row_index("row", start)
        .filter((pl.col("status") == "ok") & (pl.col("title") != "") & (pl.col("abstract") != ""))
        .select(pl.col("row").cast(pl.Int64), "title", "abstract")
    )


def _fill(
    array: NDArray[np.float32],
    store: Store,
    encoder: Encoder,
    plan: _Plan,
    progress: Callable[[int, int], None] | None,
) -> dict[str, int]:
    done, total, totals = 0, len(plan.first), {"n_tokens": 0, "n_truncated": 0}

    def advance(more: int, _tokens: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, total)

    advance(0, 0)
    for start in range(0, store.n, _CHUNK):
        low, high = np.searchsorted(plan.first, (start, start + _CHUNK))
        rows = plan.first[low:high]
        if not rows.size:
            continue
        texts = _texts(store, start, min(start + _CHUNK, store.n))
        texts = texts.filter(pl.col("row").is_in(rows.tolist()))
        pairs = cast(list[tuple[str, str]], texts.select("title", "abstract").rows())
        encoded = encoder.encode_counted(pairs, advance)
        array[texts["row"].to_numpy()] = encoded.vectors
        totals["n_tokens"] += int(encoded.n_tokens.sum(dtype=np.int64))
        totals["n_truncated"] += int(encoded.truncated.sum())
    copies = np.flatnonzero(plan.rows != plan.source)
    for start in range(0, len(copies), _CHUNK):
        part = copies[start : start + _CHUNK]
        array[plan.rows[part]] = array[plan.source[part]]
    return totals
