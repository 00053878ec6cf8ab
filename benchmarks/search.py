"""Index search + rescore: ours and faiss's HNSW, both rescored by the same kernel, at equal recall.

    python -m benchmarks.search [--papers 200000] [--json out.json]

Same vectors, M, efConstruction and threads. Each searches at several ef; recall@K is counted
after rescoring, against the exact scan; speeds at the wanted recall are interpolated (log speed
over log of the miss) between the settings around it. Ours nominates as many
as scoring asks for. faiss holds float32 vectors and searches by inner product, its best for unit
vectors; it nominates K papers, all that exact distances need.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import interleaved, machine, median, table, write_json
from benchmarks.vectors import Vectors, shape_of
from hindsight_fast.index import Index, IndexConfig, build_index
from hindsight_fast.scoring import INDEX_CANDIDATES
from hindsight_kernels import exact, match

EF = (64, 96, 128, 192, 256, 384, 512, 768)
TARGET = 1.5
Nominate = Callable[[NDArray[np.float32]], NDArray[np.int32]]


def speed_at(points: list[dict[str, Any]], recall: float) -> float | None:
    """Ideas per second at a recall, between the two settings around it; None outside."""
    for low, high in pairwise(points):
        if low["recall"] <= recall <= high["recall"] < 1:
            at = [math.log(1 - point["recall"]) for point in (low, high)]
            speed = [math.log(point["ideas/s"]) for point in (low, high)]
            share = 0.0 if at[0] == at[1] else (math.log(1 - recall) - at[0]) / (at[1] - at[0])
            return math.exp(speed[0] + share * (speed[1] - speed[0]))
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--papers", type=int, default=200_000)
    parser.add_argument("--ideas", type=int, default=2048)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--recall", type=float, default=0.99)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    made, config = Vectors(arguments.papers, arguments.ideas), IndexConfig()
    with tempfile.TemporaryDirectory() as folder:
        rivals, builds = build(made.papers, Path(folder), config, arguments.k, arguments.threads)
        rows = measure(made, rivals, arguments.k, arguments.threads, arguments.repeats)
    names = list(dict.fromkeys(row["search"] for row in rows))
    speeds = {
        name: speed_at([row for row in rows if row["search"] == name], arguments.recall)
        for name in names
    }
    ours, theirs = (speeds[name] for name in names)
    ratio = ours / theirs if ours is not None and theirs is not None else None
    print(table(builds), "\n", table(rows), sep="\n")
    print(f"ideas/s at recall@{arguments.k} = {arguments.recall}: {speeds}")
    print(f"ratio {ratio}; target {TARGET}; shipped: ef {config.expansion_search}")
    write_json(
        arguments.json,
        {
            "benchmark": "search",
            "arguments": {name: str(value) for name, value in vars(arguments).items()},
            "config": asdict(config),
            "shape": asdict(shape_of(made.papers, made.ideas)),
            "builds": builds,
            "results": rows,
            "ideas_per_second": speeds,
            "speed_over_faiss": ratio,
            "target": TARGET,
            "machine": machine("numpy", "numba", "usearch", "faiss-cpu"),
        },
    )


def build(
    papers: NDArray[np.float32], folder: Path, config: IndexConfig, k: int, threads: int
) -> tuple[dict[tuple[str, int], Nominate], list[dict[str, Any]]]:
    """Both graphs; how each nominates at each ef, and what each cost."""
    start = time.perf_counter()
    facts = build_index(papers, np.ones(len(papers), bool), folder, config, threads=threads)
    builds = [_built("hindsight", start, facts.n_bytes, len(papers))]

    faiss: Any = import_module("faiss")  # untyped, and only here
    faiss.omp_set_num_threads(threads)
    start = time.perf_counter()
    hnsw = faiss.IndexHNSWFlat(papers.shape[1], config.connectivity, faiss.METRIC_INNER_PRODUCT)
    hnsw.hnsw.efConstruction = config.expansion_add
    hnsw.add(papers)
    size = len(faiss.serialize_index(hnsw))
    builds.append(_built("faiss HNSWFlat", start, size, len(papers)))

    rivals: dict[tuple[str, int], Nominate] = {}
    for ef in EF:
        index = Index.view(folder, replace(config, expansion_search=ef))
        rivals["hindsight", ef] = _ours(index, INDEX_CANDIDATES * k, threads)
        rivals["faiss HNSWFlat", ef] = _theirs(faiss, hnsw, ef, k)
    return rivals, builds


def measure(
    made: Vectors,
    rivals: dict[tuple[str, int], Nominate],
    k: int,
    threads: int,
    repeats: int,
) -> list[dict[str, Any]]:
    """Speed and quality of each rival at each ef, rescored by the same kernel."""
    papers, ideas = made.papers, made.ideas
    impact = np.random.default_rng(1).random(len(papers), np.float32)
    right = exact(ideas, papers, impact, k, 0.96, threads=threads)

    def call(nominate: Nominate) -> Callable[[], Any]:
        return lambda: match(ideas, papers, impact, nominate(ideas), k, 0.96, threads=threads)

    calls = {str(key): call(nominate) for key, nominate in rivals.items()}
    seconds = interleaved(calls, repeats)
    rows: list[dict[str, Any]] = []
    for (search, ef), taken in zip(rivals, seconds.values(), strict=True):
        found = calls[str((search, ef))]()
        rows.append(
            {
                "search": search,
                "ef": ef,
                "ideas/s": len(ideas) / median(taken),
                # A paper as near as the true K-th is as good, whichever of equals it is.
                "recall": float((found.similarities >= right.similarities[:, -1:]).mean()),
                "same_score": float((found.scores == right.scores).mean()),
            }
        )
    return rows


def _built(name: str, start: float, n_bytes: int, n_papers: int) -> dict[str, Any]:
    seconds = time.perf_counter() - start
    return {
        "index": name,
        "build_seconds": seconds,
        "papers/s": n_papers / seconds,
        "bytes/paper": n_bytes / n_papers,
    }


def _ours(index: Index, count: int, threads: int) -> Nominate:
    return lambda ideas: index.search(ideas, count, threads=threads)


def _theirs(faiss: Any, hnsw: Any, ef: int, k: int) -> Nominate:
    parameters = faiss.SearchParametersHNSW(efSearch=ef)
    return lambda ideas: hnsw.search(ideas, k, params=parameters)[1].astype(np.int32)


if __name__ == "__main__":
    main()
