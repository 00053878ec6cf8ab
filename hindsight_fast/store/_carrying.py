"""Vectors of one store that another takes over: of the same texts, or of all its papers."""

import contextlib
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.config import fingerprint
from hindsight_fast.errors import ArtefactError, StorageError
from hindsight_fast.storage import (
    RowFile,
    link_artefact,
    link_file,
    link_unfinished,
    publish,
    read_manifest,
    refuse_running,
    remove_artefact,
    unfinished,
    verify_folder,
)
from hindsight_fast.store._read import (
    VECTORS,
    VECTORS_FOLDER,
    VECTORS_KIND,
    Store,
    Vectors,
    carried_folder,
    carried_in,
    encoders_in,
    open_vectors,
)

_ROWS = 4096  # of vectors, at a time
_SEEDS = (0x5EED_0001, 0x5EED_0002)
_KEPT = (
    "dim",
    "encoder",
    "encoder_fingerprint",
    "precision",
    "theta",
    "theta_note",
    "device",
    "since",
    "taken",
    "check",
    "precision_cost",
)
"""What their manifest says of vectors, whatever papers they are of."""


def keep_vectors(old: Path, new: Store) -> None:
    """Take over the vectors of a store that `new` is to replace, if they hold for all its papers.

    Raises
    ------
    StorageError
        They don't, and a process is encoding there; or no space, no rights.
    """
    if not _is_encoded_alike(old, new):
        refuse_running(old / VECTORS_FOLDER)
        return
    for folder in _vectors_in(old):
        kept = new.path / VECTORS_FOLDER / folder.name
        try:
            link_artefact(folder, kept)
            open_vectors(kept, new.content_id, new.n)
        except ArtefactError:
            shutil.rmtree(kept, ignore_errors=True)
    for partial in unfinished(old / VECTORS_FOLDER):
        link_unfinished(partial, new.path / VECTORS_FOLDER / partial.name)


def _vectors_in(store: Path) -> list[Path]:
    """The folders of vectors of a store that may be damaged, made and taken over."""
    made = [store / VECTORS_FOLDER / name for name in encoders_in(store)]
    return made + [carried_folder(store, name) for name in carried_in(store)]


def carry_vectors(old: Store, new: Store, *, skip_damaged: bool = False) -> None:
    """Take over the vectors of papers whose title and abstract are the same in both stores.

    `embed_store` then encodes only what is new. Where all papers are the same, the vectors are
    there at once. Encoders of which `new` has vectors, or has taken some over, are left alone. It
    does not matter by which rules texts were cleaned, as long as they are the same. `old` may be
    removed afterwards.

    Memory grows with the number of papers, by about 50 bytes for each.

    Parameters
    ----------
    skip_damaged
        Leave damaged vectors where they are.

    Raises
    ------
    ArtefactError
        `old` is damaged; all bytes of its vectors are checked.
    StorageError
        No space, no rights, or another process is writing there.
    """
    sources = {name: carried_folder(old.path, name) for name in carried_in(old.path)}
    sources |= {name: old.vectors_folder(name) for name in old.encoders()}
    there = {*new.encoders(), *carried_in(new.path)}
    wanted = [folder for name, folder in sources.items() if name not in there]
    if not wanted:
        return
    alike = _is_encoded_alike(old.path, new)
    keys = None if alike else (_keys(old), _keys(new))
    for folder in wanted:
        try:
            verify_folder(folder, VECTORS_KIND)
            vectors = open_vectors(folder, old.content_id, old.n)
        except ArtefactError:
            if skip_damaged:
                continue
            raise
        if keys is None:
            _link(vectors, folder, new.path / VECTORS_FOLDER / folder.name)
        else:
            _carry(vectors, folder, old, new, *keys)


def remove_carried(store: Store, encoder: str) -> None:
    """Remove what was taken over of an encoder and is not wanted any more, if it is there."""
    if encoder in carried_in(store.path):
        remove_artefact(carried_folder(store.path, encoder))


def _link(vectors: Vectors, source: Path, target: Path) -> None:
    with publish(target, VECTORS_KIND, vectors.fingerprint) as staging:
        link_file(source / VECTORS, staging.folder / VECTORS)
        staging.body |= vectors.manifest.body


def _is_encoded_alike(old: Path, new: Store) -> bool:
    """Tell whether encoding gives the same for the papers of two stores.

    Which papers are encoded depends on date and status, and on nothing else beyond their texts.
    """
    decide = ("date", "status")
    try:
        there = read_manifest(old)
        if there.fingerprint == new.manifest.fingerprint:
            return True  # the very same papers, whatever is damaged
        if there.text("content_id") != new.content_id:
            return False
        pairs = zip(Store.open(old).pieces(*decide), new.pieces(*decide), strict=True)
        return all(one.equals(other) for one, other in pairs)
    except (ArtefactError, StorageError):
        return False


def _keys(store: Store) -> NDArray[np.uint64]:
    """128 bits of hash for each paper's texts, in two columns."""
    keys, start = np.empty((store.n, len(_SEEDS)), np.uint64), 0
    for texts in store.pieces("title", "abstract"):
        for column, seed in enumerate(_SEEDS):
            keys[start : start + texts.height, column] = texts.hash_rows(seed).to_numpy()
        start += texts.height
    return keys


def _carry(
    vectors: Vectors,
    source: Path,
    old: Store,
    new: Store,
    old_keys: NDArray[np.uint64],
    new_keys: NDArray[np.uint64],
) -> None:
    """Write the vectors of an encoder that papers of `new` can have, as an artefact of `new`."""
    folder = carried_folder(new.path, vectors.encoder)
    mark = fingerprint(["carried", vectors.fingerprint, old.content_id, new.content_id])
    with contextlib.closing(RowFile(source / VECTORS, np.float32, vectors.array.shape)) as file:
        rows, sources = _match(old_keys, _encoded(file), new_keys)
        if not rows.size:
            return
        with publish(folder, VECTORS_KIND, mark) as staging:
            shape = (new.n, vectors.dim)
            carried = RowFile.create(staging.folder / VECTORS, np.float32, shape)
            with contextlib.closing(carried):
                for start in range(0, len(rows), _ROWS):
                    part = slice(start, start + _ROWS)
                    ascending, back = np.unique(sources[part], return_inverse=True)
                    carried.write(rows[part], file.read(ascending)[back])
            body = vectors.manifest.body
            staging.body |= {name: body[name] for name in _KEPT if name in body}
            staging.body |= {
                "n": new.n,
                "content_id": new.content_id,
                "text_version": new.text_version,
                "n_carried": len(rows),
            }


def _encoded(file: RowFile) -> NDArray[np.int64]:
    """The rows that have a vector."""
    found = [np.zeros(0, np.int64)]
    for start in range(0, file.shape[0], _ROWS):
        rows = np.arange(start, min(start + _ROWS, file.shape[0]))
        found.append(rows[file.read(rows).any(axis=1)])
    return np.concatenate(found)


def _match(
    old: NDArray[np.uint64], encoded: NDArray[np.int64], new: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of `new`, ascending, whose key an encoded row of `old` has; and the first such row."""
    if not encoded.size:
        return encoded, encoded
    order = encoded[np.argsort(old[encoded, 0], kind="stable")]
    at = np.searchsorted(old[order, 0], new[:, 0])
    candidates = order[np.minimum(at, len(order) - 1)]
    rows = np.flatnonzero((old[candidates] == new).all(axis=1))
    return rows, candidates[rows]
