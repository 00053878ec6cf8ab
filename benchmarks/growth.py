"""How time, memory and disk grow with the number of papers, and what `plan` said of them.

    python -m benchmarks.growth --work DIR [--most 1000000] [--json out.json]

For 10,000, 100,000, ... up to --most papers (10 million take 65 GB of disk): made-up records
become a store, which gets made-up vectors in SPECTER2's shape, a pool and an index; then ideas with
ready vectors are searched for. Each stage runs in a process of its own, and its figures are kept
under --work: called again, only what is missing is done, unless sources or threads have changed:
then all of that size is made again. Peak is that of all resident memory
(VmHWM), pages of mapped files included; private is the most that no file backs (RssAnon), and disk
the most that lay there meanwhile, looked at again and again. CPU is the time of all threads, and
tells more than seconds on a machine that is not idle.

Slopes are those of log figure over log papers from 100,000 papers on: 1 is proportional. What is
10,000 times as fast and as small says how much of it is fixed, so it is shown and not fitted.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import in_words, machine, median, sources, table, write_json

if TYPE_CHECKING:
    from hindsight_fast.planning import Plan

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
FITTED_FROM = 100_000
READY = (1_000, 10_000, 100_000)
SCANNED, SEARCHED = 512, 2_048  # ideas
BATCH = 2_048  # ideas at a time, as in a run
ENCODER, WINDOW = "made-up", ("1990-01-01", "2100-12-31")
MADE_UP_BY = ("growth.py", "records.py", "vectors.py")
Facts = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="where it may take much disk")
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--stage", help="only this one, in this process, of the folder --work")
    arguments = parser.parse_args()
    if arguments.stage is not None:
        print(json.dumps(watched(STAGES[arguments.stage], arguments.work)))
        return
    sizes = [n for n in SIZES if n <= arguments.most]
    key = made_with()
    measured = {n: measure(arguments.work / str(n), n, key) for n in sizes}
    rows = [row for stage in STAGES for row in rows_of(stage, measured)]
    facts = machine("numpy", "numba", "polars", "usearch")
    print(in_words(facts))
    print(table(rows))
    print("\nwhat `plan` says of the same, and what was measured")
    told = foretold(arguments.work, measured)
    print(table(told))
    result = {"machine": facts, "measured": measured, "rows": rows, "plan": told}
    write_json(arguments.json, result)


def made_with() -> str:
    """What all figures depend on: threads, and the sources of packages and benchmarks."""
    packages = [find_spec(name) for name in ("hindsight_fast", "hindsight_kernels")]
    folders = [Path(found.origin).parent for found in packages if found and found.origin]
    made_up = [Path(__file__).with_name(name) for name in MADE_UP_BY]
    return f"{len(os.sched_getaffinity(0))} threads, sources {sources(*folders, *made_up)}"


def measure(place: Path, n: int, key: str) -> dict[str, Facts]:
    """All stages at one size, each once and for all while the key is the same."""
    kept_for = place / "made-with"
    if (place / "n").exists() and not (kept_for.exists() and kept_for.read_text() == key):
        print(f"{n:,} papers: made with other sources or threads, again", file=sys.stderr)
        shutil.rmtree(place)
    place.mkdir(parents=True, exist_ok=True)
    kept_for.write_text(key)
    (place / "n").write_text(str(n))
    found = dict[str, Facts]()
    for stage in STAGES:
        kept = place / f"{stage}.json"
        if not kept.exists():
            print(f"{n:,} papers: {stage}", file=sys.stderr, flush=True)
            command = [sys.executable, "-m", "benchmarks.growth", "--work", str(place)]
            done = subprocess.run(
                [*command, "--stage", stage], check=True, stdout=subprocess.PIPE, text=True
            )
            kept.write_text(done.stdout.splitlines()[-1])
        found[stage] = json.loads(kept.read_text())
    return found


def watched(stage: Callable[[Path], Facts], place: Path) -> Facts:
    """What a stage says, with its time and the most memory and disk that it took."""
    most = {"private_MiB": 0.0, "disk_MB": 0.0}
    before, done = disk(place), threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            most["private_MiB"] = max(most["private_MiB"], mebibytes("RssAnon"))
            most["disk_MB"] = max(most["disk_MB"], (disk(place) - before) / 1e6)

    threading.Thread(target=look, daemon=True).start()
    began, busy = time.perf_counter(), time.process_time()
    facts = stage(place)
    figures = {"seconds": time.perf_counter() - began, "CPU s": time.process_time() - busy}
    done.set()
    kept = (disk(place) - before) / 1e6
    return figures | {"peak_MiB": mebibytes("VmHWM"), **most, "kept_MB": kept} | facts


def mebibytes(what: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def disk(place: Path) -> int:
    """Bytes that files there take, of which some may be gone in a moment; once if by two names."""
    sizes = dict[int, int]()
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                status = (Path(folder) / name).stat()
            except FileNotFoundError:
                continue
            sizes[status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


# --- the stages -----------------------------------------------------------------------------------


def records(place: Path) -> Facts:
    from benchmarks.records import arxiv

    n = int((place / "n").read_text())
    return {"papers": arxiv(place, n).records}


def build(place: Path) -> Facts:
    from hindsight_fast.cli import app

    app(
        ["build", str(place / "snapshot"), "--out", str(place / "store"), "--json"],
        standalone_mode=False,
    )
    from hindsight_fast.store import Store

    return {"papers": Store.open(place / "store").n}


def vectors(place: Path) -> Facts:
    from benchmarks.vectors import DIM, Vectors
    from hindsight_fast.storage import create_array, publish
    from hindsight_fast.store import Store

    store = Store.open(place / "store")
    with publish(store.vectors_folder(ENCODER), "vectors", ENCODER) as staging:
        rows = create_array(staging.folder / "vectors.npy", np.float32, (store.n, DIM))
        made = Vectors(store.n, max(READY), out=rows)
        staging.body |= {
            "n": store.n,
            "dim": DIM,
            "content_id": store.content_id,
            "encoder": ENCODER,
            "encoder_fingerprint": ENCODER,
            "precision": "float32",
            "theta": 0.96,
        }
    np.save(place / "ideas.npy", made.ideas)
    return {}


def pool(place: Path) -> Facts:
    return make_pool(place, "pool", index=False)


def indexed_pool(place: Path) -> Facts:
    return make_pool(place, "indexed", index=True)


def make_pool(place: Path, name: str, *, index: bool) -> Facts:
    import datetime as dt

    from hindsight_fast.index import IndexConfig
    from hindsight_fast.pool import build_pool
    from hindsight_fast.store import Store

    cutoff, until = (dt.date.fromisoformat(day) for day in WINDOW)
    made = build_pool(
        Store.open(place / "store"),
        place / name,
        cutoff=cutoff,
        until=until,
        index=IndexConfig() if index else None,
    )
    axes = {"scan_axes": None if made.projection is None else made.projection.axes.shape[1]}
    if index:
        axes["index_axes"] = made.manifest.table("index")["facts"]["n_axes"]
    return {"papers": made.n_papers, **axes}


def opening(place: Path) -> Facts:
    """Of modules that are imported already."""
    from hindsight_fast import Pool, Scorer

    ideas = np.load(place / "ideas.npy", mmap_mode="r")[:10]
    before, began, busy = mebibytes("RssAnon"), time.perf_counter(), time.process_time()
    scorer = Scorer(Pool.open(place / "indexed"), search="index")
    opened = time.perf_counter() - began
    scorer.score_vectors(np.array(ideas))
    return {
        "seconds": time.perf_counter() - began,
        "CPU s": time.process_time() - busy,
        "opened_s": opened,
        "private_MiB": mebibytes("RssAnon") - before,
    }


def scan_by_bytes(place: Path) -> Facts:
    return search(place, "exact", SCANNED)


def scan_plainly(place: Path) -> Facts:
    return search(place, "plain", SCANNED)


def search_index(place: Path) -> Facts:
    return search(place, "index", SEARCHED)


def search(place: Path, how: str, count: int) -> Facts:
    """Seconds of all ideas, median of three after one that reads the files."""
    from hindsight_fast import Pool, Scorer

    scorer = Scorer(Pool.open(place / "indexed"), search="index" if how == "index" else "exact")
    if how == "plain":
        scorer.pool.projection = None
    ideas = np.array(np.load(place / "ideas.npy", mmap_mode="r")[:count])
    found = scorer.match_vectors(ideas)
    seconds, busy = list[float](), list[float]()
    for _ in range(3):
        began, before = time.perf_counter(), time.process_time()
        found = scorer.match_vectors(ideas)
        seconds.append(time.perf_counter() - began)
        busy.append(time.process_time() - before)
    facts: Facts = {"seconds": median(seconds), "CPU s": median(busy), "ideas": count}
    if how == "index":
        right = scorer.match_exactly(ideas)
        facts["recall"] = float((found.similarities >= right.similarities[:, -1:]).mean())
    return facts


def ready(place: Path, count: int) -> Facts:
    """Ideas with ready vectors, a batch at a time as in a run."""
    from hindsight_fast import Pool, Scorer

    scorer = Scorer(Pool.open(place / "indexed"), search="index")
    ideas = np.load(place / "ideas.npy", mmap_mode="r")[:count]
    for start in range(0, count, BATCH):
        scorer.score_vectors(np.array(ideas[start : start + BATCH]))
    return {"ideas": count}


STAGES: dict[str, Callable[[Path], Facts]] = {
    "records": records,
    "build": build,
    "vectors": vectors,
    "pool": pool,
    "pool and index": indexed_pool,
    "opening": opening,
    "scan by bytes": scan_by_bytes,
    "scan, plain": scan_plainly,
    "index search": search_index,
    **{f"score {count:,}": partial(ready, count=count) for count in READY},
}


# --- what is said of them -------------------------------------------------------------------------


def rows_of(stage: str, measured: dict[int, dict[str, Facts]]) -> list[Facts]:
    """A row for each figure of a stage that is worth showing."""
    rows = list[Facts]()
    for figure in ("seconds", "CPU s", "private_MiB", "peak_MiB", "disk_MB", "kept_MB"):
        values = {n: found[stage][figure] for n, found in measured.items()}
        if figure in ("disk_MB", "kept_MB") and max(values.values()) < 1:
            continue
        row: Facts = {"stage": stage, "figure": figure}
        row |= {f"{n:,}": value for n, value in values.items()}
        rows.append(row | {"slope": slope(values)})
    return rows


def foretold(work: Path, measured: dict[int, dict[str, Facts]]) -> list[Facts]:
    """A row for each figure that `plan` foretells from a calibration now, without these papers."""
    import polars as pl

    from hindsight_fast.planning import Job, look, make_plan, measure_speeds, shape_of
    from hindsight_fast.planning._sizes import TEXT_PER_TOKEN
    from hindsight_fast.store import Store

    here, rows = look(work), list[Facts]()
    shape = replace(shape_of("specter2"), installed=False)  # vectors are ready here
    speeds = measure_speeds(Job(1), shape, work, here.threads)
    for n, found in measured.items():
        store = Store.open(work / str(n) / "store")
        texts = store.papers(["title", "abstract"], 0, min(store.n, 10_000))
        length = texts.select(pl.all().str.len_bytes().mean()).sum_horizontal()[0]
        job = Job(store.n, SCANNED, tokens=round(length / TEXT_PER_TOKEN), index=True)
        rows += compared(make_plan(job, shape, here, speeds), found)
    return rows


def compared(plan: "Plan", found: dict[str, Facts]) -> list[Facts]:
    """What a plan says of each stage, what was measured, and their ratio."""
    from hindsight_fast.planning._stages import BASE

    rows, stages = list[Facts](), {stage.name: stage for stage in plan.stages}
    for name, ours in FORETOLD.items():
        if (said := stages.get(name)) is None:
            continue
        was = found[ours]
        if name.startswith("search"):
            model = stages["encode ideas"].private - BASE  # is not loaded here
            pairs = {
                "ms an idea": (1e3 * said.seconds / SCANNED, 1e3 * was["seconds"] / was["ideas"]),
                "private_MiB": ((said.private - model) / 2**20, was["private_MiB"]),
            }
        else:
            before = found["pool"] if ours == "pool and index" else dict.fromkeys(was, 0.0)
            pairs = {
                "seconds": (said.seconds, was["seconds"] - before["seconds"]),
                "private_MiB": (said.private / 2**20, was["private_MiB"]),
                "most disk, MB": (
                    (said.kept + said.temporary) / 1e6,
                    was["disk_MB"] - before["kept_MB"],
                ),
                "disk kept, MB": (said.kept / 1e6, was["kept_MB"] - before["kept_MB"]),
            }
        rows += [
            {"papers": plan.job.papers, "stage": name, "figure": figure}
            | {"plan": plans, "measured": measured, "ratio": plans / measured}
            for figure, (plans, measured) in pairs.items()
            if measured > 0
        ]
    return rows


FORETOLD = {
    "read and clean records": "build",
    "impact and axes of the pool": "pool",
    "index of the pool": "pool and index",
    "search: exact scan by bytes": "scan by bytes",
    "search: exact scan in float32": "scan, plain",
    "search: index": "index search",
}
"""Stages of `plan`, and what they are called here."""


def slope(values: dict[int, float]) -> float | None:
    """Least squares of log figure over log papers; None of fewer than two sizes."""
    fitted = {n: value for n, value in values.items() if n >= FITTED_FROM and value > 0}
    if len(fitted) < 2:
        return None
    x, y = np.log(list(fitted)), np.log(list(fitted.values()))
    return float(np.polyfit(x, y, 1)[0])


if __name__ == "__main__":
    main()
