"""The cache of vectors: the same bits, shared by processes, bounded, and never wrong."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from hindsight_fast.encoders import Encoder, load_encoder
from hindsight_fast.encoding import VectorCache, encode_texts
from hindsight_fast.encoding import _database as database
from hindsight_fast.encoding._cache import vector_keys
from hindsight_fast.encoding._database import FILE, MIN_LIMIT, Database
from hindsight_fast.errors import ArtefactError, EncoderError, StorageError, UsageError
from hindsight_models import Encoded, Progress
from tiny_model import random_weights, tiny_model, vocabulary

Pair = tuple[str, str]

ODD: list[Pair] = [
    ("", ""),
    ("a model of data", ""),
    ("", "a model of data"),
    ("a model", "of data"),
    ("a model\0of data", "\0"),
    ("🙂🙃 the model 👩‍🔬", "🧪"),
    ("the graph", "neural model " * 3000),
    ("half of a pair \ud83d", "we learn"),
    ("a model", "of data"),
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tiny_model(tmp_path_factory.mktemp("cache") / "tiny")
    return load_encoder(folder, device="cpu", threads=2)


class Named:
    """An encoder under another name for its vectors, which counts what it encodes."""

    def __init__(
        self, inner: Encoder, *, fingerprint: str = "", precision: str = "", device: str = "cpu"
    ) -> None:
        self.inner, self.dim, self.device = inner, inner.dim, device
        self.chunk_size = inner.chunk_size
        self.fingerprint = fingerprint or inner.fingerprint
        self.precision = precision or inner.precision
        self.encoded = 0

    def encode_counted(self, pairs: Sequence[Pair], progress: Progress | None = None) -> Encoded:
        self.encoded += len(pairs)
        return self.inner.encode_counted(pairs, progress)

    def encode_chunks(
        self, chunks: Iterable[Sequence[Pair]], progress: Progress | None = None
    ) -> Generator[Encoded]:
        for chunk in chunks:
            yield self.encode_counted(chunk, progress)


def texts(n: int, start: int = 0) -> list[Pair]:
    return [(f"idea {i} of a model", "we learn data " * (i % 5)) for i in range(start, start + n)]


def same(one: Encoded, two: Encoded) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_cached_vectors_are_the_same_bits_whatever_the_text(
    encoder: Encoder, tmp_path: Path
) -> None:
    pairs = ODD + texts(600)
    plain = encode_texts(encoder, pairs)
    assert plain.truncated[6] and not plain.truncated[5]
    cache = VectorCache(tmp_path / "cache")
    assert same(encode_texts(encoder, pairs[:300], cache), plain.rows(np.arange(300)))
    assert same(encode_texts(encoder, pairs, cache), plain)
    assert (cache.use.hits, cache.use.misses) == (299, 299 + 309)  # one text comes twice
    cache.close()
    again, counting = VectorCache(tmp_path / "cache"), Named(encoder)
    assert same(encode_texts(counting, pairs, again), plain)
    assert counting.encoded == 0 and again.facts() == {
        "folder": str(tmp_path / "cache"),
        "hits": 608,
        "misses": 0,
        "damaged": 0,
        "trouble": None,
    }
    assert encode_texts(encoder, [], again).vectors.shape == (0, encoder.dim)


def test_vectors_are_known_by_text_weights_precision_and_kind_of_device(
    encoder: Encoder, tmp_path: Path
) -> None:
    assert len(set(vector_keys(encoder, ODD))) == len(set(ODD))
    cache = VectorCache(tmp_path / "cache")
    others = [
        Named(encoder),
        Named(encoder, fingerprint="another"),
        Named(encoder, precision="float16"),
        Named(encoder, device="cuda:0"),
    ]
    for other in others:
        encode_texts(other, texts(5), cache)
        assert other.encoded == 5
    elsewhere = Named(encoder, device="cuda:1")
    encode_texts(elsewhere, texts(5), cache)
    assert elsewhere.encoded == 0


def test_what_was_encoded_before_a_failure_is_kept(encoder: Encoder, tmp_path: Path) -> None:
    class Failing(Named):
        def encode_counted(
            self, pairs: Sequence[Pair], progress: Progress | None = None
        ) -> Encoded:
            if self.encoded:
                raise RuntimeError("no more")
            return super().encode_counted(pairs, progress)

    cache = VectorCache(tmp_path / "cache")
    with pytest.raises(RuntimeError, match="no more"):
        encode_texts(Failing(encoder), texts(300), cache)
    counting = Named(encoder)
    encode_texts(counting, texts(300), cache)
    assert counting.encoded == 300 - 256


def test_a_text_that_fails_is_told_by_its_beginning(tmp_path: Path) -> None:
    weights = random_weights(np.random.default_rng(0), 32, 2)
    weights["embeddings.word_embeddings.weight"][vocabulary().index("q")] = np.nan
    save_file(weights, tmp_path / "weights")
    bad = load_encoder(tiny_model(tmp_path / "bad", weights=tmp_path / "weights"), device="cpu")
    cache, good = VectorCache(tmp_path / "cache"), texts(3)
    encode_texts(bad, good, cache)
    for how in (cache, None):
        with pytest.raises(EncoderError, match=r"the text 'q of a model': text \d got .*nan"):
            encode_texts(bad, [*good, ("", "q of a model"), *texts(2, 9)], how)


def test_damaged_rows_are_misses_and_are_mended(encoder: Encoder, tmp_path: Path) -> None:
    pairs = texts(40)
    plain, cache = encode_texts(encoder, pairs), VectorCache(tmp_path / "cache")
    encode_texts(encoder, pairs, cache)
    with sqlite3.connect(tmp_path / "cache" / FILE) as rows:
        stored = rows.execute("SELECT rowid, value FROM vectors ORDER BY rowid").fetchall()
        wrong: list[object] = []
        for place in (0, 5, 6, 40, -1):  # the count, a vector, the checksum
            flipped = bytearray(stored[len(wrong)][1])
            flipped[place] ^= 1
            wrong.append(bytes(flipped))
        wrong += [b"", stored[9][1], stored[0][1][:-1], "text", 7, stored[0][1] * 2]
        for (row, _), value in zip(stored, wrong, strict=False):
            rows.execute("UPDATE vectors SET value = ? WHERE rowid = ?", (value, row))
    rows.close()
    assert same(encode_texts(encoder, pairs, cache), plain)
    assert cache.use.misses == 40 + 11 and cache.trouble is None
    assert cache.use.damaged == 9  # a text or a number is no row at all
    counting = Named(encoder)
    assert same(encode_texts(counting, pairs, cache), plain) and counting.encoded == 0


def test_a_vector_that_is_not_unit_is_not_kept(tmp_path: Path) -> None:
    cache, keys = VectorCache(tmp_path / "cache"), [b"a" * 16, b"b" * 16, b"c" * 16]
    encoded = Encoded.empty(3, 4)
    encoded.vectors[:] = np.array([[0, 1, 0, 0], [0, 1.01, 0, 0], [0, np.nan, 0, 0]])
    cache.add(keys, encoded)
    assert cache.fill(keys, Encoded.empty(3, 4)) == [1, 2]


@pytest.mark.parametrize("harm", ["no database", "cut", "zeros"])
def test_a_damaged_file_has_a_sentence_or_is_given_up(
    encoder: Encoder, tmp_path: Path, harm: str
) -> None:
    pairs, file = texts(200), tmp_path / "cache" / FILE
    plain, cache = encode_texts(encoder, pairs), VectorCache(tmp_path / "cache")
    encode_texts(encoder, pairs, cache)
    cache.close()
    whole = file.read_bytes()
    harmed = {
        "no database": b"these are no vectors\n" * 900,
        "cut": whole[: len(whole) // 2],
        "zeros": whole[:16_384] + bytes(len(whole) - 16_384),
    }[harm]
    file.write_bytes(harmed)
    try:
        again = VectorCache(tmp_path / "cache")
    except ArtefactError as error:
        assert "remove" in str(error) and harm != "zeros"
        return
    assert same(encode_texts(encoder, pairs, again), plain)
    assert again.trouble is not None and "damaged" in again.trouble


def test_only_our_own_folders_are_taken(tmp_path: Path) -> None:
    (tmp_path / "papers.jsonl").write_text("mine")
    with pytest.raises(UsageError, match=r"holds papers\.jsonl and is no cache"):
        VectorCache(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["papers.jsonl"]
    with pytest.raises(UsageError, match="is a file"):
        VectorCache(tmp_path / "papers.jsonl")
    with pytest.raises(StorageError, match="as a cache"):
        VectorCache(tmp_path / "papers.jsonl" / "cache")
    (tmp_path / "other").mkdir()
    with sqlite3.connect(tmp_path / "other" / FILE) as foreign:
        foreign.execute("CREATE TABLE vectors (mine)")
    foreign.close()
    with pytest.raises(UsageError, match="no cache of this version"):
        VectorCache(tmp_path / "other")
    with pytest.raises(UsageError, match="expected at least"):
        VectorCache(tmp_path / "small", limit=1000)


def test_its_size_is_bounded_and_the_oldest_used_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, value = Database(tmp_path, MIN_LIMIT), os.urandom(3100)
    now = [0]
    monkeypatch.setattr(database, "hour", lambda: now[0])
    keys = [f"{i:016}".encode() for i in range(9000)]
    for start in range(0, 9000, 500):
        now[0] += 1
        rows.write([(key, value) for key in keys[start : start + 500]])
        assert len(rows.read(keys[:200])) == 200  # used all the time
        assert (tmp_path / FILE).stat().st_size <= MIN_LIMIT
    here = rows.read(keys)
    assert set(keys[-3000:]) <= set(here) and not set(keys[200:2000]) & set(here)
    rows.close()
    assert (tmp_path / FILE).stat().st_size > 0.8 * MIN_LIMIT


def test_a_cache_that_fails_later_is_given_up_and_nothing_else(
    encoder: Encoder, tmp_path: Path
) -> None:
    cache = VectorCache(tmp_path / "cache")
    with sqlite3.connect(tmp_path / "cache" / FILE) as rows:
        rows.execute("DROP TABLE vectors")
    rows.close()
    assert same(encode_texts(encoder, texts(5), cache), encode_texts(encoder, texts(5)))
    assert cache.trouble is not None and "could not use the cache" in cache.trouble
    assert same(encode_texts(encoder, texts(5), cache), encode_texts(encoder, texts(5)))


_WORKER = """
import sys
sys.path[:0] = sys.argv[4:]
from pathlib import Path
from hindsight_fast.encoders import load_encoder
from hindsight_fast.encoding import VectorCache, encode_texts
from test_cache import texts
encoder = load_encoder(Path(sys.argv[1]), device="cpu", threads=1)
cache = VectorCache(sys.argv[2])
print("open", flush=True)
for start in map(int, sys.argv[3].split(",")):
    found = encode_texts(encoder, texts(300, start), cache)
    if (found.vectors != encoder.encode(texts(300, start))).any():
        sys.exit("another vector")
