"""JSON read fast and in pieces: always what the slow, obvious way makes of it."""

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from hindsight_fast.errors import DataError
from hindsight_fast.papers.readers import lines, streams, tables, typed, values
from hindsight_fast.papers.readers.lines import Bad


class Probe(Struct):
    a: Any = None
    b: list[Any] | None = None


WANTED = typed.Wanted(Probe, "probe")

ATOMS = [
    "1", "-0", "0.1", "1e5", "1e400", "5e-324", "9007199254740993", "12345678901234567890123",
    "true", "null", "NaN", "Infinity", '"x"', '"\\ud800"', '"\\ud83d\\ude00"', '"é"', '"\\u0000"',
    '"a\tb"', "[]", "{}", "[1, [2]]", '{"a": [1]}', "01", "1.", "nul", '"\\q"',
]  # fmt: skip
KEYS = ['"a"', '"b"', '"c"', '"\\u0061"', '"é"', '""', "a"]

pairs = st.tuples(st.sampled_from(KEYS), st.sampled_from(ATOMS)).map(": ".join)
objects = st.lists(pairs, max_size=4).map(lambda each: ("{" + ", ".join(each) + "}").encode())
edits = st.lists(st.tuples(st.integers(0, 60), st.binary(max_size=1)), max_size=2)


def edited(line: bytes, changes: list[tuple[int, bytes]]) -> bytes:
    """The line with a byte put, or taken out, at each of some places; still one line."""
    for place, byte in changes:
        line = line[:place] + (byte + line[place:] if byte else line[place + 1 :])
    return line.replace(b"\n", b"")


def slowly(text: list[bytes]) -> list[tuple[int, str]]:
    """What is in each line, read one by one by the standard library."""
    found: list[tuple[int, str]] = []
    for number, line in enumerate(text, start=1):
        content = lines.json_object(line.removesuffix(b"\r"))
        if isinstance(content, Bad):
            if line.strip():
                found.append((number, "bad"))
            continue
        b: Any = content.get("b")
        good = b is None or lines.is_list(b)
        found.append((number, repr((content.get("a"), b)) if good else "bad"))
    return found


def fast(path: Path) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for some in typed.read(path, "jsonl", WANTED, None):
        found += [
            (n, repr((one.a, one.b))) for n, one in zip(some.numbers, some.records, strict=True)
        ]
        found += [(n, "bad") for n, _, _ in some.bad]
    return sorted(found, key=lambda each: each[0])


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(objects, edits).map(lambda both: edited(*both)), max_size=12))
def test_lines_are_read_as_the_slow_way_reads_them(tmp_path: Path, text: list[bytes]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(text))
    assert fast(path) == slowly(text)


@given(
    st.lists(st.tuples(objects, edits), max_size=30),
    st.booleans(),
    st.integers(1, 200),
    st.integers(1, 9),
    st.integers(1, 300),
    st.integers(4, 120),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_blocks_are_read_as_their_lines_one_by_one(
    tmp_path: Path,
    text: list[tuple[bytes, list[tuple[int, bytes]]]],
    ended: bool,
    block: int,
    records: int,
    size: int,
    longest: int,
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(edited(line, changes) for line, changes in text) + b"\n" * ended)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "_BLOCK", block)
        patch.setattr(streams, "LONGEST_LINE", longest)
        patch.setattr(tables, "BATCH_RECORDS", records)
        patch.setattr(tables, "BATCH_BYTES", size)
        found, expected = list[tuple[int, str]](), list[tuple[int, str]]()
        for limit, told in ((None, found), (10**9, expected)):
            for some in typed.read(path, "jsonl", WANTED, limit):
                assert 0 < len(some.records) + len(some.bad) <= records
                told += [
                    (n, repr((r.a, r.b))) for n, r in zip(some.numbers, some.records, strict=True)
                ]
                told += [(n, reason) for n, reason, _ in some.bad]
    assert sorted(found) == sorted(expected)
    assert len(found) <= len(text)


def test_what_is_hard_in_lines(tmp_path: Path) -> None:
    text = [
        b'\xef\xbb\xbf{"a": 1, "a": 2}',
        b'{"c": "caf\xe9"}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"c": ' + b"[" * 2000 + b"]" * 2000 + b"}",
        b"[1]",
        b'{"a": "\\ud800"}\r',
        b"   ",
        b'{"b": 3}',
        b"null",
    ]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(text))
    (some,) = typed.read(path, "jsonl", WANTED, None)
    assert some.numbers == [1, 6] and [one.a for one in some.records] == [2, "\ud800"]
    reasons = {line: reason for line, reason, _ in some.bad}
    assert list(reasons) == [2, 3, 4, 5, 8, 9]
    for line, part in {
        2: "not UTF-8 at byte 11", 3: "not JSON", 4: "nested", 5: "not an object", 8: "$.b",
        9: "null",
    }.items():  # fmt: skip
        assert part in reasons[line]


class Named(Struct):
    a: Any


NAMED = typed.Wanted(Named, "named", lists=("data",))


