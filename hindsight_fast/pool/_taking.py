"""What of an older pool holds for a new one: its projection, its index, or most of that.

Hashes decide, never names: a projection belongs to the bytes of the vectors of certain rows, and
an index to the codes of papers, whatever their rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hindsight_fast import projection
from hindsight_fast.pool import _own_index
from hindsight_fast.pool._read import IMPACT, KIND
from hindsight_fast.storage import (
    FileFacts,
    Manifest,
    full_hash_once,
    is_trusted,
    link_known,
    map_array,
    open_folder,
)
from hindsight_fast.store import Vectors

if TYPE_CHECKING:
    from hindsight_fast.index import IndexConfig, Old


@dataclass(frozen=True, slots=True)
class Older:
    """A pool to take over from.

    Attributes
    ----------
    folder : Path
    projection, index : dict or None
        Facts of those that hold as they are.
    grown : Old or None
        An index that holds for some of the papers, and can be added to.
    why : str
        Why nothing is taken over.
    files : mapping of str to FileFacts
        Its own, by name: what else lies there is none of it.
    """

    folder: Path
    projection: dict[str, Any] | None = None
    index: dict[str, Any] | None = None
    grown: "Old | None" = None
    why: str = ""
    files: Mapping[str, FileFacts] = field(default_factory=dict[str, FileFacts])

    def link(self, names: tuple[str, ...], folder: Path) -> None:
        """Make some of its files, as many as it has, files of `folder` too.

        Raises
        ------
        ArtefactError
            One is no longer that which the manifest names.
        """
        for name in names:
            if name in self.files:
                link_known(self.folder / name, folder / name, self.files[name])


def look_at(
    path: Path,
    vectors: Vectors,
    rows: tuple[int, int],
    eligible: NDArray[np.bool_],
    config: "IndexConfig | None",
) -> Older:
    """Find out what of a pool holds for rows [low, high) of some vectors.

    Raises
    ------
    ArtefactError
        It is no pool, or damaged.
    """
    old = open_folder(path, KIND)
    if not is_trusted(old.hash):
        return Older(path, why="others made it, and it isn't trusted")
    if (other := _other_vectors(old, vectors)) is not None:
        return Older(path, why=other)
    _check_named(old)
    for name, facts in old.files.items():
        full_hash_once(path / name, facts)
    of_rows = (old.integer("offset"), old.integer("offset") + old.integer("n")) == rows
    along, index = old.body.get("scan"), old.body.get("index")
    if along is not None and not (
        of_rows and along.get("of") == vectors.content_hash and projection.is_current(along)
    ):
        along = None
    found = _own_index.settings(old)
    if config is None or found is None or index is None:
        return Older(path, along, files=old.files)
    if (
        of_rows
        and index.get("of") == vectors.content_hash
        and found == config
        and np.array_equal(map_array(path / IMPACT, np.float32, eligible.shape) >= 0, eligible)
    ):
        return Older(path, along, index, files=old.files)
    from hindsight_fast.index import Old

    return Older(path, along, grown=Old(path, found, old.files), files=old.files)


def _check_named(old: Manifest) -> None:
    """Files that its manifest doesn't name are not checked, so nothing may rest on them."""
    needed = [IMPACT]
    if old.body.get("scan") is not None:
        needed += projection.FILES
    if old.body.get("index") is not None:
        from hindsight_fast.index import files_among

        needed += files_among(old.files)
    for name in needed:
        old.file(name)


def _other_vectors(old: Manifest, vectors: Vectors) -> str | None:
    """Say what made the vectors of a pool, if it is something else."""
    of_pool = [
        old.text("encoder", 64),
        old.text("encoder_fingerprint", 128)[:8],
        old.body.get("precision", "float32"),
    ]
    here = [vectors.encoder, vectors.encoder_fingerprint[:8], vectors.precision]
    same = old.text("encoder_fingerprint", 128) == vectors.encoder_fingerprint
    if same and of_pool[2] == here[2]:
        return None
    then, now = (f"{name}@{mark} in {made}" for name, mark, made in (of_pool, here))
    return f"its vectors are of {then}, these of {now}"


def take_projection(older: Older | None, folder: Path) -> dict[str, Any] | None:
    """Take over a projection; returns its facts, or None where it doesn't hold."""
    if older is None or older.projection is None:
        return None
    older.link(projection.FILES, folder)
    return older.projection


def take_index(older: Older, folder: Path) -> dict[str, Any]:
    """Take over an index as it is; returns what a manifest says of it."""
    from hindsight_fast.index import FILES

    assert older.index is not None
    older.link(FILES, folder)
    facts = {**older.index["facts"], "n_taken": _in_graph(older.index["facts"]), "not_taken": ""}
    return {**older.index, "facts": facts}


def _in_graph(facts: dict[str, Any]) -> int:
    return int(facts["n_papers"]) - int(facts["n_copies"])
