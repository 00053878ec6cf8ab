"""What each stage of a job takes: seconds, memory, disk."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from hindsight_fast.planning import _sizes as sizes
from hindsight_fast.planning._job import Job, Shape
from hindsight_fast.planning._speeds import Speeds
from hindsight_fast.projection import BYTE, FEWEST, PAIR, RESCORING
from hindsight_fast.scoring import AUTO_EXACT_SHARE, INDEX_CANDIDATES

BYTES, PLAIN, INDEX = "exact scan by bytes", "exact scan in float32", "index"
"""Ways of searching."""

BASE: Final = 100e6
"""Bytes that a process takes with all modules that it needs."""

# How costs of one paper or idea grow with the number of papers beyond those that were tried, as
# exponents: benchmarks/growth.py, 10,000 to 1,000,000 papers (docs/one-machine.md).
INDEX_ADD_GROWTH: Final = 0.2
INDEX_SEARCH_GROWTH: Final = 0.25

START: Final = 1.0
"""Seconds until a process has its modules."""

_SAMPLE: Final = 20_000  # papers by which axes are chosen
_TRIED: Final = 313  # of these, taken for ideas
_LEFT: Final = {"float32": 0.9, "float16": 0.9, "bfloat16": 1.5, "int8": 1.1}
"""Of the speed of matrix products, what encoding reaches in each precision on a processor."""
_BATCH: Final = 1024  # ideas for which papers are read once
_RUN: Final = 2048  # ideas in memory at a time


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a job.

    Attributes
    ----------
    name : str
    seconds : float
        On this machine.
    flops : float
        Of the work that a GPU could take over; 0 where there is none.
    feeding : float
        Seconds that this machine needs all the same, beside a GPU that encodes: texts to tokens.
    private : float
        Bytes of memory that must be there.
    cached : float
        Bytes of mapped files that should be in memory beside that.
    kept, temporary : float
        Bytes on disk that stay, and that lie there meanwhile.
    how : str
        Where the seconds come from.
    counts : bool
        False for a way of searching that is not the one to be taken.
    """

    name: str
    seconds: float
    private: float
    cached: float = 0.0
    kept: float = 0.0
    temporary: float = 0.0
    flops: float = 0.0
    feeding: float = 0.0
    how: str = ""
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one idea, in seconds, once all is warm."""

    encode: float
    search: float
    table: float
    cached: float

    @property
    def rewards_per_s(self) -> float:
        """Ideas a second that were never encoded before."""
        return 1 / (self.encode + self.search + self.table)

    @property
    def cached_rewards_per_s(self) -> float:
        """Ideas a second whose vectors are in the cache."""
        return 1 / (self.cached + self.search + self.table)


def encode_s(job: Job, shape: Shape, speeds: Speeds) -> tuple[float, str]:
    """Seconds of a typical text, and where they come from."""
    tokens = min(job.tokens, shape.longest)
    if speeds.tokens_per_s:
        return tokens / speeds.tokens_per_s, "measured"
    reached = _LEFT.get(job.precision, _LEFT["float32"])
    return shape.flops(tokens) / (speeds.gflops * 1e9 * reached), "from matrix products"


def has_projection(job: Job, shape: Shape, speeds: Speeds) -> bool:
    """Whether a pool of this size gets bytes along axes."""
    return job.papers >= FEWEST and PAIR + BYTE * speeds.scan_axes < shape.dim


def searches(job: Job, shape: Shape, speeds: Speeds) -> dict[str, float]:
    """Seconds of an idea by each way of searching."""
    found = {PLAIN: speeds.scan_s * job.papers}
    if has_projection(job, shape, speeds):
        found = {BYTES: speeds.rescore_s + speeds.pruned_s * job.papers} | found
    larger = max(1.0, job.papers / speeds.index_n)
    return found | {INDEX: speeds.index_search_s * larger**INDEX_SEARCH_GROWTH}


def wants_index(job: Job, shape: Shape, speeds: Speeds) -> bool:
    """What was asked for, or else whether the exact scan would be noticed beside the encoding."""
    if job.index is not None:
        return job.index
    ways = searches(job, shape, speeds)
    scan, encoding = next(iter(ways.values())), encode_s(job, shape, speeds)[0]
    return scan > max(AUTO_EXACT_SHARE * encoding, ways[INDEX])


def idea_costs(job: Job, shape: Shape, speeds: Speeds) -> Costs:
    """Of one idea by the way of searching that is to be taken."""
    ways = searches(job, shape, speeds)
    way = INDEX if wants_index(job, shape, speeds) else next(iter(ways))
    return Costs(encode_s(job, shape, speeds)[0], ways[way], speeds.table_s, speeds.cached_s)


def stages(job: Job, shape: Shape, speeds: Speeds, threads: int) -> list[Stage]:
    """All stages in their order; an index and ways of searching come along that are not taken."""
    found = [
        _build(job, speeds),
        _embed(job, shape, speeds, threads),
        *_pool(job, shape, speeds),
        *_score(job, shape, speeds, threads),
    ]
    return found if speeds.measured else [replace(stage, how="assumed") for stage in found]


def _written(n_bytes: float, speeds: Speeds) -> float:
    """Seconds to write files and take their hashes."""
    return n_bytes / speeds.write_bps + n_bytes / speeds.hash_bps


def _build(job: Job, speeds: Speeds) -> Stage:
    n = job.papers
    kept = sizes.papers(n, job.tokens) + sizes.lookup(n)
    return Stage(
        "read and clean records",
        START + n / speeds.records_per_s + _written(kept, speeds),
        private=BASE + min(8.5e3 * n, 1.2e9) + 100 * n,
        kept=kept,
        temporary=sizes.gathered(n, job.tokens),
        how="measured",
    )


def _model(shape: Shape, threads: int) -> float:
    """Bytes of an encoder: its weights, and what batches of 512 tokens need in each thread."""
    config = shape.config
    width, inner = shape.dim, int(config["intermediate_size"])
    heads = int(config.get("num_attention_heads", width // 64))
    batch = 4 * 512 * (6 * width + 2 * inner + heads * 512)
    return BASE + 4 * shape.weights + threads * batch


def _embed(job: Job, shape: Shape, speeds: Speeds, threads: int) -> Stage:
    n, (each, how) = job.papers, encode_s(job, shape, speeds)
    kept = sizes.vectors(n, shape.dim)
    return Stage(
        "encode papers",
        START + n * each + _written(kept, speeds),
        private=_model(shape, threads) + 2 * n,
        kept=kept,
        flops=n * shape.flops(job.tokens),
        feeding=n * job.tokens / speeds.tokenised_per_s,
        how=how,
    )


def _pool(job: Job, shape: Shape, speeds: Speeds) -> Iterator[Stage]:
    n, d = job.papers, shape.dim
    seen = min(n, _SAMPLE)
    seconds, kept = 0.0, float(sizes.impact(n))
    private = BASE + 250.0 * n
    # float64 products of a sample, at about half the speed of float32
    double = speeds.gflops * 0.5e9
    if n >= FEWEST:
        private += seen * (20 * d + 8 * 3 * _TRIED)
        seconds += (2 * seen * d * (2 * d + 2 * _TRIED) + 25 * d**3) / double
        seconds += 4 * n * d / speeds.read_bps
    if has_projection(job, shape, speeds):
        kept += sizes.projection(n, d, speeds.scan_axes)
        seconds += n * speeds.project_s
    yield Stage(
        "impact and axes of the pool",
        START + seconds + n * 4e-6 + _written(kept, speeds),
        private=private,
        cached=sizes.vectors(n, d),
        kept=kept,
        how="measured",
    )
    larger = max(1.0, n / speeds.index_n)
    kept = sizes.index(n, d, speeds.index_axes, job.connectivity)
    fit = (2 * seen * d * d + 25 * d**3) / double
    yield Stage(
        "index of the pool",
        fit + n * speeds.index_add_s * larger**INDEX_ADD_GROWTH + _written(kept, speeds),
        private=max(private, BASE + 20 * seen * d + 40 * n + 2 * kept),
        cached=sizes.vectors(n, d),
        kept=kept,
        # the last part, and the graph again with the papers that weren't reached in it
        temporary=2 * sizes.graph(n, speeds.index_axes, job.connectivity),
        how="measured on few papers, extrapolated",
        counts=wants_index(job, shape, speeds),
    )


def _score(job: Job, shape: Shape, speeds: Speeds, threads: int) -> Iterator[Stage]:
    n, d, m = job.papers, shape.dim, job.ideas
    each, how = encode_s(job, shape, speeds)
    model = _model(shape, threads) + _RUN * d * 8
    yield Stage(
        "encode ideas",
        START + m * each,
        private=model,
        flops=m * shape.flops(job.tokens),
        feeding=m * job.tokens / speeds.tokenised_per_s,
        how=how,
    )
    ways = searches(job, shape, speeds)
    chosen = INDEX if wants_index(job, shape, speeds) else next(iter(ways))
    for way, seconds in ways.items():
        # A run with an index scans too, for a sample.
        axes = way != PLAIN and has_projection(job, shape, speeds)
        private = model + threads * (55e6 if axes else 10e6) + _RUN * d * 4 + 25 * n
        cached = float(sizes.vectors(n, d))
        if way == BYTES:
            cached += sizes.projection(n, d, speeds.scan_axes)
        if way == INDEX:
            cached += sizes.index(n, d, speeds.index_axes, job.connectivity)
        yield Stage(
            f"search: {way}",
            m * seconds,
            private=private,
            cached=cached,
            flops=0.0 if way == INDEX else 2.0 * n * d * m,
            how="measured" if way != INDEX else "measured on few papers, extrapolated",
            counts=way == chosen,
        )
    kept = m * (sizes.SCORED + sizes.MATCHED * job.k)
    yield Stage(
        "tables of scores and matches",
        m * speeds.table_s + _written(2 * kept, speeds),
        private=model,
        kept=kept,
        temporary=kept,
        how="assumed",
    )


def _rescored(job: Job, dim: int, speeds: Speeds) -> float:
    """Papers whose vectors an idea needs beside bytes, from what it takes beyond these."""
    bytes_s = speeds.scan_s * (PAIR + BYTE * speeds.scan_axes) / dim
    beyond = speeds.rescore_s + job.papers * max(0.0, speeds.pruned_s - bytes_s)
    return max(job.k, beyond / (RESCORING * speeds.scan_s))


def slowed(stage: Stage, job: Job, dim: int, speeds: Speeds, room: float) -> float:
    """Seconds more where only so many bytes of the mapped files stay in memory.

    A scan reads all papers again for each batch of ideas; by bytes it reads these, and
    vectors singly as they are rescored, at most all of them.
    """
    lacking = max(0.0, 1 - max(room, 0) / stage.cached) if stage.cached else 0.0
    if stage.name == f"search: {INDEX}":
        return lacking * job.ideas * INDEX_CANDIDATES * job.k / speeds.reads_per_s
    if stage.name.startswith("search"):
        batches = math.ceil(job.ideas / _BATCH)
        again = batches * stage.cached / speeds.read_bps
        if stage.name == f"search: {BYTES}":
            vectors = batches * sizes.vectors(job.papers, dim) / speeds.read_bps
            single = job.ideas * _rescored(job, dim, speeds) / speeds.reads_per_s
            again -= max(0.0, vectors - single)
        return lacking * again
    return lacking * stage.cached / speeds.read_bps
