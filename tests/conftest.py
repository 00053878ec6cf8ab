"""What all tests share: where the optional real data lies, and no time limits on examples."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parent.parent

# A busy machine is slow, which says nothing of the code.
settings.register_profile(
    "suite", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of real papers and ideas; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("HINDSIGHT_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data at {folder} (set HINDSIGHT_SHARED)")
    return folder
