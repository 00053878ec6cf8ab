"""Artefacts are whole or not there, whatever happens in between."""

import contextlib
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hindsight_fast import storage
from hindsight_fast.errors import ArtefactError, StorageError, UsageError

ROOT = Path(__file__).resolve().parent.parent


def make(path: Path, mark: str = "a", data: bytes = b"data", *, overwrite: bool = False) -> None:
    with storage.publish(path, "pool", mark, overwrite=overwrite) as staging:
        (staging.folder / "one.bin").write_bytes(data)
        staging.body["n"] = len(data)


def test_nothing_of_others_is_lost_with_an_artefact(tmp_path: Path) -> None:
    make(tmp_path / "pool")
    (tmp_path / "pool" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"also holds notes\.txt"):
        make(tmp_path / "pool", "b", overwrite=True)
    with pytest.raises(UsageError, match="would lie inside"):
        make(tmp_path / "pool" / "deep" / "inner")
    with (
        pytest.raises(UsageError, match="would lie inside"),
        storage.publish_file(tmp_path / "pool" / "table.csv"),
    ):
        pass
    with (
        pytest.raises(UsageError, match="would lie inside"),
        storage.working_folder(tmp_path / "pool" / "work"),
    ):
        pass
    assert (tmp_path / "pool" / "notes.txt").read_text() == "mine"
    (tmp_path / "pool" / "notes.txt").unlink()
    make(tmp_path / "pool", "b", overwrite=True)


def tree(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_what_is_published_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "pool"
    make(path)
    manifest = storage.open_folder(path, "pool")
    assert manifest.fingerprint == "a"
    assert manifest.integer("n") == 4
    assert manifest.files["one.bin"].size == 4
    assert storage.verify_folder(path, "pool") == manifest
    assert storage.existing(path, "pool", "a") == manifest
    assert storage.kind_of(path) == "pool"
    assert tree(tmp_path) == ["deep", "deep/pool", "deep/pool/manifest.json", "deep/pool/one.bin"]


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), storage.publish(tmp_path / "pool", "pool", "a") as staging:
            (staging.folder / "one.bin").write_bytes(b"data")
            raise error
    assert tree(tmp_path) == []


def test_what_is_there_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    assert storage.existing(path, "pool", "a") is None
    path.mkdir()
    assert storage.existing(path, "pool", "a") is None  # an empty folder is free
    make(path)
    with pytest.raises(UsageError, match=r"holds a pool made from other input.*--overwrite"):
        make(path, "b")
    with pytest.raises(UsageError, match="is a pool and can't be replaced by a store"):
        storage.existing(path, "store", "a", overwrite=True)
    make(path, "b", b"other", overwrite=True)
    assert (path / "one.bin").read_bytes() == b"other"
    assert tree(tmp_path) == ["pool", "pool/manifest.json", "pool/one.bin"]


