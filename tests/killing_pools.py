"""Pools whose making is killed, as a program: python killing_pools.py FOLDER KILLS REUSE.

It forks, so that a kill costs no imports, and itself does nothing that starts threads. Prints
JSON, which test_pool_resumed.py looks at.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hindsight_fast import projection
from hindsight_fast.index import _build as building
from hindsight_fast.store import Store
from killing import in_child
from pool_reuse_world import KEPT, N, numbered, pool_of, stored
from test_index_parts import contents


def main(folder: Path, kills: int, reuse: bool) -> None:
    """Make pools, each killed a few times and then let end; print what is wrong with them."""
    projection.FEWEST, projection.RESCORING, projection.PAIR = 20, 1, 1  # type: ignore[misc]
    building.SMALLEST_PART = 200  # type: ignore[misc]
    older = folder / "older" if reuse else None

    def prepare() -> None:
        before = stored(folder / "before", [numbered(i) for i in range(N)])
        pool_of(before, folder / "older", index=KEPT)
        stored(folder / "store", [numbered(i) for i in range(30, N + 350)])

    def make(name: str) -> None:
        pool_of(Store.open(folder / "store"), folder / name, index=KEPT, reuse=older)

    ended(prepare)
    kept = contents(folder / "older")
    began = time.monotonic()
    ended(lambda: make("whole"))
    took, chance = time.monotonic() - began, random.Random(3)
    n_killed, n_pools, wrong = 0, 0, list[str]()
    while n_killed < kills:
        path, tries = folder / f"{n_pools}", 0
        while not path.exists() and tries < 4:
            pid = in_child(lambda path=path: make(path.name))  # type: ignore[misc]
            time.sleep(chance.uniform(0.1, 0.9) * took)
            os.kill(pid, signal.SIGKILL)
            n_killed += os.waitpid(pid, 0)[1] == signal.SIGKILL
            tries += 1
        ended(lambda path=path: make(path.name))  # type: ignore[misc]
        if contents(path) != contents(folder / "whole"):
            wrong.append(f"pool {n_pools} differs")
        n_pools += 1
    if contents(folder / "older") != kept:
        wrong.append("a file of the older pool was written to")
    print(json.dumps({"killed": n_killed, "pools": n_pools, "wrong": wrong}))


def ended(work: Callable[[], None]) -> None:
    """Do it in a child, to the end."""
    if (status := os.waitpid(in_child(work), 0)[1]) != 0:
        raise RuntimeError(f"a child ended with {status}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "yes")
