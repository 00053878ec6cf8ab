"""Papers to vectors: each row its own text's, equal texts once, whole or not there."""

import datetime as dt
import socket
import sys
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import hindsight_models as models
from hindsight_fast import encoders, model_folders
from hindsight_fast.encoders import Encoder, load_encoder
from hindsight_fast.encoding import Progress, embed_store, encode_texts
from hindsight_fast.errors import ArtefactError, EncoderError, StorageError, UsageError
from hindsight_fast.store import Store, build_store, verify_store
from paper_tables import paper, table
from tiny_model import tiny_model

ROOT = Path(__file__).resolve().parent.parent
ROWS = [
    paper(1),
    paper(2, title=paper(1)["title"], abstract=paper(1)["abstract"]),  # the same text again
    paper(3, abstract=None, status="title_only"),
    paper(4, status="retracted"),
    paper(5, date=None, date_precision=None, date_kind=None),
    paper(6, title=""),
    paper(7),
    paper(8, date=dt.date(2020, 1, 1)),
]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def encoder(model: Path) -> Encoder:
    return load_encoder(model, device="cpu")


class Counting(Encoder):
    """Counts the texts that it is asked for."""

    n_texts = 0

    def encode_chunks(
        self,
        chunks: Iterable[Sequence[tuple[str, str]]],
        progress: models.Progress | None = None,
    ) -> Generator[models.Encoded]:
        for encoded in super().encode_chunks(chunks, progress):
            self.n_texts += len(encoded.vectors)
            yield encoded


def expected_vectors(store: Store, encoder: Encoder, since: dt.date) -> NDArray[np.float32]:
    """One paper at a time."""
    array = np.zeros((store.n, encoder.dim), np.float32)
    for row, one in enumerate(store.papers().iter_rows(named=True)):
        if one["status"] == "ok" and one["title"] and one["date"] and one["date"] >= since:
            array[row] = encoder.encode([(one["title"], one["abstract"])])[0]
    return array


def test_each_row_is_its_own_text(tmp_path: Path, model: Path, encoder: Encoder) -> None:
    store = build_store(table(ROWS), tmp_path / "store")
    counting = Counting(model, device="cpu")
    seen: list[Progress] = []
    vectors = embed_store(store, counting, progress=seen.append)
    assert counting.n_texts == 3
    assert (seen[-1].done, seen[-1].total, seen[-1].restored) == (4, 4, 0)
    assert seen[-1].tokens == vectors.manifest.integer("n_tokens") > 0
    np.testing.assert_array_equal(vectors.array, expected_vectors(store, encoder, dt.date.min))
    assert vectors.manifest.integer("n_encoded") == 4
    assert vectors.manifest.integer("n_texts") == 3
    assert (vectors.encoder, vectors.dim, vectors.theta) == ("tiny", 32, 0.9)
    assert vectors.encoder_fingerprint == encoder.fingerprint
    assert store.encoders() == ["tiny"]
    assert "vectors of tiny" in verify_store(tmp_path / "store")
    again = embed_store(Store.open(tmp_path / "store"), counting)
    assert counting.n_texts == 3
    np.testing.assert_array_equal(again.array, vectors.array)


