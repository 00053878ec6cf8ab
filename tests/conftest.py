"""Shared fixtures: where the optional real data lies."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of real papers and ideas; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("HINDSIGHT_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data at {folder} (set HINDSIGHT_SHARED)")
    return folder
