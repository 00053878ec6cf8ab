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
    assert run(package) == "0"
    cache = package / "__pycache__"
    for suffix, size in (("nbi", 10), ("nbc", 100)):
        files = sorted(cache.glob(f"*.{suffix}"))
        assert len(files) > 2
        for file in files[:3] if suffix == "nbi" else files[3:]:
            file.write_bytes(file.read_bytes()[:size])
    assert run(package) == "1"
    assert run(package) == "0"


def test_works_without_the_compiler(package: Path) -> None:
    assert run(package, NUMBA_DISABLE_JIT="1") == "0"
