"""Papers in bounded memory are the papers that are made all in memory."""

import gzip
import json
import random
import threading
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from hindsight_fast.errors import DataError, StorageError
from hindsight_fast.papers import intake
from hindsight_fast.papers.choosing import Where
from hindsight_fast.papers.gathering import Limits, gather
from hindsight_fast.papers.options import Old, Options
from hindsight_fast.papers.read import read_table
from hindsight_fast.papers.schema import MERGE_SCHEMA, Gathered, PaperTable
from hindsight_fast.papers.topics import Topic

TODAY = date(2026, 11, 30)
TINY = Limits(
    file_rows=5, file_bytes=5000, batch_rows=2, key_rows=7, bin_bytes=1500, part_bytes=900
)


def some(rng: random.Random, source: str) -> dict[str, Any]:
    """A record that has much in common with others."""
    number = rng.randrange(12)
    row: dict[str, Any] = {
        "id": rng.choice([None, f"p{rng.randrange(9)}", f"{source}{rng.randrange(99)}"]),
        "title": rng.choice(
            ["Preface", f"On thing {number}", f"On Thing {number}!", "?!", None]
            + [f"On thing {number % 4}, and all that can be said of it"] * 2
        ),
        "abstract": rng.choice([None, f"We look at {number}.", f"Longer: we look at {number}."]),
        "authors": rng.choice([None, ["Ada Bee"], ["Bee, A.", "C D"], ["Ed Eff"]]),
        "venue": rng.choice([None, "ICLR 2024", "arXiv", "A Journal"]),
        "year": rng.choice([None, 2021, 2022, 2023, 2025]),
        "date": rng.choice([None, None, "2023-05-02", "2024-01", "2022-01-01"]),
        "citations": rng.choice([None, 0, 3, 40]),
        "doi": rng.choice([None] * 5 + [f"10.1145/{rng.randrange(7)}"]),
        "arxiv_id": rng.choice([None] * 4 + [f"2301.0000{rng.randrange(7)}"]),
        "corpus_id": rng.choice([None] * 3 + [rng.randrange(20)]),
        "source": rng.choice([None, "there"]),
    }
    return {name: value for name, value in row.items() if value is not None}


