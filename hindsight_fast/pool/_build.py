"""From a store to a pool."""

import dataclasses
import datetime as dt
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hindsight_fast import impact as recipes
from hindsight_fast.config import PAPER_K, ScoreConfig, fingerprint, usable_threads
from hindsight_fast.errors import UsageError
from hindsight_fast.papers import venues
from hindsight_fast.papers.choosing import Where, check_topics
from hindsight_fast.pool._coverage import FACTS, coverage
from hindsight_fast.pool._read import IMPACT, KIND, Pool
from hindsight_fast.pool._window import WindowConfig, nonzero_rows, outside, reasons
from hindsight_fast.projection import build_projection
from hindsight_fast.storage import create_array, existing, publish
from hindsight_fast.store import Store, Vectors, columns_hash, topics_of

if TYPE_CHECKING:
    from hindsight_fast.index import IndexConfig


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
    where: Where | None = None,
    index: "IndexConfig | None" = None,
    require_first_public: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Pool:
    """Make the pool of a window of a store.

    A pool that is there already, whole and of the same papers, settings, K and theta, is opened as
    it is.

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
    where
        Which papers of the window take part; all by default.
    index
        Build an index with these settings; without, ideas are scored by the exact scan.
    require_first_public
        Leave out papers that only a venue or a year dates.
    overwrite
        Replace another or damaged pool that is there.
    threads
        For building an index; at most, and by default, as many as this process may use.
    progress
        Called with the number of papers in the index, and of all that go there.

    Raises
    ------
    UsageError
        The window, K, theta or threads make no sense, there is no such recipe, `out` holds
        something else, or the store lacks the vectors.
    ArtefactError
        The store, its vectors or the pool that is there are damaged.
    StorageError
        No space, no rights, or another process is writing there.
    """
    window = WindowConfig(cutoff, until, start or cutoff, require_first_public)
    where = where or Where()
    recipes.find(recipe)
    if where.topics:
        check_topics(where.topics, sorted(topics_of(store)))
    vectors = store.vectors(encoder)
    _check_encoded(store, vectors, window)
    defaults = ScoreConfig(k, vectors.theta if theta is None else theta)
    mark = _identity(store, vectors, window, recipe, where, index)
    if existing(out, KIND, mark, overwrite=overwrite) is not None:
        pool = Pool.open(out, store)
        is_current = "projection" in pool.manifest.body  # older versions made none
        if (pool.k, pool.theta) == (defaults.k, defaults.theta) and (is_current or not overwrite):
            return pool
        if not overwrite:
            raise UsageError(
                f"{out} is this pool with K = {pool.k} and theta = {pool.theta}; give others when "
                "scoring, or --overwrite to make them its defaults"
            )
    members = _members(store, vectors, window, recipe, where)
    with publish(out, KIND, mark, overwrite=overwrite) as staging:
        create_array(staging.folder / IMPACT, np.float32, members.impact.shape)[:] = members.impact
        staging.body |= _facts(store, vectors, window, recipe, where, members) | {
            "store": os.path.relpath(os.path.realpath(store.path), os.path.realpath(out)),
            "k": defaults.k,
            "theta": defaults.theta,
            "index": None,
        }
        made = build_projection(members.vectors, members.eligible, staging.folder, defaults.k)
        staging.body["projection"] = made and made | {"of": vectors.content_hash}
        if index is not None and members.eligible.any():
            staging.body["index"] = _build_index(
                members.vectors, members.eligible, staging.folder, index, threads, progress
            )
    return Pool.open(out, store)


def _check_encoded(store: Store, vectors: Vectors, window: WindowConfig) -> None:
    if vectors.since is not None and vectors.since > window.start:
        raise UsageError(
            f"{store.path} has vectors of {vectors.encoder} for papers since {vectors.since} only, "
            f"and the window starts on {window.start}; run `hindsight-fast embed {store.path} "
            f"--encoder {vectors.encoder} --since {window.start}`, which keeps what is there"
        )


