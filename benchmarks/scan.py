"""Exact search: ours (matrix product nominates, the similarity kernel decides), by bytes
("pruned"), as pools have it, and in float32 ("plain"), and faiss's flat inner-product index, on the
same vectors and the same number of threads.

    python -m benchmarks.scan [--papers 200000] [--json out.json]

Speed is the median over interleaved repeats, warm-up apart; GFLOP/s are of float32 products along
all axes, whoever computes what. Quality: of a sample of ideas, the
share whose K papers are those of a float64 product (similarity rounded to float32, ties to the
lower row), papers and order.
"""

import argparse
import tempfile
import time
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import interleaved, machine, median, table, write_json
from benchmarks.vectors import RANK, Vectors, shape_of


def oracle(queries: NDArray[np.float32], papers: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """(n, k) nearest rows by float64 similarity rounded to float32, ties to the lower row."""
    similarities = np.empty((len(queries), len(papers)), np.float32)
    wide = queries.astype(np.float64)
    for start in range(0, len(papers), 8192):
        block = papers[start : start + 8192].astype(np.float64)
        similarities[:, start : start + 8192] = wide @ block.T
    return np.argsort(-similarities, axis=1, kind="stable")[:, :k]


def agreement(found: NDArray[Any], right: NDArray[Any]) -> dict[str, float]:
    same_order = (found == right).all(axis=1).mean()
    same_papers = (np.sort(found, axis=1) == np.sort(right, axis=1)).all(axis=1).mean()
    return {"same_papers": float(same_papers), "same_order": float(same_order)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--papers", type=int, default=200_000)
    parser.add_argument("--ideas", type=int, default=512)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--rank", type=int, default=RANK, help="directions that vectors vary along")
    parser.add_argument("--sample", type=int, default=512, help="ideas to check for quality")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    faiss: Any = import_module("faiss")  # untyped, and only here

    start = time.perf_counter()
    from hindsight_fast.projection import build_projection, byte_products, open_projection
    from hindsight_kernels import Matches, exact, match, pruned_scan

    first_import = time.perf_counter() - start
    made = Vectors(arguments.papers, arguments.ideas, rank=arguments.rank)
    papers, ideas = made.papers, made.ideas
    impact = np.random.default_rng(1).random(len(papers), np.float32)

    k, threads = arguments.k, arguments.threads
    everything = np.ones(len(papers), np.bool_)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        facts = build_projection(papers, everything, Path(folder), k)
        if facts is None:
            parser.error("vectors of which no few axes tell enough: more --papers are needed")
        projected = open_projection(Path(folder), facts, *papers.shape)
    projecting = time.perf_counter() - start

    def pruned(ideas: NDArray[np.float32]) -> Matches:
        candidates = pruned_scan(
            ideas, papers, impact, projected, k, threads=threads, multiply=byte_products()
        )
        return match(ideas, papers, impact, candidates, k, 0.96, threads=threads)

    def plain(ideas: NDArray[np.float32]) -> Matches:
        return exact(ideas, papers, impact, k, 0.96, threads=threads)

    faiss.omp_set_num_threads(threads)
    flat = faiss.IndexFlatIP(papers.shape[1])
    flat.add(papers)
    seconds = interleaved(
        {
            "hindsight pruned": lambda: pruned(ideas),
            "hindsight plain": lambda: plain(ideas),
            "faiss IndexFlatIP": lambda: flat.search(ideas, k),
        },
        arguments.repeats,
    )

    sample = ideas[: arguments.sample]
    right = oracle(sample, papers, k)
    found = {"hindsight pruned": pruned(sample), "hindsight plain": plain(sample)}
    for ours, other in zip(*found.values(), strict=True):
        np.testing.assert_array_equal(ours, other)
    quality = {name: agreement(ours.rows, right) for name, ours in found.items()} | {
        "faiss IndexFlatIP": agreement(flat.search(sample, k)[1], right),
    }
    operations = 2 * papers.size * len(ideas)
    rows = [
        {
            "search": name,
            "seconds": median(taken),
            "fastest": min(taken),
            "ideas/s": len(ideas) / median(taken),
            "GFLOP/s": operations / median(taken) / 1e9,
            **quality[name],
        }
        for name, taken in seconds.items()
    ]
    *ours, theirs = seconds.values()
    ratios = {
        name: median([their / our for our, their in zip(taken, theirs, strict=True)])
        for name, taken in zip(seconds, ours, strict=False)
    }
    candidates = pruned_scan(
        sample, papers, impact, projected, k, threads=threads, multiply=byte_products()
    )
    result: dict[str, Any] = {
        "benchmark": "scan",
        "papers": len(papers),
        "ideas": len(ideas),
        "dim": papers.shape[1],
        "rank": arguments.rank,
        "k": k,
        "threads": threads,
        "shape": asdict(shape_of(papers, ideas)),
        "import_and_compile_seconds": first_import,
        "results": rows,
        "axes": facts["n_axes"],
        "projecting_seconds": projecting,
        "nominated_per_idea": float((candidates >= 0).sum(axis=1).mean()),
        "speed_over_faiss": ratios,
        "targets": {"hindsight pruned": 2.5, "hindsight plain": 0.95},
        "seconds": seconds,
        "machine": machine("numpy", "numba", "faiss-cpu"),
    }
    print(table(rows))
    for name, target in result["targets"].items():
        print(f"{name}: {ratios[name]:.3f} times faiss (median of {len(theirs)}; target {target})")
    print(
        f"{facts['n_axes']} axes of {papers.shape[1]}, {result['nominated_per_idea']:.0f} papers "
        f"nominated per idea; projecting all papers took {projecting:.1f} s"
    )
    for blas in result["machine"]["blas"]:
        print(f"BLAS: {blas['file']} {blas['version']} kernel {blas['architecture']}")
    write_json(arguments.json, result)


if __name__ == "__main__":
    main()
