"""A scoring job from file to file: streaming, published whole, with a manifest beside the table."""

import hashlib
import json
import platform
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from hindsight_fast.config import fingerprint, versions
from hindsight_fast.costs import Cost, draw, measure, total_error
from hindsight_fast.encoding import CacheUse
from hindsight_fast.errors import ArtefactError, DataError, StorageError, UsageError
from hindsight_fast.idea_text import IDEA_TEXT_VERSION
from hindsight_fast.ideas import read_ideas
from hindsight_fast.scoring import Scorer
from hindsight_fast.storage import publish_file, storage_errors, working_folder
from hindsight_fast.summaries import Tally, index_quality, notes
from hindsight_fast.tables import MATCH_SCHEMA, SCORE_SCHEMA

Progress = Callable[[int, int], None]
Tell = Callable[[str], None]

BATCH = 2048
"""Ideas in memory at a time."""

_WRITERS: dict[str, Callable[[pl.LazyFrame, Path], object]] = {
    ".parquet": lambda frame, path: frame.sink_parquet(path),
    ".csv": lambda frame, path: frame.sink_csv(path),
    ".jsonl": lambda frame, path: frame.sink_ndjson(path),
}


def score_file(
    scorer: Scorer,
    ideas: Path,
    out: Path,
    *,
    matches: Path | None = None,
    limit: int | None = None,
    strict: bool = False,
    overwrite: bool = False,
    progress: Progress = lambda done, total: None,
    tell: Tell = lambda line: None,
) -> dict[str, Any]:
    """Score a file of ideas into a table, and return the manifest that is written beside it.

    What `out` holds already from the same ideas, pool and settings is left as it is. Tables
    appear whole or not at all; the manifest is `out` + ".manifest.json".

    Parameters
    ----------
    ideas
        Any file that `ideas.read_ideas` reads.
    out, matches
        The score table, and the long one of the K nearest papers; .parquet, .csv or .jsonl.
    limit
        Score the first so many ideas.
    strict
        Stop at the first idea that can't be read.
    overwrite
        Replace tables that were made from something else.
    progress
        Called with the number of ideas done, and 0, since nobody knows how many there are.
    tell
        Called before the work, where vectors are not float32, with a line on what that costs.

    Raises
    ------
    UsageError
        If `out` or `matches` exists and was made otherwise (without `overwrite`), or has an
        ending that no writer knows.
    DataError
        If the ideas can't be read, or, with `strict`, at the first bad one.
    StorageError
        If the file system refuses to write.
    EncoderError, ArtefactError
        If the model fails, or its float32 reference can't be opened where that is needed, or the
        pool was damaged since it was opened.
    """
    began = time.perf_counter()
    scorer.seconds = dict.fromkeys(scorer.seconds, 0.0)
    scorer.n_nominated = 0
    if scorer.cache is not None:
        scorer.cache.use = CacheUse()
    targets = check_targets(ideas, out, matches)
    work = out.with_name(f".{out.name}.work")
    with working_folder(work) as folder:
        identity = _identity(scorer, ideas, limit, with_matches=matches is not None)
        if (done := _existing(targets, identity, overwrite=overwrite)) is not None:
            return {**done, "already_done": True}
        costs = _measured(scorer, ideas, limit, tell)
        tally = Tally(
            scorer.pool.cutoff,
            sampling=scorer.search == "index",
            theta=scorer.config.theta,
            error=total_error(costs),
        )
        frames = read_ideas(ideas, batch=BATCH, limit=limit, strict=strict)
        for part, frame in enumerate(frames):
            scored = scorer.score_batch(frame)
            _write_part(scored.scores, folder / f"scores-{part:07d}.parquet")
            if matches is not None:
                _write_part(scorer.matches_table(scored), folder / f"matches-{part:07d}.parquet")
            tally.add(frame, scored)
            progress(tally.n_ideas, 0)
        facts = tally.facts() | _conditions(scorer, costs, tally)
        if scorer.search == "index":
            sampled = time.perf_counter()
            sample = tally.sample(scorer.pool.vectors.shape[1])
            facts["index_quality"] = index_quality(
                scorer.match_vectors(sample), scorer.match_exactly(sample)
            )
            scorer.seconds["sample"] = time.perf_counter() - sampled
        return _publish(scorer, folder, targets, identity, facts, began)


