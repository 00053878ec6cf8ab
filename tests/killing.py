"""Jobs that are killed, as programs of their own: they fork, so that a kill costs no imports.

    python killing.py lines FOLDER STRIDE     at every STRIDE-th line of the storage package, and
                                              again where something is to be replaced
    python killing.py encoding STORE MODEL N  N times at random, while papers are encoded
    python killing.py score LINE ARGUMENT...  the command line's `score`, of small parts, at a line
                                              of the code of runs and storage (none: -1)

Each but the last prints JSON, which test_resuming.py looks at; test_runs_killed.py calls the last.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight_fast import storage
from hindsight_fast.storage import (
    Piece,
    Target,
    Unfinished,
    publish,
    publish_resumable,
    read_manifest,
)

STORAGE = str(Path(storage.__file__).parent)
N, STEP = 24, 6  # rows, and rows of a piece


def values(rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """What belongs into the rows."""
    return np.repeat(rows[:, None] + 1, 8, axis=1).astype(np.float32)


def fill(path: Path, added: Callable[[int], None], *, overwrite: bool = False) -> list[int]:
    """Publish an array of four pieces; returns the pieces that were there."""
    restored = list[int]()
    target = Target(path, "vectors", "vectors.npy", np.float32, (N, 8))
    total = 0

    def restore(piece: Piece) -> None:
        nonlocal total
        restored.append(piece.low)
        total += piece.counts["n"]

    made_from = {"what": "rows"}
    with publish_resumable(target, "mark", made_from, restore, overwrite=overwrite) as work:
        for low in range(0, N, STEP):
            if low not in restored:
                rows = np.arange(low, low + STEP)
                work.write(rows, values(rows))
                work.add(Piece("", low, np.ones(STEP, np.bool_), {"n": STEP}))
                total += STEP
                added(low)
        work.body["n"] = total
    return restored


def die_at_line(number: int, watched: tuple[str, ...] = (STORAGE,)) -> None:
    """Have this process killed before a line of the code in some folders."""
    left = number

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(watched):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def in_child(work: Callable[[], None]) -> int:
    """Run in a forked child and return its id."""
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid


def lines(folder: Path, stride: int, *, replaced: bool) -> dict[str, Any]:
    """Kill at each line in turn; the next run must have what was complete, and end well."""
    folder.mkdir(parents=True)
    reference = folder / "reference"
    fill(reference, lambda _: None)
    expected = {f.name: f.read_bytes() for f in reference.iterdir()}
    wrong, point, status = list[str](), 0, int(signal.SIGKILL)
    while status == signal.SIGKILL:
        path, log = folder / "it", folder / "log"
        log.touch()
        if replaced:
            with publish(path, "vectors", "old") as staging:
                (staging.folder / "vectors.npy").write_text("old")

        def job(point: int = point, path: Path = path, log: Path = log) -> None:
            file = log.open("a")
            die_at_line(point)
            fill(path, lambda low: print(low, file=file, flush=True), overwrite=replaced)

        status = os.waitpid(in_child(job), 0)[1]
        done = {int(line) for line in log.read_text().split()}
        there = (path / "manifest.json").exists()
        if replaced and not there:
            wrong.append(f"line {point}: a reader finds nothing")
        whole = there and read_manifest(path).fingerprint == "mark"
        again = list[int]()
        if not whole:
            restored = set(fill(path, again.append, overwrite=replaced))
            if not done <= restored:
                wrong.append(f"line {point}: {done - restored} were lost")
        if {f.name: f.read_bytes() for f in path.iterdir() if f.name[0] != "."} != expected:
            wrong.append(f"line {point}: another result")
        leftover = [f for f in folder.iterdir() if f.name.startswith(".it")]
        if leftover and not whole:
            wrong.append(f"line {point}: {leftover} left")
        for left in (path, *leftover):
            shutil.rmtree(left)
        log.unlink()
        point += stride
    return {"points": point // stride, "wrong": wrong}


def encoding(store_path: Path, model: Path, kills: int) -> dict[str, Any]:
    """Kill at random while encoding, then let it end; nothing that was complete is made again."""
    from hindsight_fast.encoders import load_encoder
    from hindsight_fast.encoding import _papers, embed_store
    from hindsight_fast.store import Store
    from hindsight_models import encoder as encoder_module

    for module, name, value in ((encoder_module, "CPU_CHUNK", 4), (_papers, "BLOCK", 64)):
        setattr(module, name, value)
    log, chance = store_path.parent / "log", random.Random(kills)
    add = Unfinished.add

    def slow_add(self: Unfinished, piece: Piece) -> None:
        time.sleep(chance.uniform(0, 0.01))
        add(self, piece)
        with log.open("a") as file:
            file.write(f"{int(piece.mask.sum())}\n")
        time.sleep(chance.uniform(0, 0.01))

    Unfinished.add = slow_add  # type: ignore[method-assign]
    told, tell = os.pipe()

    def job() -> None:
        store, encoder = Store.open(store_path), load_encoder(model, device="cpu", threads=1)
        os.write(tell, b"x")
        embed_store(store, encoder)

    load_encoder(model, device="cpu")  # so that a child has less to import
    log.touch()
    n_killed = 0
    for _ in range(kills):
        pid = in_child(job)
        os.read(told, 1)
        time.sleep(chance.uniform(0, 0.2))
        os.kill(pid, signal.SIGKILL)
        n_killed += os.waitpid(pid, 0)[1] == signal.SIGKILL
    complete = sum(map(int, log.read_text().split()))
    restored = list[int]()

    def last() -> None:
        watch: Callable[[Any], None] = lambda now: restored.append(now.restored)  # noqa: E731
        embed_store(
            Store.open(store_path), load_encoder(model, device="cpu", threads=1), progress=watch
        )
        (store_path.parent / "restored").write_text(str(restored[-1] if restored else complete))

    status = os.waitpid(in_child(last), 0)[1]
    return {
        "killed": n_killed,
        "complete": complete,
        "restored": int((store_path.parent / "restored").read_text()),
        "status": status,
    }


def score(line: int, arguments: list[str]) -> None:
    """Score ideas by the command line, a few to a part, and be killed before a line."""
    from hindsight_fast import cli
    from hindsight_fast.runs import _job, _settled

    setattr(_job, "BATCH", 16)  # noqa: B010
    setattr(_settled, "FEWEST", 64)  # noqa: B010
    sys.argv = ["hindsight-fast", "score", *arguments]
    if line >= 0:
        die_at_line(line, (str(Path(_job.__file__).parent), STORAGE))
    cli.main()


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "score":
        score(int(rest[0]), rest[1:])
    if what == "lines":
        fresh = lines(Path(rest[0]) / "fresh", int(rest[1]), replaced=False)
        other = lines(Path(rest[0]) / "other", int(rest[1]), replaced=True)
        found = {key: fresh[key] + other[key] for key in fresh}
    else:
        found = encoding(Path(rest[0]), Path(rest[1]), int(rest[2]))
    print(json.dumps(found))
