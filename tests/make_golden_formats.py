"""Write a store, its vectors, a pool and a model card: python tests/make_golden_formats.py FOLDER.

tests/golden/format-1 was written by format version 1 and stays as it is: later versions must read
it. A new version of a format gets a folder of its own.
"""

import datetime as dt
import shutil
import sys
import tempfile
from pathlib import Path

from hindsight_fast.encoders import load_encoder
from hindsight_fast.encoding import embed_store
from hindsight_fast.pool import build_pool
from hindsight_fast.store import build_store
from hindsight_models import load
from hindsight_models.card import Golden
from hindsight_models.export import Facts, export
from paper_tables import paper, table
from tiny_model import tiny_model

FACTS = Facts("tiny", "mean", ". ", 64, 0.9, "Made up.", {"weights": "random, seed 0"})
PAPERS = [
    paper(0, citations=10, venue=None, url="https://example.org/0"),
    paper(1, citations=None, venue="NeurIPS", title="Ünïcode ∑ título"),
    paper(2, citations=40, venue=None, authors=None),
    paper(3, citations=99, status="retracted"),
    paper(4, citations=5, date=dt.date(2023, 1, 1), date_precision="year", date_kind="year"),
    paper(5, citations=5, date=None, date_precision=None, date_kind=None),
]


def write(folder: Path) -> None:
    """Write store/, pool/ and model/card.json into a folder."""
    with tempfile.TemporaryDirectory() as place:
        model = tiny_model(Path(place) / "tiny", dim=8, layers=1)
        vector = load(model, device="cpu").encode([("a graph", "of data")])[0]
        export(model, FACTS, (Golden("a graph", "of data", tuple(vector.tolist())),))
        store = build_store(table(PAPERS, n_rejects=1), folder / "store")
        embed_store(store, load_encoder(model, device="cpu"), since=dt.date(2023, 1, 1))
        cutoff, until = dt.date(2023, 6, 1), dt.date(2023, 12, 31)
        build_pool(store, folder / "pool", cutoff=cutoff, until=until, k=5)
        (folder / "model").mkdir(parents=True)
        shutil.copy(model / "card.json", folder / "model")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
