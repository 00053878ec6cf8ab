"""From a store to a pool."""

import dataclasses
import datetime as dt
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.config import PAPER_K, fingerprint, usable_threads
from hindsight_fast.errors import UsageError
from hindsight_fast.impact import impact as impact_of
from hindsight_fast.papers import venues
from hindsight_fast.pool._coverage import coverage
from hindsight_fast.pool._read import IMPACT, KIND, Pool
from hindsight_fast.pool._window import WindowConfig, nonzero_rows, outside, reasons
from hindsight_fast.storage import create_array, existing, publish
from hindsight_fast.store import Store, Vectors

if TYPE_CHECKING:
    from hindsight_fast.index import IndexConfig

_FACTS = (
    "id",
    "title",
    "venue",
    "date_kind",
    "citations",
    "citations_source",
    "citations_as_of",
    "status",
)


def build_pool(
    store: Store,
    out: Path,
    *,
    cutoff: dt.date,
    until: dt.date,
    start: dt.date | None = None,
    encoder: str | None = None,
    k: int = PAPER_K,
    theta: float | None = None,
    recipe: str = "paper",
    index: "IndexConfig | None" = None,
    require_first_public: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Pool:
    """Make the pool of a window of a store.

    A pool that is there already, of the same papers, settings, K and theta, is opened as it is.

    Parameters
    ----------
    out
        The folder to make.
    cutoff, until
        T and E, days, both included.
    start
        First day of the window; the cutoff by default.
    encoder
        Whose vectors; may be left out where the store has just one's.
    k, theta
        Defaults for scoring, no part of the pool's identity; theta is by default the encoder's.
    recipe
        How impact is computed (see `hindsight_fast.impact`).
    index
        Build an index with these settings; without, ideas are scored by the exact scan.
    require_first_public
        Leave out papers that only a venue or a year dates.
    overwrite
        Replace another pool that is there.
    progress
        Called with the number of papers in the index, and of all that go there.

    Raises
    ------
    UsageError
        The window or K or theta make no sense, `out` holds something else, or the store lacks
        the vectors.
    StorageError
        No space, no rights, or another process is writing there.
    """
    window = WindowConfig(cutoff, until, start or cutoff, require_first_public)
    vectors = store.vectors(encoder)
    _check_encoded(store, vectors, window)
    theta = vectors.theta if theta is None else theta
    if k < 1 or not -1 <= theta <= 1:
        raise UsageError(f"K = {k} and theta = {theta}: K is at least 1, theta from -1 to 1")
    made_from = [store.content_id, store.facts_id, vectors.encoder, vectors.encoder_fingerprint]
    settings = [window.fingerprint(), recipe, None if index is None else index.fingerprint()]
    mark = fingerprint([made_from, settings])
    if existing(out, KIND, mark, overwrite=overwrite) is not None:
        return _reopen(out, store, k, theta)
    low, high = store.window(window.start, window.until)
    papers = store.papers(list(_FACTS), low, high)
    rows = vectors.array[low:high]
    kept_out = reasons(papers, nonzero_rows(rows), window)
    eligible = ~np.any([np.zeros(high - low, bool), *kept_out.values()], axis=0)
    citations = np.array(store.citations[low:high])
    top = venues.is_top(papers["venue"]).to_numpy()
    impact = impact_of(recipe, citations, top, eligible)
    covered: dict[str, Any] = coverage(papers, impact) | {
        "in_window": high - low,
        "kept_out": {name: int(mask.sum()) for name, mask in kept_out.items()},
        "outside": outside(store, window),
    }
    with publish(out, KIND, mark, overwrite=overwrite) as staging:
        create_array(staging.folder / IMPACT, np.float32, impact.shape)[:] = impact
        staging.body |= {
            "store": os.path.relpath(os.path.realpath(store.path), os.path.realpath(out)),
            "content_id": store.content_id,
            "facts_id": store.facts_id,
            "text_version": store.text_version,
            "encoder": vectors.encoder,
            "encoder_fingerprint": vectors.encoder_fingerprint,
            "cutoff": window.cutoff.isoformat(),
            "until": window.until.isoformat(),
            "start": window.start.isoformat(),
            "require_first_public": window.require_first_public,
            "recipe": recipe,
            "k": k,
            "theta": theta,
            "offset": low,
            "n": high - low,
            "n_papers": int(eligible.sum()),
            "pool_hash": pool_hash(store.content_id, low, high, window, recipe, impact),
            "citations_as_of": _as_of(covered["as_of"]),
            "citations_low": covered["citations"]["low"],
            "citations_high": covered["citations"]["high"],
            "coverage": covered,
            "index": None,
        }
        if index is not None and eligible.any():
            staging.body["index"] = _build_index(
                rows, eligible, staging.folder, index, threads, progress
            )
    return Pool.open(out, store)


def _as_of(dates: dict[str, str] | None) -> str:
    """The month in which citations were counted, or the months between which they were."""
    if dates is None:
        return "unknown"
    first, last = dates["first"][:7], dates["last"][:7]
    return last if first == last else f"{first}..{last}"


def pool_hash(
    content_id: str,
    low: int,
    high: int,
    window: WindowConfig,
    recipe: str,
    impact: NDArray[np.float32],
) -> str:
    """Return the hash of what scores depend on, vectors aside: papers, window and impact."""
    bits = hashlib.blake2b(impact.tobytes(), digest_size=16).hexdigest()
    return fingerprint([content_id, low, high, window.fingerprint(), recipe, bits])


def _check_encoded(store: Store, vectors: Vectors, window: WindowConfig) -> None:
    if vectors.since is not None and vectors.since > window.start:
        raise UsageError(
            f"{store.path} has vectors of {vectors.encoder} for papers since {vectors.since} only, "
            f"and the window starts on {window.start}; run `hindsight-fast embed {store.path} "
            f"--encoder {vectors.encoder} --since {window.start} --overwrite`"
        )


def _reopen(out: Path, store: Store, k: int, theta: float) -> Pool:
    pool = Pool.open(out, store)
    if (pool.k, pool.theta) != (k, theta):
        raise UsageError(
            f"{out} is this pool with K = {pool.k} and theta = {pool.theta}; give others when "
            "scoring, or --overwrite to make them its defaults"
        )
    return pool


def _build_index(
    rows: NDArray[np.float32],
    eligible: NDArray[np.bool_],
    folder: Path,
    config: "IndexConfig",
    threads: int | None,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Any]:
    from hindsight_fast.index import build_index

    done, total = 0, int(eligible.sum())

    def advance(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, total)

    facts = build_index(
        rows, eligible, folder, config, threads=usable_threads(threads), progress=advance
    )
    return {"config": dataclasses.asdict(config), "facts": dataclasses.asdict(facts)}
