"""The index of a pool that others made, made anew by this user.

A file of a graph can be such that who opens it crashes, or worse, and whoever writes one writes a
manifest that goes with it. So of a pool that this user neither made nor trusts nothing is used but
what can be checked or can do no harm: impact, vectors and papers are data, and what they say is
their author's claim. Its index is left alone, and so is what the exact scan looks at first, since
bounds that lie would lose neighbours without a word. In place of the index one of the same
settings is made of the same vectors, once, and kept in `indexes` of the user's own folder, under
the hash of the pool's manifest; it may be removed at any time.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.config import fingerprint, usable_threads
from hindsight_fast.errors import ArtefactError, StorageError, UsageError
from hindsight_fast.storage import (
    Manifest,
    full_hash_once,
    open_folder,
    private_folder,
    private_path,
    publish,
)
from hindsight_fast.store import check_unit_rows

if TYPE_CHECKING:
    from hindsight_fast.index import Index, IndexConfig

KIND: Final = "index"
_FOLDER: Final = "indexes"
_LARGEST: Final = 1 << 16  # candidates; with more, a few papers would take all memory


def settings(manifest: Manifest) -> "IndexConfig | None":
    """How the index of a pool was built; None where it has none.

    Raises
    ------
    ArtefactError
        The manifest says nothing that could be.
    """
    if manifest.body.get("index") is None:
        return None
    from hindsight_fast.index import IndexConfig

    try:
        config = IndexConfig(**manifest.table("index")["config"])
        usual = dataclasses.asdict(IndexConfig())
        for name, value in dataclasses.asdict(config).items():
            if type(value) is not type(usual[name]) or value > _LARGEST:
                raise ValueError(f"{name} = {value!r}"[:200])
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise ArtefactError(f"{manifest.folder}: no settings of an index: {error}") from error
    return config


def view(
    folder: Path, manifest: Manifest, leave: tuple[str, ...], config: "IndexConfig"
) -> "Index":
    """Open the index that lies in a folder, after a look at all bytes of its files.

    Parameters
    ----------
    leave
        Files of the folder that are none of an index.

    Raises
    ------
    ArtefactError
        It is damaged.
    """
    from hindsight_fast.index import Index, files_among

    for name in files_among(manifest.files):
        manifest.file(name)
    files = {name: facts for name, facts in manifest.files.items() if name not in leave}
    for name, facts in files.items():
        full_hash_once(folder / name, facts)
    index = Index.view(folder, config, files_among(files))
    body = manifest.table("index") if "index" in manifest.body else manifest.body
    built = body.get("facts")
    rule = cast("dict[str, Any]", built).get("fingerprint") if isinstance(built, dict) else None
    if rule != index.fingerprint(config):
        raise ArtefactError(
            f"{folder}: its index was built by another rule than this version's; make it again"
        )
    index.mark = fingerprint({name: facts.blake2b for name, facts in files.items()})
    return index


def find(pool: Manifest, config: "IndexConfig", content: str) -> "Index | None":
    """Open what `make` made of the pool with this manifest, and of vectors with this hash.

    None where there is none that is whole.
    """
    if (indexes := private_path(_FOLDER)) is None or not (indexes / pool.hash).is_dir():
        return None
    try:
        manifest = open_folder(indexes / pool.hash, KIND)
        if manifest.fingerprint != _identity(config, content):
            return None
        return view(manifest.folder, manifest, (), config)
    except ArtefactError:  # made anew, then
        return None


def make(
    pool: Manifest,
    config: "IndexConfig",
    content: str,
    vectors: NDArray[np.float32],
    eligible: NDArray[np.bool_],
    threads: int | None,
    progress: Callable[[int, int], None] | None,
) -> "Index":
    """Make an index of a pool, unless another process does so meanwhile; it is kept.

    Raises
    ------
    ArtefactError
        The vectors are no unit vectors.
    StorageError
        It can't be kept.
    """
    from hindsight_fast.index import build_index

    done, total = 0, int(eligible.sum())

    def advance(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, total)

    check_unit_rows(vectors, f"vectors of {pool.folder}")
    try:
        with private_folder(_FOLDER) as indexes:
            if (made := find(pool, config, content)) is not None:
                return made
            mark, out = _identity(config, content), indexes / pool.hash
            with publish(out, KIND, mark, overwrite=True) as staging:
                facts = build_index(
                    vectors,
                    eligible,
                    staging.folder,
                    config,
                    threads=usable_threads(threads),
                    progress=advance,
                )
                staging.body |= {"of": str(pool.folder), "facts": dataclasses.asdict(facts)}
            return view(out, open_folder(out, KIND), (), config)
    except StorageError as error:
        raise StorageError(
            f"{error}; the index of {pool.folder} is made anew there, since others made it: "
            "--trust opens theirs, --search exact needs none"
        ) from error


def _identity(config: Any, content: str) -> str:
    return fingerprint([config.fingerprint(), content])