def _measured(scorer: Scorer, ideas: Path, limit: int | None, tell: Tell) -> list[Cost]:
    """What precision costs, told before the work; ideas are read once more for a fair sample."""
    began = time.perf_counter()
    if scorer.encoder is None or scorer.encoder.precision == "float32":
        sample = draw([])
    else:
        sample = draw(read_ideas(ideas, batch=BATCH, limit=limit))
    costs = measure(scorer, sample)
    for cost in costs:
        tell(cost.in_words())
    if costs:
        scorer.seconds["precision"] = time.perf_counter() - began
    return costs


def _conditions(scorer: Scorer, costs: list[Cost], tally: Tally) -> dict[str, Any]:
    """Device, precision, published vectors and cache: what the work was done with."""
    encoder = scorer.encoder
    return {
        "device": None if encoder is None else encoder.device,
        "precision": {
            "ideas": None if encoder is None else encoder.precision,
            "papers": scorer.pool.precision,
            "costs": [cost.facts() for cost in costs],
            "near_theta": tally.near_theta() if costs else None,
        },
        "published": scorer.pool.check,
        "cache": None if scorer.cache is None else scorer.cache.facts(),
    }


def _publish(
    scorer: Scorer,
    folder: Path,
    targets: dict[str, Path],
    identity: dict[str, Any],
    facts: dict[str, Any],
    began: float,
) -> dict[str, Any]:
    """Join the parts into whole tables; the manifest takes its place before they do.

    It holds their hashes, so a table that a kill kept from its place, or an older one that is
    still there, is seen at the next run and made again.
    """
    writing = time.perf_counter()
    with ExitStack() as stack:
        files: dict[str, dict[str, Any]] = {}
        for name, target in targets.items():
            path = stack.enter_context(publish_file(target))
            with _write_errors(target):
                _WRITERS[target.suffix](_parts(folder, name), path)
            files[name] = {"name": target.name, **_hashed(path)}
        ids = _parts(folder, "scores").select(pl.col("idea_id").n_unique()).collect().item()
        facts["repeated_ids"] = facts["counts"]["ideas"] - int(ids)
        seconds = {**scorer.seconds, "write": time.perf_counter() - writing}
        manifest = {
            "signature": scorer.signature,
            **identity,
            **facts,
            "search": scorer.search,
            "n_nominated": scorer.n_nominated,
            "notes": notes(facts, scorer.pool.cutoff),
            "files": files,
            "seconds": {name: round(value, 4) for name, value in seconds.items()}
            | {"total": round(time.perf_counter() - began, 4)},
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "machine": {"system": platform.platform(), "threads": scorer.threads},
        }
        beside = manifest_path(targets["scores"])
        with publish_file(beside) as path, storage_errors(f"write {beside}"):
            path.write_text(json.dumps(manifest, indent=1, allow_nan=False) + "\n", "utf-8")
    return {**manifest, "already_done": False}


def manifest_path(out: Path) -> Path:
    """Where the manifest of a score table is."""
    return out.with_name(f"{out.name}.manifest.json")


def describe(out: Path) -> dict[str, Any]:
    """What a score table is: its manifest, with `kind` first.

    Raises
    ------
    ArtefactError
        No manifest of a score table lies beside it.
    """
    manifest = _read_manifest(manifest_path(out))
    if not manifest:
        raise ArtefactError(f"{out} is no score table: {manifest_path(out)} is not its manifest")
    return {"kind": "score table", **manifest}


