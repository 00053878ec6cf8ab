"""Every byte of every artefact matters, and no folder of others does harm: seen by trying."""

import copy
import hashlib
import io
import json
import os
import random
import shutil
import struct
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

from forging import sealed, settle
from integrity_world import KINDS, Build, make_build, owner, trusting
from using import Worker

ALLOWED_MB = 300  # of memory more than whole artefacts take

# pytest.param(how many of each, marks)
SOME = [2, pytest.param(60, marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Build, Build]:
    folder = tmp_path_factory.mktemp("builds")
    return make_build(folder / "one", 1), make_build(folder / "two", 2)


@pytest.fixture(scope="module")
def worker() -> Generator[Worker]:
    one = Worker()
    yield one
    one.close()


@pytest.fixture
def build(builds: tuple[Build, Build], tmp_path: Path) -> Build:
    """A copy that may be damaged."""
    return Build(Path(shutil.copytree(builds[0].folder, tmp_path / "copy")))


class Judge:
    """Asks the worker, and keeps what should not have been."""

    def __init__(self, worker: Worker, build: Build) -> None:
        self._worker, self._build = worker, build
        self.stranger = build.folder.parent / "stranger"
        self.wrong = list[str]()
        self.n_asked = 0
        self._peak_mb = 0.0
        self.whole = {name: self.use(name)[0] for name in KINDS}
        assert all("done" in answer for answer in self.whole.values()) and not self.wrong
        self._peak_mb += ALLOWED_MB

    def ask(self, what: str, name: str, home: Path, change: str) -> dict[str, Any]:
        self.n_asked += 1
        answer = self._worker.ask(what, self._build.folder / name, home)
        if "raw" in answer or "died" in answer:
            self.wrong.append(f"{change}: {what}: {answer}")
        elif not change:
            self._peak_mb = max(self._peak_mb, answer["peak_mb"])
        elif answer["peak_mb"] > self._peak_mb:
            self.wrong.append(f"{change}: {what}: {answer['peak_mb']:.0f} MB")
            self._worker.close()
        return answer

    def use(self, name: str, change: str = "") -> list[dict[str, Any]]:
        """Open and score, for who made it and for a stranger."""
        homes = [self._build.folder, self.stranger] if name == "pool" else [self._build.folder]
        return [self.ask(KINDS[name], name, home, change) for home in homes]

    def verify(self, name: str, change: str = "") -> dict[str, Any]:
        """Verify."""
        return self.ask("verify", name, self._build.folder, change)

    def must_see(self, name: str, change: str, *, used: str | None = None) -> None:
        """Whoever verifies must be told, and whoever opens must be told or not be harmed."""
        if "refused" not in self.verify(name, change):
            self.wrong.append(f"{change}: not found")
        for answer in self.use(used or name, change):
            if "done" in answer and answer["done"] != self.whole[used or name]["done"]:
                self.wrong.append(f"{change}: {used or name} gives something else")


@pytest.fixture
def judge(worker: Worker, build: Build) -> Judge:
    return Judge(worker, build)


def changes(raw: bytes, other: bytes, rng: random.Random, n: int) -> Iterator[tuple[str, bytes]]:
    """Single bits, at the ends and anywhere; cut, longer, and another build's."""
    size = len(raw)
    for place in sorted({0, size // 2, size - 1, *(rng.randrange(size) for _ in range(n))}):
        bit = 1 << rng.randrange(8)
        yield (
            f"bit {bit} of byte {place}",
            raw[:place] + bytes([raw[place] ^ bit]) + raw[place + 1 :],
        )
    for left in sorted({0, 1, size // 2, size - 1, *(rng.randrange(size) for _ in range(n // 2))}):
        yield f"cut to {left}", raw[:left]
    yield "longer", raw + b"\0"
    yield "the same twice", raw + raw
    if other != raw:
        yield "another build's", other


@pytest.mark.parametrize("n", SOME)
def test_every_byte_is_looked_at(
    builds: tuple[Build, Build], build: Build, judge: Judge, n: int
) -> None:
    assert trusting(build)
    rng = random.Random(n)
    for file in build.files():
        name, path = owner(file), build.folder / file
        if name == "cache":
            continue
        raw, other = path.read_bytes(), (builds[1].folder / file).read_bytes()
        # A store without the manifest of its vectors is one without vectors, but no pool's.
        used = "pool" if file.is_relative_to("store/vectors") else name
        for change, data in changes(raw, other, rng, n):
            path.write_bytes(data)
            # Of a table's manifest, another's is as good to look at.
            seen = file.name.endswith("manifest.json") and change == "another build's"
            if seen and name == "scores.parquet":
                continue
            judge.must_see(name, f"{file}: {change}", used=used)
        path.write_bytes(raw)
        path.unlink()
        judge.must_see(name, f"{file}: gone", used=used)
        path.write_bytes(raw)
    assert not judge.wrong
    assert judge.n_asked > 1000


@pytest.mark.parametrize("n", SOME)
def test_a_cache_gives_what_was_put_there_or_nothing(build: Build, judge: Judge, n: int) -> None:
    """`verify` sees all that is in the way of a vector, and no more: SQLite's unused bytes."""
    rng, path = random.Random(n), build.folder / "cache" / "vectors.sqlite"
    assert "done" in judge.verify("cache")
    raw, nothing = path.read_bytes(), hashlib.blake2b(b"", digest_size=8).hexdigest()
    for change, data in changes(raw, raw, rng, 20 * n):
        path.write_bytes(data)
        answer = judge.use("cache", f"cache: {change}")[0]
        found = answer.get("done", nothing)
        assert found in (nothing, judge.whole["cache"]["done"]), change
        if found == nothing and data:  # an empty file is an empty cache
            assert "refused" in judge.verify("cache", f"cache: {change}"), change
        for beside in path.parent.glob("vectors.sqlite-*"):
            beside.unlink()
    assert not judge.wrong


FOLDERS = [
    ("store", "store", "pool"),
    ("store/vectors", "store", "pool"),
    ("store/vectors/tiny", "store", "pool"),
    ("pool", "pool", "pool"),
]


@pytest.mark.parametrize(("folder", "verified", "used"), FOLDERS, ids=lambda name: name)
def test_folders_of_another_build_are_seen(
    builds: tuple[Build, Build], build: Build, judge: Judge, folder: str, verified: str, used: str
) -> None:
    """Each is whole in itself, and yet not of these."""
    shutil.rmtree(build.folder / folder)
    shutil.copytree(builds[1].folder / folder, build.folder / folder)
    for answer in judge.use(used, folder):
        assert "refused" in answer
    if folder != "store":  # which is whole, and only not the pool's
        assert "refused" in judge.verify("pool" if folder == "pool" else verified, folder)
    assert not judge.wrong


def test_what_does_not_belong_is_seen(build: Build, judge: Judge) -> None:
    for folder in ("store", "pool", "shards", "collection", "collection/raw", "store/vectors"):
        stray = build.folder / folder / "stray"
        stray.mkdir()
        assert "refused" in judge.verify(folder.partition("/")[0], folder), folder
        stray.rmdir()
    partial = build.folder / "store" / "vectors" / ".other.partial"
    partial.mkdir()
    (partial / ".journal").write_bytes(b"")
    assert "done" in judge.verify("store", "unfinished work")
    assert not judge.wrong


@pytest.mark.parametrize("what", ["link", "dangling", "folder", "pipe", "device", "loop"])
def test_what_is_no_file_is_not_waited_for(build: Build, judge: Judge, what: str) -> None:
    for file in ("store/dates.npy", "pool/impact.npy", "pool/index.usearch", "pool/manifest.json"):
        path, away = build.folder / file, build.folder / "away"
        path.rename(away)
        if what == "folder":
            path.mkdir()
        elif what == "pipe":
            os.mkfifo(path)
        else:
            targets = {"link": away, "dangling": Path("nowhere"), "device": Path("/dev/zero")}
            path.symlink_to(targets.get(what, path))
        name = file.partition("/")[0]
        assert all("refused" in answer for answer in judge.use(name, f"{file}: {what}"))
        assert "refused" in judge.verify(name, f"{file}: {what}")
        path.rmdir() if what == "folder" else path.unlink()
        away.rename(path)
    assert not judge.wrong


# Manifests by a hostile author, who knows how to hash ---------------------------------------------

MANIFESTS = {
    "store/manifest.json": "store",
    "store/vectors/tiny/manifest.json": "pool",
    "pool/manifest.json": "pool",
    "shards/manifest.json": "shards",
    "collection/manifest.json": "collection",
    "models/tiny/card.json": "models/tiny",
    "scores.parquet.manifest.json": "scores.parquet",
}
VALUES: list[Any] = [
    None, True, -1, 0, 2**31, 2**63, 10**400, -0.5, 1e308, "", "../../etc/passwd", "/etc/passwd",
    "x" * 100_000, "2023-13-45", "\ud800", "\0", [], [1], [None], {}, {"x": {"y": [[]]}},
    [[[[[[]]]]]],
]  # fmt: skip


def places(value: Any, so_far: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all values inside one; of a list, to its first."""
    inside: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inside = list(cast(dict[str, Any], value).items())
    elif isinstance(value, list):
        inside = list(enumerate(cast("tuple[Any, ...]", value)[:1]))
    for key, one in inside:
        yield (*so_far, key)
        yield from places(one, (*so_far, key))


def put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """The same with another value at a place; without it where that is `put` itself."""
    changed = inner = copy.deepcopy(value)
    for key in place[:-1]:
        inner = inner[key]
    if new is put:
        del inner[place[-1]]
    else:
        inner[place[-1]] = new
    return changed


@pytest.mark.parametrize("share", [0.012, pytest.param(1, marks=pytest.mark.slow)])
def test_any_value_in_a_manifest_is_told_in_words(build: Build, judge: Judge, share: float) -> None:
    rng = random.Random(0)
    for file, name in MANIFESTS.items():
        path = build.folder / file
        raw = path.read_bytes()
        content = json.loads(raw)
        for place in places(content):
            for new in [put, *VALUES]:
                if rng.random() < share:
                    changed = put(content, place, new)
                    sealing = path.name == "manifest.json"
                    path.write_bytes(sealed(changed) if sealing else json.dumps(changed).encode())
                    judge.use(name, f"{file}: {place} = {new!r}"[:200])
        path.write_bytes(raw)
    assert not judge.wrong
    assert judge.n_asked > 100


def test_files_that_no_manifest_names_are_not_used(build: Build, judge: Judge) -> None:
    for file in ("store/manifest.json", "store/vectors/tiny/manifest.json", "pool/manifest.json"):
        path = build.folder / file
        raw = path.read_bytes()
        path.write_bytes(sealed(json.loads(raw) | {"files": {}}))
        assert all("refused" in answer for answer in judge.use("pool", file))
        path.write_bytes(raw)
    assert not judge.wrong


# Files by the same author, with right hashes ------------------------------------------------------


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    """A .npy file with this header."""
    raw = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(raw) % 2**16) + raw + data


def header(descr: str, shape: str, order: str = "False") -> str:
    """A header of .npy."""
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def hostile_arrays(raw: bytes, rng: random.Random, n: int) -> Iterator[bytes]:
    """Arrays that are none, are too many, or hold what can't be; some would run code."""
    yield npy(header("'|O'", "(10,)"), b"\x80\x04K\x01." * 10)
    yield npy(header("'<f4'", "(1000000000000,)"))
    yield npy(header("'<f4'", "(9223372036854775808, 2)"))
    yield npy(header("'<f4'", "(-1, 4)"), bytes(16))
    yield npy(header("'<f4'", "(4, 4)", "True"), bytes(64))
    yield npy(header("[('a', '<f4')]", "(3,)"), bytes(12))
    yield npy(header("'<f4'", f"{'(' * 3000}{')' * 3000}"))
    yield npy("__import__('os').abort()")
    yield npy("(" * 5000)
    yield npy("9" * 60_000)
    yield npy(header("'<f4'", "(3,)"), bytes(12), 9)
    start, size = raw.index(b"\n") + 1, len(raw)
    for filling in (b"\xff", b"\x7f", b"\x80", b"\0"):
        yield raw[:start] + filling * (size - start)
    yield raw[:start] + rng.randbytes(size - start)
    for _ in range(n):
        place = rng.randrange(size)
        yield raw[:place] + rng.randbytes(1) + raw[place + 1 :]


def hostile_tables(raw: bytes, rng: random.Random, n: int) -> Iterator[bytes]:
    """Parquet files that are cut, lie about their size or columns, or unpack to a hundred MB."""
    size, footer = len(raw), struct.unpack("<I", raw[-8:-4])[0]
    yield raw[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1"
    yield raw[:-8] + struct.pack("<I", 0) + b"PAR1"
    yield raw[: size // 2]
    for frame in (
        pl.DataFrame({"x": [1]}),
        pl.DataFrame({"id": [[1]] * 240, "title": [b"\xff"] * 240, "date": ["x"] * 240}),
        pl.DataFrame({"id": ["x" * 10**8] + ["a"] * 239}),
    ):
        file = io.BytesIO()
        frame.write_parquet(file)
        yield file.getvalue()
    for low in [size - 8 - footer] * (2 * n) + [0] * n:
        place = rng.randrange(low, size)
        yield raw[:place] + rng.randbytes(1) + raw[place + 1 :]


def hostile_bytes(raw: bytes, rng: random.Random, n: int) -> Iterator[bytes]:
    """What it was, but for a byte."""
    for _ in range(n):
        place = rng.randrange(len(raw))
        yield raw[:place] + rng.randbytes(1) + raw[place + 1 :]


@pytest.mark.parametrize("n", [0, pytest.param(60, marks=pytest.mark.slow)])
def test_no_file_of_others_does_harm(build: Build, judge: Judge, n: int) -> None:
    rng, made = random.Random(n), {".npy": hostile_arrays, ".parquet": hostile_tables}
    for file in build.files():
        name, path = owner(file), build.folder / file
        if name == "cache" or path.name.endswith(("manifest.json", "card.json")):
            continue
        listed = path.parent / "manifest.json"
        card = build.folder / "models" / "tiny" / "card.json"
        raw, kept = (
            path.read_bytes(),
            {one: one.read_bytes() for one in (listed, card) if one.exists()},
        )
        for number, data in enumerate(made.get(path.suffix, hostile_bytes)(raw, rng, n)):
            path.write_bytes(data)
            if listed.exists():
                settle(listed.parent)
            elif name == "models/tiny":
                facts = json.loads(kept[card])
                if path.name in facts["files"]:
                    facts["files"][path.name] = hashlib.sha256(data).hexdigest()
                del facts["hash"]
                card.write_text(json.dumps(facts))
            # A trusted index is its author's: of others none is opened, whatever it holds.
            change = f"{file}: number {number}"
            if name == "pool":
                judge.ask("pool", name, judge.stranger, change)
            else:
                judge.use(name, change)
            if n:
                judge.verify(name, change)
        path.write_bytes(raw)
        for one, content in kept.items():
            one.write_bytes(content)
    assert not judge.wrong
    assert judge.n_asked > 200
