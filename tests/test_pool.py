"""Which papers are in a pool, with what impact, and what a pool refuses."""

import dataclasses
import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forging import forge, settle
from hindsight_fast.encoders import Encoder, load_encoder
from hindsight_fast.encoding import embed_store
from hindsight_fast.errors import ArtefactError, HindsightError, StorageError, UsageError
from hindsight_fast.impact import RECIPES
from hindsight_fast.index import IndexConfig
from hindsight_fast.papers import venues
from hindsight_fast.papers.choosing import Where
from hindsight_fast.pool import Pool, build_pool, describe, verify_artefact
from hindsight_fast.store import Store, build_store
from paper_tables import paper, table
from tiny_model import tiny_model

T, E = dt.date(2023, 6, 1), dt.date(2023, 12, 31)
ROWS = [
    paper(0, citations=10, venue=None),
    paper(1, citations=None, venue="NeurIPS"),
    paper(2, citations=40, venue="A Workshop at NeurIPS"),
    paper(3, citations=1000, status="retracted", venue="NeurIPS"),
    paper(4, citations=2000, status="title_only", abstract=None),
    paper(5, citations=20, date_kind="venue", venue="ICLR"),
    paper(6, citations=5, date=dt.date(2023, 1, 1), date_precision="year", date_kind="year"),
    paper(7, citations=5, date=dt.date(2023, 5, 1), date_precision="month"),
    paper(8, citations=5, date=dt.date(2023, 12, 31)),
    paper(9, citations=5, date=dt.date(2024, 1, 1)),
    paper(10, citations=5000, date=None, date_precision=None, date_kind=None),
]


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return load_encoder(tiny_model(tmp_path_factory.mktemp("models") / "tiny"), device="cpu")


def stored(path: Path, encoder: Encoder, rows: list[dict[str, Any]] = ROWS) -> Store:
    store = build_store(table(rows), path)
    embed_store(store, encoder)
    return store


@pytest.fixture
def store(tmp_path: Path, encoder: Encoder) -> Store:
    return stored(tmp_path / "store", encoder)


def test_a_window_with_its_impact(tmp_path: Path, store: Store) -> None:
    pool = build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    ids = pool.lookup(np.arange(pool.n))["id"].to_list()
    assert ids == ["p0000", "p0001", "p0002", "p0003", "p0004", "p0005", "p0008"]
    expected = [0.6 * 10 / 40, 0.4, 0.6, -1, -1, 0.6 * 20 / 40 + 0.4, 0.6 * 5 / 40]
    np.testing.assert_array_equal(pool.impact, np.array(expected, np.float32))
    assert (pool.n_papers, pool.k, pool.theta, pool.recipe) == (5, 20, 0.9, "paper")
    assert (pool.cutoff, pool.until, pool.start) == (T, E, T)
    np.testing.assert_array_equal(
        pool.vectors, store.vectors().array[pool.offset : pool.offset + pool.n]
    )
    assert pool.index is None
    with pytest.raises(IndexError):
        pool.lookup(np.array([-1]))
    with pytest.raises(IndexError):
        pool.lookup(np.array([pool.n]))


def test_coverage_is_counted(tmp_path: Path, store: Store) -> None:
    coverage = build_pool(store, tmp_path / "pool", cutoff=T, until=E).coverage
    assert coverage["in_window"] == 7 and coverage["papers"] == 5
    assert coverage["kept_out"] == {"retracted": 1, "title_only": 1, "not_encoded": 0}
    assert coverage["outside"] == {
        "earlier": 1, "public_before": 0, "straddling": 1, "later": 1, "undated": 1
    }  # fmt: skip
    known = [coverage[f"{what}_known"] for what in ("citations", "venue", "both")]
    assert known == [4, 2, 1] and coverage["top_venue"] == 2
    assert coverage["date_kind"]["venue"]["papers"] == 1
    assert coverage["date_kind"]["venue"]["share_of_impact"] == pytest.approx(0.7 / 1.925)
    spread = coverage["citations"]
    assert spread == {"low": 0, "high": 40, "min": 5, "p50": 10, "p99": 40, "max": 40}
    top = coverage["top_paper"]
    assert (top["id"], top["citations"], top["share_of_range"]) == ("p0002", 40, 0.5)
    assert coverage["sources"] == {"somewhere": 4}


