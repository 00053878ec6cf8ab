"""A pool's projection: what the exact scan looks at first changes no score."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from forging import forge
from hindsight_fast import Scorer, projection
from hindsight_fast.cli.facts import rows
from hindsight_fast.errors import ArtefactError
from hindsight_fast.pool import Pool, build_pool, describe, verify_artefact
from hindsight_fast.projection import FILES, build_projection, open_projection
from hindsight_fast.scanning import Scan
from hindsight_fast.storage import create_array, open_folder, publish
from hindsight_fast.store import Store
from hindsight_kernels import exact, match, pruned_scan, scan
from scoring_world import E, T, World, made_up_ideas, make_world

LIMITS = {"length": 1.0, "outside": 1.0, "inside": 1.0, "offset": 1.0, "slack": 1.0}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "FEWEST", 20)
        patch.setattr(projection, "RESCORING", 1)
        patch.setattr(projection, "PAIR", 1)  # or of so few numbers the plain scan is cheaper
        return make_world(tmp_path_factory.mktemp("world"), n=400)


def test_scores_are_those_of_the_plain_scan(world: World, tmp_path: Path) -> None:
    plain = build_pool(world.store, tmp_path / "plain", cutoff=T, until=E, k=5)
    assert plain.projection is None and world.pool.projection is not None
    ideas = pl.DataFrame(made_up_ideas(50))
    tables = [Scorer(pool, world.encoder, theta=0.5).score(ideas) for pool in (plain, world.pool)]
    assert tables[0].equals(tables[1])
    vectors = np.ascontiguousarray(world.pool.vectors[:40])
    found, right = (Scorer(pool, k=7).match_exactly(vectors) for pool in (world.pool, plain))
    for one, other in zip(found, right, strict=True):
        np.testing.assert_array_equal(one, other)


def test_for_many_neighbours_all_axes_are_cheaper(world: World) -> None:
    """Each of the K has others near it, whose vectors must be looked at too."""
    dim = world.pool.vectors.shape[1]
    costs = [world.pool.scan_products(k) for k in (1, 5, 10, 400)]
    assert costs == sorted(costs) and costs[0] < costs[1] < costs[-1] == dim
    vectors = np.ascontiguousarray(world.pool.vectors[:40])
    few, many = (Scan(world.pool, k, threads=1).nominate(vectors) for k in (5, 400))
    arrays = (vectors, world.pool.vectors, world.pool.impact)
    assert world.pool.projection is not None
    along_axes = pruned_scan(*arrays, world.pool.projection, 5, threads=1)
    np.testing.assert_array_equal(few, along_axes)
    np.testing.assert_array_equal(many, scan(*arrays, 400, threads=1))


def test_info_tells_of_it(world: World) -> None:
    told = dict(rows(describe(world.pool.path)))
    assert world.pool.projection is not None
    n_axes = world.pool.projection.axes.shape[1]
    assert told["exact scan"] == f"along {n_axes} axes first"


def test_what_was_nominated_is_counted(world: World) -> None:
    scorer = Scorer(world.pool, world.encoder, k=5)
    scorer.score(pl.DataFrame(made_up_ideas(20)))
    assert 20 * 5 <= scorer.n_nominated <= 20 * world.pool.n_papers


def test_vectors_put_in_the_place_of_others_are_scanned_along_all_axes(
    world: World, tmp_path: Path
) -> None:
    """Of the same papers, by the same encoder, and yet other bytes: on another machine, say."""
    shutil.copytree(world.store.path, tmp_path / "store")
    shutil.copytree(world.pool.path, tmp_path / "pool")
    store = Store.open(tmp_path / "store")
    old = store.vectors()
    moved = old.array + np.random.default_rng(6).normal(0, 0.02, old.array.shape)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    folder = store.vectors_folder(old.encoder)
    with publish(folder, "vectors", old.fingerprint + "!", overwrite=True) as staging:
        create_array(staging.folder / "vectors.npy", np.float32, moved.shape)[:] = moved
        staging.body |= dict(old.manifest.body)
    pool = Pool.open(tmp_path / "pool")
    assert pool.projection is None and pool.scan_products(5) == pool.vectors.shape[1]
    ideas = np.ascontiguousarray(pool.vectors[:40])
    right = exact(ideas, pool.vectors, pool.impact, 5, pool.theta, threads=1)
    np.testing.assert_array_equal(Scorer(pool, k=5).match_exactly(ideas).rows, right.rows)


def test_overwriting_a_pool_of_an_older_version_makes_one(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pool"
    shutil.copytree(world.pool.path, path)
    manifest = open_folder(path, "pool")
    with publish(path, "pool", "older", overwrite=True) as staging:
        shutil.copy(world.pool.path / "impact.npy", staging.folder)
        staging.body |= {k: v for k, v in manifest.body.items() if k != "scan"}
        staging.fingerprint = manifest.fingerprint
    monkeypatch.setattr(projection, "FEWEST", 20)
    monkeypatch.setattr(projection, "RESCORING", 1)
    monkeypatch.setattr(projection, "PAIR", 1)

    def made(overwrite: bool) -> Pool:
        return build_pool(world.store, path, cutoff=T, until=E, k=5, overwrite=overwrite)

    assert made(overwrite=False).projection is None
    assert made(overwrite=True).projection is not None


@pytest.mark.parametrize("odd", [np.nan, np.inf, 1e7])
def test_damaged_vectors_are_an_error_in_words(
    odd: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "FEWEST", 100)
    monkeypatch.setattr(projection, "RESCORING", 10)
    vectors = near_a_mean(3000, 256, rank=20)
    vectors[1234] = odd
    with pytest.raises(ArtefactError, match="verify"):
        build_projection(vectors, np.ones(3000, bool), tmp_path, 20)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", ["gone", "cut", "other"])
def test_a_damaged_file_is_seen(name: str, harm: str, world: World, tmp_path: Path) -> None:
    path = tmp_path / "pool"
    shutil.copytree(world.pool.path, path)
    if harm == "gone":
        (path / name).unlink()
    elif harm == "cut":
        (path / name).write_bytes((path / name).read_bytes()[:-8])
    else:
        np.save(path / name, np.zeros(3, np.float32))
    with pytest.raises(ArtefactError):
        Pool.open(path, world.store)


def test_a_flipped_bit_is_found_by_verify(world: World, tmp_path: Path) -> None:
    shutil.copytree(world.store.path, tmp_path / "store")
    path = tmp_path / "pool"
    shutil.copytree(world.pool.path, path)
    verify_artefact(path)
    raw = bytearray((path / projection.CODES).read_bytes())
    raw[-5] ^= 1
    (path / projection.CODES).write_bytes(raw)
    with pytest.raises(ArtefactError, match=projection.CODES):
        verify_artefact(path)


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"n_axes": 16},
        {"n_axes": 0, "limits": {}},
        {"n_axes": 16, "limits": dict.fromkeys(("length", "outside"), 1.0)},
        {"n_axes": 16, "limits": {"length": float("nan"), "outside": 1.0, "inside": 1.0}},
        {"n_axes": 16, "limits": [1.0] * 5},
        {"n_axes": 16, "limits": LIMITS},
        {"n_axes": 16.5, "limits": LIMITS, "rescoring": [1.0] * 8, "products": 20.0, "k": 5},
        {"n_axes": 16, "limits": LIMITS, "rescoring": "12345678", "products": 20.0, "k": 5},
        {"n_axes": 16, "limits": LIMITS, "rescoring": [1.0] * 8, "products": 10**400, "k": 5},
        {"n_axes": 16, "limits": LIMITS, "rescoring": [10**400] * 8, "products": 20.0, "k": 5},
        {"n_axes": 16, "limits": LIMITS, "rescoring": [1.0] * 8, "products": 20.0, "k": 10**9},
        {"n_axes": 16, "limits": LIMITS, "rescoring": [1.0] * 8, "products": float("nan"), "k": 5},
        {"n_axes": 16, "limits": LIMITS, "rescoring": [1.0] * 8, "products": -1.0, "k": 5},
        {"n_axes": 16, "limits": LIMITS, "rescoring": [1.0] * 8, "products": 20.0, "k": 0},
        {"n_axes": 16, "limits": LIMITS, "rescoring": [-1.0] * 8, "products": 20.0, "k": 5},
        {"n_axes": 16, "limits": LIMITS, "rescoring": [float("inf")] * 8, "products": 20.0, "k": 5},
        {"n_axes": 16, "limits": LIMITS, "rescoring": [1.0] * 7, "products": 20.0, "k": 5},
        {"n_axes": 16, "limits": LIMITS, "rescoring": 1.0, "products": 20.0, "k": 5},
    ],
)
def test_facts_that_make_no_sense_are_refused(
    facts: dict[str, object], world: World, tmp_path: Path
) -> None:
    own = world.pool.manifest.table("scan")
    path, (n, d) = world.pool.path, world.pool.vectors.shape
    open_projection(path, own, n, d)
    if facts.get("n_axes") == 16:  # all but what is wrong is as it should be
        facts = facts | {"n_axes": own["n_axes"]}
    with pytest.raises(ArtefactError, match="no facts of a projection"):
        open_projection(path, facts, n, d)


def test_facts_of_the_version_before_are_left_alone(world: World, tmp_path: Path) -> None:
    path = tmp_path / "pool"
    shutil.copytree(world.pool.path, path)
    scan = world.pool.manifest.table("scan")
    body = {**world.pool.manifest.body, "scan": {**scan, "rescoring": 1.0}}
    forge(path, body=body)
    assert Pool.open(path, world.store, trust=True).projection is None


def test_damage_is_found_before_a_projection_is_used(world: World, tmp_path: Path) -> None:
    """Also where no look at opening goes: of large files only some blocks are looked at there."""
    path = tmp_path / "pool"
    shutil.copytree(world.pool.path, path)
    raw = bytearray((path / projection.BOUNDS).read_bytes())
    raw[len(raw) // 2] ^= 1
    (path / projection.BOUNDS).write_bytes(raw)
    with pytest.raises(ArtefactError, match=projection.BOUNDS):
        Pool.open(path, world.store, trust=True)


def near_a_mean(n: int, d: int, rank: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) / rank + 1
    rows += 1e-3 * rng.standard_normal((n, d))
    unit: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(
        np.float32
    )
    return unit


def test_as_many_axes_as_the_vectors_lie_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "FEWEST", 100)
    monkeypatch.setattr(projection, "RESCORING", 10)
    vectors = near_a_mean(3000, 256, rank=20)
    eligible = np.arange(3000) % 5 > 0
    facts = build_projection(vectors, eligible, tmp_path, 20)
    assert facts is not None and 16 < facts["n_axes"] <= 64 and facts["variance"] > 0.98
    opened = open_projection(tmp_path, json.loads(json.dumps(facts)), 3000, 256)
    impact = np.where(eligible, 0.5, -1).astype(np.float32)
    found = pruned_scan(vectors[:30], vectors, impact, opened, 20, threads=2)
    plain = scan(vectors[:30], vectors, impact, 20, threads=2)
    for one, other in zip(
        *(match(vectors[:30], vectors, impact, c, 20, 0.9, threads=1) for c in (found, plain)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_what_a_scan_for_more_neighbours_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "FEWEST", 100)
    monkeypatch.setattr(projection, "RESCORING", 1)
    facts = build_projection(near_a_mean(3000, 256, rank=20), np.ones(3000, bool), tmp_path, 20)
    assert facts is not None
    costs = [projection.cost(facts, k) for k in (1, 20, 30, 40, 20 * 128, 20 * 256)]
    assert costs == sorted(costs) and len(set(costs)) == 6
    own, twice, most, beyond = (costs[i] - facts["products"] for i in (1, 3, 4, 5))
    measured = facts["rescoring"]
    assert [own, twice, most] == pytest.approx([*measured[:2], measured[-1]])
    assert costs[2] - facts["products"] == pytest.approx((own + twice) / 2)
    assert beyond == pytest.approx(2 * most)
    everything = 256.0 + 2 * 2560 * (1 + math.log(3000 / 2048, 3)) * 256 / 3000
    assert most == pytest.approx(everything, rel=0.1)  # nearly all are among so many nearest


def test_where_no_axes_help_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "FEWEST", 100)
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((2000, 64))  # the same in all directions
    vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    assert build_projection(vectors, np.ones(2000, bool), tmp_path, 20) is None
    assert build_projection(vectors[:99], np.ones(99, bool), tmp_path, 20) is None
    assert list(tmp_path.iterdir()) == []


def test_papers_that_are_all_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "FEWEST", 100)
    vectors = np.repeat(near_a_mean(1, 64, rank=4), 500, axis=0)
    assert build_projection(vectors, np.ones(500, bool), tmp_path, 20) is None
