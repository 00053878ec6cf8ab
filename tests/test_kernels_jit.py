"""Kernels where numba's cache can't be used, is damaged, or the compiler is off."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hindsight_kernels

SOURCE = Path(hindsight_kernels.__file__).parent
CODE = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import hindsight_kernels
import numpy as np
papers = np.eye(40, 24, dtype=np.float32)
found = hindsight_kernels.exact(papers[:3], papers, np.ones(40, np.float32), 2, 0.5, threads=2)
assert found.best_rows.tolist() == [0, 1, 2], found
codes, nodes = np.array([[0, 9], [3, 0]], np.int8), np.array([1, 1, 1, 0], "<u4").view(np.uint8)
graph = hindsight_kernels.Linked(codes, nodes, np.array([0, 8]), base=1, upper=1, entry=0, top=0)
near = hindsight_kernels.walk(codes, graph, 2, 2, threads=2)
assert near.slots.tolist() == [[0, 1], [1, 0]], near
print(len([w for w in caught if issubclass(w.category, RuntimeWarning)]))
"""


def run(package: Path, **environment: str) -> str:
    settings = os.environ | {"PYTHONPATH": str(package.parent)} | environment
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=settings, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, whose cache these tests may spoil."""
    copy = tmp_path / "site" / SOURCE.name
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def test_no_place_for_a_cache_gives_one_warning(package: Path, tmp_path: Path) -> None:
    (package / "__pycache__").write_text("a file where the folder should be")
    (tmp_path / "home").write_text("and another")
    assert run(package, HOME=str(tmp_path / "home"), XDG_CACHE_HOME=str(tmp_path / "home")) == "1"


def test_cut_cache_is_made_again(package: Path) -> None:
    cache = package / "__pycache__"
    cache.mkdir()
    for file in (SOURCE / "__pycache__").glob("*.nb[ic]"):
        shutil.copy2(file, cache)  # what is compiled already need not be again
    assert run(package) == "0"
    for suffix, size, some in (("nbi", 10, slice(2)), ("nbc", 100, slice(2, 4))):
        files = sorted(cache.glob(f"scan.*.{suffix}"))[some]
        assert len(files) == 2
        for file in files:
            file.write_bytes(file.read_bytes()[:size])
    assert run(package) == "1"
    assert run(package) == "0"


def test_works_without_the_compiler(package: Path) -> None:
    assert run(package, NUMBA_DISABLE_JIT="1") == "0"
