"""What is in a folder, and is it whole? For stores, vectors and pools."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hindsight_fast.errors import ArtefactError
from hindsight_fast.papers import answers
from hindsight_fast.pool._read import KIND, Pool
from hindsight_fast.storage import Manifest, kind_of, open_folder, unfinished, verify_folder
from hindsight_fast.store import Store, check_unit_rows, verify_store


def describe(path: Path) -> dict[str, Any]:
    """Say what a folder is and what it holds; the first key is `kind`.

    Raises
    ------
    ArtefactError
        It is nothing that this program made, or damaged.
    """
    kind = kind_of(path)
    manifest = open_folder(path, kind)
    facts: dict[str, Any] = {"kind": kind, "path": str(path), "bytes": _bytes(manifest)}
    if kind == "store":
        store = Store.open(path)
        facts["vectors"] = {name: _vectors_facts(store, name) for name in store.encoders()}
        facts["carried_vectors"] = store.carried()
        partial = unfinished(store.vectors_folder("any").parent)
        facts["unfinished_vectors"] = [one.name[1:].removesuffix(".partial") for one in partial]
    if kind == KIND:
        pool = Pool.open(path)
        facts["signature"] = pool.signature(pool.k, pool.theta, "exact")
        facts["trusted"] = pool.trusted
    return facts | dict(manifest.body)


def _bytes(manifest: Manifest) -> int:
    return sum(file.size for file in manifest.files.values())


def _vectors_facts(store: Store, name: str) -> dict[str, Any]:
    manifest = store.vectors(name).manifest
    return {"bytes": _bytes(manifest)} | dict(manifest.body)


def verify_artefact(path: Path) -> list[str]:
    """Check every byte of a store, of vectors, of a pool with its store, or of a collection.

    Returns
    -------
    list of str
        What was checked, a phrase each.

    Raises
    ------
    ArtefactError
        Naming the first thing that is wrong.
    """
    checks: dict[str, Callable[[Path], list[str]]] = {
        "store": verify_store,
        "vectors": _verify_vectors,
        KIND: _verify_pool,
        answers.KIND: answers.verify,
    }
    kind = kind_of(path)
    if kind not in checks:
        raise ArtefactError(
            f"{path} is a {kind}; a store, vectors, a pool or a collection can be verified"
        )
    return checks[kind](path)


def _verify_vectors(path: Path) -> list[str]:
    return verify_store(Path(path).absolute().parent.parent)


def _verify_pool(path: Path) -> list[str]:
    manifest = verify_folder(path, KIND)
    pool = Pool.open(path)
    checked = [f"{len(manifest.files)} files", f"impact of {pool.n_papers} papers"]
    check_unit_rows(pool.vectors, f"vectors of {path}")
    if pool.trusted and pool.index is not None:
        checked.append("index")
    return checked + [f"store: {what}" for what in verify_store(pool.store.path)]