def test_chunks_do_not_matter(
    tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [paper(i, title=f"t {i % 7}", abstract=f"a {i % 5}") for i in range(60)]
    one, two = (build_store(table(rows), tmp_path / name) for name in ("one", "two"))
    whole = embed_store(one, encoder)
    monkeypatch.setattr("hindsight_models.encoder.CPU_CHUNK", 7)
    parts = embed_store(two, encoder)
    np.testing.assert_array_equal(parts.array, whole.array)
    assert parts.manifest.integer("n_texts") == 35


def test_vectors_that_are_right_are_kept_in_spite_of_overwrite(tmp_path: Path, model: Path) -> None:
    counting = Counting(model, device="cpu")
    store = build_store(table(ROWS), tmp_path / "store")
    embed_store(store, counting)
    store = build_store(table(ROWS), tmp_path / "store", overwrite=True)
    whole = np.array(embed_store(store, counting, overwrite=True).array)
    assert counting.n_texts == 3
    file = store.vectors_folder("tiny") / "vectors.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(ArtefactError):
        embed_store(store, counting)
    np.testing.assert_array_equal(embed_store(store, counting, overwrite=True).array, whole)
    assert counting.n_texts == 6
    counting.theta = 0.5  # of a newer card: the vectors are to recommend it
    assert embed_store(store, counting, overwrite=True).theta == 0.5


def rebuilt(store: Store, number: int, **facts: object) -> Store:
    """The store again, with other facts of one paper."""
    rows = [row | facts if i == number else row for i, row in enumerate(ROWS)]
    return build_store(table(rows), store.path, overwrite=True)


def test_vectors_outlive_fresh_counts(tmp_path: Path, encoder: Encoder) -> None:
    store = build_store(table(ROWS), tmp_path / "store")
    old = embed_store(store, encoder)
    fresh = rebuilt(store, 0, citations=999, venue="ICML", citations_as_of=dt.date(2026, 1, 1))
    assert fresh.facts_id != store.facts_id
    assert fresh.vectors("tiny").fingerprint == old.fingerprint
    np.testing.assert_array_equal(fresh.vectors().array, old.array)
    assert "vectors of tiny" in verify_store(store.path)
    assert {f.name for f in tmp_path.iterdir()} == {"store"}
    (store.path / "dates.npy").write_bytes(b"cut")
    assert rebuilt(store, 0, citations=999, venue="ICML", citations_as_of=dt.date(2026, 1, 1))
    assert "vectors of tiny" in verify_store(store.path)


@pytest.mark.parametrize(
    "facts",
    [{"title": "Other"}, {"date": dt.date(2023, 6, 2), "id": "p0"}, {"status": "retracted"}],
)
def test_vectors_of_what_is_encoded_otherwise_go(
    tmp_path: Path, encoder: Encoder, facts: dict[str, object]
) -> None:
    store = build_store(table(ROWS), tmp_path / "store")
    embed_store(store, encoder)
    assert rebuilt(store, 0, **facts).encoders() == []


def test_damaged_vectors_are_not_taken_over(tmp_path: Path, encoder: Encoder) -> None:
    store = build_store(table(ROWS), tmp_path / "store")
    embed_store(store, encoder)
    (store.vectors_folder("tiny") / "vectors.npy").write_bytes(b"cut")
    store = rebuilt(store, 0, citations=999)
    assert store.encoders() == []
    assert embed_store(store, encoder).array.any()


def test_since_leaves_older_papers_out(tmp_path: Path, encoder: Encoder) -> None:
    store = build_store(table(ROWS), tmp_path / "store")
    day = dt.date(2023, 6, 3)
    vectors = embed_store(store, encoder, since=day)
    np.testing.assert_array_equal(vectors.array, expected_vectors(store, encoder, day))
    assert vectors.since == day
    later = embed_store(store, encoder, since=dt.date(2023, 6, 4))  # these are there
    assert later.fingerprint == vectors.fingerprint
    full = embed_store(store, encoder)
    assert full.since is None
    np.testing.assert_array_equal(full.array, expected_vectors(store, encoder, dt.date.min))


def test_another_model_of_the_same_name_is_refused(
    tmp_path: Path, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = build_store(table(ROWS), tmp_path / "store")
    embed_store(store, encoder)
    other = load_encoder(tiny_model(tmp_path / "other", seed=1), device="cpu")
    with pytest.raises(UsageError, match="--overwrite"):
        embed_store(store, other)
    named = load_encoder(tiny_model(tmp_path / "named", seed=1, name="named"), device="cpu")
    embed_store(store, named)
    assert store.encoders() == ["named", "tiny"]
    with pytest.raises(UsageError, match="named, tiny; name one"):
        store.vectors()


def test_vectors_of_other_papers_are_refused(tmp_path: Path, encoder: Encoder) -> None:
    stores = [
        build_store(table(rows), tmp_path / name)
        for name, rows in [("a", ROWS), ("b", [*ROWS[1:], paper(9)]), ("c", ROWS[1:])]
    ]
    for store in stores:
        embed_store(store, encoder)
    (tmp_path / "a" / "vectors").rename(tmp_path / "old")
    (tmp_path / "b" / "vectors").rename(tmp_path / "a" / "vectors")
    with pytest.raises(ArtefactError, match="other papers"):
        stores[0].vectors()
    (tmp_path / "c" / "vectors").rename(tmp_path / "b" / "vectors")
    with pytest.raises(ArtefactError, match="row count mismatch, 7 vectors for 8 papers"):
        stores[1].vectors()


def test_an_empty_store_has_vectors(tmp_path: Path, encoder: Encoder) -> None:
    store = build_store(table([]), tmp_path / "store")
    assert embed_store(store, encoder).array.shape == (0, 32)
    assert embed_store(store, encoder).manifest.integer("n_encoded") == 0


def test_one_process_encodes_at_a_time(tmp_path: Path, encoder: Encoder) -> None:
    store = build_store(table(ROWS), tmp_path / "store")

    def meanwhile(_: Progress) -> None:
        with pytest.raises(StorageError, match="another process is writing"):
            embed_store(Store.open(store.path), encoder)

    assert embed_store(store, encoder, progress=meanwhile).array.any()


def test_nothing_asks_the_network(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no network")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    store = build_store(table(ROWS), tmp_path / "store")
    assert embed_store(store, load_encoder(model, device="cpu")).array.any()


def test_texts_are_encoded_once_and_scattered(encoder: Encoder) -> None:
    pairs = [("b", "x"), ("a", "y"), ("b", "x"), ("", "z"), ("a", "y")]
    found = encode_texts(encoder, pairs)
    alone = [encoder.encode([pair])[0] for pair in pairs]
    np.testing.assert_array_equal(found.vectors, np.array(alone))
    assert found.n_tokens[0] == found.n_tokens[2] and found.truncated.shape == (5,)
    assert encode_texts(encoder, []).vectors.shape == (0, 32)


def test_models_are_found_by_name_or_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path))
    assert model_folders.installed_models() == []
    with pytest.raises(EncoderError, match="`hindsight-fast models get minilm` fetches it"):
        load_encoder("minilm")
    with pytest.raises(EncoderError, match=r"known are .*minilm"):
        load_encoder("nowhere/at all")
    tiny_model(tmp_path / "models" / "tiny")
    assert model_folders.installed_models() == ["tiny"]
    encoder = load_encoder("tiny", device="cpu")
    assert encoder.name == "tiny" and encoder.flops_per_text > 1e6
    rows = {row["name"]: row for row in model_folders.known_models()}
    assert rows["tiny"]["installed"] and rows["tiny"]["dim"] == 32
    assert not rows["minilm"]["installed"]
    facts = model_folders.verify_model("tiny")
    assert (facts["n_golden"], facts["worst_cosine"]) == (0, None)
    (tmp_path / "models" / "tiny" / "tokenizer.json").write_text("{}")
    with pytest.raises(EncoderError, match=r"tokenizer\.json"):
        load_encoder("tiny")
    with pytest.raises(EncoderError, match="no encoder is known"):
        model_folders.get_model("unheard-of")


def test_the_engine_is_named_or_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert encoders.engine().startswith("onnxruntime 1.")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EncoderError, match="pip install 'hindsight-fast"):
        encoders.engine()


def test_a_disk_that_refuses_a_model_is_no_fault_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path / "file"))
    with pytest.raises(StorageError, match=r"could not write .*minilm"):
        model_folders.get_model("minilm")


def test_threads_are_those_that_the_process_may_use(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int | None] = []

    def usable(threads: int | None) -> int:
        asked.append(threads)
        return 1

    monkeypatch.setattr(encoders, "usable_threads", usable)
    pairs = [("a", "b")]
    encoder = load_encoder(model, device="cpu", threads=64)
    assert asked == [64] and encoder.encode(pairs).shape == (1, 32)
    assert encoder.threads == 1
    monkeypatch.undo()
    with pytest.raises(UsageError, match="--threads 0"):
        load_encoder(model, device="cpu", threads=0)
