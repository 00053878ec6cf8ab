"""How many threads may run: processors, and a container's share of their time."""

import os
from pathlib import Path

import pytest

from hindsight_fast import config
from hindsight_fast.errors import UsageError

HOST = "/kubepods/burstable/pod7"


def usable(
    monkeypatch: pytest.MonkeyPatch, folder: Path, own: str, files: dict[str, str], n: int | None
) -> int:
    """`usable_threads` on 64 processors, where the cgroups are `files` below a folder."""
    for name, text in files.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "own").write_text(own)
    monkeypatch.setattr(config, "_CGROUPS", folder / "cgroup")
    monkeypatch.setattr(config, "_OWN_CGROUPS", folder / "own")
    monkeypatch.setattr(os, "sched_getaffinity", _processors)
    return config.usable_threads(n)


def _processors(_: int) -> set[int]:
    return set(range(64))


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),  # docker --cpus=2
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "20000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 64),
        ("0::/\n", {}, 64),
        (f"0::{HOST}/c1\n", {f"{HOST[1:]}/c1/cpu.max": "max 1", f"{HOST[1:]}/cpu.max": "3 1"}, 3),
        ("0::/../../other\n", {"cpu.max": "4 1"}, 4),
        ("0::/\n", {"cpu.max": "what is this"}, 64),
        (
            f"9:cpu,cpuacct:{HOST}\n8:memory:/\n0::/\n",
            {"cpu/cpu.cfs_quota_us": "500000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            5,
        ),
        (
            "9:cpuacct,cpu:/job\n",
            {"cpu/job/cpu.cfs_quota_us": "-1\n", "cpu/job/cpu.cfs_period_us": "100000\n"},
            64,
        ),
    ],
)
def test_a_quota_limits_threads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str,
    files: dict[str, str],
    expected: int,
) -> None:
    assert usable(monkeypatch, tmp_path, own, files, None) == expected
    assert usable(monkeypatch, tmp_path, own, files, 1000) == expected
    assert usable(monkeypatch, tmp_path, own, files, 1) == 1


def test_without_cgroups_the_processors_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "_OWN_CGROUPS", tmp_path / "absent")
    monkeypatch.delattr(os, "sched_getaffinity")
    assert config.usable_threads() == os.cpu_count()
    with pytest.raises(UsageError, match="--threads 0"):
        config.usable_threads(0)
