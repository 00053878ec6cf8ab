"""What this machine has: memory, disk, threads."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from hindsight_fast.config import cgroups, usable_threads
from hindsight_fast.errors import UsageError


@dataclass(frozen=True, slots=True)
class Machine:
    """What may be used.

    Attributes
    ----------
    memory : int
        Bytes.
    memory_is : str
        What sets them: "this machine's", "the cgroup's" or "--max-ram's".
    disk_free : int
        Bytes free where the work is to be.
    place : str
        Where that is.
    threads : int
    """

    memory: int
    memory_is: str
    disk_free: int
    place: str
    threads: int


def look(place: Path, *, max_ram: float | None = None, threads: int | None = None) -> Machine:
    """Find what may be used, at most `max_ram` bytes of memory and so many threads.

    Raises
    ------
    UsageError
        A limit that is none.
    """
    if max_ram is not None and max_ram <= 0:
        raise UsageError(f"--max-ram {max_ram}: more than 0 is needed")
    limits = {"this machine's": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")}
    if in_group := _cgroup_memory():
        limits["the cgroup's"] = min(in_group)
    if max_ram is not None:
        limits["--max-ram's"] = int(max_ram)
    whose = min(limits, key=lambda name: limits[name])
    real = Path(os.path.realpath(place))
    nearest = next(folder for folder in (real, *real.parents) if folder.is_dir())
    free = shutil.disk_usage(nearest).free
    return Machine(limits[whose], whose, free, str(nearest), usable_threads(threads))


def _cgroup_memory() -> list[int]:
    """Bytes that this process's cgroup and those above it allow, where they set a limit."""
    found = list[int]()
    for cgroup in cgroups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):  # version 2, 1
            try:
                found.append(int((cgroup / name).read_text()))
            except (OSError, ValueError):  # not there, or "max"
                continue
    return found