def test_what_is_damaged_is_replaced_when_told_so(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    make(path)
    (path / "one.bin").write_bytes(b"cut")
    with pytest.raises(ArtefactError, match=r"one\.bin .* make it again, with --overwrite"):
        storage.existing(path, "pool", "a")
    make(path, overwrite=True)
    assert storage.existing(path, "pool", "a") is not None
    (path / "manifest.json").write_bytes(b"cut")
    with pytest.raises(ArtefactError, match=r"remove .* yourself"):
        make(path, overwrite=True)


def test_what_is_right_is_kept_in_spite_of_overwrite(tmp_path: Path) -> None:
    path, data = tmp_path / "pool", bytearray(4 << 20)
    make(path, data=bytes(data))
    found = storage.existing(path, "pool", "a", overwrite=True)
    assert found == storage.read_manifest(path)
    assert storage.existing(path, "pool", "b", overwrite=True) is None
    data[100_000] = 1  # where no sample looks
    (path / "one.bin").write_bytes(data)
    assert storage.existing(path, "pool", "a") is not None
    assert storage.existing(path, "pool", "a", overwrite=True) is None
    make(path, overwrite=True)
    storage.verify_folder(path, "pool")


def test_kinds_stand_well_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "here"
    with storage.publish(path, "vectors", "a"):
        pass
    with pytest.raises(UsageError, match="already holds vectors made from other"):
        storage.existing(path, "vectors", "b")
    with pytest.raises(UsageError, match="here is vectors and can't be replaced by a pool"):
        storage.existing(path, "pool", "b", overwrite=True)
    with pytest.raises(ArtefactError, match="here is vectors, not a store"):
        storage.open_folder(path, "store")


@pytest.mark.parametrize("link", [True, False])
def test_an_artefact_inside_an_artefact(
    tmp_path: Path, link: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("links can't be had here")

    if not link:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    make(tmp_path / "one")
    with storage.publish(tmp_path / "two", "store", "b") as staging:
        storage.link_artefact(tmp_path / "one", staging.folder / "inner" / "one")
    assert storage.open_folder(tmp_path / "two", "store").files == {}
    inner = tmp_path / "two" / "inner" / "one"
    assert storage.verify_folder(inner, "pool").fingerprint == "a"
    assert (inner / "one.bin").samefile(tmp_path / "one" / "one.bin") == link


def test_errors_of_the_body_are_its_own(tmp_path: Path) -> None:
    for context in (
        storage.publish(tmp_path / "pool", "pool", "a"),
        storage.working_folder(tmp_path / "work"),
        storage.publish_file(tmp_path / "file"),
    ):
        with pytest.raises(BrokenPipeError, match="progress"), context:
            raise BrokenPipeError("progress")
    assert tree(tmp_path) == []


def test_what_lies_about_does_not_spoil_a_success(tmp_path: Path) -> None:
    (tmp_path / ".pool.old-notes").write_text("a file")
    (tmp_path / ".pool.old-link").symlink_to(tmp_path / "nowhere")
    make(tmp_path / "pool")
    make(tmp_path / "pool", "b", overwrite=True)
    assert (tmp_path / ".pool.old-notes").read_text() == "a file"


@pytest.mark.parametrize("name", ["notes.txt", "manifest.json"])
def test_folders_of_others_are_never_replaced(tmp_path: Path, name: str) -> None:
    path = tmp_path / "pool"
    path.mkdir()
    (path / name).write_text('{"name": "a web application"}')
    with pytest.raises((UsageError, ArtefactError)):
        make(path, overwrite=True)
    assert (path / name).exists()
    partial = tmp_path / ".other.partial"
    partial.mkdir()
    (partial / "thesis.tex").write_text("mine")
    with pytest.raises(StorageError, match="not ours"):
        make(tmp_path / "other")
    assert (partial / "thesis.tex").exists()


def test_a_reader_keeps_the_old_mapping(tmp_path: Path) -> None:
    path = tmp_path / "pool"

    def write(value: float) -> NDArray[np.float32]:
        with storage.publish(path, "pool", str(value), overwrite=True) as staging:
            storage.create_array(staging.folder / "x.npy", np.float32, (5000, 3))[:] = value
        return storage.map_array(path / "x.npy", np.float32, (5000, 3))

    old, new = write(1), write(2)
    assert (old == 1).all() and (new == 2).all()


def test_two_writers_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    with storage.publish(path, "pool", "a") as staging:
        (staging.folder / "one.bin").write_bytes(b"mine")
        with pytest.raises(StorageError, match="another process is writing"):
            make(path)
    assert (path / "one.bin").read_bytes() == b"mine"


@pytest.mark.parametrize("change", ["cut", "longer", "flip", "gone", "link", "pipe", "other"])
def test_changed_files_are_found(tmp_path: Path, change: str) -> None:
    path, data = tmp_path / "pool", os.urandom(300_000)
    make(path, data=data)
    file = path / "one.bin"
    if change == "cut":
        os.truncate(file, 299_999)
    elif change == "longer":
        with file.open("ab") as handle:
            handle.write(b"x")
    elif change == "flip":
        file.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    elif change == "other":
        file.write_bytes(os.urandom(len(data)))
    else:
        file.unlink()
        if change == "link":
            (tmp_path / "elsewhere").write_bytes(data)
            file.symlink_to(tmp_path / "elsewhere")
        elif change == "pipe":
            os.mkfifo(file)
    with pytest.raises(ArtefactError, match=r"one\.bin"):
        storage.open_folder(path, "pool")


def test_verify_finds_what_a_sample_misses(tmp_path: Path) -> None:
    path, data = tmp_path / "pool", bytearray(4 << 20)
    make(path, data=bytes(data))
    data[100_000] = 1
    (path / "one.bin").write_bytes(data)
    storage.open_folder(path, "pool")
    with pytest.raises(ArtefactError, match="not the file"):
        storage.verify_folder(path, "pool")


def test_verify_looks_at_all_of_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    make(path)
    manifest = path / "manifest.json"
    raw = manifest.read_bytes()
    for other in (raw[:-1], raw + b"\n", raw.replace(b" ", b"\t"), b" " + raw):
        manifest.write_bytes(other)
        storage.open_folder(path, "pool")
        with pytest.raises(ArtefactError, match=r"manifest\.json is not as it was written"):
            storage.verify_folder(path, "pool")
    manifest.write_bytes(raw)
    (path / "raw").mkdir()
    with pytest.raises(ArtefactError, match="also holds raw, which does not belong"):
        storage.verify_folder(path, "pool")
    (path / ".of-the-system").write_text("")
    storage.verify_folder(path, "pool", beside=("raw",))
    assert storage.existing(path, "pool", "a", overwrite=True) is not None


def test_wrong_places_are_named(tmp_path: Path) -> None:
    make(tmp_path / "pool")
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name, sentence in [
        ("pool", "is a pool, not a store"),
        ("file", "is a file"),
        ("empty", r"no manifest\.json"),
        ("nowhere", "there is no folder"),
    ]:
        with pytest.raises(ArtefactError, match=sentence):
            storage.open_folder(tmp_path / name, "store")
    with pytest.raises(StorageError, match="could not"):
        make(tmp_path / "file" / "pool")
    with pytest.raises(StorageError, match="could not"):
        make(Path("/proc/pool"))


def forge(path: Path, **changes: object) -> None:
    """Write a manifest with changed parts and the right hash, as a hostile author would."""
    content = json.loads((path / "manifest.json").read_text())
    content.pop("hash")
    content |= changes
    raw = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    content["hash"] = hashlib.blake2b(raw, digest_size=32).hexdigest()
    (path / "manifest.json").write_text(json.dumps(content))


FACTS = {"size": 4, "blake2b": "0" * 64, "sample": "0" * 64}
HOSTILE: list[dict[str, Any]] = [
    {"files": {"../../etc/passwd": FACTS}},
    {"files": {"/etc/passwd": FACTS}},
    {"files": {".": FACTS}},
    {"files": {"manifest.json": FACTS}},
    {"files": {"a": {**FACTS, "size": 1e300}}},
    {"files": {"a": {**FACTS, "size": True}}},
    {"files": {"a": {**FACTS, "size": -1}}},
    {"files": {"a": {**FACTS, "blake2b": None}}},
    {"files": {"a": {"size": 1}}},
    {"files": {"a": [1]}},
    {"files": {f"f{i}": FACTS for i in range(1000)}},
    {"files": []},
    {"body": "text"},
    {"body": {"title": "half a character: \ud83d"}},
    {"body": {"\udc00": 1}},
    {"kind": 7},
    {"kind": "x" * 1000},
    {"fingerprint": "x" * 1000},
    {"fingerprint": None},
    {"format_version": 2},
    {"format_version": "1"},
]


@pytest.mark.parametrize("changes", HOSTILE, ids=lambda c: json.dumps(c)[:50])
def test_hostile_manifests_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    make(tmp_path / "pool")
    forge(tmp_path / "pool", **changes)
    with pytest.raises(ArtefactError):
        storage.open_folder(tmp_path / "pool", "pool")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[" * 200_000,
        b'{"a":' * 100_000 + b"1",
        b"null",
        b"[]",
        b"\xff\xfe",
        b'{"format_version": ' + b"9" * 10_000 + b"}",
        b'{"format_version": NaN}',
        b'{"format_version": 1e999}',
        b'{"kind": "pool"}',
        b" " * (9 << 20),
        b'{"kind": "pool", "kind": "store"}',
    ],
    ids=range(12),
)
def test_what_is_no_manifest_is_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(raw)
    with pytest.raises(ArtefactError):
        storage.read_manifest(tmp_path)


@given(st.data())
def test_any_changed_byte_of_a_manifest_is_found(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("m") / "pool"
    make(path)
    good = storage.read_manifest(path)
    raw = bytearray((path / "manifest.json").read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    (path / "manifest.json").write_bytes(raw)
    with contextlib.suppress(ArtefactError):
        assert storage.read_manifest(path) == good  # white space


def test_getters_refuse_other_types(tmp_path: Path) -> None:
    manifest = storage.Manifest(tmp_path, "pool", "a", {"t": "text", "n": True, "x": "1", "d": []})
    for read in (
        lambda: manifest.text("n"),
        lambda: manifest.text("t", 3),
        lambda: manifest.text("absent"),
        lambda: manifest.integer("n"),
        lambda: manifest.real("x", 0, 1),
        lambda: manifest.table("d"),
    ):
        with pytest.raises(ArtefactError, match="must be"):
            read()


@pytest.mark.parametrize("shape", [(0,), (0, 7), (3,), (5, 2)])
def test_arrays_come_back(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = tmp_path / "x.npy"
    array = storage.create_array(path, np.float32, shape)
    assert not array.any()
    array[...] = np.arange(array.size).reshape(shape)
    expected = array.copy()
    del array
    found = storage.map_array(path, np.float32, shape)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.load(path), expected)
    assert not found.flags.writeable


def test_other_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    wrong: list[Callable[[], object]] = [
        lambda: np.save(path, square.astype(np.float64)),
        lambda: np.save(path, np.asfortranarray(square)),
        lambda: np.save(path, square[:2]),
        lambda: np.save(path, np.array([{}], dtype=object), allow_pickle=True),
        lambda: path.write_bytes(b""),
        lambda: path.write_bytes(b"\x93NUMPY\x01\x00\xff\xff"),
        lambda: path.write_bytes(b"\x93NUMPY\x03\x00\xff\xff\xff\xff{}"),
        lambda: path.write_bytes(os.urandom(500)),
    ]
    for write in wrong:
        write()
        with pytest.raises(ArtefactError, match=r"x\.npy"):
            storage.map_array(path, np.float32, (3, 3))
    np.save(path, square)
    storage.map_array(path, np.float32, (3, 3))
    good = path.read_bytes()
    for cut in (good[:-1], good + b"x"):
        path.write_bytes(cut)
        with pytest.raises(ArtefactError, match="cut"):
            storage.map_array(path, np.float32, (3, 3))
    with pytest.raises(TypeError):
        storage.create_array(path, object, (3,))


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "scores.parquet"
    with storage.publish_file(path) as partial:
        partial.write_bytes(b"one")
        with pytest.raises(StorageError, match="another process"), storage.publish_file(path):
            pass
    with pytest.raises(KeyboardInterrupt), storage.publish_file(path) as partial:
        partial.write_bytes(b"two")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"one"
    assert tree(tmp_path) == ["deep", "deep/scores.parquet"]


def test_a_working_folder_is_gone_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "deep" / ".scores.work"
    with storage.working_folder(path) as folder:
        (folder / "part").write_bytes(b"1")
        with pytest.raises(StorageError, match="another process"), storage.working_folder(path):
            pass
    with pytest.raises(KeyboardInterrupt), storage.working_folder(path) as folder:
        assert tree(folder) == [".lock"]
        raise KeyboardInterrupt
    assert tree(tmp_path) == ["deep"]
    path.mkdir()
    (path / "mine").write_text("x")
    with pytest.raises(StorageError, match="not ours"), storage.working_folder(path):
        pass
    assert (path / "mine").exists()


def test_full_hashes_are_remembered_until_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path / "home"))
    path, data = tmp_path / "pool", bytearray(4 << 20)
    make(path, data=bytes(data))
    facts = storage.read_manifest(path).files["one.bin"]
    storage.full_hash_once(path / "one.bin", facts)
    storage.full_hash_once(path / "one.bin", facts)
    records = tmp_path / "home" / "verified"
    assert len(tree(records)) == 1
    assert records.stat().st_mode & 0o777 == 0o700
    times = (path / "one.bin").stat()
    data[100_000] = 1
    with (path / "one.bin").open("r+b") as file:  # same size, inode, and modification time
        file.write(data)
    os.utime(path / "one.bin", ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(ArtefactError, match="not the file"):
        storage.full_hash_once(path / "one.bin", facts)
    os.truncate(path / "one.bin", 100)
    with pytest.raises(ArtefactError, match="bytes"):
        storage.full_hash_once(path / "one.bin", facts)


def test_records_that_others_can_write_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path / "home"))
    path, data = tmp_path / "pool", bytearray(4 << 20)
    make(path, data=bytes(data))
    facts = storage.read_manifest(path).files["one.bin"]
    storage.full_hash_once(path / "one.bin", facts)
    (tmp_path / "home" / "verified").chmod(0o777)
    wrong = storage.FileFacts(facts.size, "0" * 64, facts.sample)
    with pytest.raises(ArtefactError):
        storage.full_hash_once(path / "one.bin", wrong)
    monkeypatch.setenv("HINDSIGHT_HOME", str(path / "one.bin"))  # no place to remember anything
    storage.full_hash_once(path / "one.bin", facts)


