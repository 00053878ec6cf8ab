"""Vectors of several precisions: which may meet, what that costs, and that it is said."""

import json
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from hindsight_fast import Idea, Pool, Scorer, runs
from hindsight_fast.agreement import Agreement, compare
from hindsight_fast.costs import draw, measure, total_error
from hindsight_fast.encoders import Encoder
from hindsight_fast.encoding import VectorCache, embed_store, precision_cost, sample_papers
from hindsight_fast.errors import ArtefactError, EncoderError, UsageError
from hindsight_fast.explanation import explain_idea
from hindsight_fast.ideas import ideas_frame, read_ideas
from hindsight_fast.index import IndexConfig
from hindsight_fast.pool import build_pool
from hindsight_fast.published import check_published
from hindsight_fast.scoring import encoded_pairs
from scoring_world import E, Rounded, T, World, made_up_ideas, make_world
from tiny_model import tiny_model

STEPS = {"float16": 2048, "bfloat16": 256, "int8": 64}


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Encoder]:
    folder = tiny_model(tmp_path_factory.mktemp("models") / "tiny")
    lower = {name: Rounded(folder, name, steps) for name, steps in STEPS.items()}
    return {"float32": lower["int8"].reference(), **lower}


@pytest.fixture(scope="module")
def worlds(
    tmp_path_factory: pytest.TempPathFactory, encoders: dict[str, Encoder]
) -> dict[str, World]:
    return {
        name: make_world(tmp_path_factory.mktemp(name), theta=0.93, encoder=encoder)
        for name, encoder in encoders.items()
        if name != "bfloat16"
    }


@pytest.fixture
def ideas(tmp_path: Path) -> Path:
    path = tmp_path / "ideas.jsonl"
    records = [*made_up_ideas(150), {"text": "no"}]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_embedding_measures_tells_and_keeps_what_a_precision_costs(
    worlds: dict[str, World], encoders: dict[str, Encoder], tmp_path: Path
) -> None:
    assert worlds["float32"].pool.precision_cost is None
    store, told = make_world(tmp_path).store, list[Agreement]()
    vectors = embed_store(store, encoders["int8"], overwrite=True, tell_cost=told.append)
    rows, pairs = sample_papers(store, 0, store.n)
    expected = compare(
        encoders["float32"].encode(pairs), vectors.array[rows], encoders["int8"].theta
    )
    assert told == [expected] and vectors.manifest.body["precision_cost"] == expected.facts()
    assert worlds["int8"].pool.precision_cost is not None
    scorer = Scorer(worlds["int8"].pool, encoders["int8"])
    papers = measure(scorer, ideas_frame([]))[0]
    assert papers.agreement.facts() == worlds["int8"].pool.precision_cost
    scorer.pool.precision_cost = None  # older vectors: measured on the pool's own papers
    try:
        assert measure(scorer, ideas_frame([]))[0].error == pytest.approx(papers.error, rel=0.5)
    finally:
        scorer.pool.precision_cost = papers.agreement.facts()


@pytest.mark.parametrize("papers", ["float32", "float16", "int8"])
@pytest.mark.parametrize("own", ["float32", "float16", "bfloat16", "int8", None])
def test_what_may_meet(
    worlds: dict[str, World], encoders: dict[str, Encoder], papers: str, own: str | None
) -> None:
    pool, encoder = worlds[papers].pool, None if own is None else encoders[own]
    assert pool.precision == papers
    if papers == "int8" and own != "int8":
        with pytest.raises(EncoderError, match="--allow-precision int8 "):
            Scorer(pool, encoder)
        with pytest.raises(EncoderError, match="--allow-precision int8 "):
            Scorer(pool, encoder, allow=["bfloat16"])
    scorer = Scorer(pool, encoder, allow=["int8"] if papers == "int8" != own else ())
    said = {"paper_precision": papers, "idea_precision": own or "float32"}
    for side, made_in in said.items():
        expected = made_in != "float32"
        assert (f" {side}={made_in} " in scorer.signature) == expected
        assert (side in scorer.signature) == expected