def written(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> Path:
    path = folder / name
    lines = map(json.dumps, [{"title": "One that every file has"}, *rows])
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def together(gathered: Gathered) -> pl.DataFrame:
    parts = list(gathered.parts())
    assert all(part.height for part in parts)
    again = list(gathered.parts())
    assert len(again) == len(parts)
    assert all(one.equals(other) for one, other in zip(parts, again, strict=True))
    whole = gathered.rejects.clear() if not parts else pl.concat(parts)
    assert whole.height == gathered.n
    return whole


def assert_same(found: Gathered, expected: PaperTable | Gathered) -> None:
    other = expected.gathered() if isinstance(expected, PaperTable) else expected
    assert found.counts == other.counts and list(found.counts) == list(other.counts)
    assert found.ignored == other.ignored
    assert_frame_equal(together(found), together(other))
    assert_frame_equal(found.rejects, other.rejects)
    assert_frame_equal(found.merges, other.merges)
    assert_frame_equal(found.conflicts, other.conflicts)


@settings(max_examples=10, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 50),
    chunk=st.sampled_from([1, 9, 1000]),
    where=st.sampled_from([(), ("year >= 2023",), ("venue = 'ICLR' or citations > 2",)]),
    has_dates=st.booleans(),
    has_old=st.booleans(),
    limits=st.builds(
        Limits,
        file_rows=st.integers(2, 40),
        file_bytes=st.sampled_from([600, 10**6]),
        batch_rows=st.integers(1, 9),
        key_rows=st.integers(1, 50),
        bin_bytes=st.sampled_from([1, 3000, 10**6]),
        part_bytes=st.sampled_from([900, 3000, 10**6]),
    ),
)
def test_it_is_what_is_made_in_memory(
    seed: int,
    n: int,
    chunk: int,
    where: tuple[str, ...],
    has_dates: bool,
    has_old: bool,
    limits: Limits,
) -> None:
    rng = random.Random(seed)
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        rows = [some(rng, "a") for _ in range(n)]
        paths = [written(folder, f"{i}.jsonl", rows[i::3]) for i in range(3)]
        old = None
        if has_old:
            before = read_table([written(folder, "old.jsonl", rows[: n // 2])], _options())
            older = before.gathered()
            old = Old(older.parts, older.merges, older.conflicts)
        dates = (written(folder, "d.jsonl", [some(rng, "d") for _ in range(n)]),) * has_dates
        options = _options(where=Where(where), dates=dates, reuse=old, topics=(THINGS,))
        expected = read_table(paths, options)
        patch.setattr(intake, "CHUNK_RECORDS", chunk)
        (folder / "work").mkdir()
        assert_same(gather(rng.sample(paths, 3), folder / "work", options, limits), expected)


THINGS = Topic("things", ("thing 1", "thing 2"))


def _options(**changed: Any) -> Options:
    return Options(format="own", max_bad=1, today=TODAY, **changed)


def test_shards_that_are_joined(tmp_path: Path) -> None:
    rng = random.Random(2)
    ids = list(range(1, 60))
    papers = [
        {
            "corpusid": number,
            "externalids": {"DOI": None, "ArXiv": None, "CorpusId": str(number)},
            "title": f"On thing {number % 40}",
            "year": 2018 + number % 7,
            "citationcount": number,
            "venue": "",
        }
        for number in rng.sample(ids, len(ids))
    ]
    texts = [{"corpusid": number, "abstract": f"We look at {number}."} for number in ids[::2]]
    shards = tmp_path / "release"
    for name, rows in (("papers", papers), ("abstracts", texts)):
        (shards / name).mkdir(parents=True)
        for part in range(2):
            content = [{"openaccessinfo": None} | row if "abstract" in row else row for row in rows]
            path = shards / name / f"part{part}.jsonl"
            path.write_text("\n".join(map(json.dumps, content[part::2])))
    late = [number for number in ids[::2] if number % 7 >= 4]
    for where, n_joined in (((), 30), (("year >= 2022",), len(late))):
        options = Options(today=TODAY, where=Where(where))
        expected = read_table([shards], options)
        assert expected.counts["s2_abstracts_joined"] == n_joined
        (tmp_path / f"work{n_joined}").mkdir()
        assert_same(gather([shards], tmp_path / f"work{n_joined}", options, TINY), expected)


def test_a_condition_on_dates_waits_for_the_arxiv_ids_of_abstracts(tmp_path: Path) -> None:
    """The papers' shard tells a year alone, which begins before the day that is asked for."""
    paper = {"corpusid": 1, "externalids": {"DOI": None}, "title": "On it", "citationcount": 1}
    text = {"corpusid": 1, "abstract": "We look at it."}
    access = {"externalids": {"ArXiv": "2307.01234"}}
    shards = [tmp_path / "papers.jsonl", tmp_path / "abstracts.jsonl"]
    shards[0].write_text(json.dumps(paper | {"year": 2023}))
    shards[1].write_text(json.dumps(text | {"openaccessinfo": access}))
    options = Options(today=TODAY, where=Where(("date >= date '2023-06-01'",)))
    (row,) = read_table(shards, options).papers.to_dicts()
    assert (row["date"], row["abstract"]) == (date(2023, 7, 1), "We look at it.")


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    """Files in order: a refused one is named before one that is damaged after it."""
    good = written(tmp_path, "a.jsonl", [])
    refused = written(tmp_path, "b.jsonl", [{"year": 2023}] * 9)
    damaged = tmp_path / "c.jsonl.gz"
    rng = random.Random(1)
    rows = ({"title": f"{rng.getrandbits(400):x} {number}"} for number in range(20_000))
    whole = gzip.compress("\n".join(map(json.dumps, rows)).encode())
    damaged.write_bytes(whole[: len(whole) // 2])
    for paths, said in (
        ([good, refused, damaged], r"b\.jsonl: 9 of 10 records can't be used"),
        ([good, damaged, refused], r"c\.jsonl\.gz"),
        ([good, tmp_path / "absent.jsonl"], "absent.jsonl: no such file"),
    ):
        work = tmp_path / f"work{len(said)}"
        work.mkdir()
        with pytest.raises(DataError, match=said):
            gather(paths, work, Options(today=TODAY), TINY)
        assert "reading ahead" not in {thread.name for thread in threading.enumerate()}


def test_what_one_diff_brings_another_may_take_away(tmp_path: Path) -> None:
    before = read_table([written(tmp_path, "old.jsonl", [])], _options()).gathered()
    old = Old(before.parts, before.merges, before.conflicts)
    new, gone = tmp_path / "2024-01-02-papers", tmp_path / "2024-02-03-papers"
    record = {"corpusid": 7, "externalids": None, "title": "On it", "citationcount": 1}
    new.write_text(json.dumps(record))
    gone.write_text(json.dumps({"corpusid": 7}))
    options = Options(today=TODAY, reuse=old, updates=(new,), deletes=(gone,))
    table = read_table([], options)
    assert (table.counts["n_in"], table.counts["s2_papers_deleted"]) == (1, 1)


def test_no_papers_at_all(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", [])
    (tmp_path / "work").mkdir()
    gathered = gather([path], tmp_path / "work", _options(where=Where(("year = 1900",))))
    assert (gathered.n, gathered.counts["n_left_out"]) == (0, 1) and not list(gathered.parts())
    assert dict(gathered.merges.schema) == MERGE_SCHEMA


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir(mode=0o500)
    (tmp_path / "work" / "papers").touch()
    with pytest.raises(StorageError, match=r"could not make .*papers"):
        gather([written(tmp_path, "a.jsonl", [])], tmp_path / "work", _options())
