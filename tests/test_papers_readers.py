"""Forms of files: what is read, what is a reject, what is refused."""

import gzip
import json
import tracemalloc
from datetime import date, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard

from hindsight_fast.errors import DataError, UsageError
from hindsight_fast.papers import PaperTable, read_papers
from hindsight_fast.papers.readers import streams, tables, values

PAPERS: list[dict[str, Any]] = [
    {"id": "1", "title": "A title, with 'signs'", "abstract": 'He said "so".\nTwice.', "year": 2023,
     "authors": "Ada Bee; C. Dee", "venue": "ICLR 2023", "citations": 12, "date": "2023-05-01"},
    {"id": "2", "title": "Größe and Ω", "abstract": "Two.", "year": None, "authors": None,
     "venue": None, "citations": None, "date": "2024-02"},
]  # fmt: skip


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def json_lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def csv_text(rows: list[dict[str, Any]] = PAPERS) -> str:
    frame = pl.DataFrame(rows, schema_overrides={"year": pl.Int32, "citations": pl.Int64})
    return frame.write_csv()


def forms() -> dict[str, bytes]:
    parquet = BytesIO()
    pl.DataFrame(PAPERS, infer_schema_length=None).write_parquet(parquet)
    jsonl, csv = json_lines(*PAPERS).encode(), csv_text().encode()
    return {
        "a.jsonl": jsonl,
        "a.json": json.dumps(PAPERS, indent=1).encode(),
        "b.json": json.dumps({"papers": PAPERS}).encode(),
        "lines.json": jsonl,
        "a.csv": csv,
        "bom.csv": b"\xef\xbb\xbf" + csv.replace(b"\n", b"\r\n"),
        "bom.jsonl": b"\xef\xbb\xbf" + jsonl.replace(b"\n", b"\r\n\r\n"),
        "a.jsonl.gz": gzip.compress(jsonl[:50]) + gzip.compress(jsonl[50:]),
        "a.csv.zst": zstandard.compress(csv[:50]) + zstandard.compress(csv[50:]),
        "a.json.zst": zstandard.compress(json.dumps(PAPERS).encode()),
        "wrong.csv": jsonl,
        "wrong.parquet": csv,
        "no_ending": csv,
        "a.parquet": parquet.getvalue(),
        "one_line.json": json.dumps({row["id"]: row for row in PAPERS}).encode(),
        "one_line_without_ending": json.dumps({"version": 1, "papers": PAPERS}).encode() + b"\n\n",
        "pretty_without_ending": json.dumps({"papers": PAPERS}, indent=1).encode(),
        "by_id.json": json.dumps({row["id"]: row for row in PAPERS}, indent=1).encode(),
        "key_papers.jsonl": json_lines(*({**row, "papers": ["x"]} for row in PAPERS)).encode(),
        "key_papers.json": json_lines(*({**row, "papers": [{"a": 1}]} for row in PAPERS)).encode(),
        "blank_lines.csv": b"\n\n" + csv,
    }


@pytest.mark.parametrize("name", list(forms()))
def test_every_form_gives_the_same_table(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, forms()[name])
    table = read_papers([path])
    expected = read_papers([write(tmp_path / "expected.jsonl", json_lines(*PAPERS))])
    assert table.papers.drop("source").equals(expected.papers.drop("source"))
    first, second = table.papers.to_dicts()
    assert first["authors"] == ["Ada Bee", "C. Dee"] and second["authors"] is None
    assert first["abstract"] == 'He said "so". Twice.'
    assert (first["venue"], first["citations"], second["citations"]) == ("ICLR", 12, None)
    assert second["title"] == "Größe and Ω" and second["date"] == date(2024, 2, 1)


