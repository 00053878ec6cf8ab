"""Papers in bounded memory are the papers that are made all in memory."""

import json
import random
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

from hindsight_fast.papers import intake
from hindsight_fast.papers.choosing import Where
from hindsight_fast.papers.gathering import Limits, gather
from hindsight_fast.papers.options import Old, Options
from hindsight_fast.papers.read import read_table
from hindsight_fast.papers.schema import Gathered, PaperTable
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
        "title": rng.choice(["Preface", f"On thing {number}", f"On Thing {number}!", "?!", None]),
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
