"""Published vectors: read, joined, checked, taken over; everything else refused in words."""

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard
from numpy.typing import NDArray
from typer.testing import CliRunner, Result

import hindsight_fast.published._lines as lines_module
from hindsight_fast.cli import app
from hindsight_fast.encoders import Encoder, load_encoder
from hindsight_fast.encoding import embed_store
from hindsight_fast.errors import DataError, UsageError
from hindsight_fast.published import MAX_BAD, PublishedFile, check_published, open_published
from hindsight_fast.published._check import draw
from hindsight_fast.published._vectors import to_unit
from hindsight_fast.store import Store, Vectors, build_store
from paper_tables import paper, table
from tiny_model import tiny_model

ROOT = Path(__file__).resolve().parent.parent
N = 12
F32 = NDArray[np.float32]


def papers(n: int = N) -> list[dict[str, Any]]:
    """All have a corpus id; some a DOI or an arXiv id; the last one has no abstract."""
    rows = [
        paper(
            i,
            corpus_id=1000 + i,
            doi=f"10.1234/x.{i}" if i % 2 else None,
            arxiv_id=f"2306.{10000 + i}" if i % 3 else None,
        )
        for i in range(n)
    ]
    rows[-1] |= {"abstract": None, "status": "title_only"}
    return rows


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def encoder(model: Path) -> Encoder:
    return load_encoder(model, device="cpu", threads=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return build_store(table(papers()), tmp_path / "store")


@pytest.fixture(scope="module")
def raw(encoder: Encoder) -> F32:
    """What another would publish for papers 0, 1, ...: not of unit length."""
    pairs = [(one["title"], one["abstract"] or "") for one in papers()]
    return encoder.encode(pairs) * np.float32(22.5)


def text_of(vector: F32) -> str:
    """As Semantic Scholar writes vectors: each float32 as the decimals of a float64."""
    return str(vector.astype(float).tolist())


def shard_record(number: int, values: F32, **facts: Any) -> dict[str, Any]:
    return {
        "corpusid": 1000 + number,
        "model": "tiny",
        "vector": text_of(values),
        "updated": "2024-01-01T00:00:00Z",
    } | facts


def write(path: Path, records: Sequence[object]) -> Path:
    """JSON lines, compressed as the name says; text stands for itself."""
    raw_lines = [
        r if isinstance(r, bytes) else json.dumps(r, separators=(",", ":")).encode()
        for r in records
    ]
    data = b"\n".join([*raw_lines, b""])
    if path.suffix == ".gz":
        data = gzip.compress(data, 1)
    elif path.suffix == ".zst":
        data = zstandard.compress(data)
    path.write_bytes(data)
    return path


def shard(path: Path, raw: F32, numbers: Sequence[int], **facts: Any) -> Path:
    return write(path, [shard_record(i, raw[i], **facts) for i in numbers])


def read_all(file: PublishedFile) -> dict[int, F32]:
    """Vectors by row."""
    found = dict[int, F32]()
    for rows, vectors in file:
        assert vectors.dtype == np.float32 and rows.dtype == np.int64
        found |= dict(zip(rows.tolist(), vectors, strict=True))
    return found


def opened(files: Sequence[Path], store: Store, encoder: Encoder, **options: Any) -> PublishedFile:
    [one] = open_published(files, store, encoder.card, **options)
    return one


def counted(file: PublishedFile) -> dict[str, int]:
    """What was counted and isn't 0."""
    return {k.removeprefix("published_"): n for k, n in file.counts.items() if n}


def embedded(
    store: Store, encoder: Encoder, files: Sequence[Path], *, force: bool = False
) -> Vectors:
    taken = open_published(files, store, encoder.card)
    check = partial(check_published, store, encoder, force=force)
    return embed_store(
        store, encoder, taken=taken, check=lambda rows, read: check(rows, read).facts()
    )


def test_what_is_published_is_taken_and_the_rest_encoded(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32
) -> None:
    one = shard(tmp_path / "one.jsonl", raw, [3, 0, 5])
    two = shard(tmp_path / "20240101_two.gz", raw, [5, 7, 11])
    vectors = embedded(store, encoder, [one, two])
    body = vectors.manifest.body
    assert (body["n_taken"], body["n_repeated"], body["n_encoded"]) == (4, 1, N - 1 - 4)
    direct = embed_store(build_store(table(papers()), tmp_path / "other"), encoder)
    np.testing.assert_allclose(vectors.array, direct.array, atol=2e-7)
    taken = body["taken_counts"]
    assert (taken["published_records"], taken["published_by_corpus_id"]) == (6, 6)
    check = body["check"]
    assert (check["n"], check["passed"], check["far"]) == (4, True, {})
    assert check["cosine_min"] > 0.999999 and check["similarity_error"] < 1e-6


@pytest.mark.parametrize("form", ["text", "list", "spaced", "api", "newline", "reordered"])
def test_a_vector_may_be_written_in_several_ways(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32, form: str
) -> None:
    numbers = raw[4].astype(float).tolist()
    text = json.dumps(shard_record(4, raw[4]))
    record: Any = {
        "text": shard_record(4, raw[4]),
        "list": shard_record(4, raw[4], vector=numbers),
        "spaced": text.replace('"vector":', '"vector" \t: ').replace(", ", " ,  ").encode(),
        "api": {
            "paperId": "abc",
            "externalIds": {"CorpusId": 1004},
            "abstract": 'with a \\"vector\\": [1] in it',
            "embedding": {"model": "tiny", "vector": numbers},
        },
        "newline": shard_record(4, raw[4], vector=text_of(raw[4]).replace(", ", ",\n")),
        "reordered": {"vector": text_of(raw[4]), "model": "tiny", "corpusid": "CorpusId:1004"},
    }[form]
    file = opened([write(tmp_path / "one.jsonl", [record])], store, encoder)
    found = read_all(file)
    np.testing.assert_array_equal(list(found), [4])
    np.testing.assert_array_equal(found[4], to_unit(raw[4:5])[0][0])
    assert counted(file) == {"records": 1, "by_corpus_id": 1}


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        ({"doi": "https://doi.org/10.1234/X.7"}, "doi"),
        ({"externalIds": {"DOI": "10.1234/x.7"}}, "doi"),
        ({"arxiv_id": "arXiv:2306.10007v3"}, "arxiv_id"),
        ({"externalIds": {"ArXiv": "2306.10007"}}, "arxiv_id"),
        ({"doi": "10.48550/arXiv.2306.10007"}, "arxiv_id"),
        ({"id": "p0007"}, "id"),
        ({"corpusid": 1, "doi": "10.1234/x.7"}, "doi"),
        ({"corpusId": 1007, "doi": "10.1234/x.5"}, "corpus_id"),
        ({"corpusid": 0, "doi": "", "id": "p0007"}, "id"),
        ({"id": "1007"}, "corpus_id"),
        ({"id": "10.1234/X.7"}, "doi"),
        ({"paper_id": "2306.10007v2"}, "arxiv_id"),
    ],
)
def test_papers_are_known_by_each_id(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32, ids: dict[str, Any], kind: str
) -> None:
    record = {"model": "tiny", "vector": text_of(raw[7]), **ids}
    file = opened([write(tmp_path / "one.jsonl", [record])], store, encoder)
    assert list(read_all(file)) == [7]
    assert counted(file) == {"records": 1, f"by_{kind}": 1}
    columns = {name.lower(): [value] for name, value in ids.items() if name != "externalIds"}
    if columns:
        columns |= {"vector": [record["vector"]]}
        pl.DataFrame(columns).write_parquet(tmp_path / "one.parquet")
        file = opened([tmp_path / "one.parquet"], store, encoder)
        assert list(read_all(file)) == [7]
        assert counted(file) == {"records": 1, "unnamed": 1, f"by_{kind}": 1}


