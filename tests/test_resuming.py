"""Work that takes days: killed at any moment, it goes on, to the same result to the byte."""

import datetime as dt
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

import hindsight_models as models
from hindsight_fast.cli.embedding import embed_line
from hindsight_fast.encoders import Encoder, load_encoder
from hindsight_fast.encoding import Forecast, Progress, _papers, embed_store
from hindsight_fast.encoding._forecast import forecast
from hindsight_fast.errors import ArtefactError, EncoderError, StorageError, UsageError
from hindsight_fast.pool import describe
from hindsight_fast.storage import Piece, Target, publish_resumable
from hindsight_fast.storage._moving import lock_folder
from hindsight_fast.store import Store, Vectors, build_store
from paper_tables import paper, table
from tiny_model import random_weights, tiny_model, vocabulary

TESTS = Path(__file__).resolve().parent
SHAPE = (24, 8)
VALUES = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
MADE_FROM = {"papers": "p", "precision": "float32"}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def encoder(model: Path) -> Encoder:
    return load_encoder(model, device="cpu")


def run(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, str(TESTS / "killing.py"), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


# Killed


def kill_at_lines(folder: Path, stride: int) -> int:
    found = run("lines", folder, stride)
    assert found["wrong"] == []
    return int(found["points"])


def test_killed_at_lines_of_the_storage_package(tmp_path: Path) -> None:
    assert kill_at_lines(tmp_path / "lines", 29) > 30


@pytest.mark.slow
def test_killed_at_every_line_of_the_storage_package(tmp_path: Path) -> None:
    assert kill_at_lines(tmp_path / "lines", 1) > 800


def kill_while_encoding(folder: Path, model: Path, encoder: Encoder, kills: int) -> None:
    rows = [paper(i, title=f"t {i % (20 * kills)}") for i in range(24 * kills)]
    store = build_store(table(rows), folder / "killed" / "store")
    found = run("encoding", store.path, model, kills)
    assert found["status"] == 0 and found["killed"] > kills // 2
    assert found["restored"] >= found["complete"] > 0
    whole = build_store(table(rows), folder / "whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hindsight_models.encoder.CPU_CHUNK", 4)
        patch.setattr(_papers, "BLOCK", 64)
        embed_store(whole, encoder)
    assert contents(store.vectors_folder("tiny")) == contents(whole.vectors_folder("tiny"))
    assert [f.name for f in (store.path / "vectors").iterdir()] == ["tiny"]


def test_killed_at_random_while_encoding(tmp_path: Path, model: Path, encoder: Encoder) -> None:
    kill_while_encoding(tmp_path, model, encoder, 15)


@pytest.mark.slow
def test_killed_many_times_while_encoding(tmp_path: Path, model: Path, encoder: Encoder) -> None:
    kill_while_encoding(tmp_path, model, encoder, 60)


# Damaged


class Filled:
    """An array of `SHAPE` in four pieces, filled in one or several goes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial = path.with_name(f".{path.name}.partial")
        self.journal = self.partial / ".journal"
        self.restored = list[int]()
        self.n_lost = 0

    def fill(self, stop_at: int = 4, *, discard: bool = False, **made_from: str) -> None:
        """Fill it; stop before one of the pieces."""
        self.restored.clear()
        target = Target(self.path, "vectors", "vectors.npy", np.float32, SHAPE)
        made = MADE_FROM | made_from
        with publish_resumable(target, "mark", made, self.restore, discard=discard) as work:
            self.n_lost = work.n_lost
            for i in range(4):
                if i == stop_at:
                    raise KeyboardInterrupt
                if i not in self.restored:
                    rows = np.arange(i, SHAPE[0], 4)  # every fourth row
                    work.write(rows, VALUES[rows])
                    mask = np.zeros(rows[-1] - i + 1, np.bool_)
                    mask[::4] = True
                    work.add(Piece(f"{i}", i, mask, {"n": len(rows)}))

    def restore(self, piece: Piece) -> None:
        rows = np.concatenate(list(piece.blocks()))
        np.testing.assert_array_equal(rows, np.arange(piece.low, SHAPE[0], 4))
        assert (piece.name, piece.counts) == (f"{piece.low}", {"n": 6})
        self.restored.append(piece.low)

    def stop(self, at: int) -> None:
        with pytest.raises(KeyboardInterrupt):
            self.fill(at)

    def check(self) -> None:
        found = np.load(self.path / "vectors.npy")
        np.testing.assert_array_equal(found, VALUES)
        assert sorted(contents(self.path)) == ["manifest.json", "vectors.npy"]
        assert not self.partial.exists()


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    one = Filled(tmp_path / "it")
    one.stop(3)
    return one


def test_what_is_done_survives_an_exception(filled: Filled) -> None:
    filled.stop(3)
    assert filled.restored == [0, 1, 2] and not filled.path.exists()
    filled.fill()
    assert filled.restored == [0, 1, 2] and filled.n_lost == 0
    filled.check()


@pytest.mark.parametrize("cut", [1, 30, 60, 10_000])
def test_a_torn_line_is_not_believed(filled: Filled, cut: int) -> None:
    raw = filled.journal.read_bytes()
    last = raw.rindex(b"\n", 0, -1) + 1
    filled.journal.write_bytes(raw[: max(len(raw) - cut, last + 1)])
    filled.fill()
    assert filled.restored == [0, 1] and filled.n_lost == 1
    filled.check()


def test_a_line_lost_in_the_middle_costs_its_rows(filled: Filled) -> None:
    lines = filled.journal.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    lines[2] = bytes(len(lines[2]) - 1) + b"\n"
    filled.journal.write_bytes(b"".join(lines) + b"half a li")
    filled.stop(1)
    assert filled.restored == [0, 2] and filled.n_lost == 2
    filled.fill()
    assert filled.restored == [0, 2] and filled.n_lost == 0
    filled.check()


def test_rows_that_never_reached_the_disk_are_made_again(filled: Filled) -> None:
    array = np.load(filled.partial / "vectors.npy", mmap_mode="r+")
    array[5] = 0
    array.flush()
    filled.fill()
    assert filled.restored == [0, 2] and filled.n_lost == 1
    filled.check()


def test_damage_that_hides_what_is_done_has_a_sentence(filled: Filled) -> None:
    raw = filled.journal.read_bytes()
    filled.journal.write_bytes(raw[40:])
    with pytest.raises(ArtefactError, match=r"damaged.*doesn't begin.*--overwrite"):
        filled.fill()
    filled.journal.write_bytes(raw)
    vectors = filled.partial / "vectors.npy"
    vectors.write_bytes(vectors.read_bytes()[:-4])
    with pytest.raises(ArtefactError, match=r"damaged.*was cut.*--overwrite"):
        filled.fill()
    filled.fill(discard=True)
    assert filled.restored == []
    filled.check()


def test_other_work_is_not_mixed_in(filled: Filled) -> None:
    with pytest.raises(UsageError, match=r"precision: float32, now float16.*--overwrite"):
        filled.fill(precision="float16")
    with pytest.raises(UsageError, match=r"taken: none, now \['x'\]"):
        filled.fill(taken=["x"])  # type: ignore[arg-type]
    filled.stop(3)
    assert filled.restored == [0, 1, 2]
    filled.fill(discard=True, precision="float16")
    assert filled.restored == []
    filled.check()


def test_other_work_that_had_hardly_begun_is_not_in_the_way(tmp_path: Path) -> None:
    one = Filled(tmp_path / "it")
    one.stop(0)
    one.fill(precision="float16")
    assert one.restored == []
    one.check()


def test_what_is_no_work_of_ours_is_left_alone(tmp_path: Path) -> None:
    one = Filled(tmp_path / "it")
    one.partial.mkdir()
    (one.partial / "letter.txt").write_text("mine")
    with pytest.raises(StorageError, match="not ours"):
        one.fill()
    (one.partial / "letter.txt").unlink()
    one.fill()
    one.check()


def test_a_full_disk_keeps_what_is_done(filled: Filled) -> None:
    target = Target(filled.path, "vectors", "vectors.npy", np.float32, SHAPE)
    with (
        pytest.raises(StorageError, match="the disk is full"),
        publish_resumable(target, "mark", MADE_FROM, filled.restore) as work,
        Path("/dev/full").open("wb") as full,
    ):
        open_files = {f.resolve(): int(f.name) for f in Path("/proc/self/fd").iterdir()}
        os.dup2(full.fileno(), open_files[filled.journal])
        work.write(np.arange(3, 24, 4), VALUES[3::4])
        work.add(Piece("3", 3, np.ones(1, np.bool_), {}))
    filled.restored.clear()
    filled.fill()
    assert filled.restored == [0, 1, 2]
    filled.check()


def test_a_limit_on_file_sizes_is_met_before_the_work(tmp_path: Path, encoder: Encoder) -> None:
    store = build_store(table([paper(i) for i in range(100)]), tmp_path / "store")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    seen: list[Progress] = []
    try:
        with pytest.raises(StorageError, match="a limit on file sizes"):
            embed_store(store, encoder, progress=seen.append)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert seen == []
    assert embed_store(store, encoder).array.any()


# Encoding


class Failing(Encoder):
    """Fails after some chunks."""

    error: BaseException | None = None
    chunks = 2

    def encode_chunks(
        self,
        chunks: Iterable[Sequence[tuple[str, str]]],
        progress: models.Progress | None = None,
    ) -> Generator[models.Encoded]:
        for number, encoded in enumerate(super().encode_chunks(chunks, progress)):
            if number == self.chunks and self.error is not None:
                raise self.error
            yield encoded


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hindsight_models.encoder.CPU_CHUNK", 8)
    monkeypatch.setattr(_papers, "BLOCK", 32)


PAPERS = [paper(i) for i in range(100)]


def stopped(folder: Path, model: Path, **options: Any) -> Store:
    """A store with unfinished vectors: 16 of 100."""
    store = build_store(table(PAPERS), folder)
    failing = Failing(model, device="cpu")
    failing.error = EncoderError("no more")
    with pytest.raises(EncoderError, match="no more"):
        embed_store(store, failing, **options)
    assert store.encoders() == []
    return store


@pytest.mark.usefixtures("small")
def test_what_fails_keeps_what_is_done(tmp_path: Path, model: Path, encoder: Encoder) -> None:
    store = stopped(tmp_path / "store", model)
    assert describe(store.path)["unfinished_vectors"] == ["tiny"]
    seen: list[Progress] = []
    vectors = embed_store(store, encoder, progress=seen.append)
    assert seen[:3] == [
        Progress("checking what is done", 8, 100, 0, 8, 0),
        Progress("checking what is done", 16, 100, 0, 16, 0),
        Progress("encoding", 16, 100, 0, 16, 0),
    ]
    assert seen[-1] == Progress("encoding", 100, 100, seen[-1].tokens, 16, 0)
    whole = embed_store(build_store(table(PAPERS), tmp_path / "whole"), encoder)
    assert contents(vectors.manifest.folder) == contents(whole.manifest.folder)


@pytest.mark.usefixtures("small")
def test_unfinished_vectors_outlive_fresh_counts(
    tmp_path: Path, model: Path, encoder: Encoder
) -> None:
    store = stopped(tmp_path / "store", model)
    rows = [row | {"citations": 7} for row in PAPERS]
    fresh = build_store(table(rows), store.path, overwrite=True)
    assert fresh.facts_id != store.facts_id
    partial = store.path / "vectors" / ".tiny.partial" / "vectors.npy"
    array = np.load(partial, mmap_mode="r+")
    array[3] = 0
    array.flush()
    seen: list[Progress] = []
    assert embed_store(fresh, encoder, progress=seen.append).array.any(axis=1).all()
    assert (seen[-1].restored, seen[-1].lost) == (8, 1)
    stopped(tmp_path / "other", model)
    other = [row | {"status": "retracted"} for row in PAPERS[:1]] + PAPERS[1:]
    partial = tmp_path / "other" / "vectors" / ".tiny.partial"
    running = lock_folder(partial)
    with pytest.raises(StorageError, match="another process is writing"):
        build_store(table(other), tmp_path / "other", overwrite=True)
    assert (partial / "vectors.npy").exists()
    os.close(running)
    build_store(table(other), tmp_path / "other", overwrite=True)
    assert not (tmp_path / "other" / "vectors").exists()


@pytest.mark.usefixtures("small")
def test_unfinished_vectors_of_something_else_are_refused(
    tmp_path: Path, model: Path, encoder: Encoder
) -> None:
    day = dt.date(2023, 7, 1)
    store = stopped(tmp_path / "store", model, since=day)
    with pytest.raises(UsageError, match=r"since: 2023-07-01, now none.*--overwrite"):
        embed_store(store, encoder)
    with pytest.raises(UsageError, match="model and text rule"):
        other = load_encoder(tiny_model(tmp_path / "other", seed=1), device="cpu")
        embed_store(store, other, since=day)
    with pytest.raises(UsageError, match="vectors taken over: none, now"):
        embed_store(store, encoder, since=day, taken=[Known("some", [])])
    half = load_encoder(model, device="cpu")
    half.precision = "float16"
    with pytest.raises(UsageError, match="precision: float32, now float16"):
        embed_store(store, half, since=day)
    (tmp_path / "elsewhere").mkdir()
    second = build_store(table(PAPERS[1:]), tmp_path / "elsewhere" / "store")
    (store.path / "vectors").rename(second.path / "vectors")
    with pytest.raises(UsageError, match="papers: "):
        embed_store(second, encoder, since=day)
    assert embed_store(second, encoder, overwrite=True).array.all()


def test_another_precision_is_refused_by_name(tmp_path: Path, model: Path) -> None:
    store = build_store(table(PAPERS), tmp_path / "store")
    encoder = load_encoder(model, device="cpu")
    assert embed_store(store, encoder).precision == "float32"
    encoder.precision = "float16"
    with pytest.raises(UsageError, match="precision float32, now float16; give --overwrite"):
        embed_store(store, encoder)


@pytest.mark.usefixtures("small")
def test_an_earlier_since_takes_over_what_is_there(
    tmp_path: Path, model: Path, encoder: Encoder
) -> None:
    def everything(vectors: Vectors) -> tuple[bytes, dict[str, Any]]:
        return (vectors.manifest.folder / "vectors.npy").read_bytes(), dict(vectors.manifest.body)

    whole = everything(embed_store(build_store(table(PAPERS), tmp_path / "whole"), encoder))
    store = build_store(table(PAPERS), tmp_path / "store")
    later = embed_store(store, encoder, since=dt.date(2023, 8, 1))
    assert later.manifest.integer("n_encoded") == 39
    with pytest.raises(UsageError, match="since"):
        stopping = Failing(model, device="cpu")
        stopping.error = UsageError("since")
        embed_store(store, stopping, since=dt.date(2023, 6, 11))
    assert store.vectors("tiny").since == dt.date(2023, 8, 1)
    seen: list[Progress] = []
    earlier = embed_store(store, encoder, since=dt.date(2023, 6, 11), progress=seen.append)
    assert (seen[-1].restored, earlier.since) == (39 + 16, dt.date(2023, 6, 11))
    assert everything(embed_store(store, encoder)) == whole
    assert store.vectors("tiny").fingerprint == Store.open(tmp_path / "whole").vectors().fingerprint


class Known:
    """Vectors that are known."""

    label = "known"
    counts: dict[str, int] = {}  # noqa: RUF012

    def __init__(
        self, identity: str, batches: list[tuple[NDArray[np.int64], NDArray[np.float32]]]
    ) -> None:
        self.identity, self.batches = identity, batches

    def __iter__(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        return iter(self.batches)


def unit(rows: NDArray[np.int64], seed: int) -> NDArray[np.float32]:
    found = np.random.default_rng(seed).standard_normal((len(rows), 32)).astype(np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


@pytest.mark.usefixtures("small")
def test_known_vectors_are_taken_over(tmp_path: Path, model: Path, encoder: Encoder) -> None:
    one, two = np.array([50, 3, 3, 7]), np.array([7, 8, 60, 0])
    a, b = unit(one, 1), unit(two, 2)
    known = [
        Known("a", [(one[:2], a[:2]), (one[2:], a[2:])]),
        Known("none", []),
        Known("b", [(two, b)]),
    ]
    rows = [row | ({"status": "retracted"} if i == 60 else {}) for i, row in enumerate(PAPERS)]
    store = build_store(table(rows), tmp_path / "store")
    failing = Failing(model, device="cpu")
    failing.error = EncoderError("no more")
    with pytest.raises(EncoderError, match="no more"):
        embed_store(store, failing, taken=known)
    known[0].batches.clear()  # what was taken is not read again
    seen: list[Progress] = []
    vectors = embed_store(store, encoder, taken=known, progress=seen.append)
    assert seen[-1].restored == 5 + 16
    np.testing.assert_array_equal(vectors.array[[50, 3, 7]], a[[0, 1, 3]])
    np.testing.assert_array_equal(vectors.array[[8, 0]], b[[1, 3]])
    assert not vectors.array[60].any()
    body = vectors.manifest.body
    assert (body["n_taken"], body["n_repeated"], body["n_encoded"]) == (5, 2, 94)
    assert body["taken"] == ["a", "none", "b"]
    expected = encoder.encode([(rows[99]["title"], rows[99]["abstract"])])[0]
    np.testing.assert_array_equal(vectors.array[99], expected)


def test_damaged_vectors_are_not_taken_over(tmp_path: Path, encoder: Encoder) -> None:
    store = build_store(table([paper(i) for i in range(6000)]), tmp_path / "store")
    rows = np.arange(6000)
    embed_store(
        store, encoder, since=dt.date(2023, 6, 5), taken=[Known("a", [(rows, unit(rows, 1))])]
    )
    with (store.path / "vectors" / "tiny" / "vectors.npy").open("r+b") as file:
        file.seek(80_003)  # a sign, between the blocks that are looked at when it is opened
        sign = file.read(1)[0]
        file.seek(80_003)
        file.write(bytes([sign ^ 0x80]))
    store.vectors("tiny")
    with pytest.raises(
        ArtefactError, match=r"vectors\.npy is not the file that its manifest names"
    ):
        embed_store(store, encoder)


def test_known_vectors_must_be_of_length_1(tmp_path: Path, encoder: Encoder) -> None:
    store = build_store(table(PAPERS), tmp_path / "store")
    rows = np.array([4, 5])
    for length in (0, 2):
        vectors = unit(rows, 1) * np.array([[1], [length]], np.float32)
        with pytest.raises(ArtefactError, match=f"known: row 1 has length {length}"):
            embed_store(store, encoder, taken=[Known("a", [(rows, vectors)])])


@pytest.mark.usefixtures("small")
def test_a_text_that_fails_is_named_by_its_paper(tmp_path: Path) -> None:
    weights = random_weights(np.random.default_rng(0), 32, 2)
    weights["embeddings.word_embeddings.weight"][vocabulary().index("q")] = np.nan
    save_file(weights, tmp_path / "weights")
    bad = tiny_model(tmp_path / "bad", weights=tmp_path / "weights")
    rows = [row | ({"title": "q"} if i == 44 else {}) for i, row in enumerate(PAPERS)]
    rows[1]["title"], rows[1]["abstract"] = rows[0]["title"], rows[0]["abstract"]
    store = build_store(table(rows), tmp_path / "store")
    encoder = load_encoder(bad, device="cpu")
    with pytest.raises(EncoderError, match=r"paper p0044: text 43 .*nan"):
        embed_store(store, encoder)
    assert (store.path / "vectors" / ".tiny.partial" / ".journal").exists()


def test_the_cost_is_foretold(tmp_path: Path, encoder: Encoder) -> None:
    store = build_store(table([paper(i) for i in range(700)]), tmp_path / "store")
    found: list[Forecast] = []
    vectors = embed_store(store, encoder, foretell=found.append)
    assert len(found) == 1 and (found[0].n_papers, found[0].n_done) == (700, 0)
    mean = vectors.manifest.integer("n_tokens") / 700
    assert abs(found[0].tokens_per_text / mean - 1) < 0.2
    assert 0 < found[0].seconds < 60
    small = build_store(table(PAPERS), tmp_path / "small")
    embed_store(small, encoder, foretell=found.append)
    assert len(found) == 1


class Quick(Encoder):
    """Says at short intervals that batches are done, as a GPU does."""

    def encode_chunks(
        self, chunks: Iterable[Sequence[tuple[str, str]]], progress: models.Progress | None = None
    ) -> Generator[models.Encoded]:
        for chunk in chunks:
            time.sleep(0.002)
            if progress is not None:
                progress(len(chunk), 100 * len(chunk))
            yield models.Encoded.empty(len(chunk), self.dim)


def test_the_cost_of_a_fast_encoder_is_foretold(tmp_path: Path, model: Path) -> None:
    store = build_store(table([paper(i) for i in range(300)]), tmp_path / "store")
    found = forecast(store, _papers.rows_wanted(store, None), Quick(model, device="cpu"))
    assert found is not None and 10_000 < found.tokens_per_second < 16 * 100 / 0.002


# The command line


def test_interrupted_then_run_again(tmp_path: Path, model: Path) -> None:
    store = build_store(table([paper(i) for i in range(2_500)]), tmp_path / "store")
    command = [sys.executable, "-m", "hindsight_fast", "embed", str(store.path)]
    command += ["--encoder", str(model), "--device", "cpu"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    journal = store.path / "vectors" / ".tiny.partial" / ".journal"
    for number in (signal.SIGINT, signal.SIGTERM):
        size = journal.stat().st_size if journal.exists() else 300
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
            while process.poll() is None:
                if journal.exists() and journal.stat().st_size > size:
                    process.send_signal(number)
                    break
                time.sleep(0.005)
            _, told = process.communicate()
        assert process.returncode == 128 + number
        assert b"what is done is kept, but for" in told
    again = subprocess.run([*command, "--json"], env=environment, capture_output=True, check=True)
    summary = json.loads(again.stdout)
    assert 512 <= summary["resumed"] < 2_500 and summary["n_encoded"] == 2_500
    assert b"are done already" in again.stderr
    assert (summary["precision"], summary["n_taken"], summary["n_retried"]) == ("float32", 0, 0)
    assert summary["tokens_per_second"] > 0
    assert embed_line(summary | {"worked": False}).startswith("nothing to do: 2,500 of 2,500")