def test_first_public_dates_can_be_required(tmp_path: Path, store: Store) -> None:
    pool = build_pool(store, tmp_path / "pool", cutoff=T, until=E, require_first_public=True)
    assert pool.n_papers == 4
    assert pool.coverage["kept_out"]["not_first_public"] == 1
    assert " first_public_only " in pool.signature(20, 0.9, "exact")


def test_papers_can_be_chosen(tmp_path: Path, encoder: Encoder) -> None:
    rows = [
        paper(0, citations=10, field="cs.CL", topics=["agents"]),
        paper(1, citations=20, field="cs.CV", topics=["vision"]),
        paper(2, citations=90, field=None, topics=[]),
        paper(3, citations=15, field="cs.CL", status="retracted"),
    ]
    store = stored(tmp_path / "store", encoder, rows)
    where = Where(("field like 'cs.%'",))
    pool = build_pool(store, tmp_path / "pool", cutoff=T, until=E, where=where)
    assert pool.coverage["kept_out"] == {"retracted": 1, "left_out": 1, "not_encoded": 0}
    assert np.asarray(pool.impact).tolist() == [np.float32(0.4), np.float32(0.6), -1, -1]
    assert " where=\"(field like 'cs.%')\" " in pool.signature(20, 0.9, "exact")
    assert pool.where == ["field like 'cs.%'"] and pool.topics == []
    verify_artefact(tmp_path / "pool")

    topic = Where(("citations > 5", "year is null"), ("vision", "agents"))
    of_topic = build_pool(store, tmp_path / "of topic", cutoff=T, until=E, where=topic)
    assert of_topic.n_papers == 2
    assert " topics='vision, agents' " in of_topic.signature(20, 0.9, "exact")

    with pytest.raises(UsageError, match=r"no topic 'visions'; did you mean 'vision'\?"):
        build_pool(store, tmp_path / "x", cutoff=T, until=E, where=Where(topics=("visions",)))
    with pytest.raises(UsageError, match="--overwrite"):
        build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    # what the condition looks at belongs to the pool's identity, where the store's ids don't
    rows[2]["field"] = "cs.LG"
    store = build_store(table(rows), store.path, overwrite=True)
    with pytest.raises(UsageError, match="--overwrite"):
        build_pool(store, tmp_path / "pool", cutoff=T, until=E, where=where)
    again = build_pool(store, tmp_path / "pool", cutoff=T, until=E, where=where, overwrite=True)
    assert again.n_papers == 3


def test_variants_leave_unknown_counts_out(tmp_path: Path, encoder: Encoder) -> None:
    rows = [
        paper(0, citations=10, citations_dated="2015:0 2023:4 2024:4", venue=None),
        paper(1, citations=None, venue=None),
        paper(3, citations=0, citations_dated="2015:0", venue=None),
    ]
    store = stored(tmp_path / "store", encoder, rows)
    for recipe in RECIPES:
        pool = build_pool(store, tmp_path / recipe, cutoff=T, until=E, recipe=recipe)
        kept = pool.coverage["kept_out"].get("citations_unknown")
        assert (pool.n_papers, kept) == ((3, None) if recipe == "paper" else (2, 1))
        said = {"paper": "0"}.get(recipe, "left out")
        assert pool.coverage["unknown_citations_are"] == said
        assert f"recipe={recipe} " in pool.signature(20, 0.9, "exact")
        assert pool.impact[0] == np.float32(0.6) and pool.impact[2] == 0
        assert f"{pool.impact[0]:.4f}" in pool.impact_in_words(10, float(pool.impact[0]))
        verify_artefact(tmp_path / recipe)


