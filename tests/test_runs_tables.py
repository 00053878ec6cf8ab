"""Tables of a run: shards, targets, repeated ids, ideas near theta."""

import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindsight_fast import Scorer, runs
from hindsight_fast.errors import ArtefactError, HindsightError, StorageError, UsageError
from hindsight_fast.ideas import read_ideas
from runs_world import (
    BATCH,
    N,
    Watched,
    flip,
    score,
    small_parts,
    write_ideas,
)
from scoring_world import World, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), index=True, theta=0.5)


@pytest.fixture
def encoder(world: World) -> Watched:
    return Watched(world.folder / "models" / "tiny", device="cpu", threads=2)


@pytest.fixture(autouse=True)
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)


@pytest.fixture
def ideas(tmp_path: Path) -> Path:
    return write_ideas(tmp_path / "ideas.jsonl")


def test_shards_hold_the_rows_of_one_table(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    done = score(Scorer(world.pool, encoder), ideas, tmp_path, "shards")
    score(Scorer(world.pool, encoder), ideas, tmp_path, "parquet")
    for name in "sm":
        assert sorted(file.name for file in (tmp_path / name).glob("*")) == [
            "manifest.json",
            *(f"part-{i:07d}.parquet" for i in range(4)),
        ]
        shards = pl.scan_parquet(tmp_path / name / "*.parquet").collect()
        assert shards.equals(pl.read_parquet(tmp_path / f"{name}.parquet"))
    first = pl.read_parquet(tmp_path / "s" / "part-0000000.parquet")
    assert first.height == 2 * BATCH
    facts = runs.describe(tmp_path / "s")
    assert facts["kind"] == "score table" and facts["counts"] == done["counts"]
    assert facts["files"]["scores"]["shards"] == 4
    assert runs.verify(tmp_path / "s") == [f"part-{i:07d}.parquet" for i in range(4)]
    with pytest.raises(UsageError, match=r"made from other input or settings \(K: \d+, now 3\)"):
        score(Scorer(world.pool, encoder, k=3), ideas, tmp_path, "shards")
    flip(tmp_path / "s" / "part-0000001.parquet", 500)
    with pytest.raises(ArtefactError, match="part-0000001"):
        runs.verify(tmp_path / "s")
    score(Scorer(world.pool, encoder), ideas, tmp_path, "shards", overwrite=True)
    assert runs.verify(tmp_path / "s")


def test_targets_that_can_not_be(world: World, ideas: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="both be files, or both folders"):
        runs.check_targets(ideas, tmp_path / "s", tmp_path / "m.csv")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    for path, why in ((tmp_path / "mine", "not made by this"), (world.folder / "pool", "a pool")):
        with pytest.raises(UsageError, match=why):
            runs.check_targets(ideas, path, None)


@pytest.mark.parametrize(
    ("out", "matches", "why"),
    [
        ("s", "s/m", "must lie apart"),
        ("m/s", "m", "must lie apart"),
        ("s.csv", "s.csv/m.csv", "must lie apart"),
        ("s.csv", "pool/m.csv", "would lie inside .*, a pool"),
        ("s", "pool/new/m", "would lie inside .*, a pool"),
        ("pool/s", None, "would lie inside .*, a pool"),
        ("s.csv", "ideas.jsonl/m.csv", r"could not write .*m\.csv: Not a directory"),
        ("ideas.jsonl/new/s", None, "could not write .*s: Not a directory"),
    ],
)
def test_places_where_no_table_can_be(
    world: World, ideas: Path, tmp_path: Path, out: str, matches: str | None, why: str
) -> None:
    (tmp_path / "pool").symlink_to(world.folder / "pool")
    beside = None if matches is None else tmp_path / matches
    with pytest.raises(HindsightError, match=why):
        runs.check_targets(ideas, tmp_path / out, beside)
    assert not (tmp_path / "s").exists() and not (tmp_path / "m").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_without_rights(ideas: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o555)
    with pytest.raises(StorageError, match="no right"):
        runs.check_targets(ideas, tmp_path / "s.csv", theirs / "new" / "m.csv")


def test_shards_are_no_more_than_a_manifest_can_name(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindsight_fast.runs._tables.MAX_FILES", 3)
    score(Scorer(world.pool, encoder), ideas, tmp_path, "shards")
    for name in "sm":
        assert len(runs.verify(tmp_path / name)) == 3
    assert pl.scan_parquet(tmp_path / "s" / "*.parquet").collect().height == N + 2


@pytest.mark.parametrize("at_once", [5, 1 << 20])
def test_repeated_ids_are_counted_in_rounds(
    world: World,
    encoder: Watched,
    ideas: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
) -> None:
    records = [{"id": f"i{i % 37}", "text": "an idea of the graph we learn"} for i in range(N)]
    ideas.write_text("".join(json.dumps(one) + "\n" for one in records))
    monkeypatch.setattr("hindsight_fast.runs._tables._AT_ONCE", at_once)
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["repeated_ids"] == N - 37


def test_ideas_near_theta_are_flagged(world: World, encoder: Watched, ideas: Path) -> None:
    frame = pl.concat(read_ideas(ideas))
    nearest = Scorer(world.pool, encoder).score_batch(frame).matches.similarities
    theta = float(nearest[7, 2])
    scored = Scorer(world.pool, encoder, theta=theta).score_batch(frame)
    flags = scored.scores["near_theta"]
    apart = np.abs(nearest.astype(np.float64) - float(np.float32(theta)))
    close = [bool(one.any()) for one in apart <= 1e-4]
    assert flags.drop_nulls().to_list() == close and close[7] and not all(close)
    assert flags.null_count() == 3 == scored.scores["score"].null_count()
