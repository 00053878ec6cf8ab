"""Index search + rescore + reduce, beside faiss's and hnswlib's HNSW, all rescored by one kernel.

    python -m benchmarks.search --work DIR [--papers 200000] [--hnswlib] [--json out.json]

Same vectors, M, efConstruction and threads. Each graph searches at several ef; recall@K is counted
after rescoring, against the exact scan. Speeds are held against each other at the highest recall
that both reach, and at --recall, interpolated (log speed over log of the miss) between the
settings around it; where the smallest ef reaches more, its own speed is taken, which is less than
a smaller one would have. Ours nominates six times K papers; the row "chosen" is searched as
`candidates.choose` says on a sample of other ideas; "exact" is the certified scan along principal
axes, which misses nothing. The others hold float32 vectors and search by inner product, which
ranks unit vectors as L2 does; L2 itself was not tried. They nominate K papers, all that exact
distances need. What was wanted is printed as "met" or "missed"; the exit code is 0 all the same.

Vectors and what was built of them are kept under --work, with what building took and what it
depends on (settings, threads, versions, sources): a second run only searches, unless one of those
has changed. 1,000,000 papers need 12 GB of memory and of disk, 16 GB with hnswlib.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import hindsight_fast
import hindsight_kernels
from benchmarks.measure import in_words, interleaved, machine, median, sources, table, write_json
from benchmarks.vectors import DIM, Vectors, shape_of
from hindsight_fast.candidates import TARGET as RECALL
from hindsight_fast.candidates import Choice, choose
from hindsight_fast.candidates import recall as recall_of
from hindsight_fast.config import ScoreConfig
from hindsight_fast.index import Index, IndexConfig, build_index
from hindsight_fast.projection import build_projection, byte_products, open_projection
from hindsight_kernels import Matches, Projected, match, pruned_scan, scan

EF = (64, 128, 256, 512, 1024, 2048)
MULTIPLE = 6  # rescoring a paper takes a fifth of what a candidate of the graph does
SAMPLE = 256
SPEED, BUILD, BYTES, SAME = 2.0, 1.5, 1100, 0.999
OURS, EXACT, FAISS, HNSWLIB = "hindsight", "hindsight exact", "faiss HNSWFlat", "hnswlib"
F32 = NDArray[np.float32]
Nominate = Callable[[F32], NDArray[np.int32]]
T = TypeVar("T")


class Ours:
    """Everything that scoring has of a pool, over bare vectors (a `candidates.Searching`)."""

    def __init__(
        self, papers: F32, index: Index, projected: Projected | None, k: int, threads: int
    ):
        self.config, self._threads = ScoreConfig(k, 0.96), threads
        self._papers, self._index, self._projected = papers, index, projected
        self._impact = np.random.default_rng(1).random(len(papers), np.float32)

    def nominate(self, vectors: F32, count: int, expansion: int) -> NDArray[np.int32]:
        """Like `Scorer.nominate`."""
        return self._index.search(vectors, count, threads=self._threads, expansion=expansion)

    def scan(self, vectors: F32) -> NDArray[np.int32]:
        """All that can be among the nearest."""
        k, threads = self.config.k, self._threads
        arrays = vectors, self._papers, self._impact
        if self._projected is None:
            return scan(*arrays, k, threads=threads)
        return pruned_scan(*arrays, self._projected, k, threads=threads, multiply=byte_products())

    def decide(self, vectors: F32, candidates: NDArray[np.int32]) -> Matches:
        """Like `Scorer.decide`."""
        k, theta = self.config.k, self.config.theta
        arrays = vectors, self._papers, self._impact, candidates
        return match(*arrays, k, theta, threads=self._threads)

    def match_exactly(self, vectors: F32) -> Matches:
        """Like `Scorer.match_exactly`."""
        return self.decide(vectors, self.scan(vectors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="where it may take much disk")
    parser.add_argument("--papers", type=int, default=200_000)
    parser.add_argument("--ideas", type=int, default=1024)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--recall", type=float, default=0.99)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--hnswlib", action="store_true", help="build and search it as well")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()

    config, k, threads, n_ideas = IndexConfig(), given.k, given.threads, given.ideas + SAMPLE
    made_by = sources(Path(__file__).with_name("vectors.py"))
    folder = given.work / f"{given.papers}-{n_ideas}-{made_by}"
    papers, everyone = vectors(folder, given.papers, n_ideas)
    ideas, sample = everyone[: given.ideas], everyone[given.ideas :]
    ours, builds = build_ours(papers, folder, config, k, threads)
    rivals: dict[tuple[str, str], Nominate] = {(EXACT, "-"): ours.scan}
    for ef in EF:
        rivals[OURS, str(ef)] = partial(ours.nominate, count=min(MULTIPLE * k, ef), expansion=ef)
    choice = choose(ours, sample, RECALL)
    rivals[OURS, "chosen"] = partial(ours.nominate, count=choice.count, expansion=choice.expansion)
    theirs = [FAISS, *([HNSWLIB] if given.hnswlib else [])]
    for name in theirs:
        nominate, built = THEIRS[name](papers, folder, config, k, threads)
        builds.append(built)
        rivals |= {(name, str(ef)): partial(nominate, ef=ef) for ef in EF}
    rows = measure(ours, rivals, ideas, given.repeats)
    facts = machine("numpy", "numba", "usearch", "faiss-cpu", "hnswlib")
    print(in_words(facts), table(builds), table(rows), sep="\n\n")
    print(f"\nchosen for recall {RECALL}: {choice.in_words()}\n")
    against = [compared(rows, name, given.recall) for name in theirs]
    print(table(against), "", sep="\n")
    verdicts = judged(rows, builds, against[0], choice)
    print(table(verdicts))
    write_json(
        given.json,
        {
            "benchmark": "search",
            "arguments": {name: str(value) for name, value in vars(given).items()},
            "config": asdict(config),
            "shape": asdict(shape_of(papers, ideas)),
            "choice": choice.facts(),
            "builds": builds,
            "results": rows,
            "against": against,
            "verdicts": verdicts,
            "machine": facts,
        },
    )


def vectors(folder: Path, n: int, n_ideas: int) -> tuple[F32, F32]:
    """Made-up papers, mapped, and ideas; kept in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    ideas, papers = folder / "ideas.npy", folder / "papers.npy"
    if not ideas.exists():
        out = np.lib.format.open_memmap(papers, "w+", np.float32, (n, DIM))
        np.save(ideas, Vectors(n, n_ideas, out=out).ideas)
    return np.load(papers, mmap_mode="r"), np.load(ideas)