def test_a_pool_knows_the_precision_that_it_was_made_with(
    worlds: dict[str, World], encoders: dict[str, Encoder], tmp_path: Path
) -> None:
    marks = {world.pool.manifest.fingerprint for world in worlds.values()}
    assert len(marks) == len(worlds)
    world = make_world(tmp_path, encoder=encoders["float32"])
    embed_store(world.store, encoders["float16"], overwrite=True)
    with pytest.raises(ArtefactError, match="made with float32 vectors, its store now has float16"):
        Pool.open(tmp_path / "pool")


class Foreign:
    """Vectors of every paper, by nobody's model."""

    identity, label, counts = "f" * 32, "foreign", dict[str, int]()

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        vectors = np.random.default_rng(0).standard_normal((self.n, 32)).astype(np.float32)
        yield np.arange(self.n), vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("index", [False, True])
def test_vectors_taken_over_are_part_of_what_a_pool_and_a_run_are(
    encoders: dict[str, Encoder], ideas: Path, tmp_path: Path, index: bool
) -> None:
    encoder, out = encoders["float32"], tmp_path / "s.csv"
    world = make_world(tmp_path, encoder=encoder, index=index)
    runs.score_file(Scorer(world.pool, encoder), ideas, out)
    embed_store(
        world.store,
        encoder,
        taken=[Foreign(world.store.n)],
        check=lambda rows, read: check_published(
            world.store, encoder, rows, read, force=True
        ).facts(),
        overwrite=True,
    )
    with pytest.raises(ArtefactError, match="took over other vectors from elsewhere"):
        Pool.open(tmp_path / "pool")
    rebuild = partial(
        build_pool,
        world.store,
        tmp_path / "pool",
        cutoff=T,
        until=E,
        k=5,
        index=IndexConfig() if index else None,
    )
    with pytest.raises(UsageError, match="made from other input"):
        rebuild()
    taken = rebuild(overwrite=True)
    assert " taken=" in taken.signature(5, 0.9, "exact") != world.pool.signature(5, 0.9, "exact")
    with pytest.raises(UsageError, match="other ideas or settings"):
        runs.score_file(Scorer(taken, encoder), ideas, out)
    summary = runs.score_file(Scorer(taken, encoder), ideas, out, overwrite=True)
    assert summary["published"]["passed"] is False
    assert any("they are not this encoder's" in line for line in summary["notes"])
    explained = explain_idea(Scorer(taken, encoder), next(read_ideas(ideas, limit=1)))
    assert "they are not this encoder's" in explained.text


def test_the_cost_of_ideas_is_that_of_the_definition(
    worlds: dict[str, World], encoders: dict[str, Encoder]
) -> None:
    pool, frame = worlds["float32"].pool, ideas_frame([Idea(**one) for one in made_up_ideas(40)])
    pairs = encoded_pairs(frame)
    right, coarse = (encoders[name].encode(pairs) for name in ("float32", "int8"))
    scorer = Scorer(pool, encoders["int8"])
    (cost,) = measure(scorer, frame)
    assert (cost.side, cost.precision, cost.agreement.n) == ("ideas", "int8", 40)
    assert cost.agreement == compare(right, coarse, 0.93)
    assert cost.agreement == precision_cost(encoders["int8"], pairs, 0.93)
    nearest = scorer.match_exactly(right)
    errors = [
        abs(float(np.dot(right[i].astype(float) - coarse[i].astype(float), pool.vectors[row])))
        for i, rows in enumerate(nearest.rows)
        for row in rows
    ]
    assert cost.neighbour_error == pytest.approx(max(errors), abs=1e-12)
    scores = Scorer(pool).score_vectors(right)["score"], Scorer(pool).score_vectors(coarse)["score"]
    assert cost.equal_scores == (scores[0] == scores[1]).mean()
    assert 0 < cost.error < 0.1 and 0.5 < (cost.equal_scores or 0) < 1
    finer = measure(Scorer(pool, encoders["float16"]), frame)[0]
    assert 0 < finer.error < cost.error / 4
    assert not measure(Scorer(pool, encoders["float32"]), frame)
    assert precision_cost(encoders["float32"], pairs, 0.93) is None
    assert not measure(scorer, frame[:0])


