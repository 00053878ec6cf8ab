"""All benchmarks, one after the other, each in a process of its own: `make bench`.

    python -m benchmarks.run [--out bench-out]

Quality is printed beside speed. Close other programs first: rivals are timed in turns, so a busy
machine is unfair to none of them, but nothing on it is fast.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from hindsight_fast.model_folders import models_home

BENCHMARKS: dict[str, list[str]] = {
    "opening": [],
    "scan": [],
    "search": [],
    "encode": [str(models_home() / "minilm")],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    arguments = parser.parse_args()
    failed = list[str]()
    for name, options in BENCHMARKS.items():
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", *options]
        command += ["--json", str(arguments.out / f"{name}.json")]
        done = subprocess.run(command, check=False)
        if done.returncode != 0:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
    print(f"\nresults as JSON: {arguments.out}/")


if __name__ == "__main__":
    main()
