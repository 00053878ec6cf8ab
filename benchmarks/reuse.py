"""What a pool costs whose older one is at hand: `pool --reuse`, case by case.

    python -m benchmarks.reuse [--papers 200000] [--json out.json]

Seconds are those of `build_pool` with an index, all steps. Recall@K of the index is counted after
rescoring, against the exact scan: at 3 K candidates and the ef of the index, which shows what the
graph is worth, and as runs search it: by what `candidates.choose` finds on the other half of the
ideas.
"""

import argparse
import datetime as dt
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.measure import machine, table, write_json
from benchmarks.vectors import Vectors
from hindsight_fast.candidates import choose, recall
from hindsight_fast.index import IndexConfig
from hindsight_fast.papers.schema import PAPER_SCHEMA, REJECT_SCHEMA, PaperTable
from hindsight_fast.pool import Pool, build_pool
from hindsight_fast.scoring import INDEX_CANDIDATES, Scorer
from hindsight_fast.storage import create_array, publish
from hindsight_fast.store import Store, build_store

T, E, K = dt.date(2023, 6, 1), dt.date(2025, 12, 31), 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--papers", type=int, default=200_000)
    parser.add_argument("--ideas", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    n, more = arguments.papers, arguments.papers // 20
    made = Vectors(n + more, arguments.ideas)
    rows = list[dict[str, Any]]()

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        old = stored(place / "old", made.papers, range(n), 0)
        counted = stored(place / "counted", made.papers, range(n), 1)
        grown = stored(place / "grown", made.papers, range(more // 2, n + more), 0)
        other = stored(place / "other", -made.papers, range(n), 0)

        def measure(case: str, store: Store, sign: int = 1, **settings: Any) -> None:
            began = time.perf_counter()
            pool = build_pool(
                store,
                place / f"pool-{len(rows)}",
                cutoff=T,
                until=E,
                index=IndexConfig(),
                threads=arguments.threads,
                **settings,
            )
            seconds, facts = time.perf_counter() - began, pool.manifest.table("index")["facts"]
            rows.append(
                {
                    "case": case,
                    "seconds": seconds,
                    "papers": pool.n_papers,
                    "taken": facts["n_taken"],
                    "unreachable": facts["n_unreachable"],
                    **recalls(pool, sign * made.ideas, arguments.threads),
                }
            )

        first = place / "pool-0"
        measure("fresh", old)
        measure("fresh counts", counted, reuse=first)
        measure("another recipe", old, reuse=first, recipe="log")
        measure(f"{more:,} new, {more // 2:,} gone", grown, reuse=first)
        measure("the same, fresh", grown)
        measure("other vectors", other, sign=-1, reuse=first)
    facts = machine("numpy", "numba", "polars", "usearch")
    print(f"{n:,} papers; {facts['processor']}\n{table(rows)}")
    write_json(
        arguments.json, {"benchmark": "reuse", "papers": n, "results": rows, "machine": facts}
    )


def stored(path: Path, vectors: NDArray[np.float32], numbers: range, seed: int) -> Store:
    """A store of made-up papers, whose days have nothing to do with their numbers."""
    rng = np.random.default_rng(seed)
    days = np.random.default_rng(9).integers(0, (E - T).days, len(vectors))
    n = len(numbers)
    columns: dict[str, Any] = {
        "id": [f"{i:07d}" for i in numbers],
        "title": [f"A made-up paper with the number {i}" for i in numbers],
        "abstract": [f"Abstract {i}." for i in numbers],
        "date": [T + dt.timedelta(days=int(days[i])) for i in numbers],
        "date_precision": "day",
        "date_kind": "first_public",
        "citations": rng.integers(0, 1000, n),
        "status": "ok",
    }
    papers = pl.DataFrame(columns).select(
        (pl.col(name) if name in columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in PAPER_SCHEMA.items()
    )
    counts = {"n_in": n, "n_papers": n, "n_merged": 0, "n_rejects": 0}
    store = build_store(PaperTable(papers, pl.DataFrame(schema=REJECT_SCHEMA), counts), path)
    order = store.papers(["id"])["id"].cast(pl.Int64).to_numpy()
    with publish(store.vectors_folder("made-up"), "vectors", "made-up") as staging:
        array = create_array(staging.folder / "vectors.npy", np.float32, (n, vectors.shape[1]))
        array[:] = vectors[order]
        staging.body |= {
            "n": n,
            "dim": vectors.shape[1],
            "content_id": store.content_id,
            "encoder": "made-up",
            "encoder_fingerprint": "made-up",
            "precision": "float32",
            "theta": 0.96,
        }
    return store


def recalls(pool: Pool, ideas: NDArray[np.float32], threads: int) -> dict[str, Any]:
    """Shares of the true neighbours that the index finds, of half of the ideas."""
    scorer = Scorer(pool, k=K, search="index", threads=threads)
    ideas, sample = ideas[::2], ideas[1::2]
    right = scorer.match_exactly(ideas)
    choice = choose(scorer, sample)
    chosen = scorer.nominate(ideas, choice.count, choice.expansion)
    return {
        f"recall at {INDEX_CANDIDATES * K}": recall(scorer.match_vectors(ideas), right),
        "chosen": f"{choice.count}, ef {choice.expansion}",
        "recall as chosen": recall(scorer.decide(ideas, chosen), right),
    }


if __name__ == "__main__":
    main()