def test_an_id_of_several_papers_is_nobodys(tmp_path: Path, encoder: Encoder, raw: F32) -> None:
    rows = papers()
    for i in (2, 3):
        rows[i]["corpus_id"] = 77
    store = build_store(table(rows), tmp_path / "store")
    records = [shard_record(i, raw[i], corpusid=c) for i, c in ((2, 77), (4, 1004))]
    file = opened([write(tmp_path / "one.jsonl", records)], store, encoder)
    assert list(read_all(file)) == [4]
    assert counted(file) == {"records": 2, "not_in_store": 1, "by_corpus_id": 1}


@pytest.mark.parametrize("kind", ["array32", "list32", "list64", "text", "integers"])
def test_a_table_of_vectors(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32, kind: str
) -> None:
    vectors = np.rint(raw * 1000).astype(np.float32) if kind == "integers" else raw
    column = {
        "array32": pl.Series(vectors),
        "list32": pl.Series(vectors.tolist(), dtype=pl.List(pl.Float32)),
        "list64": pl.Series(vectors.astype(float).tolist(), dtype=pl.List(pl.Float64)),
        "text": pl.Series([text_of(v) for v in vectors]),
        "integers": pl.Series(vectors.astype(int).tolist(), dtype=pl.List(pl.Int32)),
    }[kind]
    frame = pl.DataFrame(
        {"corpus_id": np.arange(1000, 1000 + N), "vector": column, "model": "tiny"}
    )
    frame.write_parquet(tmp_path / "one.parquet")
    file = opened([tmp_path / "one.parquet"], store, encoder)
    found = read_all(file)
    assert sorted(found) == list(range(N))
    np.testing.assert_allclose(
        np.stack([found[i] for i in range(N)]), to_unit(vectors)[0], atol=1e-7, rtol=0
    )
    assert counted(file) == {"records": N, "by_corpus_id": N}


