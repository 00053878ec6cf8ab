"""Parts of a run: to bytes, and joined to whole tables, in bounded memory."""

import io
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.errors import StorageError
from hindsight_fast.runs._manifest import hashed, manifest_beside, place_of, rendered
from hindsight_fast.runs._spent import Spent
from hindsight_fast.runs._targets import KINDS, State, Targets, in_shards, refuse_changed
from hindsight_fast.storage import (
    MAX_FILES,
    Parts,
    existing,
    publish,
    publish_file,
    storage_errors,
)
from hindsight_fast.tables import MATCH_SCHEMA, SCORE_SCHEMA

SHARD: Final = 65_536
"""Ideas of a shard, or more where a manifest couldn't name all shards."""

_AT_ONCE: Final = 1 << 22
"""Hashes of ids that are looked at together."""

_WRITERS: dict[str, Callable[[pl.LazyFrame, Path], object]] = {
    ".parquet": lambda frame, path: frame.sink_parquet(path),
    ".csv": lambda frame, path: frame.sink_csv(path),
    ".jsonl": lambda frame, path: frame.sink_ndjson(path),
}
_SCHEMAS = {"scores": SCORE_SCHEMA, "matches": MATCH_SCHEMA}


def to_bytes(frame: pl.DataFrame) -> memoryview:
    """A part of a table as the bytes of a file, which is read by `publish_tables` alone."""
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="lz4")
    return buffer.getbuffer()


def array_to_bytes(array: NDArray[np.float32]) -> memoryview:
    """A plain .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getbuffer()


def read_array(path: Path) -> NDArray[np.float32]:
    """What `array_to_bytes` wrote; the file's hash was checked."""
    with storage_errors(f"read {path}"):
        array: NDArray[np.float32] = np.load(path, allow_pickle=False)
    return array


def repeated_ids(parts: Parts, n_ideas: int) -> int:
    """How many ideas have the id of an earlier one.

    Of n ideas about a share of n / 2^65 is counted too, whose hash is another id's. Where there are
    more than fit, only those ids are looked at whose hashes have the same rest, one rest after the
    other: memory is bounded whatever the number of ideas.
    """
    files, n_unique = parts.files("scores"), 0
    n_rounds = max(1, -(-n_ideas // _AT_ONCE))
    for rest in range(n_rounds):
        hashes = _scan(files, "scores").select(mark=pl.col("idea_id").hash())
        if n_rounds > 1:
            hashes = hashes.filter(pl.col("mark") % n_rounds == rest)
        n_unique += hashes.unique().collect(engine="streaming").height
    return n_ideas - n_unique


def publish_tables(
    parts: Parts,
    targets: Targets,
    mark: str,
    finish: Callable[[Mapping[str, Any]], dict[str, Any]],
    *,
    in_shard: int,
    before: State | None,
    spent: Spent,
) -> dict[str, Any]:
    """Join the parts into whole tables, and return the manifest.

    Parameters
    ----------
    mark
        Fingerprint of all that the tables depend on.
    finish
        Gives the manifest for the facts about the files, once they are written.
    in_shard
        Parts of a shard, or more where a manifest couldn't name all shards.
    before
        What was found where the tables go: all else is left there. None: whatever is there is
        replaced.

    Raises
    ------
    UsageError
        Something else is there by now.
    StorageError
        The file system refuses.
    """
    if in_shards(targets["scores"]):
        return _publish_shards(
            parts, targets, mark, finish, in_shard, spent, overwrite=before is None
        )
    # The manifest takes its place before the tables do. It holds their hashes, so a table that a
    # kill kept from its place, or an older one that is still there, is seen at the next run and
    # made again.
    with ExitStack() as stack:
        files: dict[str, dict[str, Any]] = {}
        for name, target in targets.items():
            path = stack.enter_context(publish_file(target))
            with spent.on("write"):
                _write(parts.files(name), name, target.suffix, path)
                files[name] = {**place_of(target, targets["scores"]), **hashed(path)}
        manifest = finish(files)
        beside = manifest_beside(targets["scores"])
        if before is not None:
            refuse_changed(before)
        with publish_file(beside) as path, storage_errors(f"write {beside}"):
            path.write_bytes(rendered(manifest))
    return manifest


def _publish_shards(
    parts: Parts,
    targets: Targets,
    mark: str,
    finish: Callable[[Mapping[str, Any]], dict[str, Any]],
    in_shard: int,
    spent: Spent,
    *,
    overwrite: bool,
) -> dict[str, Any]:
    manifest = dict[str, Any]()
    files: dict[str, dict[str, Any]] = {}
    for name in reversed([*targets]):  # the scores last: they are the result
        target = targets[name]
        placed = place_of(target, targets["scores"])
        there = existing(target, KINDS[name], mark, overwrite=overwrite)
        if there is not None:
            manifest = dict(there.body)
            files[name] = {**placed, "shards": len(there.files)}
            continue
        with publish(target, KINDS[name], mark, overwrite=overwrite) as staging:
            pieces = parts.files(name)
            step = max(in_shard, -(-len(pieces) // MAX_FILES))
            shards = [pieces[i : i + step] for i in range(0, len(pieces), step)] or [[]]
            for number, shard in enumerate(shards):
                path = staging.folder / f"part-{number:07d}.parquet"
                with spent.on("write"):
                    _write(shard, name, ".parquet", path)
            files[name] = {**placed, "shards": len(shards)}
            manifest = finish(files)
            staging.body |= manifest
    return manifest


def _write(files: Sequence[Path], name: str, ending: str, path: Path) -> None:
    with _write_errors(path):
        _WRITERS[ending](_scan(files, name), path)


def _scan(files: Sequence[Path], name: str) -> pl.LazyFrame:
    if files:
        return pl.scan_ipc(list(files), glob=False, hive_partitioning=False)
    return pl.LazyFrame(schema=_SCHEMAS[name])


@contextmanager
def _write_errors(path: Path) -> Generator[None]:
    """A refused write is told as such, also where polars doesn't say which error it met."""
    with storage_errors(f"write {path}"):
        try:
            yield
        except pl.exceptions.ComputeError as error:
            raise StorageError(f"could not write {path}: {str(error)[:200]}") from error
