"""What it costs to begin: opening a pool and scoring a few ready vectors, and `--help`.

    python -m benchmarks.opening [--papers 200000] [--ideas 10] [--json out.json]

Each figure comes from a process of its own. Memory is private memory (RssAnon of /proc/self/status)
above what the same process had after importing the same modules; files that are mapped don't count.
Right means: the scores are those of a float64 brute force.
"""

import argparse
import datetime as dt
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.measure import machine, median, table, write_json
from benchmarks.vectors import Vectors
from hindsight_fast.index import IndexConfig
from hindsight_fast.papers.schema import PAPER_SCHEMA, REJECT_SCHEMA, PaperTable
from hindsight_fast.pool import build_pool
from hindsight_fast.storage import create_array, publish
from hindsight_fast.store import build_store

T, E = dt.date(2023, 6, 1), dt.date(2025, 12, 31)

CHILD = """
import json, sys, time
from pathlib import Path
import numpy as np
import hindsight_fast.index, hindsight_kernels
from hindsight_fast import Pool, Scorer

def private():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024

ideas = np.load(sys.argv[2])
before, began = private(), time.perf_counter()
pool = Pool.open(sys.argv[1])
opened = time.perf_counter()
table = Scorer(pool, search=sys.argv[3], threads=2).score_vectors(ideas)
done = time.perf_counter()
print(json.dumps({"open_s": opened - began, "score_s": done - opened, "total_s": done - began,
                  "private_MiB": private() - before, "scores": table["score"].to_list()}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--papers", type=int, default=200_000)
    parser.add_argument("--ideas", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made = Vectors(arguments.papers, arguments.ideas)
        build(place, made)
        np.save(place / "ideas.npy", made.ideas)
        right = brute_force(place, made)
        rows = [row(place, search, right, arguments.repeats) for search in ("exact", "index")]
    started = [seconds_of_help() for _ in range(arguments.repeats + 1)][1:]
    facts = machine("numpy", "numba", "polars", "usearch", "typer")
    print(f"{arguments.papers:,} papers, {arguments.ideas} ready vectors; {facts['processor']}")
    print(table(rows))
    print(f"hindsight-fast --help: {median(started):.2f} s")
    write_json(
        arguments.json,
        {
            "machine": facts,
            "papers": arguments.papers,
            "ideas": arguments.ideas,
            "opening": rows,
            "help_s": median(started),
        },
    )


def build(place: Path, made: Vectors) -> None:
    """A store and a pool with an index, of made-up papers around these vectors."""
    n, dim = made.papers.shape
    days = np.linspace(0, (E - T).days, n).astype(int)
    columns: dict[str, Any] = {
        "id": [f"p{i:07d}" for i in range(n)],
        "title": [
            f"A made-up paper with the number {i} and a title of usual length" for i in range(n)
        ],
        "abstract": [f"Abstract {i}." for i in range(n)],
        "venue": ["NeurIPS" if i % 5 == 0 else None for i in range(n)],
        "date": [T + dt.timedelta(days=int(day)) for day in days],
        "date_precision": "day",
        "date_kind": "first_public",
        "citations": [i * 7919 % 1009 for i in range(n)],
        "status": "ok",
    }
    papers = pl.DataFrame(columns).select(
        (pl.col(name) if name in columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in PAPER_SCHEMA.items()
    )
    counts = {"n_in": n, "n_papers": n, "n_merged": 0, "n_rejects": 0}
    store = build_store(
        PaperTable(papers, pl.DataFrame(schema=REJECT_SCHEMA), counts), place / "store"
    )
    with publish(store.vectors_folder("made-up"), "vectors", "made-up") as staging:
        create_array(staging.folder / "vectors.npy", np.float32, (n, dim))[:] = made.papers
        staging.body |= {
            "n": n,
            "dim": dim,
            "content_id": store.content_id,
            "encoder": "made-up",
            "encoder_fingerprint": "made-up",
            "precision": "float32",
            "theta": 0.96,
        }
    build_pool(store, place / "pool", cutoff=T, until=E, index=IndexConfig())


def brute_force(place: Path, made: Vectors) -> list[float]:
    """Scores straight from the definition, in float64."""
    impact = np.load(place / "pool" / "impact.npy")
    scores = list[float]()
    ideas = made.ideas.astype(np.float64)
    similarities = np.empty((len(ideas), len(made.papers)), np.float32)
    for start in range(0, len(made.papers), 8192):
        some = slice(start, start + 8192)
        similarities[:, some] = ideas @ made.papers[some].astype(np.float64).T
    for similarity in similarities:
        nearest = np.lexsort((np.arange(len(similarity)), -similarity))[:20]
        scores.append(
            float(impact[nearest[similarity[nearest] >= np.float32(0.96)]].max(initial=0))
        )
    return scores


def row(place: Path, search: str, right: list[float], repeats: int) -> dict[str, Any]:
    """Medians over processes; the first, which reads the files from disk, is left out."""
    command = [sys.executable, "-c", CHILD, str(place / "pool"), str(place / "ideas.npy"), search]
    runs = [
        json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        for _ in range(repeats + 1)
    ][1:]
    figures = {name: median([run[name] for run in runs]) for name in runs[0] if name != "scores"}
    equal = sum(map(float.__eq__, runs[0]["scores"], right)) / len(right)
    matched = float(np.mean(np.array(right) > 0))
    return {"search": search, **figures, "equal scores": equal, "scores above 0": matched}


def seconds_of_help() -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "hindsight_fast", "--help"]
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
