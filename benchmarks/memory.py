"""Peak memory of encoding, with a store ten times as large beside it.

    python -m benchmarks.memory [--papers 100000 1000000] [--json out.json]

Each store is encoded by a process of its own, with a random model so small that reading, writing
and the journal are most of the work. Peak is that of all resident memory (VmHWM), pages of mapped
files included; private is the highest seen of what no file backs (RssAnon), looked at every 20 ms.
Right means: a tenth of a thousand rows, encoded again one by one, are the same to the bit.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.measure import machine, table, write_json
from hindsight_fast.encoders import load_encoder
from hindsight_fast.papers.schema import PAPER_SCHEMA, REJECT_SCHEMA, PaperTable
from hindsight_fast.store import Store, build_store

TESTS = Path(__file__).resolve().parent.parent / "tests"

MODEL = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tiny_model import tiny_model
tiny_model(Path(sys.argv[1]), dim=16, layers=1, max_tokens=16)
"""

BUILD = """
import sys
from pathlib import Path
from benchmarks.memory import build
build(Path(sys.argv[1]), int(sys.argv[2]))
"""

CHILD = """
import json, sys, threading, time
from pathlib import Path
from hindsight_fast.encoders import load_encoder
from hindsight_fast.encoding import embed_store
from hindsight_fast.store import Store

def kilobytes(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))

most, done = 0, threading.Event()

def look():
    global most
    while not done.wait(0.02):
        most = max(most, kilobytes("RssAnon"))

threading.Thread(target=look, daemon=True).start()
began = time.perf_counter()
vectors = embed_store(Store.open(sys.argv[1]), load_encoder(sys.argv[2], device="cpu"))
seconds = time.perf_counter() - began
done.set()
print(json.dumps({"seconds": seconds, "n_encoded": vectors.manifest.integer("n_encoded"),
                  "peak_MiB": kilobytes("VmHWM") / 1024, "private_MiB": most / 1024}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--papers", type=int, nargs=2, default=[100_000, 1_000_000])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        in_own_process(["-c", MODEL, model, TESTS])
        for n in arguments.papers:
            path = Path(folder) / f"store-{n}"
            in_own_process(["-c", BUILD, str(path), str(n)])
            rows.append({"papers": n} | json.loads(in_own_process(["-c", CHILD, path, model])))
            rows[-1] |= {"right": is_right(path, model)}
    print(table(rows))
    growth = rows[1]["peak_MiB"] / rows[0]["peak_MiB"] - 1
    ratio = arguments.papers[1] / arguments.papers[0]
    print(f"{ratio:g} times the papers: {growth:+.1%} of peak memory")
    write_json(arguments.json, {"machine": machine("polars", "numpy"), "rows": rows})


def in_own_process(arguments: list[str | Path]) -> str:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def build(path: Path, n: int) -> None:
    """Make a store of n papers with distinct texts of about 90 bytes."""
    number = pl.arange(n, eager=True).cast(pl.String).str.zfill(8)
    words = pl.lit(" of the language model we learn from data, as in an image or a graph")
    papers = pl.DataFrame({"number": number, "day": np.arange(n) % 3000}).select(
        pl.format("p{}", "number").alias("id"),
        pl.format("{}", "number").alias("title"),
        pl.format("{}{}", "number", words).alias("abstract"),
        (pl.lit(np.datetime64("2015-01-01")) + pl.duration(days="day")).cast(pl.Date).alias("date"),
        pl.lit("day").alias("date_precision"),
        pl.lit("first_public").alias("date_kind"),
        pl.lit("ok").alias("status"),
    )
    lacking = [
        pl.lit(None, kind).alias(name) for name, kind in PAPER_SCHEMA.items() if name not in papers
    ]
    papers = papers.with_columns(lacking).select(list(PAPER_SCHEMA))
    rejects = pl.DataFrame(schema=REJECT_SCHEMA)
    counts = {"n_in": n, "n_papers": n, "n_merged": 0, "n_rejects": 0}
    build_store(PaperTable(papers, rejects, counts), path)


def is_right(path: Path, model: Path) -> bool:
    store, encoder = Store.open(path), load_encoder(model, device="cpu")
    vectors = store.vectors()
    for row in np.linspace(0, store.n - 1, 100).astype(int):
        paper = store.papers(["title", "abstract"], int(row), int(row) + 1)
        if not np.array_equal(encoder.encode([paper.row(0)])[0], vectors.array[row]):
            return False
    return True


if __name__ == "__main__":
    started = time.monotonic()
    main()
    print(f"{time.monotonic() - started:.0f} s in all")