def test_what_was_public_before_its_listed_year(tmp_path: Path, encoder: Encoder) -> None:
    rows = [
        paper(1, date=dt.date(2022, 11, 1), date_precision="month", year=2023),
        paper(2, date=dt.date(2023, 3, 1), date_precision="month", year=2023),
        paper(3, date=dt.date(2023, 7, 1), year=2024),
    ]
    pool = build_pool(stored(tmp_path / "s", encoder, rows), tmp_path / "p", cutoff=T, until=E)
    assert pool.coverage["outside"]["public_before"] == 1
    assert pool.coverage["outside"]["earlier"] == 1 and pool.n_papers == 1


def test_papers_that_set_the_range_are_named(tmp_path: Path, encoder: Encoder) -> None:
    counts = [1, 2, 3, 1000, 5000, 9000]
    rows = [paper(i, citations=count) for i, count in enumerate(counts)]
    pool = build_pool(stored(tmp_path / "s", encoder, rows), tmp_path / "p", cutoff=T, until=E)
    outliers = pool.coverage["outliers"]
    assert [one["citations"] for one in outliers] == [9000, 5000, 1000]
    shares = [one["share_of_range"] for one in outliers]
    assert shares == pytest.approx([4000 / 8999, 4000 / 8999, 997 / 8999])
    rows = [paper(i, citations=i) for i in range(40)]
    pool = build_pool(stored(tmp_path / "t", encoder, rows), tmp_path / "q", cutoff=T, until=E)
    assert pool.coverage["outliers"] == []


def test_the_signature_says_how_a_score_is_made(tmp_path: Path, store: Store) -> None:
    pool = build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    assert pool.signature(5, 0.96, "index") == (
        "HindSight recipe=paper T=2023-06-01 E=2023-12-31 K=5 theta=0.96 "
        f"encoder=tiny@{pool.encoder_fingerprint[:8]} pool=5@{pool.pool_hash[:8]} "
        "citations=2025-11 search=index hindsight_fast=0.1.0"
    )
    later = build_pool(store, tmp_path / "later", cutoff=T, until=E, start=dt.date(2023, 6, 3))
    assert " from=2023-06-03 " in later.signature(5, 0.96, "exact")
    assert later.pool_hash != pool.pool_hash


@pytest.mark.parametrize(
    ("days", "words"),
    [
        ([None], "unknown"),
        ([dt.date(2025, 11, 17), None], "2025-11"),
        ([dt.date(2025, 1, 1)], "2025"),  # what "2025" is read as; January is not known
        ([dt.date(2025, 1, 1), dt.date(2025, 11, 1)], "2025..2025-11"),
    ],
)
def test_no_more_is_said_of_when_citations_were_counted_than_is_known(
    tmp_path: Path, encoder: Encoder, days: list[dt.date | None], words: str
) -> None:
    rows = [paper(i, citations_as_of=day) for i, day in enumerate(days)]
    pool = build_pool(stored(tmp_path / "s", encoder, rows), tmp_path / "p", cutoff=T, until=E)
    assert f" citations={words} " in pool.signature(20, 0.9, "exact")


@pytest.mark.parametrize(
    ("citations", "impact", "words"),
    [
        (10, 0.15, "0.6 x 0.2500 for 10 citations (in this pool from 0 to 40) + 0 for no top"),
        (None, 0.4, "0.6 x 0.0000 for an unknown number of citations (in this pool from 0 to 40)"),
        (20, 0.7, "+ 0.4 for a top venue = 0.7000"),
    ],
)
def test_impact_in_words(
    tmp_path: Path, store: Store, citations: int | None, impact: float, words: str
) -> None:
    pool = build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    assert words in pool.impact_in_words(citations, impact)


@pytest.mark.parametrize("rows", [[], ROWS[3:5], ROWS[9:]], ids=["none", "kept out", "outside"])
def test_no_papers_are_a_pool(tmp_path: Path, encoder: Encoder, rows: list[dict[str, Any]]) -> None:
    store = stored(tmp_path / "store", encoder, rows)
    pool = build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    assert pool.n_papers == 0 and pool.index is None
    assert pool.vectors.shape == (pool.n, 32)
    assert (np.asarray(pool.impact) == -1).all()
    assert pool.coverage["top_paper"] is None
    verify_artefact(tmp_path / "pool")


