"""The job from file to file: part by part into a journal, and then to whole tables."""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hindsight_fast.candidates import TARGET, index_quality
from hindsight_fast.config import versions
from hindsight_fast.errors import DataError
from hindsight_fast.ideas import count_ideas, read_ideas
from hindsight_fast.runs._identity import identity, mark_of
from hindsight_fast.runs._manifest import hashed
from hindsight_fast.runs._scoring import Ideas, Progress, score_parts
from hindsight_fast.runs._settled import Settled, Tell, settle
from hindsight_fast.runs._spent import Spent
from hindsight_fast.runs._tables import SHARD, publish_tables, repeated_ids
from hindsight_fast.runs._targets import check_targets, done_already, state_of, states
from hindsight_fast.scoring import Scorer
from hindsight_fast.storage import Parts, storage_errors, working_parts
from hindsight_fast.summaries import notes
from hindsight_fast.tally import Tally

BATCH = 2048
"""Ideas of a part, which are in memory together."""


def score_file(
    scorer: Scorer,
    ideas: Path,
    out: Path,
    *,
    matches: Path | None = None,
    limit: int | None = None,
    strict: bool = False,
    overwrite: bool = False,
    recall: float | None = TARGET,
    progress: Progress = lambda done, total: None,
    tell: Tell = lambda line: None,
) -> dict[str, Any]:
    """Score a file of ideas into a table, and return the manifest that is written beside it.

    What is done survives any end of the process: called again with the same, it goes on behind
    the last whole part, with the same tables to the byte. What `out` holds already from the same
    ideas, pool and settings is left as it is. Tables appear whole or not at all; the manifest is
    `out` + ".manifest.json", or `manifest.json` in a folder.

    Parameters
    ----------
    ideas
        Any file that `ideas.read_ideas` reads.
    out, matches
        The score table, and the long one of the K nearest papers; .parquet, .csv or .jsonl.
        Without an ending they are folders of parquet files of 65,536 ideas each (more where there
        are over 10^9).
    limit
        Score the first so many ideas.
    strict
        Stop at the first idea that can't be read.
    overwrite
        Replace tables that were made from something else, and discard such unfinished work.
    recall
        Least share of the K nearest papers that an index is to find: how it is searched is tried
        on some of the ideas, where these are many. None: it is searched as `scorer` says.
    progress
        Called with the number of ideas done, and that of all.
    tell
        Called before the work with lines on what a precision costs and how an index is searched.

    Raises
    ------
    UsageError
        If `out` or `matches` exists and was made otherwise, or appeared meanwhile (without
        `overwrite`), or unfinished work lies there that was, or one has an ending that no writer
        knows.
    DataError
        If the ideas can't be read, or changed meanwhile, or, with `strict`, at the first bad one.
    StorageError
        If the file system refuses to write, or another process writes the same table.
    EncoderError, ArtefactError
        If the model fails, or its float32 reference can't be opened where that is needed, or the
        pool or unfinished work was damaged.
    """
    spent, given = Spent(scorer), (scorer.search, scorer.candidates)
    targets = check_targets(ideas, out, matches)
    with storage_errors(f"find {out}"):
        place = Path(os.path.realpath(out))
    before = state_of(ideas)
    content = hashed(ideas)["blake2b"]

    def unchanged() -> None:
        if state_of(ideas) != before:
            raise DataError(
                f"{ideas} changed while it was read: put it back as it was and run the same "
                "command again, or give --overwrite to begin anew"
            )

    made_from = identity(scorer, content, limit=limit, recall=recall, targets=targets, batch=BATCH)
    mark = mark_of(scorer, made_from)
    with working_parts(place.with_name(f".{place.name}.work"), "scores") as parts:
        there = None if overwrite else states(targets)
        if (done := done_already(targets, mark, made_from, overwrite=overwrite)) is not None:
            parts.keep = parts.keep and not parts.is_of(made_from)
            if strict and "unreadable" in done["counts"]["by_status"]:
                _tell_the_first_bad(ideas, limit)
            return {**done, "already_done": True}
        parts.begin(made_from, discard=overwrite, settles=True)
        facts: dict[str, Any] = {"fingerprint": mark, "made_from": made_from}
        facts["resumed"] = sum(one["counts"]["ideas"] for one in parts.whole.values())
        try:
            with spent.on("read"):
                n = count_ideas(ideas, limit)
            source = Ideas(ideas, n, BATCH, limit, strict, unchanged)
            settled = _settled(parts, scorer, spent, source, recall)
            settled.tell(tell)
            if settled.exact:
                scorer.search = "exact"
            elif settled.choice is not None:
                scorer.candidates = settled.choice
            if facts["resumed"]:
                progress(facts["resumed"], n)
            tally = score_parts(scorer, source, parts, settled, spent, progress, targets)
            facts |= tally.facts() | _conditions(scorer, settled, tally)
            facts |= _quality(scorer, parts, tally, spent)
            manifest = publish_tables(
                parts,
                targets,
                mark,
                lambda files: _manifest(scorer, facts, files, spent),
                in_shard=max(SHARD // BATCH, 1),
                before=there,
                spent=spent,
            )
        finally:
            scorer.search, scorer.candidates = given
        parts.keep = False
    return {**manifest, "already_done": False}


def _tell_the_first_bad(ideas: Path, limit: int | None) -> None:
    """Read the ideas strictly, which raises there."""
    for _ in read_ideas(ideas, limit=limit, strict=True):
        pass


def _settled(
    parts: Parts, scorer: Scorer, spent: Spent, ideas: Ideas, recall: float | None
) -> Settled:
    """As an earlier process found it, or else now."""
    if parts.settled:
        spent.take(parts.settled["spent"])
        return Settled.from_facts(parts.settled)
    with spent.on("samples"):
        settled = settle(scorer, ideas.path, ideas.n, recall)
    ideas.unchanged()
    parts.settle({**settled.facts(), "spent": spent.news()})
    return settled


def _conditions(scorer: Scorer, settled: Settled, tally: Tally) -> dict[str, Any]:
    """Devices, precision, published vectors and how an index was searched."""
    encoder, choice = scorer.encoder, settled.choice
    return {
        "device": None if encoder is None else encoder.device,
        "scan_device": scorer.exact_scan.device,
        "scan_note": scorer.exact_scan.note,
        "precision": {
            "ideas": None if encoder is None else encoder.precision,
            "papers": scorer.pool.precision,
            "costs": [cost.facts() for cost in settled.costs],
            "near_theta": tally.near_theta() if settled.costs else None,
        },
        "published": scorer.pool.check,
        "search": scorer.search,
        "index_set_aside": scorer.config.search == "auto" and _set_aside(scorer),
        "candidates": None if choice is None else choice.facts(),
    }


def _set_aside(scorer: Scorer) -> bool:
    """Whether the pool has an index that nobody opened, since somebody else made it."""
    return "index" in scorer.pool.set_aside and scorer.pool.index is None


def _quality(scorer: Scorer, parts: Parts, tally: Tally, spent: Spent) -> dict[str, Any]:
    """What did not survive, ids that repeat, and what an index lost."""
    with spent.on("count"):
        facts: dict[str, Any] = {
            "parts_lost": parts.n_lost,
            "repeated_ids": repeated_ids(parts, tally.n_ideas),
        }
    if scorer.search == "index":
        with spent.on("sample"):
            sample = tally.sample(scorer.pool.vectors.shape[1])
            found, exact = scorer.match_vectors(sample), scorer.match_exactly(sample)
            facts["index_quality"] = index_quality(found, exact)
    return facts


def _manifest(
    scorer: Scorer, facts: Mapping[str, Any], files: Mapping[str, Any], spent: Spent
) -> dict[str, Any]:
    facts = {"signature": scorer.signature, **facts, **spent.facts()}
    return {
        **facts,
        "notes": notes(facts, scorer.pool.cutoff),
        "files": files,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "machine": {"system": platform.platform(), "threads": scorer.threads},
    }