def timed(
    folder: Path,
    name: str,
    n: int,
    key: dict[str, Any],
    build: Callable[[], T],
    keep: Callable[[T], int],
) -> dict[str, Any]:
    """Build what isn't there, or was made otherwise than `key` says; what it took is kept last.

    Writing is the business of `keep`, which tells the bytes; it doesn't count as building.
    """
    facts = folder / f"{name}.json"
    known: dict[str, Any] = json.loads(facts.read_text()) if facts.exists() else {}
    if known.get("key") != key:
        facts.unlink(missing_ok=True)
        start = time.perf_counter()
        made = build()
        seconds = time.perf_counter() - start
        known = {"key": key, "seconds": seconds, "bytes": keep(made)}
        part = facts.with_suffix(".part")
        part.write_text(json.dumps(known))
        part.replace(facts)
    rate = {"papers/s": n / known["seconds"], "bytes/paper": known["bytes"] / n}
    return {"built": name, "seconds": known["seconds"], **rate}


def build_ours(
    papers: F32, folder: Path, config: IndexConfig, k: int, threads: int
) -> tuple[Ours, list[dict[str, Any]]]:
    eligible, axes = np.ones(len(papers), bool), folder / "axes.json"
    package = Path(hindsight_fast.__file__).parent
    kernels = sources(Path(hindsight_kernels.__file__).parent)

    def index() -> int:
        for path in folder.glob("index*"):
            path.unlink()
        return build_index(papers, eligible, folder, config, threads=threads).n_bytes

    def projection() -> int:
        for path in folder.glob("scan-*"):
            path.unlink()
        found = build_projection(papers, eligible, folder, k)
        axes.write_text(json.dumps(found))
        return sum(path.stat().st_size for path in folder.glob("scan-*.npy"))

    of_index = {
        "threads": threads,
        "config": config.fingerprint(),
        "usearch": version("usearch"),
        "sources": sources(package / "index", package / "codes.py"),
        "kernels": kernels,
    }
    of_axes = {
        "k": k,
        "sources": sources(package / "projection.py", package / "codes.py"),
        "kernels": kernels,
    }
    n = len(papers)
    builds = [
        timed(folder, OURS, n, of_index, index, int),
        timed(folder, EXACT, n, of_axes, projection, int),
    ]
    found = json.loads(axes.read_text())
    projected = None if found is None else open_projection(folder, found, *papers.shape)
    return Ours(papers, Index.view(folder, config), projected, k, threads), builds


