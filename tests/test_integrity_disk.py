"""Disks that are full, may not be written, or go away: a sentence, and nothing half-made."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from collect_world import services
from command_line import environment, run
from hindsight_fast import Scorer, runs
from hindsight_fast.encoding import embed_store
from hindsight_fast.errors import HindsightError
from hindsight_fast.index import IndexConfig
from hindsight_fast.pool import Pool, build_pool, verify_artefact
from hindsight_fast.store import Store
from paper_tables import paper
from scoring_world import E, T, World, made_up_ideas, make_world

BLOCK = 4096
VERBS = {
    "build": "build papers.jsonl --out disk/made",
    "embed": "embed disk/store --encoder tiny",
    "pool": "pool store --out disk/made --cutoff 2023-06 --until 2025 --index",
    "score": "score ideas.jsonl --pool pool --out disk/made.parquet --matches disk/more.csv",
    "shards": "score ideas.jsonl --pool pool --out disk/made",
    "calibrate": "calibrate --pool pool --out disk/made",
    "collect": "collect openalex --topic reasoning --cutoff 2023-06 --until 2025 --rate 2000 "
    "--out disk/made",
}


@pytest.fixture(autouse=True, scope="module")
def api() -> Generator[None]:
    """What `collect` asks."""
    with pytest.MonkeyPatch.context() as patch:
        for _ in services(patch):
            yield


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Artefacts, and a folder `disk` that is one: of 4 MB, and nothing else's."""
    folder = tmp_path_factory.mktemp("world")
    world = make_world(folder, n=900, theta=0.5)
    papers = [paper(i, citations=i) for i in range(900)]
    (folder / "papers.jsonl").write_text(
        "".join(json.dumps(one, default=str) + "\n" for one in papers)
    )
    ideas = "".join(json.dumps(one) + "\n" for one in made_up_ideas(2500))
    (folder / "ideas.jsonl").write_text(ideas)
    return world


