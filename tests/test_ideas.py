"""Idea files: names of fields, forms of files, bad records in their places."""

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hindsight_fast.errors import DataError, UsageError
from hindsight_fast.ideas import (
    IDEA_SCHEMA,
    Idea,
    _row,  # pyright: ignore[reportPrivateUsage]
    count_ideas,
    find_idea,
    ideas_at,
    ideas_frame,
    read_ideas,
)

GOOD: dict[str, Any] = {"id": "a", "system": "s", "title": "A title", "method": "A method."}


def read(path: Path, **options: Any) -> pl.DataFrame:
    return pl.concat(read_ideas(path, **options))


def lines(path: Path, *records: object) -> Path:
    text = "\n".join(r if isinstance(r, str) else json.dumps(r) for r in records)
    path.write_text(text + "\n")
    return path


def test_bad_records_stay_in_their_places(tmp_path: Path) -> None:
    file = lines(tmp_path / "i.jsonl", GOOD, "{not json", [1], "", {**GOOD, "id": "b"})
    table = read(file)
    assert dict(table.schema) == IDEA_SCHEMA
    assert table["idea_id"].to_list() == ["a", "#2", "#3", "b"]
    assert table["status"].to_list() == ["ok", "unreadable", "unreadable", "ok"]
    with pytest.raises(DataError, match="line 2"):
        read(file, strict=True)


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
def test_batches_say_the_same_whatever_their_size(tmp_path: Path, batch: int) -> None:
    records: list[object] = [{"text": f"idea number {i} of a few"} for i in range(7)]
    table = read(lines(tmp_path / "i.jsonl", *records), batch=batch)
    assert table["idea_id"].to_list() == [f"#{i + 1}" for i in range(7)]
    assert read(tmp_path / "i.jsonl", batch=batch, limit=4).equals(table.head(4))


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            {"Name": "n", "Title": "t", "Experiment": "e"},
            {"idea_id": "n", "title": "t", "method": "e"},
        ),
        ({"Problem": "p", "Proposed Method": "m"}, {"problem": "p", "method": "m"}),
        ({"problem_statement": "p", "text": "t"}, {"problem": "p", "text": "t"}),
        ({"id": 5, "text": "t"}, {"idea_id": "5", "text": "t"}),
        ({"name": "n", "id": "i", "text": "t"}, {"idea_id": "i"}),
        ({"text": "t", "abstract": "other"}, {"text": "t"}),
        ({"text": "", "abstract": "other"}, {"text": "other"}),
        ({"method": ["one", "two"]}, {"method": "one\ntwo"}),
        ({"text": "t", "method": [["nested"]]}, {"method": None}),
        ({"text": "t", "date": "2024-01-01"}, {"knowledge_date": None}),
        ({"text": "t", "knowledge_date": "2023"}, {"knowledge_date": "2023"}),
        ({"text": "a \ud800 b"}, {"text": "a \ufffd b"}),
        ({"text": None, "title": "t"}, {"text": None, "title": "t"}),
    ],
)
def test_fields_by_their_names(
    tmp_path: Path, record: dict[str, Any], expected: dict[str, str | None]
) -> None:
    row = read(lines(tmp_path / "i.jsonl", record)).row(0, named=True)
    assert {name: row[name] for name in expected} == expected


def test_unknown_fields_are_kept(tmp_path: Path) -> None:
    record = {**GOOD, "novel": True, "scores": {"a": 1}, "date": "2024", "extra": {"target": "x"}}
    table = read(lines(tmp_path / "i.jsonl", record))
    kept = {"novel": True, "scores": {"a": 1}, "date": "2024", "target": "x"}
    assert json.loads(table["extra"][0]) == kept
    assert ideas_frame(table).equals(table)


def test_a_field_under_two_names_loses_nothing(tmp_path: Path) -> None:
    for record in ({"idea": "A", "proposal": "B"}, {"proposal": "B", "idea": "A"}):
        row = read(lines(tmp_path / "i.jsonl", record)).row(0, named=True)
        assert row["text"] == "A" and json.loads(row["extra"]) == {"proposal": "B"}


def test_every_form_gives_the_same_table(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": ["a", "b"], "title": ["T, one", "T two"], "method": ["m 1", None]})
    frame.write_ndjson(tmp_path / "i.jsonl")
    frame.write_csv(tmp_path / "i.csv")
    frame.write_parquet(tmp_path / "i.parquet")
    (tmp_path / "i.json").write_text(json.dumps(frame.to_dicts()))
    (tmp_path / "i.jsonl.gz").write_bytes(gzip.compress((tmp_path / "i.jsonl").read_bytes()))
    expected = ideas_frame(frame)
    assert expected["title"].to_list() == ["T, one", "T two"]
    for name in ("i.jsonl", "i.csv", "i.parquet", "i.json", "i.jsonl.gz"):
        assert read(tmp_path / name).equals(expected), name


def test_ideas_from_python() -> None:
    table = ideas_frame([Idea(problem="p", method="m"), Idea(text="t", id="x")])
    assert table["idea_id"].to_list() == ["#1", "x"]
    assert table["extra"].null_count() == 2
    assert ideas_frame([]).schema == pl.Schema(IDEA_SCHEMA)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", "is empty"),
        ('{"paper": 1, "venue": "x"}\n', "has no ideas: it has paper, venue"),
        ("{broken\n", "no readable idea"),
        ("no table at all", "no table of ideas"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: str, match: str) -> None:
    (tmp_path / "i.txt").write_text(content)
    with pytest.raises(DataError, match=match):
        read(tmp_path / "i.txt")
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "absent.jsonl")
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path)


