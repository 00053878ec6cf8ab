"""Vectors of the same texts are taken over from another store, and are those of encoding anew."""

import datetime as dt
import shutil
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hindsight_models as models
from hindsight_fast.encoders import Encoder, load_encoder
from hindsight_fast.encoding import embed_store
from hindsight_fast.errors import ArtefactError, EncoderError, UsageError
from hindsight_fast.store import (
    Store,
    build_store,
    carried_folder,
    carry_vectors,
    verify_store,
)
from paper_tables import paper, table
from tiny_model import tiny_model

OLD = [
    *(paper(i) for i in range(40)),
    paper(40, title=paper(3)["title"], abstract=paper(3)["abstract"]),
    paper(41, abstract=None, status="title_only"),
    paper(42, date=None, date_precision=None, date_kind=None),
]
NEW = [
    *(paper(i) for i in range(2, 38)),
    paper(3, id="q", date=dt.date(2021, 5, 5)),  # a text that is there, of a new paper
    paper(38, abstract="In other words."),
    paper(39, title=paper(40)["title"]),
    paper(42),  # has a date now, and had no vector before
    *(paper(i, date=dt.date(2020, 1, 1)) for i in range(50, 60)),
    paper(41, abstract="It has one now."),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


class Counting(Encoder):
    """Counts the texts that it is asked for; may stop."""

    n_texts = 0
    stop_at = 1 << 30

    def encode_chunks(
        self,
        chunks: Iterable[Sequence[tuple[str, str]]],
        progress: models.Progress | None = None,
    ) -> Generator[models.Encoded]:
        for encoded in super().encode_chunks(chunks, progress):
            self.n_texts += len(encoded.vectors)
            if self.n_texts > self.stop_at:
                raise EncoderError("no more")
            yield encoded


@pytest.fixture
def encoder(model: Path) -> Counting:
    return Counting(model, device="cpu")


@pytest.fixture
def old(tmp_path: Path, model: Path) -> Store:
    store = build_store(table(OLD), tmp_path / "old")
    embed_store(store, load_encoder(model, device="cpu"))
    return Store.open(tmp_path / "old")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Store:
    """The new papers, encoded without help."""
    store = build_store(table(NEW), tmp_path_factory.mktemp("scratch") / "store")
    embed_store(store, load_encoder(model, device="cpu"))
    return store


def same(store: Store, scratch: Store) -> bool:
    """Whether the vectors are those of the other store to the byte, and called the same."""
    ours, theirs = (one.vectors_folder("tiny") / "vectors.npy" for one in (store, scratch))
    assert store.vectors().fingerprint == scratch.vectors().fingerprint
    return ours.read_bytes() == theirs.read_bytes()


def test_only_what_is_new_is_encoded(
    tmp_path: Path, old: Store, scratch: Store, encoder: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:  # texts cleaned by another rule, which left these alone
        patch.setattr("hindsight_fast.store._build.TEXT_VERSION", old.text_version + 1)
        other = build_store(table(NEW), tmp_path / "other", reuse=old)
        assert other.content_id != scratch.content_id and other.carried() == {"tiny": 37}
    store = build_store(table(NEW), tmp_path / "new", reuse=old)
    assert store.carried() == {"tiny": 37}
    assert store.encoders() == []
    shutil.rmtree(old.path)
    assert verify_store(store.path)[-1] == "vectors of tiny, taken over"
    vectors = embed_store(store, encoder)
    assert encoder.n_texts == len(NEW) - 37
    assert vectors.manifest.integer("n_taken") == 37
    assert same(store, scratch)
    assert store.carried() == {} and [f.name for f in (store.path / "vectors").iterdir()] == [
        "tiny"
    ]


def test_a_store_may_be_replaced_by_one_that_reuses_it(
    old: Store, scratch: Store, encoder: Counting
) -> None:
    store = build_store(table(NEW), old.path, reuse=old, overwrite=True)
    embed_store(store, encoder, overwrite=True)
    assert encoder.n_texts == len(NEW) - 37 and same(store, scratch)


def test_a_store_that_is_replaced_leaves_its_vectors(
    tmp_path: Path, old: Store, scratch: Store, encoder: Counting, model: Path
) -> None:
    other = build_store(table(NEW[5:]), tmp_path / "other")
    embed_store(other, load_encoder(model, device="cpu"))
    store = build_store(table(NEW), tmp_path / "other", overwrite=True, reuse=old)
    assert store.carried() == {"tiny": 37}  # what was named comes first
    store = build_store(table(NEW), old.path, overwrite=True)
    embed_store(store, encoder, overwrite=True)
    assert encoder.n_texts == len(NEW) - 37 and same(store, scratch)
    file = store.vectors_folder("tiny") / "vectors.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    store = build_store(table(NEW[1:]), old.path, overwrite=True)
    assert store.carried() == {} and store.encoders() == []


def test_the_same_papers_have_their_vectors_at_once(tmp_path: Path, old: Store) -> None:
    fresh = [row | {"citations": 7} for row in OLD]
    store = build_store(table(fresh), tmp_path / "new", reuse=old)
    assert same(store, old)
    assert store.carried() == {}
    verify_store(store.path)
    other = build_store(table(OLD), tmp_path / "other")  # one that is there already
    assert other.encoders() == []
    assert same(build_store(table(OLD), tmp_path / "other", reuse=old), old)


def test_a_store_that_is_there_takes_vectors_over_later(
    tmp_path: Path, old: Store, scratch: Store, encoder: Counting
) -> None:
    store = build_store(table(NEW), tmp_path / "new")
    carry_vectors(old, store)
    carry_vectors(old, store)
    assert store.carried() == {"tiny": 37}
    chained = build_store(table(NEW[:-1]), tmp_path / "chained", reuse=store)
    assert chained.carried() == {"tiny": 37}
    # what waits outlives fresh counts
    fresh = build_store(table([row | {"citations": 7} for row in NEW]), store.path, overwrite=True)
    assert fresh.carried() == {"tiny": 37}
    embed_store(fresh, encoder)
    assert encoder.n_texts == len(NEW) - 37 and same(fresh, scratch)
    carry_vectors(old, fresh)
    assert fresh.carried() == {}


def test_what_is_damaged_is_refused(tmp_path: Path, old: Store, encoder: Counting) -> None:
    file = old.vectors_folder("tiny") / "vectors.npy"
    raw = bytearray(file.read_bytes())
    raw[-3] ^= 1
    file.write_bytes(raw)
    with pytest.raises(ArtefactError, match=r"vectors\.npy is not the file that its manifest"):
        build_store(table(NEW), tmp_path / "new", reuse=old)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["old"]
    raw[-3] ^= 1
    file.write_bytes(raw)
    store = build_store(table(NEW), tmp_path / "new", reuse=old)
    carried = carried_folder(store.path, "tiny") / "vectors.npy"
    carried.write_bytes(carried.read_bytes()[:-1])
    with pytest.raises(ArtefactError, match="--overwrite to encode all papers"):
        embed_store(store, encoder)
    embed_store(store, encoder, overwrite=True)
    assert encoder.n_texts == len(NEW) - 1 and store.carried() == {}


def test_vectors_of_other_papers_or_models_are_not_taken_over(tmp_path: Path, old: Store) -> None:
    strangers = [paper(i) for i in range(100, 110)]
    assert build_store(table(strangers), tmp_path / "strangers", reuse=old).carried() == {}
    store = build_store(table(NEW), tmp_path / "new", reuse=old)
    other = Counting(tiny_model(tmp_path / "tiny", dim=16), device="cpu")
    with pytest.raises(UsageError, match="other weights or another text rule; give --overwrite"):
        embed_store(store, other)
    embed_store(store, other, overwrite=True)
    assert other.n_texts == len(NEW) - 1 and store.carried() == {}


def test_what_is_not_asked_for_yet_is_kept(
    tmp_path: Path, old: Store, scratch: Store, encoder: Counting
) -> None:
    store = build_store(table(NEW), tmp_path / "new", reuse=old)
    since = dt.date(2023, 6, 1)
    part = embed_store(store, encoder, since=since)
    assert part.array.any(axis=1).sum() == len(NEW) - 11
    assert store.carried() == {"tiny": 37}
    embed_store(store, encoder)
    assert encoder.n_texts == len(NEW) - 37 and same(store, scratch)
    assert store.carried() == {}


def test_what_was_taken_over_survives_a_stop(
    tmp_path: Path, old: Store, scratch: Store, encoder: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindsight_models.encoder.CPU_CHUNK", 4)
    store = build_store(table(NEW), tmp_path / "new", reuse=old)
    encoder.stop_at = 6
    with pytest.raises(EncoderError, match="no more"):
        embed_store(store, encoder)
    seen = list[Any]()
    encoder.stop_at = 1 << 30
    embed_store(store, encoder, progress=seen.append)
    assert seen[-1].restored == 37 + 4
    assert same(store, scratch)


def test_a_text_without_a_vector_does_not_hide_one_that_has(
    tmp_path: Path, model: Path, encoder: Counting
) -> None:
    rows = [paper(1, date=dt.date(2019, 1, 1)), paper(2), paper(1, id="again")]
    old = build_store(table(rows), tmp_path / "old")
    embed_store(old, load_encoder(model, device="cpu"), since=dt.date(2020, 1, 1))
    store = build_store(table([*rows, paper(3)]), tmp_path / "new", reuse=old)
    assert store.carried() == {"tiny": 3}
    carried = store.carried_vectors("tiny")
    assert carried is not None and carried.since == dt.date(2020, 1, 1)
    np.testing.assert_array_equal(carried.array[0], carried.array[1])
    embed_store(store, encoder)
    assert encoder.n_texts == 1