sys.exit(cache.trouble)
"""


def worker(encoder: Encoder, folder: Path, starts: Sequence[int], before: str = "") -> list[str]:
    order = ",".join(map(str, starts))
    return [sys.executable, "-c", before + _WORKER, str(encoder.folder), str(folder), order]


def start(command: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*command, *sys.path, str(Path(__file__).parent)], stdout=-1)


def test_processes_share_it_and_one_may_be_killed(encoder: Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "cache"  # made by all of them at once
    places = list(range(0, 750, 150))
    doomed = start(worker(encoder, folder, list(range(10_000, 90_000, 300))))
    others = [start(worker(encoder, folder, places[i:] + places[:i])) for i in (0, 2)]
    assert doomed.stdout is not None and doomed.stdout.readline() == b"open\n"
    time.sleep(0.3)
    doomed.send_signal(signal.SIGKILL)
    assert [other.wait(60) for other in others] == [0, 0]
    assert doomed.wait(10) == -signal.SIGKILL
    for process in (doomed, *others):
        assert process.stdout is not None
        process.stdout.close()
    counting = Named(encoder)
    found = encode_texts(counting, texts(900), VectorCache(folder))
    assert counting.encoded == 0
    assert same(found, encode_texts(encoder, texts(900)))


def test_a_full_disk_ends_the_cache_and_not_the_run(encoder: Encoder, tmp_path: Path) -> None:
    before = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
    )
    command = worker(encoder, tmp_path / "cache", range(0, 3000, 300), before)
    done = subprocess.run(
        [*command, *sys.path, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1 and "could not use the cache" in done.stderr
    assert "another vector" not in done.stderr


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_threads_and_forks_use_it_at_once(encoder: Encoder, tmp_path: Path) -> None:
    cache, wrong = VectorCache(tmp_path / "cache"), list[int]()
    plain = encode_texts(encoder, texts(50))

    def use(first: int) -> None:
        for _ in range(10):
            at = np.arange(first, first + 20)
            found = encode_texts(encoder, [texts(50)[i] for i in at], cache)
            wrong.extend([first] * (not same(found, plain.rows(at))))

    threads = [threading.Thread(target=use, args=(first,)) for first in (0, 10, 20, 30)]
    for thread in threads:
        thread.start()
    children = list[int]()
    for _ in range(3):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                counts = cache.fill(vector_keys(encoder, texts(50)), Encoded.empty(50, encoder.dim))
                code = 0 if len(counts) <= 50 and cache.trouble is None else 2
            finally:
                os._exit(code)
        children.append(child)
    for thread in threads:
        thread.join()
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    assert not wrong and cache.trouble is None
    assert not cache.fill(vector_keys(encoder, texts(50)), Encoded.empty(50, encoder.dim))


def test_damage_that_is_quoted_is_told(tmp_path: Path) -> None:
    VectorCache(tmp_path / "c").close()
    path = tmp_path / "c" / "vectors.sqlite"
    raw = path.read_bytes()
    damaged = raw.replace(b"CREATE TABLE vectors", b"CREATE TABLE vect\x82rs")
    assert damaged != raw
    path.write_bytes(damaged)  # SQLite's message has that byte, and then Python can't read it
    with pytest.raises(ArtefactError, match="is damaged"):
        VectorCache(tmp_path / "c")
