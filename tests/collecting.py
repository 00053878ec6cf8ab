"""A collector that is killed, as a program of its own: it forks, so that a kill costs no imports.

    python collecting.py FOLDER STRIDE     at every STRIDE-th line of what collects

It asks the service that the environment names, and prints JSON, which test_collect.py looks at.
"""

import json
import os
import shutil
import signal
import sys
from datetime import date
from pathlib import Path
from typing import Any

from hindsight_fast.papers import collect as package
from hindsight_fast.papers.collect import OPENALEX, Manners, Query, Window, collect
from killing import STORAGE, die_at_line, in_child

WATCHED = (STORAGE, str(Path(str(package.__file__)).parent))


def work(out: Path) -> None:
    """Collect three pages."""
    window = Window(date(2023, 6, 1), date(2025, 12, 31))
    collect(OPENALEX, (Query("query", "q"),), window, out, max_spend=1, manners=Manners(2000))


def killed(out: Path, point: int) -> bool:
    """Whether the kill came before the end."""

    def job() -> None:
        die_at_line(point, WATCHED)
        work(out)

    return os.waitpid(in_child(job), 0)[1] == signal.SIGKILL


def content(out: Path) -> tuple[list[str], bytes]:
    """Names of the files, and the table: answers differ in what they say the next page is."""
    files = [str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()]
    return sorted(files), (out / "papers.parquet").read_bytes()


def main(folder: Path, stride: int) -> dict[str, Any]:
    """Kill at each line in turn, and go on; the result must be the same."""
    os.waitpid(in_child(lambda: work(folder / "reference")), 0)
    expected, wrong, point = content(folder / "reference"), list[str](), 0
    out = folder / "it"
    while killed(out, point):
        os.waitpid(in_child(lambda: work(out)), 0)
        if content(out) != expected:
            wrong.append(f"line {point}: another result")
        spent = json.loads((out / "manifest.json").read_text())["body"]["spent_usd"]
        if not 0.003 <= spent <= 0.004:
            wrong.append(f"line {point}: {spent} USD")
        left = [path.name for path in folder.iterdir() if path.name.startswith(".it")]
        if left:
            wrong.append(f"line {point}: {left} left")
        shutil.rmtree(out)
        point += stride
    return {"kills": point // stride, "wrong": wrong}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
