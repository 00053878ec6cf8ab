"""Is this machine ready? Each part is tried, not looked up in a list."""

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from hindsight_fast.config import usable_threads, versions
from hindsight_fast.encoders import engine, gpus, load_encoder, precisions
from hindsight_fast.errors import HindsightError, StorageError
from hindsight_fast.model_folders import installed_models
from hindsight_fast.storage import home

_PROBE = [("A probe", "of the encoder on this machine, of no other use."), ("Another", "probe.")]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was tried, whether it works (None: it need not), and what was found."""

    what: str
    ok: bool | None
    found: str


def examine() -> list[Finding]:
    """Try each part that scoring needs."""
    checks: dict[str, Callable[[], str]] = {
        "python": lambda: f"{platform.python_version()} on {platform.platform()}",
        "threads": lambda: f"{usable_threads()} may be used",
        "packages": _packages,
        "kernels": _kernels,
        "index": _index,
        "inference engine": engine,
        "GPUs": gpus,
        "home": _home,
    }
    findings = [_try(what, check) for what, check in checks.items()]
    for precision, reason in precisions().items():
        found = f"not here: {reason}" if reason else "can be had"
        findings.append(Finding(precision, None if reason else True, found))
    models = installed_models()
    if not models:
        get = "none; `hindsight-fast models get minilm` fetches a small one"
        return [*findings, Finding("models", False, get)]
    return findings + [_try(f"model {name}", partial(_model, name)) for name in models]


def _try(what: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, check())
    except (HindsightError, ImportError, OSError, ValueError, RuntimeError) as error:
        return Finding(what, False, f"{type(error).__name__}: {error}")


def _packages() -> str:
    return ", ".join(f"{name} {number}" for name, number in versions().items())


def _kernels() -> str:
    from hindsight_kernels import exact

    began = time.perf_counter()
    vectors = np.eye(4, 8, dtype=np.float32)
    impact = np.array([0.1, 0.2, 0.3, 0.4], dtype=np.float32)
    found = exact(vectors, vectors, impact, 2, 0.5, threads=1)
    if found.best_rows.tolist() != [0, 1, 2, 3] or found.n_matches.tolist() != [1, 1, 1, 1]:
        raise RuntimeError(f"the kernels compute wrong results: {found}")
    return f"compiled and right, {time.perf_counter() - began:.1f} s"


def _index() -> str:
    from hindsight_fast.index import Index, IndexConfig, build_index

    vectors = np.eye(16, 32, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        config = IndexConfig()
        build_index(vectors, np.ones(16, dtype=bool), Path(folder), config, threads=1)
        found = Index.view(Path(folder), config).search(vectors, 1, threads=1)
    if found[:, 0].tolist() != list(range(16)):
        raise RuntimeError("the index finds wrong neighbours")
    return "built, viewed and searched"


def _home() -> str:
    place = home()
    nearest = next(folder for folder in (place, *place.parents) if folder.exists())
    if not os.access(nearest, os.W_OK):
        raise StorageError(f"{place} can't be written to; set HINDSIGHT_HOME to a folder that can")
    return f"{place}, {shutil.disk_usage(nearest).free / 1e9:.0f} GB free"


def _model(name: str) -> str:
    encoder = load_encoder(name)
    began = time.perf_counter()
    encoder.encode(_PROBE)
    took = 1000 * (time.perf_counter() - began)
    return f"on {encoder.device} in {encoder.precision}, a probe took {took:.0f} ms"