@pytest.mark.parametrize("form", ["jsonl", "json"])
@pytest.mark.parametrize("limit", [None, 1, 3, 4, 100])
def test_records_of_answers_are_numbered_and_limited(
    tmp_path: Path, form: str, limit: int | None
) -> None:
    text = ['{"a": 0}', '{"data": [{"a": 1}, null, {"a": 2}]}', '{"data": [{"a": 3}, {"b": 4}, 5]}']
    path = tmp_path / "a.json"
    path.write_text("\n".join([*text, '[{"a": 6}]' if form == "jsonl" else '[{"a": 6}, 7]']))
    taken = list(typed.read(path, form, NAMED, limit))
    good = [(n, one.a) for some in taken for n, one in zip(some.numbers, some.records, strict=True)]
    bad = [n for some in taken for n, _, _ in some.bad]
    numbers = [1, 2, 2, 2, 3, 3, 3, 4] if form == "jsonl" else [1, 2, 3, 4, 5, 6, 7, 8, 9]
    wanted = list(zip(numbers, [0, 1, None, 2, 3, None, None, 6, None], strict=False))[:limit]
    assert sorted(good + [(n, None) for n in bad], key=str) == sorted(wanted, key=str)


def test_batches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"a": {n}}}\n' for n in range(20)))
    for name, size, most in (("BATCH_RECORDS", 7, 7), ("BATCH_BYTES", 70, 8)):
        with monkeypatch.context() as patch:
            patch.setattr(streams, "_BLOCK", 1)  # a line each
            patch.setattr(tables, name, size)
            taken = [len(some.records) for some in typed.read(path, "jsonl", NAMED, None)]
        assert sum(taken) == 20 and max(taken) == most


class _Trickle(io.BytesIO):
    """A stream that gives a few bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(random.Random(self.tell()).randint(1, 7))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a"\\[]{},:é', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text('a"\\}', max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(json_values, max_size=5), st.sampled_from([None, 2]))
def test_a_document_is_cut_into_its_values(items: list[Any], indent: int | None) -> None:
    text = json.dumps(items, indent=indent) + "\n " + json.dumps({"k": items}, indent=indent)
    for stream in (io.BytesIO(text.encode()), _Trickle(text.encode())):
        found = list(values.split(stream))
        assert [json.loads(value) for _, value in found] == [*items, {"k": items}]
        assert [in_array for in_array, _ in found] == [True] * len(items) + [False]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[", "cut short"), (b'[{"a": 1}, {"b', "cut short"), (b'["a', "cut short"),
        (b"[1,]", "missing"), (b"[,1]", "missing"), (b"[1,,2]", "missing"),
        (b"[1]x", "'x' at its end"), (b"x[1]", "'x' where a value begins"),
        (b'"a"', "at its end"), (b'{"a":1},{"a":2}', "where a value begins"),
        (b"[1}", "none has opened"), (b"]", "none has opened"), (b"[1]]", "none has opened"),
        (b"[" * 600, "nested too deeply"),
    ],
)  # fmt: skip
def test_a_document_that_is_not_whole(text: bytes, reason: str) -> None:
    for stream in (io.BytesIO(text), _Trickle(text)):
        with pytest.raises(values.NotWhole, match=reason):
            list(values.split(stream))


def test_a_bad_element_does_not_end_an_array(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"a": 1}, {"a": NaN}, {"a": 1 2}, 5, {"a": "\xe9"}, {"a": 6}]')
    (some,) = typed.read(path, "json", NAMED, None)
    assert [one.a for one in some.records] == [1, 6] and some.numbers == [1, 6]
    assert [line for line, _, _ in some.bad] == [2, 3, 4, 5]
    path.write_bytes(b'[{"a": 1}, {"a": ')
    with pytest.raises(DataError, match="not whole JSON: it is cut short"):
        list(typed.read(path, "json", NAMED, None))


def test_a_document_of_any_size_takes_little_memory(tmp_path: Path) -> None:
    """One long line of answers, each read when its turn comes."""
    path = tmp_path / "answers"
    answer = json.dumps({"data": [{"a": "x" * 1000}] * 100}).encode()
    path.write_bytes(answer * 20)
    assert tables.json_form(path, streams.head(path)) == "json"
    assert sum(len(some.records) for some in typed.read(path, "json", NAMED, None)) == 2000


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("a.json", b'{"a": 1}\n{"a": 2}\n', "jsonl"),
        ("a.json", b'{"a": 1}\n', "json"),
        ("a", b'{\n "a": 1\n}', "json"),
        ("a.json", b'{"a": 1\n{"a": 2}\n', "jsonl"),
        ("a.jsonl", b'{"a": 1', "jsonl"),
        ("a.ndjson.gz", b'{"a": 1', "jsonl"),
        ("a.json", b'[{"a": 1}]\n[{"a": 2}]\n', "json"),
        ("a.jsonl", b'[{"a": 1}]\n[{"a": 2}]\n', "jsonl"),
        ("part_000", b'{"a": "' + b"x" * streams.HEAD_BYTES, "json"),
        ("a.jsonl", b'{"a": "' + b"x" * streams.HEAD_BYTES, "jsonl"),
    ],
)
def test_form(name: str, text: bytes, form: str) -> None:
    assert tables.form(Path(name), text[: streams.HEAD_BYTES]) == form
