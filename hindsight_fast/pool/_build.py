"""From a store to a pool."""

import dataclasses
import datetime as dt
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hindsight_fast import impact as recipes
from hindsight_fast.config import PAPER_K, ScoreConfig, usable_threads
from hindsight_fast.errors import ArtefactError, UsageError
from hindsight_fast.papers import venues
from hindsight_fast.papers.choosing import Where, check_topics
from hindsight_fast.pool._coverage import FACTS, coverage
from hindsight_fast.pool._identity import Settings, pool_hash
from hindsight_fast.pool._making import drop_unnoted, noted, step
from hindsight_fast.pool._read import IMPACT, KIND, UNNOTED, Pool
from hindsight_fast.pool._taking import Older, look_at, take_index, take_projection
from hindsight_fast.pool._window import WindowConfig, nonzero_rows, outside, reasons
from hindsight_fast.projection import FILES, build_projection
from hindsight_fast.storage import (
    Steps,
    create_array,
    existing,
    map_array,
    open_folder,
    publish_stepwise,
)
from hindsight_fast.store import Store, Vectors, topics_of

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
    reuse: Path | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Pool:
    """Make the pool of a window of a store, going on where an earlier process stopped.

    A pool that is there already, whole and of the same papers, settings, K and theta, is opened as
    it is. A warning says so where it can't be noted that this user made it.

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
    reuse
        An older pool. What of its projection and index holds for this one is taken over, an index
        of most of its papers too; the manifest says what, under `reused`.
    overwrite
        Replace another or damaged pool that is there, and discard unfinished work of another.
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
    settings = Settings(window, recipe, where, index, defaults, threads)
    mark = settings.identity(store, vectors)
    if existing(out, KIND, mark, overwrite=overwrite) is not None:
        pool = Pool.open(out, store)
        # Older versions made no such projection, and what others made isn't used.
        is_current = "scan" in pool.manifest.body and not pool.set_aside
        if (pool.k, pool.theta) == (defaults.k, defaults.theta) and (is_current or not overwrite):
            return pool
        if not overwrite:
            raise UsageError(
                f"{out} is this pool with K = {pool.k} and theta = {pool.theta}; give others when "
                "scoring, or --overwrite to make them its defaults"
            )
    made_from = settings.in_words(store, vectors) | {
        "all that it depends on": mark,
        "taken over from": None if reuse is None else open_folder(reuse, KIND).hash,
    }
    with publish_stepwise(out, KIND, mark, made_from, overwrite=overwrite) as work:
        _fill(work, store, vectors, settings, reuse, progress)
        work.body["store"] = os.path.relpath(os.path.realpath(store.path), os.path.realpath(out))
    made = Pool.open(out, store)
    if made.set_aside:
        warnings.warn(
            f"{out} is made, but its {' and '.join(made.set_aside)} will be left alone as others' "
            f"unless --trust opens it: {UNNOTED}",
            stacklevel=2,
        )
    return made


def _fill(
    work: Steps,
    store: Store,
    vectors: Vectors,
    settings: Settings,
    reuse: Path | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Fill the folder of a pool and the body of its manifest."""
    # Of an older pool that is damaged since, an index that is begun needs nothing more.
    work.keep = any("index" in record for record in work.noted)
    window, folder, index = settings.window, work.folder, settings.index

    def impact() -> dict[str, Any]:
        members = _members(store, vectors, window, settings.recipe, settings.where)
        create_array(folder / IMPACT, np.float32, members.impact.shape)[:] = members.impact
        return _facts(store, vectors, window, settings.recipe, settings.where, members)

    drop_unnoted(work)
    work.body |= step(work, "impact", (IMPACT,), impact)
    low, high = store.window(window.start, window.until)
    rows = vectors.array[low:high]
    eligible = np.asarray(map_array(folder / IMPACT, np.float32, (high - low,)) >= 0)
    older = None if reuse is None else look_at(reuse, vectors, (low, high), eligible, index)
    work.keep = index is not None  # all else is made in a moment
    try:
        _derive(work, rows, eligible, vectors, settings, older, progress)
    except ArtefactError:
        work.keep = False  # what the store holds must change first
        raise


def _derive(
    work: Steps,
    rows: NDArray[np.float32],
    eligible: NDArray[np.bool_],
    vectors: Vectors,
    settings: Settings,
    older: Older | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Take over what is made of vectors, or make it."""
    folder = work.folder

    def along_axes() -> dict[str, Any]:
        if (taken := take_projection(older, folder)) is not None:
            return {"made": taken, "taken": True}
        made = build_projection(rows, eligible, folder, settings.defaults.k)
        return {"made": made and made | {"of": vectors.content_hash}, "taken": False}

    along = step(work, "projection", FILES, along_axes)
    work.body |= {
        "k": settings.defaults.k,
        "theta": settings.defaults.theta,
        "scan": along["made"],
        "index": None,
    }
    if settings.index is not None and eligible.any():
        work.body["index"] = _index(
            work, rows, eligible, vectors.content_hash, settings, older, progress
        )
    if older is not None:
        work.body["reused"] = _reused(older, along["taken"], work.body["index"])


def _index(
    work: Steps,
    rows: NDArray[np.float32],
    eligible: NDArray[np.bool_],
    content_hash: str,
    settings: Settings,
    older: Older | None,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Any]:
    """Take over an index or build one; returns what the manifest says of it."""
    from hindsight_fast.index import FILES as INDEX_FILES
    from hindsight_fast.index import build_index

    config = settings.index
    assert config is not None
    if (done := noted(work, "index")) is not None:
        return done
    if older is not None and older.index is not None:
        return step(work, "index", INDEX_FILES, lambda: take_index(older, work.folder))
    n_done, total = 0, int(eligible.sum())

    def advance(more: int) -> None:
        nonlocal n_done
        n_done += more
        if progress is not None:
            progress(n_done, total)

    facts = build_index(
        rows,
        eligible,
        work.folder,
        config,
        threads=usable_threads(settings.threads),
        progress=advance,
        work=work,
        old=None if older is None else older.grown,
    )
    return {
        "config": dataclasses.asdict(config),
        "facts": dataclasses.asdict(facts),
        "of": content_hash,
    }


def _reused(older: Older, projection: bool, index: dict[str, Any] | None) -> dict[str, Any]:
    """What was taken over, for the manifest."""
    facts: dict[str, Any] = {} if index is None else index["facts"]
    in_graph = facts.get("n_papers", 0) - facts.get("n_copies", 0)
    return {
        "projection": projection,
        "n_taken": facts.get("n_taken", 0),
        "n_added": in_graph - facts.get("n_taken", 0),
        "why": older.why or facts.get("not_taken", ""),
    }


def _check_encoded(store: Store, vectors: Vectors, window: WindowConfig) -> None:
    if vectors.since is not None and vectors.since > window.start:
        raise UsageError(
            f"{store.path} has vectors of {vectors.encoder} for papers since {vectors.since} only, "
            f"and the window starts on {window.start}; run `hindsight-fast embed {store.path} "
            f"--encoder {vectors.encoder} --since {window.start}`, which keeps what is there"
        )


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
