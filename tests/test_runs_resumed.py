"""Runs that end early and go on: what is whole is kept, what isn't is made again, and no other."""

import json
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from hindsight_fast import Scorer, runs
from hindsight_fast.encoders import Encoder
from hindsight_fast.errors import ArtefactError, DataError, StorageError, UsageError
from hindsight_fast.ideas import read_ideas
from hindsight_fast.runs import _settled
from hindsight_fast.storage import working_parts
from hindsight_models import Encoded, Progress
from scoring_world import Rounded, World, made_up_ideas, make_world

BATCH, N = 8, 60  # ideas of a part, and in all; two more are bad
FORMS = {
    "parquet": ("s.parquet", "m.parquet"),
    "csv": ("s.csv", "m.csv"),
    "jsonl": ("s.jsonl", "m.jsonl"),
    "shards": ("s", "m"),
}


class Watched(Encoder):
    """A real encoder that remembers how many texts it was given."""

    n_texts = 0

    def encode_counted(
        self, pairs: Sequence[tuple[str, str]], progress: Progress | None = None
    ) -> Encoded:
        """Like `Encoder.encode_counted`."""
        self.n_texts += len(pairs)
        return super().encode_counted(pairs, progress)

    def encode_chunks(
        self, chunks: Iterable[Sequence[tuple[str, str]]], progress: Progress | None = None
    ) -> Generator[Encoded]:
        """Like `Encoder.encode_chunks`."""
        yield from super().encode_chunks(chunks, progress)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), index=True, theta=0.5)


@pytest.fixture
def encoder(world: World) -> Watched:
    return Watched(world.folder / "models" / "tiny", device="cpu", threads=2)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hindsight_fast.runs._job.BATCH", BATCH)
    monkeypatch.setattr("hindsight_fast.runs._job.SHARD", 2 * BATCH)


@pytest.fixture
def ideas(tmp_path: Path) -> Path:
    return write_ideas(tmp_path / "ideas.jsonl")


def write_ideas(path: Path) -> Path:
    records: list[Any] = [*made_up_ideas(N - 1), {"id": "i2", "text": "no"}, {"text": ""}]
    path.write_text("".join(json.dumps(one) + "\n" for one in records) + "{broken\n")
    return path


Quiet = Callable[[str, str], tuple[dict[str, Any], dict[str, bytes]]]


@pytest.fixture(scope="module")
def quiet(world: World, tmp_path_factory: pytest.TempPathFactory) -> Quiet:
    """What a run without interruption says, and its tables, by form and search."""

    @cache
    def run(form: str, search: str) -> tuple[dict[str, Any], dict[str, bytes]]:
        folder = tmp_path_factory.mktemp("quiet")
        ideas, scorer = write_ideas(folder / "ideas.jsonl"), Scorer(world.pool, world.encoder)
        scorer.search = search
        return told(score(scorer, ideas, folder / "q", form)), tables(folder / "q")

    return run


class Stopped(BaseException):
    """What a signal raises."""