def test_home_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDSIGHT_HOME", "/some/where")
    assert storage.home() == Path("/some/where")
    monkeypatch.delenv("HINDSIGHT_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    if sys.platform.startswith("linux"):
        assert storage.home() == Path("/data/hindsight-fast")


# Other processes ---------------------------------------------------------------------------------

WRITER = """
import sys, numpy as np
from pathlib import Path
from hindsight_fast import storage
mark = sys.argv[2]
with storage.publish(Path(sys.argv[1]), "pool", mark, overwrite=True) as staging:
    for i in range(20):
        storage.create_array(staging.folder / f"x{i}.npy", np.int64, (2000,))[:] = int(mark)
    print("half", flush=True)
    if len(sys.argv) > 3:
        sys.stdin.read()
"""


def start(*arguments: str | Path, code: str = WRITER) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def assert_whole(path: Path) -> None:
    manifest = storage.verify_folder(path, "pool")
    for name in manifest.files:
        array = storage.map_array(path / name, np.int64, (2000,))
        assert (array == int(manifest.fingerprint)).all()


def test_killed_anywhere_then_run_again(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    random = np.random.default_rng(1)
    subprocess.run([sys.executable, "-c", WRITER, str(path), "0"], cwd=ROOT, check=True)
    for attempt in range(1, 9):
        process = start(path, str(attempt))
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(float(random.uniform(0, 0.05)))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert_whole(path)
    process = start(path, "99")
    assert process.communicate(timeout=60)[1] == b""
    assert_whole(path)
    assert storage.read_manifest(path).fingerprint == "99"
    assert tree(tmp_path)[0] == "pool"  # nothing hidden beside it


def test_another_process_is_refused_while_one_writes(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    process = start(path, "1", "wait")
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(StorageError, match="another process is writing"):
        make(path, "2")
    process.communicate(timeout=60)
    assert_whole(path)


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n{WRITER}"
    process = start(tmp_path / "pool", "1", code=limited)
    error = process.communicate(timeout=60)[1].decode()
    assert "StorageError: could not create" in error
    assert tree(tmp_path) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 9000


def test_what_can_not_fit_is_refused_beforehand(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"disk full: need 8e\+06 TB, have"):
        storage.create_array(tmp_path / "x.npy", np.float32, (2, 10**18))
    assert tree(tmp_path) == []


def test_an_artefact_may_be_named_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "pool"

    def write(mark: str | None, *, overwrite: bool = False) -> None:
        with storage.publish(path, "pool", None, overwrite=overwrite) as staging:
            (staging.folder / "one.bin").write_bytes(b"data")
            staging.fingerprint = mark

    write(None)
    assert tree(tmp_path) == []
    write("a")
    inode = (path / "one.bin").stat().st_ino
    write(None)
    assert (path / "one.bin").stat().st_ino == inode and tree(tmp_path)[0] == "pool"
    with pytest.raises(UsageError, match="--overwrite"):
        write("b")
    write("b", overwrite=True)
    assert storage.read_manifest(path).fingerprint == "b"
    (path / "notes.txt").write_text("mine")
    with (
        pytest.raises(UsageError, match=r"notes\.txt"),
        storage.publish(path, "pool", None, overwrite=True),
    ):
        pytest.fail("all would be lost after long work")
    with (
        pytest.raises(UsageError, match="is a pool and can't be replaced by a store"),
        storage.publish(path, "store", None, overwrite=True),
    ):
        pytest.fail("all would be lost after long work")


def test_arrays_grow_at_their_end(tmp_path: Path) -> None:
    for n in (0, 1, 5, 70_000):
        whole = np.arange(n, dtype=np.int32)
        with contextlib.closing(storage.ArrayWriter(tmp_path / "grown.npy", np.int32)) as file:
            for part in np.array_split(whole, 3):
                file.append(part)
        storage.create_array(tmp_path / "at once.npy", np.int32, (n,))[:] = whole
        np.testing.assert_array_equal(
            storage.map_array(tmp_path / "grown.npy", np.int32, (n,)), whole
        )
        assert (tmp_path / "grown.npy").read_bytes() == (tmp_path / "at once.npy").read_bytes()


def test_an_artefact_is_taken_away_from_under_its_readers(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    make(path, data=bytes(100_000))
    mapped = np.memmap(path / "one.bin", np.uint8, "r")
    storage.remove_artefact(path)
    assert tree(tmp_path) == [] and not mapped.any()
