"""Where the tables of a run go: what lies there is left alone, and what is said of it holds."""

import shutil
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Self

import pytest

from hindsight_fast import Pool, Scorer, runs, tally
from hindsight_fast.errors import ArtefactError, StorageError, UsageError
from hindsight_fast.runs._manifest import manifest_beside, rendered
from runs_world import BATCH, N, Stopped, flip, small_parts, stop_after, write_ideas
from scoring_world import World, make_world

ALL = N + 2  # with those that are bad
Progress = Callable[[int, int], None]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), index=True, theta=0.5)


@pytest.fixture
def ideas(tmp_path: Path) -> Path:
    return write_ideas(tmp_path / "ideas.jsonl")


@pytest.fixture(autouse=True)
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)


def score(world: World, ideas: Path, out: Path, search: str = "exact", **options: Any) -> Any:
    return runs.score_file(Scorer(world.pool, world.encoder, search=search), ideas, out, **options)


def meanwhile(path: Path) -> Progress:
    """Somebody else writes a file while ideas are scored."""

    def progress(done: int, _: int) -> None:
        if done == ALL:
            path.write_text("mine")

    return progress


@pytest.mark.parametrize("name", ["s.csv", "m.csv", "s.csv.manifest.json"])
def test_what_appeared_meanwhile_is_left_alone(
    world: World, ideas: Path, tmp_path: Path, name: str
) -> None:
    out, matches, theirs = tmp_path / "s.csv", tmp_path / "m.csv", tmp_path / name
    with pytest.raises(UsageError, match="somebody else"):
        score(world, ideas, out, matches=matches, progress=meanwhile(theirs))
    assert theirs.read_text() == "mine"
    hidden = {".s.csv.work", "ideas.jsonl", name}
    assert {file.name for file in tmp_path.iterdir()} == hidden
    theirs.unlink()
    assert score(world, ideas, out, matches=matches)["resumed"] == ALL
    assert len(runs.verify(out)) == 2


def test_a_folder_that_appeared_meanwhile_is_left_alone(
    world: World, ideas: Path, tmp_path: Path
) -> None:
    out = tmp_path / "s.csv"

    def progress(_done: int, _total: int) -> None:
        out.mkdir(exist_ok=True)

    with pytest.raises(UsageError, match="somebody else"):
        score(world, ideas, out, progress=progress)
    assert out.is_dir() and not any(out.iterdir())
    out.rmdir()
    with pytest.raises(StorageError, match="could not write"):
        score(world, ideas, out, overwrite=True, progress=progress)
    assert out.is_dir() and not any(out.iterdir())


def test_what_was_changed_meanwhile_is_left_alone_unless_that_was_asked_for(
    world: World, ideas: Path, tmp_path: Path
) -> None:
    out = tmp_path / "s.csv"
    score(world, ideas, out)
    out.write_text("cut")  # as a kill may leave it: it is made again
    with pytest.raises(UsageError, match="somebody else"):
        score(world, ideas, out, progress=meanwhile(out))
    assert out.read_text() == "mine"
    score(world, ideas, out, overwrite=True, progress=meanwhile(out))
    assert runs.verify(out) == ["s.csv"]


def test_a_manifest_without_its_table_is_not_replaced_unasked(
    world: World, ideas: Path, tmp_path: Path
) -> None:
    out = tmp_path / "s.csv"
    manifest = tmp_path / "s.csv.manifest.json"
    score(world, ideas, out)
    out.rename(tmp_path / "elsewhere.csv")
    before = manifest.read_bytes()
    with pytest.raises(UsageError, match=r"json exists and .* other .* \(limit: none, now 5\)"):
        score(world, ideas, out, limit=5)
    assert manifest.read_bytes() == before and not out.exists()
    score(world, ideas, out)  # of the same run it is
    assert out.read_bytes() == (tmp_path / "elsewhere.csv").read_bytes()
    out.unlink()
    assert score(world, ideas, out, limit=5, overwrite=True)["counts"]["ideas"] == 5


def test_matches_are_checked_wherever_they_lie(world: World, ideas: Path, tmp_path: Path) -> None:
    for folder in ("a", "b/c"):
        (tmp_path / folder).mkdir(parents=True)
    out, matches = tmp_path / "a/s.parquet", tmp_path / "b/c/m.parquet"
    score(world, ideas, out, matches=matches)
    assert runs.verify(out) == ["s.parquet", "m.parquet"]
    moved = tmp_path / "moved"
    moved.mkdir()
    for folder in ("a", "b"):
        (tmp_path / folder).rename(moved / folder)
    assert runs.verify(moved / "a/s.parquet") == ["s.parquet", "m.parquet"]
    (moved / "b/c/m.parquet").write_bytes(b"another")
    with pytest.raises(ArtefactError, match=r"m\.parquet was changed"):
        runs.verify(moved / "a/s.parquet")