def stop_after(n: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        assert total == N + 2
        if done >= n:
            raise Stopped

    return progress


def score(scorer: Scorer, ideas: Path, folder: Path, form: str = "parquet", **options: Any) -> Any:
    out, matches = (folder / name for name in FORMS[form])
    return runs.score_file(scorer, ideas, out, matches=matches, **options)


def stopped(scorer: Scorer, ideas: Path, folder: Path, form: str = "parquet", n: int = 20) -> Path:
    """A run that ended after the part that holds idea n; returns its working folder."""
    with pytest.raises(Stopped):
        score(scorer, ideas, folder, form, progress=stop_after(n))
    out = folder / FORMS[form][0]
    assert not out.exists()
    return out.with_name(f".{out.name}.work")


def tables(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and not file.name.endswith(("manifest.json", "ideas.jsonl"))
    }


def not_again(*_: object) -> None:
    pytest.fail("it was found before")


def half(*_: object) -> float:
    return 0.5


def told(summary: dict[str, Any]) -> dict[str, Any]:
    """What a summary says but for times, and for what became of earlier work."""
    left_out = {"seconds", "written", "resumed", "parts_lost", "n_nominated"}
    return {name: value for name, value in summary.items() if name not in left_out}


@pytest.mark.parametrize("search", ["exact", "index"])
@pytest.mark.parametrize("form", FORMS)
def test_it_goes_on_behind_the_last_whole_part(
    world: World,
    encoder: Watched,
    ideas: Path,
    tmp_path: Path,
    quiet: Quiet,
    form: str,
    search: str,
) -> None:
    work = stopped(Scorer(world.pool, encoder, search=search), ideas, tmp_path / "s", form)
    lines = (work / ".journal").read_text().splitlines()
    noted = [json.loads(line[33:]) for line in lines]
    assert [one["part"] for one in noted[2:]] == [0, 1, 2]
    encoder.n_texts = 0
    again = score(Scorer(world.pool, encoder, search=search), ideas, tmp_path / "s", form)
    assert encoder.n_texts == N - 1 - 3 * BATCH
    assert again["resumed"] == 3 * BATCH and again["parts_lost"] == 0
    assert (told(again), tables(tmp_path / "s")) == quiet(form, search)
    assert again["seconds"]["total"] >= sum(
        one.get("facts", one.get("settled", {}))["spent"]["s total"] for one in noted[1:]
    )
    assert score(Scorer(world.pool, encoder, search=search), ideas, tmp_path / "s", form)[
        "already_done"
    ]


def flip(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


def damage_a_line(work: Path, number: int) -> None:
    lines = (work / ".journal").read_bytes().splitlines(keepends=True)
    (line,) = [i for i, one in enumerate(lines) if f'"part":{number}}}'.encode() in one]
    flip(work / ".journal", len(b"".join(lines[:line])) + 40)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": lambda work: flip(work / "scores-000000001", 100),
    "cut": lambda work: (work / "scores-000000001").write_bytes(b"AR"),
    "gone": lambda work: (work / "matches-000000001").unlink(),
    "sample": lambda work: flip(work / "sample-000000001", -1),
    "line": lambda work: damage_a_line(work, 1),
    "last line": lambda work: damage_a_line(work, 2),
    "torn": lambda work: (work / ".journal").write_bytes((work / ".journal").read_bytes()[:-9]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_made_again(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path, quiet: Quiet, damage: str
) -> None:
    work = stopped(Scorer(world.pool, encoder, search="index"), ideas, tmp_path / "s")
    DAMAGES[damage](work)
    encoder.n_texts = 0
    again = score(Scorer(world.pool, encoder, search="index"), ideas, tmp_path / "s")
    assert encoder.n_texts == N - 1 - 2 * BATCH
    assert again["resumed"] == 2 * BATCH and again["parts_lost"] == 1
    assert (told(again), tables(tmp_path / "s")) == quiet("parquet", "index")


OTHERS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"theta": 0.6}, {}, r"\(theta: 0.5, now 0.6\)"),
    ({"k": 3}, {}, r"\(K: 5, now 3\)"),
    ({"search": "index"}, {}, r"search: exact, now index; index: none, now .*recall: none, now "),
    ({}, {"limit": 50}, r"\(limit: none, now 50\)"),
    ({}, {"matches": None}, r"\(matches: True, now False\)"),
]


@pytest.mark.parametrize(("settings", "options", "named"), OTHERS)
def test_unfinished_work_of_something_else_is_refused(
    world: World,
    encoder: Watched,
    ideas: Path,
    tmp_path: Path,
    settings: dict[str, Any],
    options: dict[str, Any],
    named: str,
) -> None:
    work = stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    before = {file.name: file.read_bytes() for file in work.iterdir()}
    other = Scorer(world.pool, encoder, **settings)
    given: dict[str, Any] = {"matches": tmp_path / "m.parquet", **options}
    with pytest.raises(UsageError, match=named):
        runs.score_file(other, ideas, tmp_path / "s.parquet", **given)
    assert {file.name: file.read_bytes() for file in work.iterdir()} == before
    done = runs.score_file(other, ideas, tmp_path / "s.parquet", overwrite=True, **given)
    assert done["resumed"] == 0 and not work.exists()


