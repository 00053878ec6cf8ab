"""Nothing that others made and that can't be checked is opened, unless the user trusts them."""

import json
import shutil
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from command_line import run, start
from forging import forge, settle
from hindsight_fast import Scorer, index, projection
from hindsight_fast.errors import ArtefactError, StorageError, UsageError
from hindsight_fast.pool import Pool, build_pool, describe, verify_artefact
from hindsight_fast.storage import create_array, publish
from hindsight_fast.store import Store
from scoring_world import E, T, World, made_up_ideas, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "FEWEST", 20)
        patch.setattr(projection, "RESCORING", 1)
        patch.setattr(projection, "PAIR", 1)
        return make_world(tmp_path_factory.mktemp("world"), n=400, index=True)


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user who has made nothing here."""
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def copied(world: World, folder: Path) -> Path:
    shutil.copytree(world.store.path, folder / "store")
    shutil.copytree(world.pool.path, folder / "pool")
    return folder / "pool"


def refuse(*_: object, **__: object) -> None:
    pytest.fail("a file of others was opened, or work was done twice")


def test_who_makes_a_pool_trusts_it_wherever_it_lies(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDSIGHT_HOME", str(world.folder))
    pool = Pool.open(copied(world, tmp_path))
    assert pool.trusted and pool.index is not None and pool.projection is not None
    assert pool.set_aside == [] and describe(pool.path)["trusted"]
    assert "index" in verify_artefact(pool.path)


def test_an_index_of_others_is_never_opened(
    world: World, stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index.Index, "view", refuse)
    pool = Pool.open(world.pool.path)
    assert not pool.trusted and pool.index is None and pool.projection is None
    assert pool.set_aside == ["index", "projection"] and not describe(pool.path)["trusted"]
    assert "index" not in verify_artefact(pool.path)
    ideas = pl.DataFrame(made_up_ideas(30))
    scorer = Scorer(pool, world.encoder)
    assert scorer.search == "exact"
    assert scorer.score(ideas).equals(
        Scorer(world.pool, world.encoder, search="exact").score(ideas)
    )
    assert not stranger.exists() or {one.name for one in stranger.iterdir()} <= {"verified"}


def test_the_index_is_made_anew_once(
    world: World, stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = Scorer(Pool.open(world.pool.path), world.encoder, search="index")
    made = scorer.pool.index
    assert scorer.search == "index" and made is not None and made.n_papers == world.pool.n_papers
    folder = stranger / "indexes" / world.pool.manifest.hash
    assert (folder / "index.usearch").is_file() and (
        stranger / "indexes"
    ).stat().st_mode & 0o77 == 0
    monkeypatch.setattr(index, "build_index", refuse)
    pool = Pool.open(world.pool.path)
    assert pool.index is not None and not pool.trusted
    vectors = np.ascontiguousarray(pool.vectors[:20])
    found = Scorer(pool, search="index").match_vectors(vectors)
    right = Scorer(world.pool, search="exact").match_vectors(vectors)
    assert (found.rows == right.rows).mean() > 0.95
    shutil.rmtree(folder)  # it may go at any time
    assert Pool.open(world.pool.path).index is None


def test_a_graph_that_would_crash_the_process_is_left_alone(
    world: World, stranger: Path, tmp_path: Path
) -> None:
    path = copied(world, tmp_path)
    graph = path / "index.usearch"
    raw = np.frombuffer(graph.read_bytes(), np.uint8).copy()
    raw[100:] = 0xFF
    graph.write_bytes(raw.tobytes())
    settle(path)
    pool = Pool.open(path)
    pool.make_index()
    assert pool.index is not None
    assert (pool.index.search(np.ascontiguousarray(pool.vectors[:9]), 3, threads=1) >= 0).all()


def test_bounds_that_lie_lose_no_neighbour(world: World, stranger: Path, tmp_path: Path) -> None:
    path = copied(world, tmp_path)
    bounds = np.load(path / "scan-bounds.npy")
    np.save(path / "scan-bounds.npy", np.full_like(bounds, -1))
    settle(path)
    pool = Pool.open(path)
    vectors = np.ascontiguousarray(pool.vectors[:40])
    found, right = (Scorer(one, k=5).match_exactly(vectors) for one in (pool, world.pool))
    np.testing.assert_array_equal(found.rows, right.rows)


def test_trust_is_remembered_for_just_these_files(
    world: World, stranger: Path, tmp_path: Path
) -> None:
    path = copied(world, tmp_path)
    pool = Pool.open(path, trust=True)
    assert pool.trusted and pool.index is not None and pool.projection is not None
    assert Pool.open(path).trusted
    body = json.loads((path / "manifest.json").read_text())["body"]
    forge(path, body=body | {"k": 3})
    assert not Pool.open(path).trusted


def test_trust_that_others_could_have_put_there_is_none(world: World, stranger: Path) -> None:
    Pool.open(world.pool.path, trust=True)
    (stranger / "trusted").chmod(0o777)
    assert not Pool.open(world.pool.path).trusted
    with pytest.warns(UserWarning, match="trusted for this time only"):
        assert Pool.open(world.pool.path, trust=True).index is not None


@pytest.mark.parametrize("indexed", [True, False])
def test_who_makes_a_pool_is_told_that_it_will_not_be_known(
    world: World, stranger: Path, tmp_path: Path, indexed: bool
) -> None:
    stranger.write_text("no folder can be here")
    config = index.IndexConfig() if indexed else None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = build_pool(world.store, tmp_path / "made", cutoff=T, until=E, index=config)
    assert not made.trusted and made.index is None
    told_of = [str(one.message) for one in told]
    assert len(told_of) == indexed
    assert all("its index will be left alone as others'" in one for one in told_of)


def test_the_command_line_says_it_in_one_line(world: World, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "trusted").mkdir(parents=True)
    (home / "trusted").chmod(0o777)
    (home / "models").symlink_to(world.folder / "models")
    (tmp_path / "ideas.jsonl").write_text("\n".join(map(json.dumps, made_up_ideas(5))))
    command = f"score ideas.jsonl --pool {world.pool.path} --out s.csv --trust --search index"
    done = start(home, tmp_path, command)
    assert done.returncode == 0 and done.stderr.count("trusted for this time only") == 1
    line = next(line for line in done.stderr.splitlines() if "for this time only" in line)
    assert line.startswith("hindsight-fast: ") and ".py" not in line
    command = f"pool {world.store.path} --cutoff {T} --until {E} --out made --index"
    done = start(home, tmp_path, command)
    assert done.returncode == 0, done.stderr
    assert "hindsight-fast: made is made, but its index will be left alone" in done.stderr


def test_an_index_of_other_vectors_is_not_used(
    world: World, stranger: Path, tmp_path: Path
) -> None:
    path = copied(world, tmp_path)
    Pool.open(path).make_index()
    assert Pool.open(path).index is not None
    old = Store.open(tmp_path / "store").vectors()
    folder = tmp_path / "store" / "vectors" / old.encoder
    with publish(folder, "vectors", old.fingerprint + "!", overwrite=True) as staging:
        turned = create_array(staging.folder / "vectors.npy", np.float32, old.array.shape)
        turned[:] = np.roll(old.array, 1, axis=1)
        staging.body |= dict(old.manifest.body)
    pool = Pool.open(path)
    assert pool.index is None
    pool.make_index()
    assert pool.index is not None and Pool.open(path).index is not None


def test_a_damaged_index_of_ones_own_is_made_again(world: World, stranger: Path) -> None:
    Pool.open(world.pool.path).make_index()
    graph = stranger / "indexes" / world.pool.manifest.hash / "index.usearch"
    raw = bytearray(graph.read_bytes())
    raw[len(raw) // 2] ^= 1
    graph.write_bytes(raw)
    pool = Pool.open(world.pool.path)
    assert pool.index is None
    pool.make_index()
    assert Pool.open(world.pool.path).index is not None


def test_several_at_once_make_one(
    world: World, stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, build = list[Path](), index.build_index

    def counted(vectors: Any, eligible: Any, folder: Path, *rest: Any, **more: Any) -> Any:
        built.append(folder)
        return build(vectors, eligible, folder, *rest, **more)

    monkeypatch.setattr(index, "build_index", counted)
    pools = [Pool.open(world.pool.path) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(Pool.make_index, pools))
    assert len(built) == 1 and all(pool.index is not None for pool in pools)


@pytest.mark.parametrize("what", ["a file", "of others"])
def test_a_folder_that_can_not_be_used_is_a_sentence(
    world: World, stranger: Path, what: str
) -> None:
    if what == "a file":
        stranger.write_text("")
    else:
        (stranger / "indexes").mkdir(parents=True)
        (stranger / "indexes").chmod(0o777)
    with pytest.raises(StorageError, match="--trust opens theirs, --search exact needs none"):
        Scorer(Pool.open(world.pool.path), search="index")
    assert Scorer(Pool.open(world.pool.path)).search == "exact"


def test_no_home_at_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("HINDSIGHT_HOME", raising=False)
    monkeypatch.setattr(Path, "home", none)
    assert not Pool.open(world.pool.path).trusted
    with pytest.warns(UserWarning, match="trusted for this time only"):
        assert Pool.open(world.pool.path, trust=True).index is not None
    with pytest.raises(StorageError, match="HINDSIGHT_HOME"):
        Pool.open(world.pool.path).make_index()


def test_vectors_that_are_none_make_no_index(world: World, stranger: Path, tmp_path: Path) -> None:
    path = copied(world, tmp_path)
    old = Store.open(tmp_path / "store").vectors()
    file = tmp_path / "store" / "vectors" / old.encoder / "vectors.npy"
    wrong = np.array(old.array)
    wrong[30] = np.nan
    np.save(file, wrong)
    settle(file.parent)
    with pytest.raises(ArtefactError, match="length nan"):
        Pool.open(path).make_index()


SETTINGS: list[Callable[[dict[str, Any]], object]] = [
    lambda config: config.update(expansion_add=10**12),
    lambda config: config.update(expansion_search=1.5),
    lambda config: config.update(connectivity=True),
    lambda config: config.update(variance="0.9"),
    lambda config: config.update(variance=2.0),
    lambda config: config.update(variance=1e308),
    lambda config: config.update(variance=10**400),  # no float can hold it
    lambda config: config.update(deterministic="yes"),
    lambda config: config.update(folder="/"),
    lambda config: config.update(connectivity=None),
]


@pytest.mark.parametrize("change", SETTINGS, ids=range(len(SETTINGS)))
def test_settings_that_could_not_be_are_refused(
    world: World, stranger: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    path = copied(world, tmp_path)
    body = json.loads((path / "manifest.json").read_text())["body"]
    change(body["index"]["config"])
    forge(path, body=body)
    with pytest.raises(ArtefactError, match="settings of an index"):
        Pool.open(path)


def test_a_pool_without_an_index_is_refused_one(world: World, tmp_path: Path) -> None:
    pool = build_pool(world.store, tmp_path / "plain", cutoff=T, until=E)
    with pytest.raises(UsageError, match="pool --index"):
        pool.make_index()


def test_overwriting_a_pool_of_others_makes_it_ones_own(
    world: World, stranger: Path, tmp_path: Path
) -> None:
    path = copied(world, tmp_path)
    store, config = Store.open(tmp_path / "store"), index.IndexConfig()
    for overwrite in (False, True):
        build_pool(store, path, cutoff=T, until=E, k=5, index=config, overwrite=overwrite)
        assert Pool.open(path).trusted == overwrite


def test_on_the_command_line(world: World, tmp_path: Path) -> None:
    copied(world, tmp_path)
    (tmp_path / "models").symlink_to(world.folder / "models")
    (tmp_path / "ideas.jsonl").write_text("\n".join(map(json.dumps, made_up_ideas(20))))

    def score(options: str) -> Any:
        done = run(tmp_path, tmp_path, f"score ideas.jsonl --pool pool --out s.csv {options}")
        assert done.returncode == 0, done.stderr
        return done

    shown = run(tmp_path, tmp_path, "info pool")
    assert "not used, since somebody else made it" in shown.stdout, shown.stderr
    done = score("")
    assert "its index is not opened: every paper is looked at (--trust" in done.stderr
    assert "search=exact" in done.stdout
    done = score("--search exact")
    assert "index" not in done.stderr
    done = score("--search index --overwrite")
    assert "made anew, once" in done.stderr and "search=index" in done.stdout
    assert "made anew" not in score("--search index --overwrite").stderr
    shutil.rmtree(tmp_path / "indexes")
    done = score("--trust --search index --overwrite")
    assert "made" not in done.stderr and not (tmp_path / "indexes").exists()
    assert "somebody else" not in run(tmp_path, tmp_path, "info pool").stdout


def test_an_index_of_ones_own_and_the_authors_are_two(world: World, stranger: Path) -> None:
    """So a run that began with one is never gone on with by the other."""
    own = Scorer(Pool.open(world.pool.path), world.encoder, search="index").pool.index
    authors = Pool.open(world.pool.path, trust=True).index
    again = Pool.open(world.pool.path, trust=True).index
    assert own is not None and authors is not None and again is not None
    kept = stranger / "indexes" / world.pool.manifest.hash
    same = all((kept / n).read_bytes() == (world.pool.path / n).read_bytes() for n in index.FILES)
    assert own.mark and authors.mark == again.mark
    assert (own.mark == authors.mark) == same


def test_codes_of_another_rule_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Pool.open(world.pool.path).index is not None
    monkeypatch.setattr("hindsight_fast.index._config.CODES_VERSION", 99)
    with pytest.raises(ArtefactError, match="another rule"):
        Pool.open(world.pool.path)
