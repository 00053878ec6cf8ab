"""Records as they come to a store: MB of JSON per second, and peak memory.

    python -m benchmarks.ingest [--records 2000000] [--shape arxiv] [--folder DIR] [--json out.json]

Made-up records of the shape and size of arXiv's metadata snapshot (one file), or of Semantic
Scholar's bulk papers and abstracts (`--shape s2`: eight shards of each, in different orders); a
hundredth of the papers is in a file that is damaged here and there. `hindsight-fast build` runs in
a process of its own, without vectors; so does polars, which only parses the files without damage,
with an explicit schema and as many threads. Peak is that of all resident memory (ru_maxrss), pages
of mapped files included; CPU is that of all threads, and tells more on a machine that is not idle.

Right means: as many records as lines, each cut line a reject, each paper that comes twice merged,
and `verify` finds nothing wrong.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import in_words, machine, table, write_json
from benchmarks.records import Made, arxiv, semantic_scholar
from hindsight_fast.store import Store, verify_store

POLARS = """
import json, sys
import polars as pl
from benchmarks.records import SCHEMAS

n = 0

def count(frame):
    global n
    n += frame.height

for path, name in json.loads(sys.argv[1]).items():
    pl.scan_ndjson(path, schema=SCHEMAS[name]).sink_batches(count, engine="streaming")
print(json.dumps({"records": n}))
"""


class Done(NamedTuple):
    """What a process printed as JSON, and what it took."""

    facts: dict[str, Any]
    seconds: float
    cpu_seconds: float
    peak_mib: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--shape", choices=["arxiv", "s2"], default="arxiv")
    parser.add_argument("--folder", type=Path, help="where some GB fit; temporary by default")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        began = time.monotonic()
        make = {"arxiv": arxiv, "s2": semantic_scholar}[arguments.shape]
        made = make(Path(folder), arguments.records)
        seconds = time.monotonic() - began
        rows = measure(Path(folder) / "store", made)
    print(f"{made.lines:,} lines, made in {seconds:.0f} s")
    facts = machine("polars", "msgspec", "numpy")
    print(in_words(facts))
    print(table(rows))
    ratio = rows[0]["MB/s"] / rows[1]["MB/s"]
    print(f"{ratio:.2f} of what polars takes for parsing alone")
    write_json(
        arguments.json,
        {"machine": facts, "shape": arguments.shape, "records": arguments.records, "rows": rows}
        | {"ratio": ratio},
    )


def measure(out: Path, made: Made) -> list[dict[str, Any]]:
    """A row for us and one for polars."""
    build = [sys.executable, "-m", "hindsight_fast", "build", str(made.source), "--out", str(out)]
    ours = run([*build, "--json"])
    whole = json.dumps({str(path): name for path, name in made.whole.items()})
    polars = run([sys.executable, "-c", POLARS, whole])
    everything = [path for path in made.source.rglob("*") if path.is_file()]
    parsed = int(polars.facts["records"])
    return [
        {
            "way": way,
            "MB": megabytes(files),
            "MB/s": megabytes(files) / done.seconds,
            "us/line": 1e6 * done.seconds / lines,
            "CPU us/line": 1e6 * done.cpu_seconds / lines,
            "peak MiB": done.peak_mib,
            "right": right,
        }
        for way, done, files, lines, right in (
            ("hindsight-fast build", ours, everything, made.lines, is_right(out, made)),
            ("polars, parsing", polars, made.whole, parsed, parsed > 0.98 * made.lines),
        )
    ]


def megabytes(files: Iterable[Path]) -> float:
    return sum(file.stat().st_size for file in files) / 1e6


def run(command: list[str]) -> Done:
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command[:5])} ... ended with {process.returncode}")
    cpu = used.ru_utime + used.ru_stime
    return Done(json.loads(printed), time.perf_counter() - began, cpu, used.ru_maxrss / 1024)


def is_right(path: Path, made: Made) -> bool:
    verify_store(path)
    counts = Store.open(path).manifest.table("counts")
    print(", ".join(f"{name} {count:,}" for name, count in counts.items() if count))
    found = (counts["n_in"], counts["n_rejects"])
    # Some titles meet by chance, as they do among real ones.
    few_more = made.twice <= counts["n_merged"] <= made.twice + 1 + made.records // 1000
    return found == (made.records, made.cut) and few_more


if __name__ == "__main__":
    started = time.monotonic()
    main()
    print(f"{time.monotonic() - started:.0f} s in all")