def test_an_existing_pool_is_opened_or_kept(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "pool"
    first = build_pool(store, path, cutoff=T, until=E)
    inode = (path / "impact.npy").stat().st_ino
    build_pool(store, path, cutoff=T, until=E)
    assert (path / "impact.npy").stat().st_ino == inode
    with pytest.raises(UsageError, match=r"K = 20 and theta = 0\.9"):
        build_pool(store, path, cutoff=T, until=E, k=5)
    with pytest.raises(UsageError, match="--overwrite"):
        build_pool(store, path, cutoff=T, until=T)
    with pytest.raises(UsageError, match="is a store and can't be replaced by a pool"):
        build_pool(store, store.path, cutoff=T, until=E, overwrite=True)
    build_pool(store, path, cutoff=T, until=E, overwrite=True)
    assert (path / "impact.npy").stat().st_ino == inode  # whole and just this
    other = build_pool(store, path, cutoff=T, until=E, k=5, overwrite=True)
    assert (other.n, other.k) == (7, 5)
    second = build_pool(store, path, cutoff=T, until=T, k=5, theta=0.5, overwrite=True)
    assert (second.n, second.k, second.theta) == (1, 5, 0.5)
    assert first.n == 7 and first.impact[2] == np.float32(0.6)  # its files are still there


def test_a_pool_of_other_top_venues_is_another(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    fewer = dataclasses.replace(venues.table(), top=frozenset({"ICLR"}))
    monkeypatch.setattr(venues, "table", lambda: fewer)
    with pytest.raises(UsageError, match="--overwrite"):
        build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    pool = build_pool(store, tmp_path / "pool", cutoff=T, until=E, overwrite=True)
    assert pool.impact[1] == 0  # NeurIPS


def test_what_makes_no_sense_is_refused(tmp_path: Path, store: Store) -> None:
    out = tmp_path / "pool"
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("before the cutoff", {"start": dt.date(2023, 5, 31)}),
        ("before it starts", {"start": dt.date(2024, 1, 1)}),
        ("k = 0", {"k": 0}),
        ("k = 5000", {"k": 5000}),  # no scorer takes as many
        ("theta = nan", {"theta": float("nan")}),
        ("no impact recipe 'logs'", {"recipe": "logs"}),
        ("no vectors of other", {"encoder": "other"}),
    ]
    for sentence, settings in wrong:
        with pytest.raises(UsageError, match=sentence):
            build_pool(store, out, cutoff=T, until=E, **settings)
    with pytest.raises(StorageError):
        build_pool(store, Path("/proc/pool"), cutoff=T, until=E)
    assert not out.exists()


def test_vectors_must_cover_the_window(tmp_path: Path, encoder: Encoder) -> None:
    store = build_store(table(ROWS), tmp_path / "store")
    with pytest.raises(UsageError, match="hindsight-fast embed"):
        build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    embed_store(store, encoder, since=dt.date(2023, 6, 5))
    with pytest.raises(UsageError, match="--since 2023-06-01`, which keeps"):
        build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    assert build_pool(store, tmp_path / "pool", cutoff=dt.date(2023, 6, 5), until=E).n == 3
    embed_store(store, encoder)
    assert Pool.open(tmp_path / "pool").n == 3  # more vectors do no harm
    embed_store(store, encoder, since=dt.date(2023, 7, 1), overwrite=True)
    with pytest.raises(ArtefactError, match="vectors since 2023-07-01 only"):
        Pool.open(tmp_path / "pool")


def test_pool_and_store_move_together(tmp_path: Path, encoder: Encoder) -> None:
    home = tmp_path / "here"
    store = stored(home / "store", encoder)
    build_pool(store, home / "pools" / "pool", cutoff=T, until=E)
    home.rename(tmp_path / "there")
    assert Pool.open(tmp_path / "there" / "pools" / "pool").n == 7
    (tmp_path / "link").symlink_to(tmp_path / "there" / "pools" / "pool")
    assert Pool.open(tmp_path / "link").n == 7
    (tmp_path / "there" / "store").rename(tmp_path / "elsewhere")
    with pytest.raises(ArtefactError, match="should be at"):
        Pool.open(tmp_path / "link")
    assert Pool.open(tmp_path / "link", tmp_path / "elsewhere").n == 7


@pytest.mark.parametrize(
    ("number", "change", "sentence"),
    [
        (0, {"citations": 11}, "other dates, venues or citations"),
        (0, {"title": "Other"}, "other papers or texts"),
    ],
)
def test_a_changed_store_is_refused(
    tmp_path: Path,
    encoder: Encoder,
    store: Store,
    number: int,
    change: dict[str, Any],
    sentence: str,
) -> None:
    build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    rows = [row | change if i == number else row for i, row in enumerate(ROWS)]
    build_store(table(rows), store.path, overwrite=True)
    with pytest.raises(ArtefactError, match=sentence):
        Pool.open(tmp_path / "pool")


def test_another_model_under_the_same_name_is_refused(tmp_path: Path, store: Store) -> None:
    build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    other = load_encoder(tiny_model(tmp_path / "other", seed=1), device="cpu")
    embed_store(store, other, overwrite=True)
    with pytest.raises(ArtefactError, match="make the pool again"):
        Pool.open(tmp_path / "pool")


def test_verify_finds_what_is_wrong(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "pool"
    build_pool(store, path, cutoff=T, until=E)
    assert verify_artefact(path)[:2] == ["1 files", "impact of 5 papers"]
    assert verify_artefact(store.path) == ["9 files", "11 papers", "vectors of tiny"]
    assert verify_artefact(store.vectors_folder("tiny"))
    vectors = store.vectors_folder("tiny") / "vectors.npy"
    for file in (path / "impact.npy", vectors, store.path / "papers.parquet"):
        good = file.read_bytes()
        file.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
        with pytest.raises(ArtefactError, match=file.name):
            verify_artefact(path)
        file.write_bytes(good)
    verify_artefact(path)


def test_folders_are_described(tmp_path: Path, store: Store) -> None:
    build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    pool, whole = describe(tmp_path / "pool"), describe(store.path)
    assert pool["kind"] == "pool" and pool["signature"].startswith("HindSight recipe=paper")
    assert whole["kind"] == "store" and whole["vectors"]["tiny"]["n_encoded"] == 8
    assert whole["unfinished_vectors"] == []
    assert describe(store.vectors_folder("tiny"))["kind"] == "vectors"
    json.dumps([pool, whole])
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ArtefactError):
            describe(path)


FREE = {  # what is as good as what was there: a search less, another default, texts to print
    ("index", "null"),
    ("scan", "null"),
    ("taken", "[]"),
    ("where", "[]"),
    ("topics", "[]"),
    ("theta", "-1"),
    ("coverage", "{}"),
    ("recipe", '"../../../../etc"'),
    ("pool_hash", '"../../../../etc"'),
    ("citations_as_of", '"../../../../etc"'),
}


def test_any_change_of_a_manifest_is_an_error_in_words(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "pool"
    build_pool(store, path, cutoff=T, until=E)
    body = json.loads((path / "manifest.json").read_text())["body"]
    accepted: set[tuple[str, str]] = set()
    for key in body:
        values: list[Any] = [None, -1, 2**63, "x" * 5000, [], {}, "../../../../etc"]
        for value in values:
            forge(path, body=body | {key: value})
            try:
                Pool.open(path).signature(20, 0.9, "exact")
            except HindsightError:
                continue
            accepted.add((key, json.dumps(value)))
    assert accepted == FREE


def test_readers_keep_an_old_pool_while_a_new_one_is_made(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "pool"
    pool = build_pool(store, path, cutoff=T, until=E)
    for day in range(5):
        before = np.array(pool.impact)
        last = dt.date(2023, 6, 2 + day)
        new = build_pool(store, path, cutoff=T, until=last, overwrite=True)
        np.testing.assert_array_equal(pool.impact, before)
        assert new.n == 2 + day
    assert {entry.name for entry in tmp_path.iterdir()} == {"pool", "store"}


def test_an_index_is_built_and_opened(tmp_path: Path, store: Store) -> None:
    seen: list[tuple[int, int]] = []
    pool = build_pool(
        store,
        tmp_path / "pool",
        cutoff=T,
        until=E,
        index=IndexConfig(),
        progress=lambda n, total: seen.append((n, total)),
    )
    assert seen[-1] == (5, 5)
    assert pool.index is not None and pool.index.n_papers == 5
    found = pool.index.search(np.asarray(pool.vectors)[[0, 6]], 10, threads=1)
    assert {row for row in found[0] if row >= 0} == {0, 1, 2, 5, 6}
    assert found[:, 0].tolist() == [0, 6]
    facts = pool.manifest.table("index")
    assert facts["config"]["connectivity"] == 16 and facts["facts"]["n_papers"] == 5
    exact = build_pool(store, tmp_path / "exact", cutoff=T, until=E)
    assert exact.pool_hash == pool.pool_hash
    with pytest.raises(UsageError, match="--overwrite"):
        build_pool(store, tmp_path / "pool", cutoff=T, until=E)
    assert "index" in verify_artefact(tmp_path / "pool")


def test_a_damaged_index_is_never_opened(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path / "home"))
    path = tmp_path / "pool"
    rows = [paper(i) for i in range(200)]
    store = stored(tmp_path / "large", load_encoder(tiny_model(tmp_path / "m"), device="cpu"), rows)
    build_pool(store, path, cutoff=T, until=dt.date(2025, 1, 1), index=IndexConfig())
    graph = path / "index.usearch"
    good = graph.read_bytes()
    random = np.random.default_rng(0)
    for place in [0, 8, 40, 100, *random.integers(0, len(good), 20).tolist()]:
        graph.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        with pytest.raises(ArtefactError, match=r"index\.usearch"):
            Pool.open(path)
    graph.write_bytes(good)
    assert Pool.open(path).index is not None
    for key, value in [("connectivity", "16"), ("connectivity", 1), ("unheard", 1)]:
        body = json.loads((path / "manifest.json").read_text())["body"]
        body["index"]["config"][key] = value
        forge(path, body=body)
        with pytest.raises(ArtefactError, match="settings of an index"):
            Pool.open(path)


REPLACER = """
import datetime as dt, itertools, sys
from pathlib import Path
from hindsight_fast.pool import build_pool
from hindsight_fast.store import Store
store = Store.open(Path(sys.argv[1]))
for i in itertools.count():
    last = dt.date(2023, 6, 2 + i % 5)
    build_pool(store, Path(sys.argv[2]), cutoff=dt.date(2023, 6, 1), until=last, overwrite=True)
    print(i, flush=True)
"""


def test_a_pool_opened_while_another_process_replaces_it_is_one_or_the_other(
    tmp_path: Path, store: Store
) -> None:
    path = tmp_path / "pool"
    build_pool(store, path, cutoff=T, until=E)
    command = [sys.executable, "-c", REPLACER, str(store.path), str(path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        sizes: set[int] = set()
        for _ in range(200):
            pool = Pool.open(path)
            assert pool.n == (pool.until - T).days + 1 == len(pool.impact)
            assert pool.n_papers == int((np.asarray(pool.impact) >= 0).sum())
            sizes.add(pool.n)
        process.kill()
    assert len(sizes) > 1
    build_pool(store, path, cutoff=T, until=E, overwrite=True)
    assert {entry.name for entry in tmp_path.iterdir()} == {"pool", "store"}


@pytest.mark.parametrize("value", [2.0, 1e38, np.inf, np.nan, -0.5, -1.0])
def test_impact_that_nobody_can_have_is_refused(tmp_path: Path, store: Store, value: float) -> None:
    path = tmp_path / "pool"
    pool = build_pool(store, path, cutoff=T, until=E)
    impact = np.array(pool.impact)
    impact[int(np.argmax(impact >= 0))] = value  # -1.0: one paper fewer than the manifest says
    np.save(path / "impact.npy", impact)
    settle(path)
    with pytest.raises(ArtefactError, match="impact is not"):
        Pool.open(path, store)