def build_faiss(
    papers: F32, folder: Path, config: IndexConfig, k: int, threads: int
) -> tuple[Callable[..., NDArray[np.int32]], dict[str, Any]]:
    faiss: Any = import_module("faiss")  # untyped, and only here
    faiss.omp_set_num_threads(threads)
    path = folder / "faiss.index"
    graph = faiss.IndexHNSWFlat(papers.shape[1], config.connectivity, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = config.expansion_add

    def keep(_: None) -> int:
        faiss.write_index(graph, str(path))
        return path.stat().st_size

    key = _key("faiss-cpu", config, threads)
    built = timed(folder, FAISS, len(papers), key, lambda: graph.add(papers), keep)
    if not graph.ntotal:
        graph = faiss.read_index(str(path))

    def nominate(ideas: F32, ef: int) -> NDArray[np.int32]:
        parameters = faiss.SearchParametersHNSW(efSearch=ef)
        found: NDArray[np.int32] = graph.search(ideas, k, params=parameters)[1].astype(np.int32)
        return found

    return nominate, built


def build_hnswlib(
    papers: F32, folder: Path, config: IndexConfig, k: int, threads: int
) -> tuple[Callable[..., NDArray[np.int32]], dict[str, Any]]:
    path = folder / "hnswlib.index"
    graph: Any = import_module("hnswlib").Index("ip", papers.shape[1])

    def build() -> None:
        graph.init_index(len(papers), config.connectivity, config.expansion_add)
        graph.add_items(papers, num_threads=threads)

    def keep(_: None) -> int:
        graph.save_index(str(path))
        return path.stat().st_size

    built = timed(folder, HNSWLIB, len(papers), _key("hnswlib", config, threads), build, keep)
    if not graph.element_count:
        graph.load_index(str(path))

    def nominate(ideas: F32, ef: int) -> NDArray[np.int32]:
        graph.set_ef(ef)
        found: NDArray[np.int32] = graph.knn_query(ideas, k, threads)[0].astype(np.int32)
        return found

    return nominate, built


THEIRS = {FAISS: build_faiss, HNSWLIB: build_hnswlib}


def _key(package: str, config: IndexConfig, threads: int) -> dict[str, Any]:
    """What a rival's graph depends on."""
    return {
        "threads": threads,
        "M": config.connectivity,
        "efConstruction": config.expansion_add,
        package: version(package),
    }


def measure(
    ours: Ours, rivals: dict[tuple[str, str], Nominate], ideas: F32, repeats: int
) -> list[dict[str, Any]]:
    """Speed and quality of each rival at each ef, rescored by the same kernel."""
    right = ours.match_exactly(ideas)

    def call(nominate: Nominate) -> Callable[[], Matches]:
        return lambda: ours.decide(ideas, nominate(ideas))

    calls = {str(key): call(nominate) for key, nominate in rivals.items()}
    seconds = interleaved(calls, repeats)
    rows: list[dict[str, Any]] = []
    for (name, ef), taken in zip(rivals, seconds.values(), strict=True):
        found = calls[str((name, ef))]()
        rows.append(
            {
                "search": name,
                "ef": ef,
                "ideas/s": len(ideas) / median(taken),
                "recall": recall_of(found, right),
                "same_score": float((found.scores == right.scores).mean()),
            }
        )
    return rows


def speed_at(points: list[dict[str, Any]], recall: float) -> float | None:
    """Ideas per second at a recall, between the two settings around it.

    Where the first has more, it is that one's, which is too little; None where none has as much.
    """
    if points[0]["recall"] >= recall:
        return float(points[0]["ideas/s"])
    for low, high in pairwise(points):
        if low["recall"] <= recall <= high["recall"]:
            at = [_miss(point["recall"]) for point in (low, high)]
            speed = [math.log(point["ideas/s"]) for point in (low, high)]
            share = 0.0 if at[0] == at[1] else (_miss(recall) - at[0]) / (at[1] - at[0])
            return math.exp(speed[0] + share * (speed[1] - speed[0]))
    return None


def _miss(recall: float) -> float:
    return math.log(max(1 - recall, 1e-5))


def compared(rows: list[dict[str, Any]], rival: str, recall: float) -> dict[str, Any]:
    """Our speeds over a rival's at the highest recall that both graphs reach, and at another."""
    graphs = {
        name: [row for row in rows if row["search"] == name and row["ef"] != "chosen"]
        for name in (OURS, rival)
    }
    both = min(max(point["recall"] for point in points) for points in graphs.values())
    highest = [speed_at(points, both) for points in graphs.values()]
    wanted = [speed_at(points, recall) for points in graphs.values()]
    scanned = next(row["ideas/s"] for row in rows if row["search"] == EXACT)
    return {
        "rival": rival,
        "recall": both,
        "ours/s": highest[0],
        "theirs/s": highest[1],
        "ratio": _ratio(*highest),
        "exact_ratio": _ratio(scanned, highest[1]),
        f"ratio at {recall}": _ratio(*wanted),
    }


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs is not None else None


def judged(
    rows: list[dict[str, Any]],
    builds: list[dict[str, Any]],
    against: dict[str, Any],
    choice: Choice,
) -> list[dict[str, Any]]:
    """What was wanted beside what was measured."""
    built = {one["built"]: one for one in builds}
    chosen = next(row for row in rows if row["ef"] == "chosen")
    speed = built[OURS]["papers/s"] / built[FAISS]["papers/s"]
    size = built[OURS]["bytes/paper"]
    return [
        _verdict("search / faiss, highest recall", SPEED, against["ratio"]),
        _verdict("exact scan / faiss there", SPEED, against["exact_ratio"]),
        _verdict("building / faiss", BUILD, speed),
        _verdict("bytes/paper", BYTES, size, at_most=True),
        _verdict("recall as chosen", choice.target, chosen["recall"]),
        _verdict("equal scores as chosen", SAME, chosen["same_score"]),
    ]


def _verdict(
    what: str, wanted: float, measured: float | None, *, at_most: bool = False
) -> dict[str, Any]:
    met = measured is not None and (measured <= wanted if at_most else measured >= wanted)
    return {
        "what": what,
        "wanted": f"at {'most' if at_most else 'least'} {wanted:g}",
        "measured": measured,
        "verdict": "met" if met else "missed",
    }


if __name__ == "__main__":
    main()
