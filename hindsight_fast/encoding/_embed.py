"""The vectors of a store's papers."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.agreement import Agreement
from hindsight_fast.config import fingerprint
from hindsight_fast.encoders import Encoder
from hindsight_fast.encoding._cost import precision_cost_of_papers
from hindsight_fast.encoding._filling import Filling, Watch
from hindsight_fast.encoding._forecast import Forecast, forecast
from hindsight_fast.encoding._papers import TAKEN, rows_wanted
from hindsight_fast.encoding._taking import COUNTS, Carried, Earlier, Taken
from hindsight_fast.errors import ArtefactError, UsageError
from hindsight_fast.storage import Target, existing, publish_resumable, verify_folder
from hindsight_fast.store import VECTORS, Store, Vectors, carried_folder, remove_carried

CheckTaken = Callable[
    [NDArray[np.int64], Callable[[NDArray[np.int64]], NDArray[np.float32]]], Mapping[str, Any]
]


def embed_store(
    store: Store,
    encoder: Encoder,
    *,
    since: dt.date | None = None,
    taken: Sequence[Taken] = (),
    check: CheckTaken | None = None,
    overwrite: bool = False,
    progress: Watch | None = None,
    foretell: Callable[[Forecast], None] | None = None,
    tell_cost: Callable[[Agreement], None] | None = None,
) -> Vectors:
    """Encode the papers of a store that a pool could hold: dated, with title and abstract.

    The row of a paper that isn't encoded is all zeros. Of papers that are read together
    (`BLOCK`), equal texts are encoded once. Memory does not grow with the number of papers, but
    for a byte or two of each.

    What is done survives any end of the process: called again with the same, it goes on there,
    with the same result to the byte (on a GPU texts then meet others in a batch, which may move
    last bits). Vectors that are there already, of the same encoder and precision and for at least
    these papers, are returned as they are; those for fewer papers are taken over, and so are those
    that the store has from another one with the same texts (`carry_vectors`).

    Parameters
    ----------
    since
        Leave out papers dated before this day.
    taken
        Vectors that are known already; only the rest is encoded. Where several have a row, the
        first is taken.
    check
        Called once these are there, before anything is encoded, with the rows that were taken
        from elsewhere, ascending, and a function that reads the vectors of some; what it returns
        becomes ``check`` in the manifest. If it raises an error, nothing is published.
    overwrite
        Replace vectors that are there: of another model, of other papers, or damaged; and discard
        unfinished work of that kind. What is whole and just what was asked for is kept.
    progress
        Called again and again with how far the work is.
    foretell
        Called before much is encoded with what that will take; costs a few seconds.
    tell_cost
        Called before anything is encoded in another precision than float32 with what that does to
        a sample of the papers, which are encoded in float32 as well.

    Raises
    ------
    UsageError
        Vectors of another model or precision under the same name are there, or unfinished ones of
        something else.
    ArtefactError
        The store is damaged, or was replaced meanwhile; or, without `overwrite`, the vectors that
        are there are damaged or belong to other papers, or unfinished ones are damaged.
    StorageError
        No space, no rights, or another process is encoding.
    EncoderError
        The model failed, or its float32 reference can't be opened where that is needed.
    """
    there = None if overwrite else _vectors_there(store, encoder)
    if there is not None and _covers(there.since, since):
        return there
    carried = _carried(store, encoder, overwrite=overwrite)
    known = [vectors for vectors in (there, carried) if vectors is not None]
    identities = [*dict.fromkeys(one for vectors in known for one in vectors.taken)]
    identities += [one.identity for one in taken if one.identity not in identities]
    made_from = {
        "papers": store.content_id,
        "encoder": encoder.name,
        "model and text rule": encoder.fingerprint,
        "precision": encoder.precision,
        "since": since and since.isoformat(),
        "vectors taken over": identities,
    }
    mark = fingerprint(list(made_from.values()))
    if overwrite and (kept := _just_this(store, encoder, mark)) is not None:
        return kept
    folder = store.vectors_folder(encoder.name)
    filling = Filling(store, rows_wanted(store, since), progress)
    with publish_resumable(
        Target(folder, "vectors", VECTORS, np.float32, (store.n, encoder.dim)),
        mark,
        made_from,
        filling.restore,
        overwrite=overwrite or there is not None,
        discard=overwrite,
    ) as work:
        filling.n_lost = work.n_lost
        if there is not None:
            filling.take(work, Earlier(folder, there))
        if carried is not None:
            filling.take(work, Carried(carried_folder(store.path, encoder.name), carried))
        for vectors in known:
            work.body |= {k: v for k, v in vectors.manifest.body.items() if k == "check"}
        for one in taken:
            filling.take(work, one)
        from_elsewhere = np.flatnonzero(filling.state == TAKEN)
        if check is not None and from_elsewhere.size:
            work.body["check"] = dict(check(from_elsewhere, work.read))
        if (cost := precision_cost_of_papers(store, encoder, since)) is not None:
            work.body["precision_cost"] = cost.facts()
            if tell_cost is not None:
                tell_cost(cost)
        if foretell is not None and (found := forecast(store, filling.state, encoder)):
            foretell(found)
        filling.encode(work, encoder)
        counted = filling.totals
        work.body |= _facts(store, encoder, since) | {name: counted[name] for name in COUNTS}
        work.body |= {
            "taken": identities,
            "taken_counts": {name: n for name, n in counted.items() if name not in COUNTS},
        }
    if carried is None or _covers(since, carried.since):
        remove_carried(store, encoder.name)  # nothing of it is wanted any more
    return store.vectors(encoder.name)


def _covers(since: dt.date | None, wanted: dt.date | None) -> bool:
    """Tell whether the papers since the one date hold all of those since the other."""
    return since is None or (wanted is not None and since <= wanted)


def _vectors_there(store: Store, encoder: Encoder) -> Vectors | None:
    """The vectors of this model that are there, of whatever papers."""
    if encoder.name not in store.encoders():
        return None
    there = store.vectors(encoder.name)
    if (what := _otherwise(there, encoder)) is None:
        return there
    raise UsageError(
        f"{store.vectors_folder(encoder.name)} holds vectors of a model of the same name with "
        f"{what}; give --overwrite to replace them, or take the model from a folder with another "
        "name in its card"
    )


def _otherwise(vectors: Vectors, encoder: Encoder) -> str | None:
    """In what the model that made vectors is another one than this."""
    if vectors.encoder_fingerprint != encoder.fingerprint:
        return "other weights or another text rule"
    if vectors.precision != encoder.precision:
        return f"precision {vectors.precision}, now {encoder.precision}"
    return None


def _carried(store: Store, encoder: Encoder, *, overwrite: bool) -> Vectors | None:
    """The vectors of this model that come from another store, but for what may be overwritten."""
    try:
        vectors = store.carried_vectors(encoder.name)
        if overwrite and vectors is not None:
            verify_folder(carried_folder(store.path, encoder.name), "vectors")
    except ArtefactError as error:
        if overwrite:
            return None
        raise ArtefactError(f"{error}; or give --overwrite to encode all papers") from error
    if vectors is None or (what := _otherwise(vectors, encoder)) is None:
        return vectors
    if overwrite:
        return None
    raise UsageError(
        f"the vectors of {encoder.name} that {store.path} has taken over are of a model of the "
        f"same name with {what}; give --overwrite to encode all papers"
    )


def _just_this(store: Store, encoder: Encoder, mark: str) -> Vectors | None:
    """What is to stay in spite of `overwrite`."""
    folder = store.vectors_folder(encoder.name)
    if existing(folder, "vectors", mark, overwrite=True) is None:
        return None
    there = store.vectors(encoder.name)
    return there if there.theta == encoder.theta else None  # a card's newer theta is wanted


def _facts(store: Store, encoder: Encoder, since: dt.date | None) -> dict[str, Any]:
    """The body of the manifest, but for what was counted."""
    return {
        "n": store.n,
        "dim": encoder.dim,
        "content_id": store.content_id,
        "text_version": store.text_version,
        "encoder": encoder.name,
        "encoder_fingerprint": encoder.fingerprint,
        "precision": encoder.precision,
        "theta": encoder.theta,
        "theta_note": encoder.card.theta_note,
        "device": encoder.device,
        "since": since and since.isoformat(),
    }