def test_a_copy_or_a_renamed_table_is_checked_itself(
    world: World, ideas: Path, tmp_path: Path
) -> None:
    out, copy, renamed = (tmp_path / f"{name}.parquet" for name in "abc")
    score(world, ideas, out, matches=tmp_path / "m.parquet")
    shutil.copy(out, copy)
    shutil.copy(manifest_beside(out), manifest_beside(copy))
    assert runs.verify(copy) == ["b.parquet", "m.parquet"]
    flip(copy, 500)
    with pytest.raises(ArtefactError, match=r"b\.parquet was changed"):
        runs.verify(copy)
    out.rename(renamed)
    manifest_beside(out).rename(manifest_beside(renamed))
    assert runs.verify(renamed) == ["c.parquet", "m.parquet"]


def test_older_manifests_name_what_lies_beside(world: World, ideas: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.csv"
    manifest = score(world, ideas, out, matches=tmp_path / "m.csv")
    del manifest["already_done"]
    for facts in manifest["files"].values():
        del facts["path"]
    (tmp_path / "s.csv.manifest.json").write_bytes(rendered(manifest))
    assert runs.verify(out) == ["s.csv", "m.csv"]


def test_of_shards_the_matches_are_checked_too(world: World, ideas: Path, tmp_path: Path) -> None:
    out, matches = tmp_path / "s", tmp_path / "elsewhere" / "m"
    score(world, ideas, out, matches=matches)
    assert len(runs.verify(out)) == len(runs.verify(matches)) == 4
    whole = (matches / "part-0000001.parquet").read_bytes()
    (matches / "part-0000001.parquet").write_bytes(whole[:-1] + b"x")
    with pytest.raises(ArtefactError, match="part-0000001"):
        runs.verify(out)
    score(world, ideas, tmp_path / "s2", matches=matches, limit=30, overwrite=True)
    with pytest.raises(ArtefactError, match="by another run"):
        runs.verify(out)


def test_scores_name_the_matches_of_a_killed_process(
    world: World, ideas: Path, tmp_path: Path
) -> None:
    out, matches = tmp_path / "s", tmp_path / "m"
    first = score(world, ideas, out, matches=matches)
    out.rename(tmp_path / "gone")  # a kill between the two leaves the matches alone
    again = score(world, ideas, out, matches=matches)
    assert again["files"] == first["files"] and again["files"]["matches"]["shards"] == 4


def test_a_manifest_speaks_for_its_own_table_only(
    world: World, ideas: Path, tmp_path: Path
) -> None:
    """A kill between the two leaves an older table beside a new manifest."""
    out = tmp_path / "s.csv"
    score(world, ideas, out, limit=9)
    older = out.read_bytes()
    score(world, ideas, out, overwrite=True)
    assert runs.describe(out)["counts"]["ideas"] == ALL
    out.write_bytes(older)
    with pytest.raises(ArtefactError, match="its manifest says"):
        runs.describe(out)
    out.unlink()
    with pytest.raises(ArtefactError, match="missing"):
        runs.describe(out)


def test_where_ideas_were_scanned_adds_up(world: World, ideas: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        score(world, ideas, tmp_path / "s.csv", progress=stop_after(20))
    summary = score(world, ideas, tmp_path / "s.csv")
    assert summary["resumed"] == 3 * BATCH and summary["scanned"] == {"cpu": N - 1}
    sampled = score(world, ideas, tmp_path / "i.csv", "index")
    assert sampled["scanned"] == {"cpu": sampled["index_quality"]["n_sampled"]}


@pytest.mark.parametrize(("search", "noted"), [("auto", True), ("exact", False), ("index", False)])
def test_an_index_that_was_set_aside_is_noted(
    world: World,
    ideas: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    search: str,
    noted: bool,
) -> None:
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path / "home"))
    scorer = Scorer(Pool.open(world.pool.path), world.encoder, search=search)
    summary = runs.score_file(scorer, ideas, tmp_path / "s.csv")
    assert any("index was made by somebody else" in note for note in summary["notes"]) == noted


def test_dates_of_all_parts_are_read_on_one_day(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the far future is none, and which these are depends on the day."""
    day = (date.today() + timedelta(405)).isoformat()
    ideas = write_ideas(tmp_path / "ideas.jsonl", knowledge_date=day)
    with pytest.raises(Stopped):
        score(world, ideas, tmp_path / "s.csv", progress=stop_after(20))

    class Later(date):
        @classmethod
        def today(cls) -> Self:
            return cls.fromordinal(date.today().toordinal() + 30)

    monkeypatch.setattr(tally, "date", Later)
    summary = score(world, ideas, tmp_path / "s.csv")
    assert summary["resumed"] and summary["counts"]["knowledge_date_not_understood"] == N - 1
