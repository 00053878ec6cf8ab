"""The exact scan on a GPU: sizes of blocks and batches, papers that stay and papers that come.

    python -m benchmarks.gpu_scan [--papers 1000000] [--device cuda:0] [--json out.json]

One setting is varied at a time, on made-up vectors in the shape of SPECTER2's. Speed is that of
nominating, after one call that warms up; TFLOP/s are of the products alone, whatever else was done.
Quality beside it: the share of ideas that the CPU has left to do, papers that are nominated for
each, and the share of a sample of ideas whose nearest papers are those of the CPU's scan, which
must be 1: exit code 1 where it isn't, or where none could be compared. With --device cpu the graph
runs on onnxruntime's CPU provider, on one thread. Exit code 4, with a sentence, where the device
can't be used.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import in_words, machine, table, write_json
from benchmarks.vectors import Vectors
from hindsight_kernels import match, scan
from hindsight_models import ModelError, Nearest, nearest

SETTINGS: list[dict[str, Any]] = [
    {"block": nearest.BLOCK, "queries": nearest.QUERIES, "memory": None, "ideas": 2048, "k": 20},
    {"block": 16_384},
    {"block": 262_144},
    {"queries": 256},
    {"queries": 2048},
    {"ideas": 64},
    {"ideas": 8192},
    {"k": 100},
    {"memory": 2_000_000_000},
]


class Measured:
    """Papers, ideas, and what the CPU finds for some of them."""

    def __init__(self, n_papers: int, n_ideas: int, device: str, seconds: float, sample: int):
        made = Vectors(n_papers, n_ideas)
        self.papers, self.ideas = made.papers, made.ideas
        self.impact = np.ones(n_papers, np.float32)
        self.device, self.seconds, self.sample = device, seconds, sample

    def row(
        self, block: int, queries: int, memory: int | None, ideas: int, k: int
    ) -> dict[str, Any]:
        """One setting."""
        nearest.BLOCK, nearest.QUERIES = block, queries
        start = time.perf_counter()
        near = Nearest(self.papers, self.impact >= 0, self.device, memory)
        opening = time.perf_counter() - start
        some = self.ideas[:ideas]
        rows, complete = near.nominate(some, k)
        done, start = 0, time.perf_counter()
        while done == 0 or time.perf_counter() - start < self.seconds:
            near.nominate(some, k)
            done += 1
        took = (time.perf_counter() - start) / done
        return {
            "block": block,
            "queries": queries,
            "ideas": len(some),
            "k": k,
            "stay": f"{near.n_resident}/{near.n_blocks}",
            "opening s": opening,
            "ideas/s": len(some) / took,
            "TFLOP/s": 2 * self.papers.size * len(some) / took / 1e12,
            "left to CPU": float(1 - complete.mean()),
            "nominated": float((rows >= 0).sum() / max(complete.sum(), 1)),
            "as the CPU": self._agreement(rows, complete, k),
        }

    def _agreement(
        self, rows: NDArray[np.int32], complete: NDArray[np.bool_], k: int
    ) -> float | None:
        these = np.flatnonzero(complete)[: self.sample]
        if not these.size:
            return None
        arrays = (self.ideas[these], self.papers, self.impact)
        right = match(*arrays, scan(*arrays, k, threads=16), k, 0.96, threads=16)
        found = match(*arrays, rows[these], k, 0.96, threads=16)
        return float((right.rows == found.rows).all(axis=1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--papers", type=int, default=1_000_000)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=2.0, help="of timing for each row")
    parser.add_argument("--sample", type=int, default=256, help="ideas held against the CPU's scan")
    parser.add_argument("--ideas", type=int, default=8192, help="at most, in any row")
    parser.add_argument("--rows", type=int, default=len(SETTINGS), help="settings, from the first")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    measured = Measured(asked.papers, asked.ideas, asked.device, asked.seconds, asked.sample)
    try:
        rows = [measured.row(**{**SETTINGS[0], **one}) for one in SETTINGS[: asked.rows]]
    except ModelError as error:
        sys.stderr.write(f"benchmarks.gpu_scan: {asked.device} can't be used: {error}\n")
        raise SystemExit(4) from None
    facts = machine("onnxruntime-gpu", "onnxruntime", "numpy")
    print(in_words(facts))
    print(table(rows))
    write_json(asked.json, {"machine": facts, "papers": asked.papers, "rows": rows})
    if any(one["as the CPU"] != 1 for one in rows):
        sys.exit("benchmarks.gpu_scan: not all that was found is what the CPU finds")


if __name__ == "__main__":
    main()
