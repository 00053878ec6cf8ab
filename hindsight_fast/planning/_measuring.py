"""Ten seconds of trying what this machine can do, on made-up papers, texts and vectors.

Vectors are made in the shape of SPECTER2's: a mean of norm 0.95, and around it clusters and noise
along directions of falling variance. Products, scans, hashes, searches, the cache and counting
tokens are called once before they are timed, and `build` makes a small store before. Not so the
disk, bytes for the scan and adding to an index: they run once, with whatever must be loaded or
compiled on the way.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.encoders import Encoder, load_encoder
from hindsight_fast.encoding import VectorCache, tokens_per_second
from hindsight_fast.index import Index, IndexConfig, build_index
from hindsight_fast.papers import gather
from hindsight_fast.planning._job import Job, Shape
from hindsight_fast.planning._speeds import Speeds, assumed, axes_of
from hindsight_fast.projection import byte_products, turned
from hindsight_fast.scoring import INDEX_CANDIDATES
from hindsight_fast.storage import storage_errors
from hindsight_fast.store import build_store
from hindsight_kernels import Projected, match, project, pruned_scan, scan
from hindsight_models import Encoded

Tell = Callable[[str], None]

PAPERS: Final = 65_536  # of the scans: more than a processor's cache holds
INDEXED: Final = 16_384
IDEAS: Final = 1024  # as many as a scan takes at a time; of fewer each costs more
RECORDS: Final = 4_000
_TEXTS: Final = 128
_BYTES: Final = 128 << 20  # of the disk's trial
_READS: Final = 200
_PAGE: Final = 4096
_WORDS: Final = 20_000


def measure_speeds(
    job: Job, shape: Shape, place: Path, threads: int, tell: Tell = lambda line: None
) -> Speeds:
    """Try what a job needs on this machine.

    Parameters
    ----------
    place
        A folder on the disk that is meant; what is written there is removed.
    tell
        Called with what is being tried.

    Raises
    ------
    EncoderError
        The model is here, but can't be opened as the job asks, or fails.
    StorageError
        The file system refuses to write.
    """
    began = time.perf_counter()
    measured = dict[str, Any]()
    notes = _busy(threads)
    with (
        storage_errors(f"write into {place}"),
        tempfile.TemporaryDirectory(dir=place, prefix=".hindsight-plan-") as folder,
    ):
        work = Path(folder)
        tell("disk")
        measured |= _disk(work)
        tell("reading records")
        measured |= _records(work)
        tell("matrix products")
        measured |= {"gflops": _gflops()}
        tell("scans and an index")
        made = MadeUp(PAPERS, IDEAS, shape.dim)
        measured |= _scans(made, job.k, threads)
        measured |= _index(made, work, job, threads)
        measured |= _cache(work, shape.dim)
    if shape.installed:
        tell(f"encoding with {job.encoder}")
        measured |= _encoding(job, threads)
    else:
        notes.append(
            f"{job.encoder} is not here (`models get`): its speed follows from its size and the "
            "speed of matrix products"
        )
    speeds = replace(assumed(shape.dim), notes=tuple(notes), **measured)
    return replace(speeds, measured=tuple(measured), seconds=time.perf_counter() - began)


def _busy(threads: int) -> list[str]:
    """Whether others are at work here too, as far as it is told."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load < max(0.5, threads / 4):
        return []
    return [
        f"this machine was busy (load average {load:.1f}): speeds are what others leave, and times "
        "are too long where they will be gone"
    ]