def verify(out: Path) -> list[str]:
    """Check every byte of a score table, and of the matches made with it.

    Raises
    ------
    ArtefactError
        A file is not the one that was written.
    """
    files = describe(out)["files"]
    for facts in files.values():
        path = out.with_name(Path(str(facts["name"])).name)
        if not path.is_file() or _hashed(path)["blake2b"] != facts["blake2b"]:
            raise ArtefactError(f"{path} is missing or was changed; run the same score again")
    return [str(facts["name"]) for facts in files.values()]


def _identity(
    scorer: Scorer, ideas: Path, limit: int | None, *, with_matches: bool
) -> dict[str, Any]:
    """What the tables depend on."""
    parts = {
        "ideas_blake2b": _hashed(ideas)["blake2b"],
        "pool": scorer.pool.pool_hash,
        "encoder": scorer.pool.encoder_fingerprint,
        "recipe": scorer.pool.recipe,
        "text_rule": IDEA_TEXT_VERSION,
        "limit": limit,
        "with_matches": with_matches,
    }
    return {**parts, "fingerprint": fingerprint({**parts, "signature": scorer.signature})}


def _existing(
    targets: dict[str, Path], identity: dict[str, Any], *, overwrite: bool
) -> dict[str, Any] | None:
    """The manifest of a run that made just these files, whole; None: there is work to do."""
    there = [target for target in targets.values() if target.exists()]
    if not there:
        return None
    manifest = _read_manifest(manifest_path(targets["scores"]))
    if manifest.get("fingerprint") != identity["fingerprint"]:
        if overwrite:
            return None
        raise UsageError(
            f"{there[0]} exists and was made from other ideas or settings "
            "(--matches is one); "
            "give --overwrite to replace it, or choose another --out"
        )
    for name, target in targets.items():
        facts = manifest["files"].get(name, {})
        if not target.exists() or _hashed(target)["blake2b"] != facts.get("blake2b"):
            return None
    return manifest


def _read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a score table; empty where there is none that is whole."""
    try:
        found = json.loads(path.read_text("utf-8"))
        files = {
            name: (str(one["name"]), str(one["blake2b"])) for name, one in found["files"].items()
        }
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}
    return found if "signature" in found and "scores" in files else {}


def check_targets(ideas: Path, out: Path, matches: Path | None) -> dict[str, Path]:
    """The tables to write by what they are, if they can be written at all.

    Raises
    ------
    UsageError
        An ending that no writer knows, a folder, the ideas themselves, or one file for both.
    """
    targets = {"scores": out} | ({} if matches is None else {"matches": matches})
    for what, target in targets.items():
        if target.suffix not in _WRITERS:
            raise UsageError(f"{target}: a table ends in {', '.join(_WRITERS)}")
        if target.is_dir():
            raise UsageError(f"{target} is a folder; a file was expected for the {what}")
        if target.resolve() == ideas.resolve():
            raise UsageError(f"{target} is the file of ideas itself")
    if len({target.resolve() for target in targets.values()}) < len(targets):
        raise UsageError("--out and --matches name the same file")
    return targets


def _write_part(frame: pl.DataFrame, path: Path) -> None:
    with _write_errors(path):
        frame.write_parquet(path)


@contextmanager
def _write_errors(path: Path) -> Generator[None]:
    """A refused write is told as such, also where polars doesn't say which error it met."""
    with storage_errors(f"write {path}"):
        try:
            yield
        except pl.exceptions.ComputeError as error:
            raise StorageError(f"could not write {path}: {str(error)[:200]}") from error


def _parts(folder: Path, name: str) -> pl.LazyFrame:
    files = sorted(folder.glob(f"{name}-*.parquet"))
    if files:
        return pl.scan_parquet(files, glob=False, hive_partitioning=False)
    return pl.LazyFrame(schema=SCORE_SCHEMA if name == "scores" else MATCH_SCHEMA)


def _hashed(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()
            return {"size": file.tell(), "blake2b": digest}
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from error
