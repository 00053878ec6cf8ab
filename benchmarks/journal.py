"""What journal, table and summaries cost on top of search, and how memory grows with ideas.

    python -m benchmarks.journal [--papers 200000] [--exact 4096] [--index 65536] [--json out.json]

Ready vectors: an encoder that looks them up stands in for a model. Each run is a `score_file` in a
process of its own, with a journal, a table and the K nearest papers where `--matches` is given.
`search` is nominating, `match` the similarity kernel; `read` and `text` belong to ideas as text,
whatever scores them. All else is on top: `table` (rows with the papers' names), `count` (the
tally), `journal` (parts and their lines), `write` (the published table), `samples` (by which an
index's candidates are chosen), `sample` (by which its recall is told) and the rest, such as looking
vectors up. Private memory is the highest seen of what no file backs (RssAnon); that of the ready
vectors is mapped.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import machine, table, write_json
from benchmarks.opening import build
from benchmarks.vectors import Vectors
from hindsight_fast.candidates import TARGET
from hindsight_models import Encoded, Progress

READY = 65_536  # different vectors; of more ideas, several have the same
ON_TOP = ("table", "count", "journal", "write", "samples", "sample")
NOT_ON_TOP = ("search", "match", "read", "text")

CHILD = """
import sys
from pathlib import Path
from benchmarks.journal import score
place, n, search, matches, recall = sys.argv[1:]
score(Path(place), int(n), search, matches == "matches", float(recall))
"""


class Ready:
    """An encoder that looks the vectors of ideas up, by the number that each begins with."""

    name = fingerprint = "made-up"
    precision, device = "float32", "cpu"
    chunk_size, flops_per_text = 4096, 0.0

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._vectors, self.dim = vectors, vectors.shape[1]

    def reference(self) -> "Ready":
        """Itself: it is in float32."""
        return self

    def encode_counted(
        self, pairs: Sequence[tuple[str, str]], progress: Progress | None = None
    ) -> Encoded:
        """The vectors of ideas."""
        encoded = Encoded.empty(len(pairs), self.dim)
        rows = np.array([int(head.split()[1]) for head, _ in pairs], np.int64)
        encoded.vectors[:] = self._vectors[rows % len(self._vectors)]
        encoded.n_tokens[:] = 100
        return encoded

    def encode_chunks(
        self, chunks: Iterable[Sequence[tuple[str, str]]], progress: Progress | None = None
    ) -> Generator[Encoded]:
        """The vectors of ideas, chunk by chunk."""
        for chunk in chunks:
            yield self.encode_counted(chunk, progress)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--papers", type=int, default=200_000)
    parser.add_argument("--exact", type=int, nargs="*", default=[4096])
    parser.add_argument("--index", type=int, nargs="*", default=[65_536])
    parser.add_argument("--matches", action="store_true")
    parser.add_argument("--recall", type=float, default=TARGET, help="0: as the index is set")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made = Vectors(arguments.papers, min(READY, max([*arguments.exact, *arguments.index])))
        build(place, made)
        np.save(place / "ideas.npy", made.ideas)
        del made
        wanted = [("exact", n) for n in arguments.exact] + [("index", n) for n in arguments.index]
        rows = [row(place, search, n, arguments.matches, arguments.recall) for search, n in wanted]
    facts = machine("numpy", "numba", "polars", "usearch")
    print(f"{arguments.papers:,} papers; {facts['processor']}, load {facts['load_average_before']}")
    print(table(rows))
    write_json(arguments.json, {"machine": facts, "papers": arguments.papers, "runs": rows})


def row(place: Path, search: str, n: int, with_matches: bool, recall: float) -> dict[str, Any]:
    """Seconds of a run by stage, and the share of what is on top of them."""
    write_ideas(place / "ideas.jsonl", n)
    command = [sys.executable, "-c", CHILD, place, n, search]
    command += ["matches" if with_matches else "", recall]
    done = subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    seconds = found["seconds"]
    search_s = seconds["search"] + seconds["match"]
    on_top = seconds["total"] - sum(seconds[name] for name in NOT_ON_TOP)
    return {
        "search by": found["signature"].partition(" search=")[2].split()[0],
        "ideas": n,
        "ideas/s": n / search_s,
        **{name: seconds.get(name, 0.0) for name in ("search", "match", *ON_TOP, "read", "text")},
        "on top %": 100 * on_top / search_s,
        "total": seconds["total"],
        "private_MiB": found["private_MiB"],
    }


def write_ideas(path: Path, n: int) -> None:
    """Ideas of usual length that begin with their numbers."""
    method = "We learn a model of the language from data, as in an image or a graph. " * 4
    with path.open("w") as file:
        for i in range(n):
            idea = {"id": f"i{i}", "system": "ab"[i % 2], "problem": f"Idea {i} of this file"}
            file.write(json.dumps({**idea, "method": method}) + "\n")


def score(place: Path, n: int, search: str, with_matches: bool, recall: float) -> None:
    """Score the ideas, and print what that took."""
    from benchmarks.peak import Peak
    from hindsight_fast import Pool, Scorer, runs

    pool, ready = Pool.open(place / "pool"), np.load(place / "ideas.npy", mmap_mode="r")
    scorer = Scorer(pool, Ready(ready), search=search)
    scorer.score_vectors(ready[:64])  # compiles
    matches = place / f"matches-{search}-{n}.parquet" if with_matches else None
    with Peak() as peak:
        done = runs.score_file(
            scorer,
            place / "ideas.jsonl",
            place / f"{search}-{n}.parquet",
            matches=matches,
            recall=recall or None,
        )
    found = {"seconds": done["seconds"], "private_MiB": peak.private_MiB}
    print(json.dumps({**found, "signature": done["signature"]}))


if __name__ == "__main__":
    main()