def test_the_cost_of_papers_adds_to_that_of_ideas(
    worlds: dict[str, World], encoders: dict[str, Encoder]
) -> None:
    world = worlds["float16"]
    scorer = Scorer(world.pool, encoders["float32"])
    (cost,) = measure(scorer, ideas_frame([]))
    assert cost.side == "papers" and cost.equal_scores is None and 0 < cost.error < 0.01
    both = measure(Scorer(world.pool, encoders["float16"]), ideas_frame([Idea(**made()[0])]))
    assert [one.side for one in both] == ["ideas", "papers"]
    assert both[0].agreement.similarity_error is None and both[0].error > 0  # by its neighbours
    assert total_error(both) == both[0].error + both[1].error
    rows, pairs = sample_papers(world.store, 0, world.store.n)
    again, _ = sample_papers(world.store, 0, world.store.n)
    assert rows.tolist() == again.tolist() and len(set(rows.tolist())) == len(pairs) <= 64
    papers = world.store.papers()
    for row, (title, _) in zip(rows.tolist(), pairs, strict=True):
        assert papers["title"][row] == title
    assert sample_papers(world.store, 5, 5)[1] == []


def made() -> list[dict[str, Any]]:
    return made_up_ideas(3)


@pytest.mark.parametrize(
    ("own", "papers"), [("float16", "float32"), ("float32", "float16"), ("int8", "float16")]
)
def test_a_run_counts_the_ideas_within_its_error_of_theta(
    worlds: dict[str, World],
    encoders: dict[str, Encoder],
    ideas: Path,
    tmp_path: Path,
    own: str,
    papers: str,
) -> None:
    world, told = worlds[papers], list[str]()
    vectors = encoders[own].encode(encoded_pairs(pl.concat(read_ideas(ideas))))
    similarities = vectors.astype(float) @ np.asarray(world.pool.vectors, float).T
    similarities = np.sort(similarities[:, world.pool.impact >= 0], axis=1)[:, ::-1][:, :5]
    theta = float(np.float32(np.median(similarities[:, 0])))
    scorer = Scorer(world.pool, encoders[own], theta=theta)
    summary = runs.score_file(scorer, ideas, tmp_path / "s.csv", tell=told.append)
    precision = summary["precision"]
    sides = {"ideas": own, "papers": papers}
    lower = {side: name for side, name in sides.items() if name != "float32"}
    assert {side: precision[side] for side in sides} == sides
    assert {cost["side"]: cost["precision"] for cost in precision["costs"]} == lower
    error = sum(cost["error"] for cost in precision["costs"])
    near = np.abs(similarities.astype(np.float32).astype(float) - theta) <= error
    assert precision["near_theta"] == {
        "error": error,
        "nearest": int(near[:, 0].sum()),
        "any_of_k": int(near.any(axis=1).sum()),
    }
    assert 0 < near[:, 0].sum() < 150
    (note,) = [line for line in summary["notes"] if "of theta" in line]
    assert note.startswith(f"{near[:, 0].sum()} of 150 ideas have their nearest paper within")
    assert len(told) == len(lower)
    for line, (side, name) in zip(told, lower.items(), strict=True):
        assert line.startswith(f"what {name} {side} cost, ") and "compared with float32" in line
    assert json.loads((tmp_path / "s.csv.manifest.json").read_text())["precision"] == precision


