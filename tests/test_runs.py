"""Runs from file to file: what is counted, what the summary says, what an index lost."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from hindsight_fast import Scorer, runs
from hindsight_fast.candidates import index_quality, interval
from hindsight_fast.encoding import embed_store
from hindsight_fast.errors import ArtefactError, DataError, StorageError, UsageError
from hindsight_fast.explanation import explain_idea
from hindsight_fast.ideas import Idea, ideas_frame, read_ideas
from hindsight_fast.pool import build_pool
from hindsight_fast.storage import working_folder
from hindsight_fast.store import build_store
from hindsight_fast.tally import Tally
from hindsight_kernels import Matches
from paper_tables import paper, table
from scoring_world import E, T, World, made_up_ideas, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), index=True, theta=0.5)


@pytest.fixture
def ideas(tmp_path: Path) -> Path:
    path = tmp_path / "ideas.jsonl"
    records: list[Any] = [*made_up_ideas(50), {"text": "no"}, {"id": "x", "text": ""}]
    records[3]["knowledge_date"] = "2023"  # may be December
    records[4]["knowledge_date"] = "2023-05"
    records[5]["knowledge_date"] = "2023-06-01"
    records[6]["knowledge_date"] = "the third quarter"
    text = "".join(json.dumps(record) + "\n" for record in records)
    path.write_text(text + "{broken\n")
    return path


def score(world: World, ideas: Path, out: Path, **options: Any) -> dict[str, Any]:
    return runs.score_file(Scorer(world.pool, world.encoder), ideas, out, **options)


def test_the_summary_counts_what_the_table_holds(world: World, ideas: Path, tmp_path: Path) -> None:
    summary = score(world, ideas, tmp_path / "s.parquet")
    table = pl.read_parquet(tmp_path / "s.parquet")
    frame = pl.concat(read_ideas(ideas, batch=100))
    similarities = Scorer(world.pool, world.encoder).score_batch(frame).matches.similarities
    near = np.abs(similarities - np.float32(world.pool.theta)) <= 1e-4
    assert summary["counts"] == {
        "ideas": 53,
        "scored": 50,
        "by_status": {"empty": 1, "ok": 50, "too_short": 1, "unreadable": 1},
        "knowledge_on_or_after_cutoff": 2,
        "knowledge_date_not_understood": 1,
        "saturated": int(table["saturated"].sum()),
        "near_theta": int(near.any(axis=1).sum()),
        "retried": 0,
    }
    assert summary["n_nominated"] >= 50 * world.pool.k
    assert summary["precision"] == {
        "ideas": "float32",
        "papers": "float32",
        "costs": [],
        "near_theta": None,
    }
    assert summary["cache"] is None
    for system in summary["systems"]:
        name = system["system"]
        rows = table.filter(pl.col("system").eq_missing(pl.lit(name, dtype=pl.String)))
        assert system["n"] == rows.height
        assert system["n_matched"] == rows["matched"].sum()
        assert system["mean_score"] == pytest.approx(rows["score"].cast(pl.Float64).mean())
        if name is not None:
            assert set(system["shapes"]) <= {"title+detail", "problem+method", "one text"}
            assert sum(system["shapes"].values()) == system["n_scored"] == 25
    assert "2 ideas know of 2023-06-01 or later, and so are no forecasts" in summary["notes"]
    assert summary["notes"][0].startswith("not scored, left out of means: 1 empty")
    assert json.loads((tmp_path / "s.parquet.manifest.json").read_text())["counts"]


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_the_table_does_not_depend_on_batches(
    world: World, ideas: Path, tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Scorer(world.pool, world.encoder).score(pl.concat(read_ideas(ideas)))
    monkeypatch.setattr("hindsight_fast.runs._job.BATCH", batch)
    score(world, ideas, tmp_path / "s.parquet", matches=tmp_path / "m.parquet")
    assert pl.read_parquet(tmp_path / "s.parquet").equals(whole)
    matches = pl.read_parquet(tmp_path / "m.parquet")
    assert matches.height == 50 * world.pool.k
    best = matches.filter(pl.col("rank") == 1)["paper_id"]
    assert best.to_list() == whole.drop_nulls("nearest_paper_id")["nearest_paper_id"].to_list()


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_every_ending_holds_the_same_bytes_each_time(
    world: World, ideas: Path, tmp_path: Path, ending: str
) -> None:
    for name in ("one", "two"):
        score(world, ideas, tmp_path / f"{name}.{ending}")
    one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("one", "two"))
    assert one == two


def test_limit_and_strict(world: World, ideas: Path, tmp_path: Path) -> None:
    assert score(world, ideas, tmp_path / "a.csv", limit=5)["counts"]["ideas"] == 5
    with pytest.raises(DataError, match="line 53"):
        score(world, ideas, tmp_path / "b.csv", strict=True)
    assert not (tmp_path / "b.csv").exists() and not (tmp_path / ".b.csv.work").exists()


def test_a_refused_write_has_a_sentence(world: World, ideas: Path, tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path; sys.path[:0] = sys.argv[4:]\n"
        "from hindsight_fast import Pool, Scorer, load_encoder, runs\n"
        "from hindsight_fast.errors import StorageError\n"
        "pool = Path(sys.argv[1])\n"
        "scorer = Scorer(Pool.open(pool), load_encoder(pool.parent / 'models' / 'tiny'))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))\n"
        "try:\n    runs.score_file(scorer, Path(sys.argv[2]), Path(sys.argv[3]))\n"
        "except StorageError as error:\n    sys.exit('could not' in str(error) and 5)\n"
    )
    arguments = [world.folder / "pool", ideas, tmp_path / "s.parquet", *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], timeout=120, check=False
    )
    assert done.returncode == 5
    assert not (tmp_path / "s.parquet").exists() and not (tmp_path / ".s.parquet.work").exists()


def test_two_runs_into_one_table_are_kept_apart(world: World, ideas: Path, tmp_path: Path) -> None:
    with working_folder(tmp_path / ".s.csv.work"), pytest.raises(StorageError, match="another"):
        score(world, ideas, tmp_path / "s.csv")
    score(world, ideas, tmp_path / "s.csv")


def test_a_foreign_file_is_never_replaced_unasked(
    world: World, ideas: Path, tmp_path: Path
) -> None:
    (tmp_path / "s.csv").write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        score(world, ideas, tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text() == "mine"
    with pytest.raises(ArtefactError, match="no score table"):
        runs.describe(tmp_path / "s.csv")
    with pytest.raises(UsageError, match="name the same file"):
        score(world, ideas, tmp_path / "x.csv", matches=tmp_path / "x.csv")


def test_other_settings_are_another_run(world: World, ideas: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.csv"
    marks = {score(world, ideas, out)["fingerprint"]}
    settings: list[dict[str, Any]] = [{"k": 3}, {"theta": 0.6}, {"search": "index"}]
    for options in settings:
        other = Scorer(world.pool, world.encoder, **options)
        marks.add(runs.score_file(other, ideas, out, overwrite=True)["fingerprint"])
    ideas.write_text(ideas.read_text() + '{"text": "one more idea of the model we learn"}\n')
    marks.add(score(world, ideas, out, overwrite=True)["fingerprint"])
    assert len(marks) == 5


def test_what_an_index_lost_is_counted() -> None:
    def found(rows: list[list[int]], near: list[list[float]], scores: list[float]) -> Matches:
        n = len(rows)
        nothing = np.zeros(n, np.int32)
        return Matches(
            rows=np.array(rows, np.int32),
            similarities=np.array(near, np.float32).reshape(n, 3),
            n_matches=nothing,
            scores=np.array(scores, np.float32),
            best_rows=nothing,
            best_similarities=np.zeros(n, np.float32),
        )

    none = float("-inf")
    exact = found([[0, 1, 2], [3, 4, -1]], [[0.9, 0.8, 0.7], [0.6, 0.5, none]], [0.5, 0.1])
    lossy = found([[0, 2, 7], [4, 3, -1]], [[0.9, 0.7, 0.3], [0.6, 0.5, none]], [0.5, 0.0])
    assert index_quality(lossy, exact) == {
        "n_sampled": 2,
        "recall": 4 / 5,
        "recall_interval": interval(0.8, 2),
        "equal_scores": 0.5,
        "equal_scores_interval": interval(0.5, 2),
    }
    as_good = lossy._replace(similarities=exact.similarities)  # 7 is as near as 1 is
    assert index_quality(as_good, exact)["recall"] == 1
    nothing = found([], [], [])._replace(rows=np.zeros((0, 3), np.int32))
    assert index_quality(nothing, nothing)["recall"] is None


def test_intervals_are_those_of_wilson() -> None:
    # Of 10 trials 0, 5 and 10 succeed: scipy.stats.binomtest(...).proportion_ci(method="wilson").
    for share, right in (
        (0.0, [0.0, 0.2775328]),
        (0.5, [0.2365931, 0.7634069]),
        (1.0, [0.7224672, 1.0]),
    ):
        assert interval(share, 10) == pytest.approx(right, abs=1e-6)


@pytest.mark.parametrize(("apart", "is_near"), [(0.0, True), (9e-5, True), (1.1e-4, False)])
def test_ideas_near_theta_are_counted(world: World, apart: float, is_near: bool) -> None:
    ideas = ideas_frame([Idea(**one) for one in made_up_ideas(1)])
    nearest = Scorer(world.pool, world.encoder, k=1).score_batch(ideas).matches.similarities[0, 0]
    theta = float(nearest) - apart
    scored = Scorer(world.pool, world.encoder, k=1, theta=theta).score_batch(ideas)
    tally = Tally(world.pool.cutoff, sampling=False, theta=theta)
    tally.add(ideas, scored)
    facts = tally.facts()
    assert facts["counts"]["near_theta"] == is_near


def test_the_sample_is_drawn_from_all_ideas(world: World) -> None:
    scorer, tally = Scorer(world.pool, world.encoder), Tally(world.pool.cutoff, sampling=True)
    scored = scorer.score_batch(ideas_frame([Idea(**one) for one in made_up_ideas(300)]))
    tally.add(ideas_frame([]), scored)
    sample = tally.sample(world.encoder.dim)
    places = [int(np.flatnonzero((scored.vectors == one).all(axis=1))[0]) for one in sample]
    assert len(sample) == 256 == len(set(places))
    assert max(places) >= 256
    kept = tally._sample.vectors  # pyright: ignore[reportPrivateUsage]
    assert kept.base is None  # a view would keep its whole batch alive


def test_an_explanation_says_what_the_table_says(world: World) -> None:
    scorer = Scorer(world.pool, world.encoder)
    idea = ideas_frame([Idea(**made_up_ideas(1)[0])])
    row, explained = scorer.score(idea).row(0, named=True), explain_idea(scorer, idea)
    assert f"Score {row['score']:.4f}: {row['n_matches']} of the 5 nearest" in explained.text
    assert row["best_title"] in explained.text and f"= {row['best_impact']:.4f}" in explained.text
    assert [one[0] for one in explained.rows].count("match") == row["n_matches"]
    strict = Scorer(world.pool, world.encoder, theta=1.0)
    assert "Score 0: no paper" in explain_idea(strict, idea).text
    assert "too little" in explain_idea(strict, idea).text
    nothing = explain_idea(scorer, ideas_frame([Idea()]))
    assert nothing.text == "Not scored: the idea has no text." and not nothing.rows


def test_papers_that_their_venue_alone_dates_are_told(world: World, tmp_path: Path) -> None:
    kinds = ["first_public", "venue", "year"]
    papers = [paper(i, date_kind=kinds[i % 3]) for i in range(60)]
    store = build_store(table(papers), tmp_path / "store")
    embed_store(store, world.encoder)
    pool = build_pool(store, tmp_path / "pool", cutoff=T, until=E, k=5, theta=0.0)
    scorer, given = Scorer(pool, world.encoder), made_up_ideas(40)
    (tmp_path / "ideas.jsonl").write_text("".join(json.dumps(one) + "\n" for one in given))
    summary = runs.score_file(scorer, tmp_path / "ideas.jsonl", tmp_path / "s.parquet")
    scores = pl.read_parquet(tmp_path / "s.parquet")
    right = [kinds[int(best[1:]) % 3] for best in scores["best_paper_id"]]
    assert scores["best_date_kind"].to_list() == right and set(right) == set(kinds)
    weak = sum(kind != "first_public" for kind in right)
    assert sum(one["n_weakly_dated"] for one in summary["systems"]) == weak
    assert (
        f"{weak} ideas have a best paper that is dated by its venue or its year alone"
        in "".join(summary["notes"])
    )
    for one, kind in zip(given[:9], right[:9], strict=True):
        told = explain_idea(scorer, ideas_frame([Idea(**one)])).text
        assert (f"dated by its {kind} alone" in told) == (kind != "first_public")