def test_typed_parquet(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "id": [1.0, 2.5],
            "title": pl.Series(["A b", "C d"], dtype=pl.Categorical),
            "date": [datetime(2023, 6, 1, 3), None],
            "year": [float("nan"), 2022.0],
            "citations": [12.0, 12.9],
            "authors": [[{"name": "A B", "age": 1}, {"name": "C D", "age": 2}], []],
            "field": [["cs.CL", "cs.AI"], None],
            "corpus_id": pl.Series([7, None], dtype=pl.UInt64),
            "abstract": pl.Series([None, None], dtype=pl.Null),
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    table = read_papers([tmp_path / "a.parquet"])
    first, second = table.papers.to_dicts()
    assert (first["id"], second["id"]) == ("1", "2.5")
    assert (first["date"], second["date"]) == (date(2023, 6, 1), date(2022, 1, 1))
    assert (first["citations"], second["citations"]) == (12, None)
    assert (first["authors"], second["authors"]) == (["A B", "C D"], None)
    assert (first["field"], first["corpus_id"]) == ("cs.CL; cs.AI", 7)
    assert table.counts["malformed_citations"] == 1


def rejects(table: PaperTable) -> dict[int, str]:
    return dict(table.rejects.select("line", "reason").rows())


def test_bad_json_lines_are_rejects(tmp_path: Path) -> None:
    good = [json.dumps({"id": i, "title": f"Number {i} of many"}) for i in range(3)]
    bad = [
        b'{"id": "x", "citations": NaN}',
        b'{"title": "cut',
        b'["a list"]',
        b'{"title": "caf\xe9"}',
        b"[" * 100_000,
        b'{"title": "x", "citations": ' + b"9" * 5000 + b"}",
        b'{"title": {"text": "x"}}',
        b'{"title": "x", "venue": [["y"]]}',
        b'{"title": "  "}',
        b'{"abstract": "no title"}',
        b"\x00\x00",
    ]
    texts = [good[0].encode(), *bad, good[1].encode(), b"", good[2].encode()]
    table = read_papers([write(tmp_path / "a.jsonl", b"\n".join(texts))], max_bad=1)
    assert table.counts["n_in"] == len(good) + len(bad)
    assert table.papers["id"].to_list() == ["0", "1", "2"]
    found = rejects(table)
    assert list(found) == list(range(2, 2 + len(bad)))
    for line, part in enumerate(
        ["NaN", "not JSON", "not an object", "not UTF-8 at byte 15", "nested", "not JSON",
         "title is no text", "venue is no text", "no title", "no title", "not JSON"], start=2
    ):  # fmt: skip
        assert part in found[line]
    assert table.rejects["record"].str.len_chars().max() == 200


def test_one_bad_line_does_not_end_the_file(tmp_path: Path) -> None:
    texts = [json.dumps({"id": str(i), "title": f"Number {i}"}) for i in range(200)]
    texts[100] = '{"id": "x", "citations": NaN}'
    table = read_papers([write(tmp_path / "a.jsonl", "\n".join(texts))])
    assert (table.counts["n_papers"], table.counts["n_rejects"]) == (199, 1)


def test_a_column_may_come_late(tmp_path: Path) -> None:
    rows = [
        {"title": f"Number {i}"} | ({"abstract": f"About {i}."} if i > 120 else {})
        for i in range(1, 151)
    ]
    table = read_papers([write(tmp_path / "a.jsonl", json_lines(*rows))])
    assert table.papers["abstract"].count() == 30


def test_odd_values_in_json(tmp_path: Path) -> None:
    row = (
        '{"id": 5, "title": "old", "title": "The last one counts \\ud800", "abstract": "a\\u0000b",'
        ' "year": 2023.0, "citations": 1e400, "authors": [{"name": "A B"}, "C D", null, 3],'
        ' "doi": "nonsense", "more": {"deep": []}}'
    )
    table = read_papers([write(tmp_path / "a.jsonl", row)])
    (paper,) = table.papers.to_dicts()
    assert (paper["id"], paper["title"]) == ("5", "The last one counts \ufffd")
    assert (paper["abstract"], paper["year"], paper["citations"]) == ("a b", 2023, None)
    assert paper["authors"] == ["A B", "C D"]
    assert table.ignored == ("more",)
    assert table.counts["malformed_citations"] == table.counts["malformed_doi"] == 1


def test_bad_csv_records_are_rejects(tmp_path: Path) -> None:
    text = (
        b'id,title,abstract\n1,"A ""quoted""\ntitle",x\n2,ragged\n3,one,too,many\n\n'
        b'4,C two,"unclosed\n5,D,y\n6,E,"z"\n7,F good,w\n8,caf\xe9,w\n9,G good,w\n'
    )
    table = read_papers([write(tmp_path / "a.csv", text)], max_bad=1)
    assert table.papers["id"].to_list() == ["1", "7", "9"]
    assert table.papers["title"][0] == 'A "quoted" title'
    found = rejects(table)
    assert list(found) == [4, 5, 7, 11]
    assert found[4] == "2 fields, the header has 3" and "lines 7 to 9" in found[7]
    assert "not UTF-8 at byte 6" in found[11]


def test_an_unclosed_quote_does_not_eat_the_file(tmp_path: Path) -> None:
    rows = "".join(f"{i},Title {i} of these,{'words ' * 20}\n" for i in range(5000))
    text = 'id,title,abstract\nx,"unclosed title,y\n' + rows
    table = read_papers([write(tmp_path / "a.csv", text)])
    assert table.counts["n_rejects"] == 1
    assert table.counts["n_papers"] > 3500


REFUSED: dict[str, tuple[bytes, str]] = {
    "empty.jsonl": (b"", "is empty"),
    "blank.jsonl": (b"\n \n", "holds no record"),
    "header.csv": (b"id,title\n", "holds no record"),
    "other.csv": (b"name,text\na,b\n", "has no column 'title': it has name, text"),
    "other.jsonl": (b'{"name": "a"}\n', "has no column 'title'"),
    "semicolon.csv": (b"id;title\n1;a\n", "no comma"),
    "twice.csv": (b"id,id,title\n1,2,a\n", "'id' more than once"),
    "cut.json": (b'[{"title": "a"}, {"ti', "not whole JSON"),
    "none.json": (b'{"papers": []}', "holds no record"),
    "deep.json": (b"[" * 100_000, "nested too deeply"),
    "number.json": (b"[1]", "none of 1 records"),
    "cut.jsonl.gz": (gzip.compress(b'{"title": "a b"}\n' * 999)[:-9], "cut short"),
    "cut.jsonl.zst": (zstandard.compress(b'{"title": "a b"}\n' * 999)[:-9], "cut short"),
    "damaged.csv.gz": (b"\x1f\x8b" + b"x" * 50, "damaged"),
    "damaged.csv.zst": (b"\x28\xb5\x2f\xfd" + b"x" * 50, "damaged"),
    "cut.parquet": (b"PAR1" + b"x" * 99, "its end is missing"),
    "damaged.parquet": (b"PAR1" + b"x" * 99 + b"PAR1", "damaged parquet"),
    "utf16.csv": ("id,title\n1,a\n".encode("utf-16"), "UTF-16"),
    "noise.bin": (bytes(range(1, 44)) * 9, "no table"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    content, reason = REFUSED[name]
    with pytest.raises(DataError, match=reason) as error:
        read_papers([write(tmp_path / name, content)])
    assert str(tmp_path / name) in str(error.value)


def test_struct_column_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"title": [{"text": "a"}]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="column 'title' is Struct"):
        read_papers([tmp_path / "a.parquet"])


def test_folder_missing_and_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder"):
        read_papers([tmp_path])
    with pytest.raises(DataError, match="no such file"):
        read_papers([tmp_path / "absent.jsonl"])
    path = write(tmp_path / "a.jsonl", '{"title": "a b"}')
    with pytest.raises(UsageError, match=r"no format 'word'; there are: auto, .*own"):
        read_papers([path], format="word")


def test_a_very_long_line_is_a_reject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LONGEST_LINE", 100)
    long = json.dumps({"title": "x" * 300})
    exact = json.dumps({"title": "y" * 87})
    assert len(exact) == 100
    content = f'{{"title": "one"}}\n{long}\n{{"title": "two"}}\n'
    table = read_papers([write(tmp_path / "a.jsonl", content)])
    assert table.counts["n_papers"] == 2 and list(rejects(table)) == [2]
    for row in ("x" * 300, f'1,"{"x" * 300}"', f'1,"a\n{"x" * 300}\nb"'):
        text = f"id,title\n0,Number 0\n{row}\n2,Number 2\n"
        table = read_papers([write(tmp_path / "a.csv", text)], max_bad=1)
        assert table.papers["id"].to_list() == ["0", "2"]
        assert list(rejects(table)) == [3] and "longer than 100 bytes" in rejects(table)[3]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.json.zst"])
def test_json_in_one_piece_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    content = json.dumps({"papers": PAPERS}).encode()
    packed = {"json": content, "gz": gzip.compress(content), "zst": zstandard.compress(content)}
    path = write(tmp_path / name, packed[name.rpartition(".")[2]])
    monkeypatch.setattr(values, "LARGEST_VALUE", len(content))
    assert read_papers([path]).counts["n_papers"] == 2
    monkeypatch.setattr(values, "LARGEST_VALUE", len(content) - 1)
    with pytest.raises(DataError, match=r"holds more than .* one record per line"):
        read_papers([path])
    write(path, gzip.compress(json.dumps(PAPERS).encode()))  # of an array, each element is one
    assert read_papers([path]).counts["n_papers"] == 2


def test_what_expands_enormously_is_read_in_steps(tmp_path: Path) -> None:
    """128 MiB of spaces in 4 KiB, and never more than a part of it at once."""
    spaces = zstandard.compress(b" " * (128 << 20))
    path = write(tmp_path / "a.jsonl.zst", spaces + zstandard.compress(b'\n{"title": "a b"}'))
    assert path.stat().st_size < 5_000
    with streams.open_bytes(path) as stream:
        tracemalloc.start()
        n = sum(len(piece) for piece in iter(lambda: stream.read(1 << 20), b""))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert n == (128 << 20) + 17 and peak < 100 << 20


def test_batches_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": str(i), "title": f"Number {i}", "abstract": "x" * i} for i in range(50)]
    path = write(tmp_path / "a.jsonl", json_lines(*rows))
    parquet = tmp_path / "a.parquet"
    pl.DataFrame(rows).write_parquet(parquet)
    whole = read_papers([path]).papers.drop("source")
    monkeypatch.setattr(tables, "BATCH_RECORDS", 7)
    seen: list[int] = []
    assert read_papers([path], progress=seen.append).papers.drop("source").equals(whole)
    assert seen == [7] * 7 + [1]
    assert read_papers([parquet]).papers.drop("source").equals(whole)
    monkeypatch.setattr(tables, "BATCH_BYTES", 100)
    assert read_papers([path]).papers.drop("source").equals(whole)