def test_precision_is_part_of_what_a_run_is(
    worlds: dict[str, World], encoders: dict[str, Encoder], ideas: Path, tmp_path: Path
) -> None:
    pool, marks = worlds["float32"].pool, set[str]()
    for name in ("float32", "float16", "int8"):
        scorer, out = Scorer(pool, encoders[name]), tmp_path / "s.csv"
        marks.add(runs.score_file(scorer, ideas, out, overwrite=True)["fingerprint"])
        assert runs.score_file(scorer, ideas, out)["already_done"]
    assert len(marks) == 3


def test_a_run_with_a_cache_gives_the_same_table_and_counts_hits(
    worlds: dict[str, World], encoders: dict[str, Encoder], ideas: Path, tmp_path: Path
) -> None:
    pool, cache = worlds["float32"].pool, VectorCache(tmp_path / "cache")
    plain = runs.score_file(Scorer(pool, encoders["float32"]), ideas, tmp_path / "plain.csv")
    for name, hits in (("one", 0), ("two", 150)):
        scorer = Scorer(pool, encoders["float32"], cache=cache)
        summary = runs.score_file(scorer, ideas, tmp_path / f"{name}.csv")
        assert summary["files"]["scores"]["blake2b"] == plain["files"]["scores"]["blake2b"]
        assert (summary["cache"]["hits"], summary["cache"]["misses"]) == (hits, 150 - hits)
        assert f"{hits} of 150 texts were there already, in {cache.folder}" in summary["notes"]
    with sqlite3.connect(cache.folder / "vectors.sqlite") as rows:
        rows.execute("DROP TABLE vectors")
    rows.close()
    lost = runs.score_file(
        Scorer(pool, encoders["float32"], cache=cache), ideas, tmp_path / "lost.csv"
    )
    assert lost["files"]["scores"]["blake2b"] == plain["files"]["scores"]["blake2b"]
    assert any("it was given up, and the rest encoded without" in line for line in lost["notes"])
    fresh = VectorCache(tmp_path / "fresh")
    lower = Scorer(pool, encoders["int8"], cache=fresh)
    summary = runs.score_file(lower, ideas, tmp_path / "i.csv")  # the sample is no use of the cache
    assert (summary["cache"]["hits"], summary["cache"]["misses"]) == (0, 150)


def test_an_explanation_says_what_the_precision_leaves_open(
    worlds: dict[str, World], encoders: dict[str, Encoder]
) -> None:
    idea = ideas_frame([Idea(**made()[0])])
    explained = explain_idea(Scorer(worlds["float16"].pool, encoders["int8"]), idea)
    assert "The similarities of int8 ideas and float16 papers were seen to" in explained.text
    assert [cost["side"] for cost in explained.facts["costs"]] == ["ideas", "papers"]
    plain = explain_idea(Scorer(worlds["float32"].pool, encoders["float32"]), idea)
    assert "seen to differ" not in plain.text and plain.facts["costs"] == []


def test_the_sample_is_drawn_from_all_ideas_whatever_the_batches() -> None:
    frame = ideas_frame([Idea(text=f"idea {i}") for i in range(1000)])
    parts = [frame[i : i + 70] for i in range(0, 1000, 70)]
    assert draw([frame]).equals(draw(parts))
    places = [int(name[1:]) for name in draw(parts)["idea_id"]]
    assert len(set(places)) == 64 and max(places) > 900 and min(places) < 100
    assert draw([frame[:3]]).height == 3 and draw([]).height == 0


def test_a_reference_that_can_not_be_opened_is_an_error(
    worlds: dict[str, World], tmp_path: Path, ideas: Path
) -> None:
    encoder = Rounded(tiny_model(tmp_path / "tiny"), "int8", 64)
    (tmp_path / "tiny" / "model.safetensors").unlink()
    with pytest.raises(EncoderError):
        runs.score_file(Scorer(worlds["float32"].pool, encoder), ideas, tmp_path / "s.csv")
    assert not (tmp_path / "s.csv").exists()