def test_other_ideas_and_another_pool_are_named(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    ideas.write_text(ideas.read_text() + "\n")
    with pytest.raises(UsageError, match=r"\(ideas: \w+\.\.\., now "):
        score(Scorer(world.pool, encoder), ideas, tmp_path)
    ideas.write_text(ideas.read_text()[:-1])
    other = make_world(tmp_path / "other", n=40, theta=0.5)
    with pytest.raises(UsageError, match=r"\(pool: \w+, now .* vectors of papers: "):
        score(Scorer(other.pool, encoder), ideas, tmp_path)
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["resumed"] == 3 * BATCH


def test_the_same_with_overwrite_goes_on(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    (tmp_path / "s.parquet").write_text("another table")
    with pytest.raises(Stopped):
        score(Scorer(world.pool, encoder), ideas, tmp_path, overwrite=True, progress=stop_after(20))
    assert (tmp_path / "s.parquet").read_text() == "another table"
    done = score(Scorer(world.pool, encoder), ideas, tmp_path, overwrite=True)
    assert done["resumed"] == 3 * BATCH


def test_where_nothing_was_done_it_begins_anew(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError):
        score(Scorer(world.pool, encoder), ideas, tmp_path, limit=N + 2, strict=True)
    work = tmp_path / ".s.parquet.work"
    lines = (work / ".journal").read_bytes().splitlines(keepends=True)
    (work / ".journal").write_bytes(b"".join(lines[:2]))
    assert score(Scorer(world.pool, encoder, k=3), ideas, tmp_path)["resumed"] == 0


def test_a_damaged_header_is_told(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    work = stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    flip(work / ".journal", 50)
    with pytest.raises(ArtefactError, match=r"is damaged .* --overwrite"):
        score(Scorer(world.pool, encoder), ideas, tmp_path)
    assert score(Scorer(world.pool, encoder), ideas, tmp_path, overwrite=True)["resumed"] == 0


def test_two_at_one_table_are_kept_apart(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    work = stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    with working_parts(work, "scores"), pytest.raises(StorageError, match="another process"):
        score(Scorer(world.pool, encoder), ideas, tmp_path)
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["resumed"] == 3 * BATCH


def test_what_is_left_of_finished_work_goes_and_other_work_stays(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    quiet = score(Scorer(world.pool, encoder), ideas, tmp_path)
    work = tmp_path / ".s.parquet.work"
    with working_parts(work, "scores") as parts:
        parts.begin(quiet["made_from"], discard=False)
        parts.add(0, {"scores": b""}, {})
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["already_done"]
    assert not work.exists()
    with working_parts(work, "scores") as parts:
        parts.begin({"theta": 1}, discard=False)
        parts.add(0, {"scores": b""}, {})
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["already_done"]
    assert work.exists()


def test_strict_finds_what_an_earlier_run_passed_over(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    lines = ideas.read_text().splitlines()
    ideas.write_text("\n".join([lines[0], "{broken", *lines[2:]]))
    stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    with pytest.raises(DataError, match="line 2:"):
        score(Scorer(world.pool, encoder), ideas, tmp_path, strict=True)
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["resumed"] == 3 * BATCH


def test_ideas_that_change_meanwhile_are_an_error(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    def add_one(done: int, _: int) -> None:
        if done == BATCH:
            ideas.write_text(ideas.read_text() + '{"text": "one more idea of the model"}\n')

    was = ideas.read_bytes()
    with pytest.raises(DataError, match="changed while it was read"):
        score(Scorer(world.pool, encoder), ideas, tmp_path, progress=add_one)
    assert not (tmp_path / "s.parquet").exists()
    with pytest.raises(UsageError, match=r"\(ideas: "):
        score(Scorer(world.pool, encoder), ideas, tmp_path)
    ideas.write_bytes(was)
    # What was made while the file was another is not there.
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["resumed"] == BATCH


def test_unfinished_work_of_another_user_is_refused(
    world: World,
    encoder: Watched,
    ideas: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    with monkeypatch.context() as another:
        another.setattr(os, "geteuid", lambda: 1 + os.getuid())
        with pytest.raises(StorageError, match="another user's; remove it"):
            score(Scorer(world.pool, encoder), ideas, tmp_path)
    assert score(Scorer(world.pool, encoder), ideas, tmp_path)["resumed"] > 0


def test_other_dates_and_venues_are_named(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path
) -> None:
    """They are columns of the table, though no score depends on them."""
    stopped(Scorer(world.pool, encoder), ideas, tmp_path)
    scorer = Scorer(world.pool, encoder)
    was = world.pool.store.facts_id
    try:
        world.pool.store.facts_id = "another"
        with pytest.raises(UsageError, match="dates, venues and citations: "):
            score(scorer, ideas, tmp_path)
    finally:
        world.pool.store.facts_id = was


def test_how_an_index_is_searched_is_chosen_once(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_settled, "FEWEST", N)
    quiet = score(Scorer(world.pool, encoder, search="index"), ideas, tmp_path / "q", recall=0.99)
    choice = quiet["candidates"]
    assert choice["target"] == 0.99 and choice["reached"]
    assert f"candidates={choice['count']},ef={choice['expansion']}" in quiet["signature"]
    with pytest.raises(Stopped):
        score(
            Scorer(world.pool, encoder, search="index"),
            ideas,
            tmp_path / "s",
            recall=0.99,
            progress=stop_after(20),
        )
    monkeypatch.setattr(_settled, "choose", not_again)
    scorer, lines = Scorer(world.pool, encoder, search="index"), list[str]()
    with pytest.raises(UsageError, match=r"\(recall: 0.99, now 0.9\)"):
        score(scorer, ideas, tmp_path / "s", recall=0.9)
    again = score(scorer, ideas, tmp_path / "s", recall=0.99, tell=lines.append)
    assert told(again) == told(quiet) and tables(tmp_path / "s") == tables(tmp_path / "q")
    assert scorer.candidates is None and "candidates an idea, ef" in lines[0]


def test_a_recall_that_is_not_reached_is_noted(
    world: World, encoder: Watched, ideas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_settled, "FEWEST", N)
    monkeypatch.setattr("hindsight_fast.candidates.recall", half)
    done = score(Scorer(world.pool, encoder, search="index"), ideas, tmp_path)
    assert not done["candidates"]["reached"]
    (note,) = [one for one in done["notes"] if "--search exact misses none" in one]
    assert "was to find 0.999 of the nearest papers and on a sample found 0.5000" in note


def test_what_a_precision_costs_is_measured_once(
    world: World, ideas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coarse = Rounded(world.folder / "models" / "tiny", "float16", 50)
    frame = pl.concat(read_ideas(ideas))
    nearest = Scorer(world.pool, coarse).score(frame)["nearest_similarity"]
    theta = float(nearest.drop_nulls()[0])
    quiet = score(Scorer(world.pool, coarse, theta=theta), ideas, tmp_path / "q")
    assert quiet["precision"]["costs"] and quiet["precision"]["near_theta"]["any_of_k"]
    stopped(Scorer(world.pool, coarse, theta=theta), ideas, tmp_path / "s")
    monkeypatch.setattr(_settled, "measure", not_again)
    again = score(Scorer(world.pool, coarse, theta=theta), ideas, tmp_path / "s")
    assert told(again) == told(quiet)


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
    with pytest.raises(UsageError, match="already holds scores made from other input"):
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
