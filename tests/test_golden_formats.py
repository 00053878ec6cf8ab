"""What earlier versions wrote is read by today's code, with the same values, and worked with.

The files were made by make_golden_formats.py; a new version of a format adds a folder.
"""

import datetime as dt
import shutil
from pathlib import Path

import numpy as np
import pytest

from hindsight_fast import Idea, Scorer
from hindsight_fast.encoders import load_encoder
from hindsight_fast.encoding import embed_store
from hindsight_fast.ideas import ideas_frame
from hindsight_fast.papers.schema import PAPER_SCHEMA
from hindsight_fast.pool import Pool, build_pool, verify_artefact
from hindsight_fast.store import UNDATED, Store, build_store, verify_store
from hindsight_models import Card
from paper_tables import paper, table
from tiny_model import tiny_model

GOLDEN = Path(__file__).resolve().parent / "golden"
FOLDER, FOLDER_2 = GOLDEN / "format-1", GOLDEN / "format-2"


def test_a_store() -> None:
    store = Store.open(FOLDER / "store")
    assert store.n == 6 and store.text_version == 1
    assert store.content_id == "bf73afca30968b62140ee1f7fbf5195d"
    assert store.facts_id == "87298a4d94083bd9f3b7814bae326d40"
    assert store.dates.tolist() == [19358, 19509, 19510, 19511, 19512, UNDATED]
    assert store.citations.tolist() == [5, 10, -1, 40, 99, 5]
    assert store.window(dt.date(2023, 6, 1), dt.date(2023, 6, 3)) == (1, 4)
    assert store.lookup(np.array([2, 5, 1])).rows() == [
        ("p0001", "Ünïcode ∑ título", "NeurIPS", dt.date(2023, 6, 2), "day", None, None, None),
        ("p0005", "Paper 5 on learn data the data", None, None, None, None, 5, None),
        (
            "p0000",
            "Paper 0 on we learn graph a",
            None,
            dt.date(2023, 6, 1),
            "day",
            None,  # older stores don't tell what a date says
            10,
            "https://example.org/0",
        ),
    ]
    assert store.manifest.table("counts")["n_rejects"] == 1
    papers = store.papers()
    assert dict(papers.schema) == PAPER_SCHEMA
    assert papers["authors"].to_list()[2:4] == [["A. One", "B. Two"], None]
    assert papers["status"].to_list() == ["ok", "ok", "ok", "ok", "retracted", "ok"]
    for unknown in ("date_origin", "revised", "topics", "n_records"):
        assert papers[unknown].null_count() == 6
    assert store.rejects().rows() == [("papers.jsonl", 1, "no title", "{}")]
    assert store.merges().height == store.conflicts().height == 0


def test_a_store_of_counted_records() -> None:
    store = Store.open(FOLDER_2 / "store")
    assert store.content_id == "cc61c6491f66c4c362837b2bf5dd54f5"
    assert store.facts_id == "024acdf52c23a4c15adefaf85d2af535"
    papers = store.papers(["id", "n_records", "topics", "citations_dated", "revised"])
    assert papers.rows()[1:4] == [
        ("p0000", 1, None, "2023:4 2024:6", None),
        ("p0001", 3, None, None, None),
        ("p0002", 1, ["agents", "safety"], None, None),
    ]
    merges = store.merges()
    assert merges.select("id", "records", "title", "venue", "abstract").rows() == [
        ("p0001", ["here x", "there y", "there z"], 0, 1, None)
    ]
    assert store.conflicts().rows() == [("same_title", "a title", ["p0002", "p0004"], 2, "made up")]
    assert store.manifest.table("counts")["n_left_out"] == 1


@pytest.mark.parametrize("folder", [FOLDER, FOLDER_2], ids=lambda folder: folder.name)
def test_a_store_is_worked_with(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "store"
    shutil.copytree(folder / "store", path)
    assert "vectors of tiny" in verify_store(path)
    store = Store.open(path)
    encoder = load_encoder(tiny_model(tmp_path / "other", name="other"), device="cpu")
    embed_store(store, encoder)
    cutoff, until = dt.date(2023, 6, 1), dt.date(2023, 12, 31)
    pool = build_pool(store, tmp_path / "pool", encoder="other", cutoff=cutoff, until=until)
    idea = Idea(problem=store.lookup(np.array([1]))["title"][0], method="we learn")
    scored = Scorer(pool, encoder, theta=-1).score(ideas_frame([idea]))
    assert scored["best_paper_id"].to_list() == ["p0002"]
    newer = [row for row in store.papers().to_dicts() if row["id"] != "p0003"]
    rows = [row | {"n_records": 1} for row in newer] + [paper(9)]
    assert build_store(table(rows), tmp_path / "new", reuse=store).carried().keys() <= {
        "other",
        "tiny",
    }


def test_vectors() -> None:
    vectors = Store.open(FOLDER / "store").vectors()
    assert (vectors.encoder, vectors.dim, vectors.theta) == ("tiny", 8, 0.9)
    assert vectors.encoder_fingerprint == "772b2d46cb9980f33c2d67651a49c731"
    assert vectors.since == dt.date(2023, 1, 1)
    assert vectors.array.any(axis=1).tolist() == [True, True, True, True, False, False]
    first = vectors.array[0]
    assert first[0] == np.float32(-0.12336193770170212)
    assert first[7] == np.float32(0.05408896133303642)


def test_a_pool() -> None:
    pool = Pool.open(FOLDER / "pool")
    expected = [0.6 * 10 / 40, 0.4, 0.6, -1]
    np.testing.assert_array_equal(pool.impact, np.array(expected, np.float32))
    assert (pool.offset, pool.n, pool.n_papers) == (1, 4, 3)
    assert (pool.k, pool.theta, pool.recipe, pool.index) == (5, 0.9, "paper", None)
    assert (pool.cutoff, pool.until) == (dt.date(2023, 6, 1), dt.date(2023, 12, 31))
    assert (pool.pool_hash, pool.citations_as_of) == ("dfb81d436803051f", "2025-11")
    assert pool.coverage["kept_out"] == {"not_encoded": 0, "retracted": 1}
    assert pool.lookup(np.array([0]))["id"].to_list() == ["p0000"]
    assert "store: vectors of tiny" in verify_artefact(FOLDER / "pool")


def test_a_model_card() -> None:
    card = Card.read(FOLDER / "model")
    assert (card.name, card.dim, card.pooling, card.separator) == ("tiny", 8, "mean", ". ")
    assert (card.max_tokens, card.theta, card.precision, card.adapter) == (64, 0.9, "float32", None)
    assert card.fingerprint() == "772b2d46cb9980f33c2d67651a49c731"
    (golden,) = card.golden
    assert (golden.head, golden.body) == ("a graph", "of data")
    assert golden.vector[0] == pytest.approx(-0.3592797815799713)