@pytest.fixture
def disk(world: World) -> Generator[Path]:
    place = world.folder / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode:
        place.rmdir()
        pytest.skip("this user may not mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)
    place.rmdir()


def fill(disk: Path, blocks: int) -> None:
    """Leave only so many blocks free."""
    free = os.statvfs(disk)
    with (disk / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_bsize - blocks * BLOCK)


def prepare(world: World, disk: Path, verb: str) -> None:
    """Put there what the verb adds to."""
    for entry in disk.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    if verb == "embed":
        shutil.copytree(world.store.path, disk / "store")
        shutil.rmtree(disk / "store" / "vectors")


def seen(disk: Path) -> set[str]:
    """What is there and not hidden."""
    found = (path.relative_to(disk) for path in disk.rglob("*") if path.is_file())
    return {str(path) for path in found if not any(part[0] == "." for part in path.parts)}


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk_is_a_sentence(world: World, disk: Path, verb: str) -> None:
    refused = 0
    for blocks in (0, 2, 8, 20, 50, 120, 300, 800):
        prepare(world, disk, verb)
        fill(disk, blocks)
        before = seen(disk)
        done = run(world.folder, world.folder, VERBS[verb])
        if done.returncode == 0:
            break
        refused += 1
        assert done.returncode == 5, done.stderr
        said = done.stderr.splitlines()[-1]
        assert said.startswith("hindsight-fast: could not") and "full" in said
        assert seen(disk) == before
        if not blocks:
            hidden = [one.name for one in disk.iterdir() if one.name[0] == "."]
            assert not hidden  # where nothing was begun, nothing stays
    assert refused and done.returncode == 0
    # What stayed of the work is gone on with, once there is room.
    prepare(world, disk, verb)
    fill(disk, 20)
    if run(world.folder, world.folder, VERBS[verb]).returncode == 5:
        (disk / "filler").unlink()
        again = run(world.folder, world.folder, VERBS[verb])
        assert again.returncode == 0, again.stderr
    assert not [one.name for one in disk.iterdir() if one.name[0] == "."]


@pytest.mark.parametrize("verb", VERBS)
def test_a_disk_that_can_only_be_read_is_a_sentence(world: World, disk: Path, verb: str) -> None:
    prepare(world, disk, verb)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    done = run(world.folder, world.folder, VERBS[verb])
    assert done.returncode == 5, done.stderr
    assert "no right to do that there" in done.stderr.splitlines()[-1]


def test_what_is_mapped_has_its_place(disk: Path) -> None:
    """Filling the rest of the disk leaves a mapped array that can be written: no bus error."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "import numpy as np\n"
        "from hindsight_fast.errors import StorageError\n"
        "from hindsight_fast.storage import create_array\n"
        "disk = Path(sys.argv[1])\n"
        "array = create_array(disk / 'x.npy', np.float32, (500_000,))\n"
        "free = os.statvfs(disk)\n"
        "with (disk / 'filler').open('wb') as file:\n"
        "    os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_bsize)\n"
        "array[:] = 1\n"
        "try:\n"
        "    create_array(disk / 'y.npy', np.float32, (500_000,))\n"
        "except StorageError as error:\n"
        "    print(error, array.sum(), (disk / 'y.npy').exists())\n"
    )
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(disk)],
        env=os.environ | paths,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "disk full: need 2 MB" in done.stdout and "500000.0 False" in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_no_rights_are_a_sentence(world: World, verb: str) -> None:
    disk, setpriv = world.folder / "disk", shutil.which("setpriv")
    if os.geteuid() == 0 and setpriv is None:
        pytest.skip("root may write anywhere, and no setpriv is here to change that")
    # Root without its capabilities is a user like any other.
    humbled = [str(setpriv), "--inh-caps=-all", "--bounding-set=-all"] if not os.geteuid() else []
    disk.mkdir()
    prepare(world, disk, verb)
    before, folders = seen(disk), [disk, *(one for one in disk.rglob("*") if one.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    done = subprocess.run(
        [*humbled, sys.executable, "-m", "hindsight_fast", *VERBS[verb].split()],
        cwd=world.folder,
        env=environment(world.folder) | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
        capture_output=True,
    )
    for folder in folders:
        folder.chmod(0o755)
    after = seen(disk)
    shutil.rmtree(disk)
    assert done.returncode == 5, done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith("hindsight-fast: could not") and "no right to do that there" in said
    assert after == before


@pytest.mark.parametrize("verb", ["embed", "pool", "score"])
def test_a_folder_that_vanishes_is_a_sentence(world: World, tmp_path: Path, verb: str) -> None:
    place, away = tmp_path / "place", tmp_path / "away"
    shutil.copytree(world.store.path, place / "store")
    shutil.copytree(world.pool.path, place / "pool")
    ideas = tmp_path / "ideas.jsonl"
    ideas.write_text("".join(json.dumps(one) + "\n" for one in made_up_ideas(5000)))
    store, pool = Store.open(place / "store"), Pool.open(place / "pool")

    def vanish(*_: object, **__: object) -> None:
        if place.exists():
            place.rename(away)

    def embed() -> object:
        shutil.rmtree(place / "store" / "vectors")
        return embed_store(store, world.encoder, progress=vanish)

    jobs: dict[str, Callable[[], object]] = {
        "embed": embed,
        "pool": lambda: build_pool(
            store, place / "new", cutoff=T, until=E, index=IndexConfig(), progress=vanish
        ),
        "score": lambda: runs.score_file(
            Scorer(pool, world.encoder), ideas, place / "s.parquet", progress=vanish
        ),
    }
    with pytest.raises(HindsightError, match=r"No such file|missing|no folder"):
        jobs[verb]()
    assert away.exists() and not (away / "new").exists() and not (away / "s.parquet").exists()
    if not place.exists() or not any(place.iterdir()):
        shutil.rmtree(place, ignore_errors=True)
        away.rename(place)  # the drive is back, and all is as it was, or goes on
        if verb == "embed":
            embed_store(Store.open(place / "store"), world.encoder)
        verify_artefact(place / "store")