def test_bad_rows_of_a_table_are_counted(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32
) -> None:
    values: list[Any] = raw[:6].tolist()
    values[0], values[1], values[2][3] = None, [1.0], None
    values[3] = [0.0] * encoder.dim
    frame = pl.DataFrame(
        {"corpusid": ["1000", "1001", "1002", "1003", None, "CorpusId:1005"], "vector": values}
    )
    frame.write_parquet(tmp_path / "one.parquet")
    file = opened([tmp_path / "one.parquet"], store, encoder, max_bad=1)
    assert list(read_all(file)) == [5]
    assert counted(file) == {
        "records": 6, "unnamed": 6, "by_corpus_id": 1, "bad_no_vector": 1, "bad_wrong_length": 1,
        "bad_not_finite": 1, "bad_zero": 1, "bad_no_id": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"title": ["a"], "vector": [[1.0]]}, "has the columns title, vector; expected are vector"),
        ({"doi": ["a"], "v": [[1.0]]}, "has the columns doi, v; expected"),
        ({"doi": ["a"], "vector": [1.0]}, "the column 'vector' holds Float64; expected are lists"),
        ({"doi": ["a"], "vector": [["x"]]}, r"holds List\(String\)"),
    ],
)
def test_a_table_without_what_is_needed_is_refused(
    tmp_path: Path, store: Store, encoder: Encoder, columns: dict[str, Any], told: str
) -> None:
    pl.DataFrame(columns).write_parquet(tmp_path / "one.parquet")
    with pytest.raises(DataError, match=told):
        read_all(opened([tmp_path / "one.parquet"], store, encoder))


def test_another_model_is_refused_by_file_and_line(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32
) -> None:
    records = [shard_record(0, raw[0]), b"", shard_record(1, raw[1], model="specter@v0.1.1")]
    path = write(tmp_path / "one.gz", records)
    told = r"one.gz, line 3: .* model 'specter@v0.1.1'; those of tiny are published as 'tiny'"
    with pytest.raises(DataError, match=told):
        read_all(opened([path], store, encoder))
    frame = pl.DataFrame(
        {"corpus_id": [1000, 1001], "vector": raw[:2].tolist(), "model": ["tiny", "other"]}
    )
    frame.write_parquet(tmp_path / "one.parquet")
    with pytest.raises(DataError, match=r"one.parquet, record 2: .* model 'other'"):
        read_all(opened([tmp_path / "one.parquet"], store, encoder))


