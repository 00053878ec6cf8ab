"""Opens what may have been made to do harm, as a program of its own, and says what came of it.

    python using.py

reads a line of JSON for each thing (`Thing`) and answers with one: {"done": what it gave} or
{"refused": the sentence} or {"raw": an error that nobody should see}, and the megabytes that the
process has had at most. test_integrity.py asks, and learns of a crash by the missing answer.
"""

import contextlib
import hashlib
import io
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hindsight_fast import Scorer, load_encoder, runs
from hindsight_fast.cli import inspection
from hindsight_fast.encoding import VectorCache
from hindsight_fast.encoding._cache import vector_keys
from hindsight_fast.errors import HindsightError
from hindsight_fast.model_folders import model_facts
from hindsight_fast.papers import read_papers
from hindsight_fast.pool import Pool, describe
from hindsight_fast.store import Store
from hindsight_models import Encoded

TIMEOUT_S = 120.0
PAIRS = [("a graph", "of data"), ("the model", "we learn language")]


class Known:
    """What the vectors in the cache are of."""

    fingerprint, precision, device = "an encoder", "float32", "cpu"


class Thing(NamedTuple):
    """What to do with which folder or file."""

    what: str
    path: str
    home: str


def _told(facts: dict[str, Any]) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        inspection._tell(facts)  # pyright: ignore[reportPrivateUsage]


def _store(path: Path) -> str:
    store = Store.open(path)
    papers = store.papers()
    named = store.lookup(np.arange(store.n)).rows()
    vectors = [np.asarray(store.vectors(name).array).sum().item() for name in store.encoders()]
    tables = [store.rejects().height, store.merges().height, store.conflicts().height]
    _told(describe(path))
    return str([papers.height, named, vectors, tables, store.citations.sum().item()])


def _pool(path: Path) -> str:
    _told(describe(path))
    pool = Pool.open(path)
    ideas = np.random.default_rng(0).normal(size=(20, pool.vectors.shape[1]))
    ideas = np.asarray(pool.vectors[:20], np.float64) + 0.05 * ideas[: len(pool.vectors[:20])]
    ideas /= np.maximum(np.linalg.norm(ideas, axis=1, keepdims=True), 1e-9)
    searches = ["exact", "index"] if pool.index is not None else ["exact"]
    tables = [
        Scorer(pool, search=search, threads=2, theta=0.5).score_vectors(ideas.astype(np.float32))
        for search in searches
    ]
    return tables[0].write_csv() + pool.signature(pool.k, pool.theta, "exact")


def _scores(path: Path) -> str:
    facts = runs.describe(path)
    _told(facts)
    return str(facts.get("systems"))


def _collection(path: Path) -> str:
    _told(describe(path))
    return str(read_papers([path]).papers["id"].to_list())


def _model(path: Path) -> str:
    model_facts(path)
    encoder = load_encoder(path, device="cpu", threads=1)
    return str(encoder.encode(PAIRS).tolist()) + str(encoder.theta)


def _cache(path: Path) -> str:
    found = Encoded(
        np.zeros((2, 32), np.float32), np.zeros(2, np.int32), np.zeros(2, bool), np.zeros(2, bool)
    )
    with contextlib.closing(VectorCache(path)) as cache:
        missing = cache.fill(vector_keys(Known(), PAIRS), found)
    return "" if missing or cache.trouble else str(found.vectors.tolist())


USES: dict[str, Callable[[Path], object]] = {
    "store": _store,
    "pool": _pool,
    "scores": _scores,
    "collection": _collection,
    "model": _model,
    "cache": _cache,
    "verify": inspection.verified,
}


def _use(thing: Thing) -> dict[str, Any]:
    os.environ["HINDSIGHT_HOME"] = thing.home
    try:
        given = USES[thing.what](Path(thing.path))
        return {"done": hashlib.blake2b(str(given).encode(), digest_size=8).hexdigest()}
    except HindsightError as error:
        return {"refused": str(error)}
    except BaseException as error:  # polars' panics are no Exception
        return {"raw": f"{type(error).__name__}: {error}"[:500]}


def main() -> None:
    """Answer until there are no more questions."""
    for line in sys.stdin:
        answer = _use(Thing(**json.loads(line)))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(answer | {"peak_mb": peak}), flush=True)


class Worker:
    """The program, started again whenever it dies."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, what: str, path: Path, home: Path) -> dict[str, Any]:
        """What came of it; "died" is that the process did."""
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(Thing(what, str(path), str(home))._asdict()) + "\n")
        process.stdin.flush()
        watch = threading.Timer(TIMEOUT_S, process.kill)
        watch.start()
        line = process.stdout.readline()
        watch.cancel()
        if not line:
            self.close()
            return {"died": process.returncode}
        return dict(json.loads(line))

    def _start(self) -> "subprocess.Popen[str]":
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self._process

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


if __name__ == "__main__":
    main()
