"""Index search + rescore: ours and faiss's HNSW, both rescored by the same kernel, at equal recall.

    python -m benchmarks.search [--papers 200000] [--json out.json]

Same vectors, M, efConstruction and threads. Each searches at several ef; recall@K is counted
after rescoring, against the exact scan; speeds at the wanted recall are interpolated (log speed
over log of the miss) between the settings around it. faiss holds float32 vectors and searches by
inner product, its best for unit vectors; it nominates K papers, all that its ef can use well.
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
from hindsight_kernels import exact, match

EF = (32, 48, 64, 96, 128, 192, 256, 384, 512)
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
    parser.add_argument("--candidates", type=int, nargs="+", default=[32, 40])
    parser.add_argument("--recall", type=float, default=0.99)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    threads, k = arguments.threads, arguments.k

    made = Vectors(arguments.papers, arguments.ideas)
    papers, ideas = made.papers, made.ideas
    impact = np.random.default_rng(1).random(len(papers), np.float32)
    config = IndexConfig()
    builds: list[dict[str, Any]] = []

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        facts = build_index(papers, np.ones(len(papers), bool), folder, config, threads=threads)
        builds.append(_built("hindsight", start, facts.n_bytes, len(papers)))

        faiss: Any = import_module("faiss")  # untyped, and only here
        faiss.omp_set_num_threads(threads)
        start = time.perf_counter()
        hnsw = faiss.IndexHNSWFlat(papers.shape[1], config.connectivity, faiss.METRIC_INNER_PRODUCT)
        hnsw.hnsw.efConstruction = config.expansion_add
        hnsw.add(papers)
        size = len(faiss.serialize_index(hnsw))
        builds.append(_built("faiss HNSWFlat", start, size, len(papers)))

        right = exact(ideas, papers, impact, k, 0.96, threads=threads)
        rivals: dict[tuple[str, int, int], Nominate] = {}
        for ef in EF:
            index = Index.view(folder, replace(config, expansion_search=ef))
            for count in arguments.candidates:
                if count <= ef:
                    rivals["hindsight", ef, count] = _ours(index, count, threads)
            rivals["faiss HNSWFlat", ef, k] = _theirs(faiss, hnsw, ef, k)

        def call(nominate: Nominate) -> Callable[[], Any]:
            return lambda: match(ideas, papers, impact, nominate(ideas), k, 0.96, threads=threads)

        calls = {str(key): call(nominate) for key, nominate in rivals.items()}
        seconds = interleaved(calls, arguments.repeats)
        rows: list[dict[str, Any]] = []
        for (search, ef, count), taken in zip(rivals, seconds.values(), strict=True):
            found = calls[str((search, ef, count))]()
            rows.append(
                {
                    "search": search,
                    "ef": ef,
                    "candidates": count,
                    "ideas/s": len(ideas) / median(taken),
                    # A paper as near as the true K-th is as good, whichever of equals it is.
                    "recall": float((found.similarities >= right.similarities[:, -1:]).mean()),
                    "same_score": float((found.scores == right.scores).mean()),
                }
            )

    ours = {
        count: speed_at(
            [r for r in rows if r["search"] == "hindsight" and r["candidates"] == count],
            arguments.recall,
        )
        for count in arguments.candidates
    }
    best = max((speed for speed in ours.values() if speed is not None), default=None)
    theirs = speed_at([r for r in rows if r["search"] != "hindsight"], arguments.recall)
    ratio = best / theirs if best is not None and theirs is not None else None
    print(table(builds), "\n", table(rows), sep="\n")
    print(f"ideas/s at recall@{k} = {arguments.recall}: ours {ours}, faiss {theirs}")
    print(f"ratio {ratio}; target 1.5")
    write_json(
        arguments.json,
        {
            "benchmark": "search",
            "papers": len(papers),
            "ideas": len(ideas),
            "dim": papers.shape[1],
            "k": k,
            "threads": threads,
            "config": asdict(config),
            "shape": asdict(shape_of(papers, ideas)),
            "builds": builds,
            "results": rows,
            "recall": arguments.recall,
            "ideas_per_second": {"hindsight": ours, "faiss HNSWFlat": theirs},
            "speed_over_faiss": ratio,
            "target": 1.5,
            "machine": machine("numpy", "numba", "usearch", "faiss-cpu"),
        },
    )


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