class MadeUp:
    """Papers, ideas, and the axes along which papers differ most."""

    def __init__(self, papers: int, ideas: int, dim: int) -> None:
        rng = np.random.default_rng(0)
        mean = rng.standard_normal(dim, np.float32)
        self.mean: NDArray[np.float32] = (mean * (0.954 / np.linalg.norm(mean))).astype(np.float32)
        self.axes = np.linalg.qr(rng.standard_normal((dim, axes_of(dim))))[0].astype(np.float32)
        variance = 1 / np.arange(5, 5 + self.axes.shape[1], dtype=np.float64)
        spread: NDArray[np.float64] = 0.3 * np.sqrt(variance / variance.sum())
        self._spread = spread.astype(np.float32)
        centres = self._along(rng, max(8, papers // 500)) * np.float32(0.45**0.5)
        near = (len(centres) * rng.random(papers) ** 2).astype(np.int64)
        self.papers = self._vectors(rng, centres[near])
        step = rng.integers(0, papers, ideas)
        around = (self.papers[step] - self.mean) @ self.axes
        self.ideas = self._vectors(rng, around.astype(np.float32))

    def _along(self, rng: np.random.Generator, n: int) -> NDArray[np.float32]:
        return rng.standard_normal((n, len(self._spread)), np.float32) * self._spread

    def _vectors(
        self, rng: np.random.Generator, places: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        dim = len(self.mean)
        made = (places + np.float32(0.5**0.5) * self._along(rng, len(places))) @ self.axes.T
        made += rng.standard_normal(made.shape, np.float32) * np.float32(0.3 * (0.05 / dim) ** 0.5)
        made += self.mean
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        return made


def _best(call: Callable[[], object], least_s: float = 0.3) -> float:
    """Seconds of the fastest of some calls after the first, at least two, for about so long."""
    call()
    best, total = np.inf, 0.0
    while total < least_s or total == best:
        began = time.perf_counter()
        call()
        took = time.perf_counter() - began
        best, total = min(best, took), total + took
    return best


def _disk(work: Path) -> dict[str, float]:
    """Write and flush, then read it again, past the cache where that can be asked for."""
    from hashlib import blake2b

    path, block = work / "disk", np.random.default_rng(0).bytes(_BYTES // 8)
    began = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(8):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        written = time.perf_counter() - began
    hashing = _best(lambda: blake2b(block).digest(), 0.05)
    with path.open("rb", buffering=0) as file:
        _forget(file.fileno())
        began = time.perf_counter()
        while file.read(1 << 20):
            pass
        read = time.perf_counter() - began
        _forget(file.fileno())
        places = np.random.default_rng(0).integers(0, _BYTES // _PAGE, _READS) * _PAGE
        began = time.perf_counter()
        for at in places.tolist():
            os.pread(file.fileno(), _PAGE, at)
        single = time.perf_counter() - began
    path.unlink()
    return {
        "write_bps": _BYTES / written,
        "read_bps": _BYTES / read,
        "reads_per_s": _READS / single,
        "hash_bps": len(block) / hashing,
    }


def _forget(file: int) -> None:
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def _records(work: Path) -> dict[str, float]:
    """Build a store of made-up records; half as many take the fixed part of the time away."""
    words = made_up_words()

    def build(n: int) -> float:
        source = work / f"records-{n}.jsonl"
        with source.open("w") as file:
            for i in range(n):
                paper = {
                    "id": f"p{i}",
                    "title": f"{_text(words, i, 10)} {i}",
                    "abstract": _text(words, 7 * i, 170),
                    "authors": [_text(words, 11 * i + j, 2) for j in range(4)],
                    "venue": "NeurIPS",
                    "date": f"2024-{i % 12 + 1:02d}-{i % 28 + 1:02d}",
                    "citations": i % 50,
                }
                file.write(json.dumps(paper) + "\n")
        gathering = work / f"gathering-{n}"
        gathering.mkdir()
        began = time.perf_counter()
        build_store(gather([source], gathering), work / f"store-{n}")
        return time.perf_counter() - began

    build(50)
    half, whole = build(RECORDS // 2), build(RECORDS)
    return {"records_per_s": RECORDS / 2 / max(whole - half, whole / 4)}


def made_up_words() -> list[str]:
    """Words by how often they come, as in natural languages."""
    rng = np.random.default_rng(0)
    syllables = [a + b for a in "bcdfglmnprstv" for b in ("a", "e", "i", "o", "u", "er", "on")]
    known = ["".join(rng.choice(syllables, 1 + i % 4)) for i in range(2_000)]
    weights = 1 / (np.arange(len(known)) + 2.7)
    return [known[i] for i in rng.choice(len(known), _WORDS, p=weights / weights.sum())]


def _text(words: list[str], number: int, count: int) -> str:
    start = number * 7919 % (len(words) - count)
    return " ".join(words[start : start + count])


def _gflops() -> float:
    rng = np.random.default_rng(0)
    x, weights = (rng.standard_normal(shape, np.float32) for shape in ((1024, 768), (768, 3072)))
    out = np.empty((1024, 3072), np.float32)
    return 2e-9 * 1024 * 768 * 3072 / _best(lambda: np.matmul(x, weights, out=out))


def _scans(made: MadeUp, k: int, threads: int) -> dict[str, float]:
    n, axes = len(made.papers), made.axes.shape[1]
    impact = np.ones(n, np.float32)
    codes, bounds = np.empty((n, axes), np.uint8), np.empty((n, 5), np.float32)
    began = time.perf_counter()
    projected = project(made.papers, made.mean, turned(made.axes).astype(np.float32), codes, bounds)
    projecting = time.perf_counter() - began
    arrays = (made.ideas, made.papers, impact)
    few = n // 4
    fewer = Projected(made.mean, projected.axes, codes[:few], bounds[:few], projected.limits)
    of_few = (made.ideas, made.papers[:few], impact[:few])
    multiply = byte_products()
    plain = _best(lambda: scan(*arrays, k, threads=threads))
    pruned = _best(lambda: pruned_scan(*arrays, projected, k, threads=threads, multiply=multiply))
    pruned_few = _best(lambda: pruned_scan(*of_few, fewer, k, threads=threads, multiply=multiply))
    each = max(pruned - pruned_few, 0.2 * pruned) / (n - few)
    ideas = len(made.ideas)
    return {
        "project_s": projecting / n,
        "scan_s": plain / (n * ideas),
        "pruned_s": each / ideas,
        "rescore_s": max(pruned - each * n, 0) / ideas,
    }


def _index(made: MadeUp, work: Path, job: Job, threads: int) -> dict[str, Any]:
    config = IndexConfig(connectivity=job.connectivity)
    some = made.papers[:INDEXED]
    folder = work / "index"
    folder.mkdir()
    told = list[float]()  # first when the axes are found, before a paper is added
    facts = build_index(
        some,
        np.ones(len(some), bool),
        folder,
        config,
        threads=threads,
        progress=lambda _: told.append(time.perf_counter()),
    )
    adding = time.perf_counter() - told[0]
    index = Index.view(folder, config)
    impact, count = np.ones(len(some), np.float32), INDEX_CANDIDATES * job.k

    def search() -> None:
        candidates = index.search(made.ideas, count, threads=threads)
        match(made.ideas, some, impact, candidates, job.k, 0.96, threads=threads)

    searching = _best(search)
    return {
        "index_n": len(some),
        "index_add_s": adding / len(some),
        "index_search_s": searching / len(made.ideas),
        "index_axes": facts.n_axes,
    }


def _cache(work: Path, dim: int) -> dict[str, float]:
    cache = VectorCache(work / "cache")
    keys = [number.to_bytes(16, "big") for number in range(IDEAS)]
    encoded = Encoded.empty(IDEAS, dim)
    encoded.vectors[:] = dim**-0.5
    encoded.truncated[:], encoded.retried[:] = False, False
    cache.add(keys, encoded)
    seconds = _best(lambda: cache.fill(keys, Encoded.empty(IDEAS, dim)), 0.05)
    cache.close()
    return {"cached_s": seconds / IDEAS}


def _encoding(job: Job, threads: int) -> dict[str, Any]:
    encoder = load_encoder(job.encoder, device=job.device, precision=job.precision, threads=threads)
    texts = typical_texts(encoder, job.tokens)
    tokens = float(encoder.count_tokens(texts).sum())
    return {
        "tokens_per_s": tokens_per_second(encoder, texts),
        "tokenised_per_s": tokens / _best(lambda: encoder.count_tokens(texts)),
        "device": encoder.device,
        "computed_in": encoder.precision,
    }


def typical_texts(encoder: Encoder, tokens: int) -> list[tuple[str, str]]:
    """Made-up titles and abstracts of half to one and a half times so many tokens."""
    words = made_up_words()

    def mean(n_words: int) -> float:
        some = [("title", _text(words, i, n_words)) for i in range(_TEXTS)]
        return float(encoder.count_tokens(some).mean())

    one = mean(1)
    per_word = (mean(5) - one) / 4
    wanted = np.random.default_rng(0).uniform(0.5, 1.5, _TEXTS) * tokens
    counts = 1 + (wanted - one) / per_word
    return [("title", _text(words, i, max(1, round(n)))) for i, n in enumerate(counts)]