def test_extra_is_json_whatever_it_holds(tmp_path: Path) -> None:
    (tmp_path / "i.jsonl").write_text('{"text": "t", "novelty": 1e999, "n": [1, {"x": -1e999}]}\n')
    assert json.loads(read(tmp_path / "i.jsonl")["extra"][0]) == {
        "novelty": None,
        "n": [1, {"x": None}],
    }
    with pytest.raises(UsageError, match="found str"):
        ideas_frame(["an idea"])  # type: ignore[list-item] # pyright: ignore[reportArgumentType]


def test_a_limit_of_any_size(tmp_path: Path) -> None:
    file = lines(tmp_path / "i.jsonl", GOOD, GOOD)
    assert sum(frame.height for frame in read_ideas(file, limit=10**30)) == 2
    assert count_ideas(file, 10**30) == 2


def test_finding_one_idea(tmp_path: Path) -> None:
    file = lines(tmp_path / "i.jsonl", GOOD, {**GOOD, "id": "b", "title": "Second"})
    assert find_idea(str(file), None)["idea_id"].item() == "a"
    assert find_idea(str(file), "b")["title"].item() == "Second"
    assert find_idea("An idea of ten thousand words " * 2000, None)["text"].item().startswith("An")
    with pytest.raises(DataError, match="no idea with id 'c'; it has a, b"):
        find_idea(str(file), "c")
    nameless = lines(tmp_path / "n.jsonl", *({"text": f"idea {n}"} for n in "abc"), {"id": "2"})
    assert find_idea(str(nameless), "#2")["text"].item() == "idea b"
    assert find_idea(str(nameless), "3")["text"].item() == "idea c"
    assert find_idea(str(nameless), "2")["text"].item() is None  # an id of its own comes first
    with pytest.raises(DataError, match="no such file"):
        find_idea("ideas.jsnl", None)


def test_a_record_nested_too_deeply_is_unreadable() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    table = ideas_frame(pl.DataFrame({"text": ["a"]}))
    assert table["status"].to_list() == ["ok"]
    assert _row({"text": "t", "steps": deep}, 3)["status"] == "unreadable"


def test_strict_speaks_of_such_a_record_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_deep(_: object) -> str:
        raise RecursionError

    path = lines(tmp_path / "i.jsonl", {"text": "one idea"}, {"text": "two", "steps": {"a": 1}})
    monkeypatch.setattr("hindsight_fast.ideas._json", too_deep)
    assert pl.concat(read_ideas(path))["status"].to_list() == ["ok", "unreadable"]
    with pytest.raises(DataError, match="line 2: nested too deeply"):
        list(read_ideas(path, strict=True))


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "json", "csv", "parquet"])
def test_ideas_are_counted_left_out_and_picked_by_place(tmp_path: Path, form: str) -> None:
    records = [{"id": f"i{i}", "text": f"The text of idea\n\n{i}, that ends"} for i in range(23)]
    path, frame = tmp_path / f"ideas.{form}", pl.DataFrame(records)
    if form == "parquet":
        frame.write_parquet(path)
    elif form == "csv":
        frame.write_csv(path)
    elif form == "json":
        path.write_text(json.dumps(records))
    else:
        text = "\n\n".join(json.dumps(one) for one in records).encode()  # empty lines are none
        path.write_bytes(gzip.compress(text) if form.endswith("gz") else text)
    assert count_ideas(path) == 23 and count_ideas(path, 7) == 7 and count_ideas(path, 99) == 23
    whole = read(path)
    assert ideas_at(path, {20, 3, 21}).equals(whole[[3, 20, 21]])
    assert ideas_at(path, ()).equals(whole.clear())
    parts = list(read_ideas(path, batch=5, limit=18, skip={0, 2}))
    assert [part.height for part in parts] == [5, 3]
    assert pl.concat(parts).equals(pl.concat([whole[5:10], whole[15:18]]))


def test_an_idea_without_a_name_is_named_by_its_place_whatever_is_left_out(tmp_path: Path) -> None:
    path = lines(tmp_path / "i.jsonl", *({"text": f"idea {i}"} for i in range(9)), "{broken")
    named = [frame["idea_id"].to_list() for frame in read_ideas(path, batch=3, skip={0, 1})]
    assert named == [["#7", "#8", "#9"], ["#10"]]
    assert ideas_at(path, {4, 9})["status"].to_list() == ["ok", "unreadable"]
    assert ideas_at(path, {4, 9})["idea_id"].to_list() == ["#5", "#10"]