def _identity(
    store: Store,
    vectors: Vectors,
    window: WindowConfig,
    recipe: str,
    where: Where,
    index: "IndexConfig | None",
) -> str:
    """Hash of all that a pool depends on; K and theta are only its defaults."""
    made_from = [store.content_id, store.facts_id, vectors.encoder, vectors.encoder_fingerprint]
    if vectors.precision != "float32":
        made_from.append(vectors.precision)
    if vectors.taken:
        made_from.append(fingerprint(vectors.taken))
    if where:
        made_from.append(fingerprint([where.conditions, where.topics]))
    looked_at = [*where.columns, *recipes.find(recipe).columns]
    if where or recipe != "paper":  # these columns may say more than facts_id holds
        papers = store.papers(sorted(set(looked_at)), *store.window(window.start, window.until))
        made_from.append(columns_hash(papers, papers.columns, "looked at"))
    settings = [window.fingerprint(), recipe, None if index is None else index.fingerprint()]
    return fingerprint([made_from, settings, sorted(store.venues.top)])


@dataclass(frozen=True, slots=True)
class _Members:
    """Rows [low, high) of the store, which of them take part and with what impact."""

    low: int
    high: int
    vectors: NDArray[np.float32]
    eligible: NDArray[np.bool_]
    impact: NDArray[np.float32]
    coverage: dict[str, Any]


def _members(
    store: Store, vectors: Vectors, window: WindowConfig, recipe: str, where: Where
) -> _Members:
    low, high = store.window(window.start, window.until)
    columns = {*FACTS, *where.columns, *recipes.find(recipe).columns}
    papers = store.papers(sorted(columns), low, high)
    rows = vectors.array[low:high]
    chosen = where.mask(papers).to_numpy()
    kept_out = reasons(papers, nonzero_rows(rows), window, chosen if where else None)
    eligible = ~np.any([np.zeros(high - low, bool), *kept_out.values()], axis=0)
    table = store.venues
    impact = recipes.impact(
        recipe, papers, venues.is_top(papers["venue"], table).to_numpy(), eligible
    )
    if not recipes.find(recipe).unknown_is_zero:
        kept_out["citations_unknown"] = impact.dropped
    covered = coverage(papers, impact.values, table) | {
        "in_window": high - low,
        "kept_out": {name: int(mask.sum()) for name, mask in kept_out.items()},
        "outside": outside(store, window),
        "c": recipes.find(recipe).formula,
        "by_count": recipe in ("paper", "known"),
        "unknown_citations_are": "0" if recipes.find(recipe).unknown_is_zero else "left out",
    }
    return _Members(low, high, rows, impact.values >= 0, impact.values, covered)


def _facts(
    store: Store,
    vectors: Vectors,
    window: WindowConfig,
    recipe: str,
    where: Where,
    members: _Members,
) -> dict[str, Any]:
    """The body of the manifest, but for the pool's place, defaults and index."""
    low, high, covered = members.low, members.high, members.coverage
    return {
        "content_id": store.content_id,
        "facts_id": store.facts_id,
        "text_version": store.text_version,
        "encoder": vectors.encoder,
        "encoder_fingerprint": vectors.encoder_fingerprint,
        "precision": vectors.precision,
        "taken": vectors.taken,
        "cutoff": window.cutoff.isoformat(),
        "until": window.until.isoformat(),
        "start": window.start.isoformat(),
        "require_first_public": window.require_first_public,
        "recipe": recipe,
        "where": list(where.conditions),
        "topics": list(where.topics),
        "offset": low,
        "n": high - low,
        "n_papers": int(members.eligible.sum()),
        "pool_hash": pool_hash(store.content_id, low, high, window, recipe, members.impact),
        "citations_as_of": _as_of(covered["as_of"]),
        "citations_low": covered["citations"]["low"],
        "citations_high": covered["citations"]["high"],
        "coverage": covered,
    }


def _as_of(dates: dict[str, str] | None) -> str:
    """When citations were counted: a month, a year, or two of these between which it was."""
    if dates is None:
        return "unknown"
    first, last = _known_part(dates["first"]), _known_part(dates["last"])
    return last if first == last else f"{first}..{last}"


def _known_part(day: str) -> str:
    """The month; of 1 January only the year, since a bare year is stored as that day."""
    return day[:4] if day.endswith("-01-01") else day[:7]


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
