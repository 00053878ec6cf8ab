"""All benchmarks, or those named, one after the other, each in a process of its own.

    python -m benchmarks.run [--out bench-out] [NAME...]

`make bench` runs those that need nothing but hindsight-fast; `make bench-rivals` runs the others,
in an environment that also holds what else people would use. Quality is printed beside speed.
Close other programs first: rivals are timed in turns, so a busy machine is unfair to none of them,
but nothing on it is fast.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ALONE = ("opening", "scan", "search", "encode", "matmul")
WITH_RIVALS = ("sentence_transformers", "fastembed", "precision")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=ALONE)
    parser.add_argument("--rivals", action="store_true", help="those that need other libraries")
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    arguments = parser.parse_args()
    failed = list[str]()
    for name in WITH_RIVALS if arguments.rivals else arguments.names:
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        command += ["--json", str(arguments.out / f"{name}.json")]
        done = subprocess.run(command, check=False)
        if done.returncode != 0:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
    print(f"\nresults as JSON: {arguments.out}/")


if __name__ == "__main__":
    main()
