"""Write a store, its vectors, a pool and a model card: python tests/make_golden_formats.py FOLDER.

The folders in tests/golden stay as they were written: later versions must read them. format-1 is of
the first version of stores; a store of format-2 tells where dates come from, of how many records a
paper is, and what became of them. A new version of a format gets a folder of its own.
"""

import datetime as dt
import shutil
import sys
import tempfile
from pathlib import Path

import polars as pl

from hindsight_fast.encoders import load_encoder
from hindsight_fast.encoding import embed_store
from hindsight_fast.papers.schema import CONFLICT_SCHEMA, MERGE_SCHEMA, PaperTable
from hindsight_fast.pool import build_pool
from hindsight_fast.store import build_store
from hindsight_models import load
from hindsight_models.card import Golden
from hindsight_models.export import Facts, export
from paper_tables import paper, table
from tiny_model import tiny_model

FACTS = Facts("tiny", "mean", ". ", 64, 0.9, "Made up.", {"weights": "random, seed 0"})
PAPERS = [
    paper(
        0, citations=10, venue=None, url="https://example.org/0", citations_dated="2023:4 2024:6"
    ),
    paper(1, citations=None, venue="NeurIPS", title="Ünïcode ∑ título", n_records=3),
    paper(2, citations=40, venue=None, authors=None, topics=["agents", "safety"], kind="survey"),
    paper(3, citations=99, status="retracted", revised=dt.date(2024, 2, 1), language="en"),
    paper(4, citations=5, date=dt.date(2023, 1, 1), date_precision="year", date_kind="year"),
    paper(5, citations=5, date=None, date_precision=None, date_kind=None, topics=[]),
]
COUNTS = {"n_in": 10, "n_papers": 6, "n_merged": 2, "n_rejects": 1, "n_left_out": 1}
MERGE = {"id": "p0001", "records": ["here x", "there y", "there z"], "title": 0, "venue": 1}
CONFLICT = {
    "kind": "same_title",
    "key": "a title",
    "ids": ["p0002", "p0004"],
    "n": 2,
    "detail": "made up",
}


def made_up() -> PaperTable:
    """Papers, and what became of the records that they are."""
    one = table(PAPERS, n_rejects=1)
    merge = dict.fromkeys(MERGE_SCHEMA) | MERGE
    return PaperTable(
        one.papers,
        one.rejects,
        COUNTS,
        merges=pl.DataFrame([merge], schema=MERGE_SCHEMA),
        conflicts=pl.DataFrame([CONFLICT], schema=CONFLICT_SCHEMA),
    )


def write(folder: Path) -> None:
    """Write store/, pool/ and model/card.json into a folder."""
    with tempfile.TemporaryDirectory() as place:
        model = tiny_model(Path(place) / "tiny", dim=8, layers=1)
        vector = load(model, device="cpu").encode([("a graph", "of data")])[0]
        export(model, FACTS, (Golden("a graph", "of data", tuple(vector.tolist())),))
        store = build_store(made_up(), folder / "store")
        embed_store(store, load_encoder(model, device="cpu"), since=dt.date(2023, 1, 1))
        cutoff, until = dt.date(2023, 6, 1), dt.date(2023, 12, 31)
        build_pool(store, folder / "pool", cutoff=cutoff, until=until, k=5)
        (folder / "model").mkdir(parents=True)
        shutil.copy(model / "card.json", folder / "model")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
