"""What every benchmark shares: fair timing of rivals, the machine's name, JSON and a table."""

import hashlib
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar, cast

from threadpoolctl import (  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs]
    threadpool_info,
)

T = TypeVar("T")
_LOAD_BEFORE = os.getloadavg()[0]  # of others; later it is the benchmark's own


def interleaved(rivals: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each call: a warm-up, then `repeats` rounds in which each has its turn."""
    for call in rivals.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(repeats):
        for name, call in rivals.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def in_turn(
    rivals: Mapping[str, Callable[[], T]], number: int, seconds: dict[str, list[float]]
) -> dict[str, T]:
    """One call of each on a block of work, begun with another one in each numbered block.

    Appends the seconds of each and returns what they gave. Blocks are short beside the drift of a
    machine's speed, so that it hits all rivals alike.
    """
    names, given = [*rivals], dict[str, T]()
    turn = number % len(names)
    for name in names[turn:] + names[:turn]:
        start = time.perf_counter()
        given[name] = rivals[name]()
        seconds.setdefault(name, []).append(time.perf_counter() - start)
    return given


def median(seconds: list[float]) -> float:
    return statistics.median(seconds)


def machine(*packages: str) -> dict[str, Any]:
    """Processor, what of it may be used, the load of others, BLAS kernels, versions."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    blas = cast(list[dict[str, Any]], threadpool_info())
    return {
        "processor": model,
        "usable_processors": len(os.sched_getaffinity(0)),
        "load_average_before": _LOAD_BEFORE,
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in packages},
        "blas": [
            {key: info.get(key) for key in ("internal_api", "version", "architecture")}
            | {"file": Path(str(info.get("filepath"))).name}
            for info in blas
            if info.get("user_api") == "blas"
        ],
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE"),
    }


def processor_flags() -> set[str]:
    """Instructions that the processor has, in Linux's names; none where it doesn't tell."""
    if not Path("/proc/cpuinfo").exists():
        return set()
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(" ".join(line for line in lines if line.startswith("flags")).split())


def in_words(facts: Mapping[str, Any]) -> str:
    """The machine in one line."""
    return (
        f"{facts['processor']}, {facts['usable_processors']} processors, "
        f"load average before: {facts['load_average_before']:.1f}"
    )


def sources(*paths: Path) -> str:
    """Hash of these Python files, and of those in these folders."""
    digest = hashlib.blake2b(digest_size=8)
    for path in paths:
        files: Iterable[Path] = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for file in files:
            digest.update(f"{file.relative_to(path.parent)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def table(rows: list[dict[str, Any]]) -> str:
    """Rows of equal keys as aligned columns; None is a dash."""
    cells = [list(rows[0])] + [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write_json(path: Path | None, result: dict[str, Any]) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=2) + "\n")