def test_the_old_model_of_the_real_sample_is_refused(
    shared: Path, store: Store, encoder: Encoder
) -> None:
    folder = shared / "data/raw/s2_bulk/embeddings"
    with pytest.raises(DataError, match=r"sample.jsonl, line 1: .* 'specter@v0.1.1'; those of"):
        embedded(store, encoder, [folder])


def test_names_of_the_card_are_accepted(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32
) -> None:
    import dataclasses

    card = dataclasses.replace(encoder.card, published_as=("specter_v2", "other"))
    path = shard(tmp_path / "one.jsonl", raw, [0], model="specter_v2")
    [file] = open_published([path], store, card)
    assert list(read_all(file)) == [0]
    path = shard(tmp_path / "one.jsonl", raw, [0], model=["x"])
    [file] = open_published([path], store, card)
    with pytest.raises(DataError, match="published as 'specter_v2' or 'other' or 'tiny'"):
        read_all(file)


HOSTILE: list[tuple[bytes, str]] = [
    (b"[" * 100_000, "unreadable"),
    (b'{"corpusid":1000,"vector":' + b"[" * 100_000 + b"}", "unreadable"),
    (b'{"corpusid":1000,"model":"tiny","vector":"' + b"[" * 50_000 + b'"}', "not_numbers"),
    (b'{"corpusid":1000,"model":"tiny","vector":"[1, 2"}', "not_numbers"),
    (b'{"corpusid":1000,"model":"tiny","vector":"[1 2]"}', "not_numbers"),
    (b'{"corpusid":1000,"model":"tiny","vector":"[[1],2]"}', "not_numbers"),
    (b'{"corpusid":1000,"model":"tiny","vector":[true]}', "not_numbers"),
    (b'{"corpusid":1000,"model":"tiny","vector":{"a":1}}', "not_numbers"),
    (b'{"corpusid":1000,"model":"tiny","vector":"[]"}', "wrong_length"),
    (b'{"corpusid":1000,"model":"tiny","vector":"[1.5,2]"}', "wrong_length"),
    (b'{"corpusid":1000,"model":"tiny","vector":""}', "no_vector"),
    (b'{"corpusid":1000,"model":"tiny","vector":null}', "no_vector"),
    (b'{"corpusid":1000,"model":"tiny"}', "no_vector"),
    (b'{"model":"tiny","vector":"[1]"}', "no_id"),
    (b'{"corpusid":"x","model":"tiny","vector":"[1]"}', "no_id"),
    (b'{"corpusid":' + b"9" * 5000 + b',"vector":"[1]"}', "unreadable"),
    (b'{"corpusid":1000,"vector":"[1]"', "unreadable"),
    (b'{"corpusid":1000,"vector":"[1]"} {}', "unreadable"),
    (b'{"corpusid":NaN,"vector":"[1]"}', "unreadable"),
    (b'\xff{"corpusid":1000}', "unreadable"),
    (b"\x00\x01", "unreadable"),
    (b"null", "unreadable"),
]


