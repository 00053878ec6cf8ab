"""What a job is asked to do: frozen settings, their fingerprint, and the threads it may use."""

import dataclasses
import hashlib
import json
import math
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hindsight_fast.errors import UsageError
from hindsight_fast.version import __version__

_PACKAGES = (
    "numpy",
    "numba",
    "usearch",
    "polars",
    "tokenizers",
    "onnxruntime",
    "onnxruntime-gpu",
    "openvino",
)

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")

PAPER_K = 20
"""Neighbours looked at per idea in the published recipe (arXiv 2603.15164)."""


def fingerprint(value: Any) -> str:
    """Hash of a JSON-like value or dataclass: 16 hex digits, the same on every machine."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def usable_threads(requested: int | None = None) -> int:
    """Threads to run: what was asked for, but never more than this process may use.

    That is how many processors it may run on, and how many a container's share of processor time
    (its cgroup's quota) amounts to.

    Raises
    ------
    UsageError
        If fewer than one was asked for.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    available = min([available or os.cpu_count() or 1, *_cgroup_limits()])
    if requested is None:
        return available
    if requested < 1:
        raise UsageError(f"--threads {requested}: at least 1 is needed")
    return min(requested, available)


def _cgroup_limits() -> Iterator[int]:
    """Processors that this process's cgroup and those above it allow, where they set a quota."""
    for cgroup in cgroups("cpu"):
        share = _quota(cgroup)
        if share > 0:
            yield max(1, math.ceil(share))


def cgroups(controller: str) -> Iterator[Path]:
    """Folders of the cgroups, this process's and those above it, that a controller limits."""
    try:
        lines = _OWN_CGROUPS.read_text().splitlines()
    except OSError:
        return  # not Linux
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base = _CGROUPS
        elif controller in controllers.split(","):
            base = _CGROUPS / controller
        else:
            continue
        # Inside a container the path may be the host's, and only the base is there.
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            yield base.joinpath(*parts[:depth])


def _quota(cgroup: Path) -> float:
    """Processor time per time that a cgroup allows (version 2 or 1); 0: it sets no limit."""
    try:
        if (cgroup / "cpu.max").exists():
            quota, period = (cgroup / "cpu.max").read_text().split()
        else:
            quota, period = (
                (cgroup / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")
            )
        return 0.0 if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return 0.0


MAX_K = 1000
"""Neighbours that can be looked at."""


@dataclass(frozen=True, slots=True)
class ScoreConfig:
    """How ideas are scored against a pool.

    Attributes
    ----------
    k
        Neighbours looked at per idea (K).
    theta
        Cosine similarity from which a neighbour is a match; rounded to float32 before use.
    search
        "exact", "index", or "auto": exact wherever the scan costs at most a tenth of the encoding
        or no more than a search of the index.
    """

    k: int
    theta: float
    search: str = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", int(self.k))  # numpy's numbers print as np.float32(...)
        object.__setattr__(self, "theta", float(self.theta))
        if not 1 <= self.k <= MAX_K:
            raise UsageError(f"k = {self.k}: between 1 and {MAX_K} neighbours can be looked at")
        if not -1.0 <= self.theta <= 1.0:
            raise UsageError(f"theta = {self.theta}: a cosine lies between -1 and 1")
        if self.search not in ("auto", "exact", "index"):
            raise UsageError(f"search = {self.search!r}: expected auto, exact or index")

    def fingerprint(self) -> str:
        """Hash of these settings."""
        return fingerprint(self)


def versions() -> dict[str, str]:
    """This package's version, Python's, and those of what computes."""
    found = {"hindsight_fast": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
