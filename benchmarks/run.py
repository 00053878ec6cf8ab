"""All benchmarks, one after the other, each in a process of its own.

    python -m benchmarks.run [--rivals] [--out bench-out]

`make bench` runs those that need little but hindsight-fast. `make bench-rivals` runs the others
(--rivals), in an environment that also holds torch and what else people would encode with. Quality
is printed beside speed. Close other programs first: rivals are timed in turns, so a busy machine is
unfair to none of them, but nothing on it is fast.
"""

import argparse
import subprocess
import sys
from pathlib import Path

OWN: dict[str, list[str]] = {
    "opening": ["opening"],
    "scan": ["scan"],
    "search": ["search", "--work", "bench-out/search"],
    "encode": ["encode"],
    "matmul": ["matmul"],
    "memory": ["memory"],
    "published": ["published"],
    "ingest": ["ingest"],
    "ingest-s2": ["ingest", "--shape", "s2"],
}
RIVALS: dict[str, list[str]] = {
    "sentence-transformers": ["rivals", "sentence-transformers"],
    "fastembed": ["rivals", "fastembed"],
    "precision": ["precision"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    arguments = parser.parse_args()
    failed = list[str]()
    for name, (module, *options) in (RIVALS if arguments.rivals else OWN).items():
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{module}", *options]
        command += ["--json", str(arguments.out / f"{name}.json")]
        done = subprocess.run(command, check=False)
        if done.returncode != 0:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
    print(f"\nresults as JSON: {arguments.out}/")


if __name__ == "__main__":
    main()