@pytest.mark.parametrize(("line", "reason"), HOSTILE)
def test_a_hostile_line_costs_only_itself(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32, line: bytes, reason: str
) -> None:
    records = [shard_record(0, raw[0]), line, shard_record(2, raw[2])]
    file = opened([write(tmp_path / "one.jsonl", records)], store, encoder)
    assert list(read_all(file)) == [0, 2]
    assert file.counts["published_records"] == 3
    assert file.counts[f"published_bad_{reason}"] == 1


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        ("NaN", "not_finite"), ("Infinity", "not_finite"), ("-Infinity", "not_finite"),
        ("1e39", "not_finite"), ("1e400", "not_finite"), ("9" * 400, "not_finite"),
        ("9" * 4000, "not_finite"), ("0x10", "not_numbers"), ("", "not_numbers"),
        ("null", "not_numbers"), ("1e5", None), ("1e-320", None), ("-0", None),
        ("16777217.0000001", None), ("123456789012345678901234567890", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("quoted", [True, False])
def test_numbers_that_no_program_should_write(
    tmp_path: Path,
    store: Store,
    encoder: Encoder,
    raw: F32,
    number: str,
    reason: str | None,
    quoted: bool,
) -> None:
    inner = "[" + ", ".join([*["0.5"] * (encoder.dim - 1), number]) + "]"
    text = f'"{inner}"' if quoted else inner
    odd = f'{{"corpusid":1001,"model":"tiny","vector":{text}}}'.encode()
    file = opened([write(tmp_path / "one.jsonl", [shard_record(0, raw[0]), odd])], store, encoder)
    found = read_all(file)
    if reason is None:
        right = np.array([[0.5] * (encoder.dim - 1) + [float(number)]]).astype(np.float32)
        np.testing.assert_array_equal(found[1], to_unit(right)[0][0])
    else:
        spelled = number in ("NaN", "Infinity", "-Infinity")  # no JSON, but in a text
        assert counted(file)[f"bad_{'not_numbers' if spelled and not quoted else reason}"] == 1


def test_a_line_that_is_too_long_is_one_bad_record(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 3000)
    monkeypatch.setattr(lines_module, "_BLOCK", 1000)
    for length in (2500, 3100, 4500, 20_000):
        long = b'{"x":"' + b"y" * length + b'"}'
        records = [shard_record(0, raw[0]), long, shard_record(1, raw[1]), long, b"{"]
        file = opened([write(tmp_path / "one.jsonl", records)], store, encoder, max_bad=1)
        assert list(read_all(file)) == [0, 1]
        reason = "no_id" if length < 3000 else "too_long"
        assert counted(file)[f"bad_{reason}"] == 2
        assert file.counts["published_bad_unreadable"] == 1
        assert file.counts["published_records"] == 5


def test_blocks_do_not_change_what_is_read(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shard(tmp_path / "one.zst", raw, range(N))
    whole = read_all(opened([path], store, encoder))
    for block in (1, 100, 1777):
        monkeypatch.setattr(lines_module, "_BLOCK", block)
        cut = read_all(opened([path], store, encoder, threads=2))
        assert list(cut) == list(whole) == list(range(N))
        np.testing.assert_array_equal(list(cut.values()), list(whole.values()))


def test_too_many_bad_records_are_refused_with_examples(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32
) -> None:
    good = [shard_record(i, raw[i]) for i in range(8)]
    path = write(tmp_path / "one.jsonl", [*good, b"{", shard_record(9, raw[9][:5])])
    told = (
        r"one.jsonl: 2 of 10 records are of no use \(1 of no JSON object, 1 of a vector of another "
        r"length; allowed is a share of 0.01\):\n  line 9: .*\n  line 10: .*5 numbers, 32 were"
    )
    with pytest.raises(DataError, match=told):
        read_all(opened([path], store, encoder))
    file = opened([path], store, encoder, max_bad=0.2)
    assert sorted(read_all(file)) == list(range(8))
    with pytest.raises(DataError, match="1 of 1 records are of no use"):
        read_all(opened([write(tmp_path / "one.jsonl", [b"{"])], store, encoder))
    one_bad = write(tmp_path / "one.jsonl", [*good, b"{"])
    assert len(read_all(opened([one_bad], store, encoder, max_bad=MAX_BAD))) == 8
    with pytest.raises(DataError, match="1 of 9"):
        read_all(opened([one_bad], store, encoder, max_bad=0))
    with pytest.raises(UsageError, match="a share of 2 bad records"):
        opened([path], store, encoder, max_bad=2)


def test_a_file_without_hope_is_not_read_to_its_end(
    tmp_path: Path, store: Store, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "_BLOCK", 4000)
    bad = b'{"corpusid":1000,"model":"tiny","vector":"[1]"}'
    path = write(tmp_path / "one.jsonl", [bad] * 20_000)
    with pytest.raises(DataError, match=r"one.jsonl: 1[0-9]{3} of 1[0-9]{3} records"):
        read_all(opened([path], store, encoder))


def test_repeats_and_strangers_are_counted(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32
) -> None:
    records = [
        shard_record(3, raw[3]),
        shard_record(3, raw[4]),
        shard_record(7, raw[7], corpusid=None, doi="10.1234/x.7"),
        shard_record(0, raw[0], corpusid=5),
        shard_record(0, raw[0][:3], corpusid=6),  # not looked at
    ]
    file = opened([write(tmp_path / "one.jsonl", records)], store, encoder)
    found = read_all(file)
    np.testing.assert_array_equal(found[3], to_unit(raw[3:4])[0][0])
    assert counted(file) == {
        "records": 5, "repeated": 1, "not_in_store": 2, "by_corpus_id": 1, "by_doi": 1,
    }  # fmt: skip


def test_files_that_are_none(tmp_path: Path, store: Store, encoder: Encoder, raw: F32) -> None:
    def refused(path: Path, told: str) -> None:
        with pytest.raises(DataError, match=told):
            read_all(opened([path], store, encoder))

    refused(tmp_path / "missing.gz", "no such file")
    (tmp_path / "empty.jsonl").touch()
    refused(tmp_path / "empty.jsonl", "is empty")
    (tmp_path / "blank.jsonl").write_text("{}\n")
    refused(tmp_path / "blank.jsonl", "1 of 1 records are of no use")
    (tmp_path / "a.jsonl").write_text('[{"corpusid":1}]')
    refused(tmp_path / "a.jsonl", "expected are JSON lines")
    whole = shard(tmp_path / "cut.gz", raw, range(N)).read_bytes()
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    refused(tmp_path / "cut.gz", "damaged or cut short")
    (tmp_path / "flipped.gz").write_bytes(whole[:300] + b"\x00\xff" * 20 + whole[340:])
    refused(tmp_path / "flipped.gz", "damaged or cut short|no JSON object")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1" + b"0" * 40)
    refused(tmp_path / "cut.parquet", "no whole parquet file")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "no regular file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "README.txt").write_text("{}")
    refused(tmp_path / "folder", "folder without files that end in")


def test_a_folder_is_its_shards_each_once(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32
) -> None:
    folder = tmp_path / "shards"
    (folder / "inner").mkdir(parents=True)
    two = shard(folder / "inner" / "b_00002.gz", raw, [2])
    shard(folder / "a_00001.jsonl", raw, [1])
    shard(folder / ".c.jsonl", raw, [3])
    (folder / "README.txt").write_text("about")
    (tmp_path / "link.gz").symlink_to(two)
    files = open_published([folder, two, tmp_path / "link.gz"], store, encoder.card)
    assert [file.path.name for file in files] == ["a_00001.jsonl", "b_00002.gz"]
    assert [list(read_all(file)) for file in files] == [[1], [2]]


def test_a_file_is_known_by_what_it_holds(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32
) -> None:
    one = shard(tmp_path / "one.jsonl", raw, [0, 1])
    before = opened([one], store, encoder).identity
    moved = one.rename(tmp_path / "moved.jsonl")
    assert opened([moved], store, encoder).identity == before
    shard(moved, raw, [0, 2])
    assert opened([moved], store, encoder).identity != before


def test_vectors_of_another_model_are_found_out(
    tmp_path: Path, store: Store, encoder: Encoder
) -> None:
    other = load_encoder(tiny_model(tmp_path / "other", seed=5), device="cpu", threads=1)
    wrong = other.encode([(one["title"], one["abstract"] or "") for one in papers()])
    path = shard(tmp_path / "one.jsonl", wrong, range(6))
    told = r"not those of tiny: of 6 papers .* the mean must be 0.999, .*They were made by another"
    with pytest.raises(DataError, match=told):
        embedded(store, encoder, [path])
    assert store.encoders() == []
    vectors = embedded(store, encoder, [path], force=True)
    check = vectors.manifest.body["check"]
    assert (check["passed"], check["n"]) == (False, 6)
    np.testing.assert_allclose(vectors.array[:6], to_unit(wrong[:6])[0], atol=1e-7)


def test_papers_with_another_text_are_named(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32
) -> None:
    changed = raw.copy()
    changed[4] += 1.5 * np.linalg.norm(raw[4]) * np.eye(encoder.dim, dtype=np.float32)[3]
    path = shard(tmp_path / "one.jsonl", changed, range(10))
    with pytest.raises(
        DataError, match=r"Half of them agree \(median 1.0.*1 are far off \(p0004\)"
    ):
        embedded(store, encoder, [path])
    vectors = embedded(store, encoder, [path], force=True)
    assert list(vectors.manifest.body["check"]["far"]) == ["p0004"]


def test_the_same_papers_are_drawn_each_time() -> None:
    rows = np.arange(5, 100_000, 3)
    drawn = draw(rows, 256)
    assert drawn.size == 256 and (np.diff(drawn) > 0).all()
    np.testing.assert_array_equal(drawn, draw(rows, 256))
    assert np.isin(drawn, rows).all() and 30_000 < np.median(drawn) < 70_000
    assert np.isin(draw(rows[::2], 256), drawn).sum() > 64  # those that are left are drawn again
    np.testing.assert_array_equal(draw(rows[:7], 256), rows[:7])


def test_unit_vectors() -> None:
    odd = np.array([[3, 4], [0, -0.0], [np.nan, 1], [np.inf, 1], [1e-45, 0], [3e38, 3e38]])
    for dtype in (np.float32, np.float64):
        units, finite, nonzero = to_unit(odd.astype(dtype))
        assert finite.tolist() == [True, True, False, False, True, True]
        assert (nonzero | ~finite).tolist() == [True, False, True, True, True, True]
        good = units[finite & nonzero]
        right = np.array([[0.6, 0.8], [1, 0], [0.5**0.5, 0.5**0.5]])
        np.testing.assert_allclose(good, right, atol=1e-7)


KILLED = """
import os, signal, sys
from pathlib import Path
from hindsight_fast.encoders import load_encoder
from hindsight_fast.encoding import embed_store
from hindsight_fast.published import open_published
from hindsight_fast.store import Store

class Dying:
    def __init__(self, file): self.file = file
    def __getattr__(self, name): return getattr(self.file, name)
    def __iter__(self):
        for batch in self.file:
            yield batch
            os.kill(os.getpid(), signal.SIGKILL)

store, encoder = Store.open(sys.argv[1]), load_encoder(sys.argv[2], device="cpu", threads=1)
one, two = open_published([Path(p) for p in sys.argv[3:5]], store, encoder.card)
embed_store(store, encoder, taken=[one, Dying(two)])
"""


class Watched(PublishedFile):
    """Remembers whether it was read."""

    was_read = False

    def __iter__(self) -> Iterator[tuple[NDArray[np.int64], F32]]:  # type: ignore[override] # pyright: ignore
        self.was_read = True
        return super().__iter__()


def test_a_killed_job_goes_on_at_the_file_it_was_at(
    tmp_path: Path, store: Store, model: Path, encoder: Encoder, raw: F32
) -> None:
    files = [
        shard(tmp_path / "one.gz", raw, [0, 3, 6]),
        write(tmp_path / "two.gz", [shard_record(i, raw[i]) for i in (6, 9)] + [b"{"]),
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(store.path), str(model), *map(str, files)]
    ended = subprocess.run(command, env=environment, cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL
    taken = open_published(files, store, encoder.card)
    for one in taken:
        one.__class__ = Watched
    resumed = embed_store(store, encoder, taken=taken)
    assert [getattr(one, "was_read", None) for one in taken] == [False, True]

    other = build_store(table(papers()), tmp_path / "other")
    straight = embed_store(other, encoder, taken=open_published(files, other, encoder.card))
    np.testing.assert_array_equal(resumed.array, straight.array)
    assert resumed.fingerprint == straight.fingerprint
    counts = resumed.manifest.body["taken_counts"]
    assert counts == straight.manifest.body["taken_counts"]
    assert (counts["published_records"], counts["published_bad_unreadable"]) == (6, 1)
    assert resumed.manifest.body["n_repeated"] == 1


def test_other_files_do_not_go_on_with_unfinished_work(
    tmp_path: Path, store: Store, encoder: Encoder, raw: F32
) -> None:
    one = shard(tmp_path / "one.jsonl", raw, [0, 1])

    def fail(rows: NDArray[np.int64], read: Callable[..., Any]) -> dict[str, Any]:
        raise DataError("no")

    with pytest.raises(DataError, match="no"):
        embed_store(store, encoder, taken=open_published([one], store, encoder.card), check=fail)
    with pytest.raises(UsageError, match="vectors taken over"):
        embed_store(store, encoder)
    assert embed_store(store, encoder, overwrite=True).manifest.body["n_taken"] == 0


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["embed", *map(str, arguments)])


def test_the_command_line_tells_what_was_taken(
    tmp_path: Path, store: Store, model: Path, encoder: Encoder, raw: F32
) -> None:
    one = shard(tmp_path / "one.jsonl", raw, [*range(5), 5])
    frame = pl.DataFrame({"doi": ["10.1234/x.7", "10.1/no"], "vector": raw[[7, 7]].tolist()})
    frame.write_parquet(tmp_path / "two.parquet")
    with one.open("ab") as file:
        file.write(b"{\n")
    arguments = (store.path, "--encoder", model, "--device", "cpu", "--from-vectors", one)
    done = run(*arguments, tmp_path / "two.parquet")
    assert done.exit_code == 0, done.output
    for line in (
        "7 of 12 papers have a published vector (6 by corpus id, 1 by DOI)",
        "9 records were read: 1 of papers that the store lacks, 1 bad (unreadable)",
        "warning: 2 records don't say which model made their vector",
        "7 of them encoded again: cosine mean 1.000000, median 1.000000, 5% 1.000000",
        "encoded 4 of 12 papers of",
        "encoding 7 of 7 papers with a published vector, to compare",
    ):
        assert line in done.output
    again = run(*arguments, "--json")
    summary = json.loads(again.stdout)
    assert (summary["worked"], summary["n_taken"], summary["check"]["n"]) == (False, 7, 7)
    assert summary["taken_counts"]["published_records"] == 9


def test_the_command_line_refuses_and_is_forced(
    tmp_path: Path, store: Store, model: Path, encoder: Encoder, raw: F32
) -> None:
    path = shard(tmp_path / "one.jsonl", raw[::-1], range(6))
    arguments = (store.path, "--encoder", model, "--device", "cpu", "--from-vectors", path)
    refused = run(*arguments)
    assert isinstance(refused.exception, DataError) and "--force" in str(refused.exception)
    assert store.encoders() == []
    forced = run(*arguments, "--force")
    assert "warning: these are not the model's own vectors; taken because" in forced.output
    assert "far below the mean" in forced.output
    assert store.vectors("tiny").manifest.body["n_taken"] == 6


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["extra.gz"], "extra.gz: one store is expected"), (["--force"], "name them with --from")],
)
def test_options_that_need_files(store: Store, arguments: list[str], told: str) -> None:
    done = run(store.path, *arguments)
    assert isinstance(done.exception, UsageError) and told in str(done.exception)
