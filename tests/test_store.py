"""Papers in order of date, the same bytes for the same papers, named without reading a table."""

import datetime as dt
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from hindsight_fast.errors import ArtefactError, DataError, StorageError, UsageError
from hindsight_fast.papers import venues
from hindsight_fast.papers.schema import CONFLICT_SCHEMA, MERGE_SCHEMA, Gathered, PaperTable
from hindsight_fast.storage import publish
from hindsight_fast.store import (
    UNDATED,
    Store,
    build_store,
    check_unit_rows,
    verify_store,
)
from hindsight_fast.store._identity import (
    content_hash,
    facts_hash,
    first_content_id,
    first_facts_id,
)
from paper_tables import paper, table

ROWS = [
    paper(3, title="Ünïcode ∑ título", venue="NeurIPS"),
    paper(1, date=None, date_precision=None, date_kind=None),
    paper(2, id="b", date=dt.date(2023, 1, 1), date_precision="year", date_kind="year"),
    paper(2, id="a", date=dt.date(2023, 1, 1), citations=None, url="https://example.org/a"),
    paper(4, abstract=None, status="title_only", venue="Workshop on \U0001f600"),
    paper(5, date=dt.date(1912, 6, 23)),
]


def test_rows_are_ordered_by_date_and_id(tmp_path: Path) -> None:
    store = build_store(table(ROWS, n_rejects=2), tmp_path / "store")
    assert store.papers(["id"])["id"].to_list() == ["p0005", "a", "b", "p0003", "p0004", "p0001"]
    assert store.dates[-1] == UNDATED and (np.diff(store.dates) >= 0).all()
    assert store.citations.tolist() == [5, -1, 2, 3, 4, 1]
    assert store.n == 6
    coverage = store.manifest.table("coverage")
    assert coverage["status"] == {"ok": 5, "title_only": 1}
    assert coverage["undated"] == 1 and coverage["citations_known"] == 5
    assert store.manifest.table("counts")["n_rejects"] == 2
    assert pl.read_parquet(tmp_path / "store" / "rejects.parquet").height == 2
    assert verify_store(tmp_path / "store") == ["9 files", "6 papers"]


def test_lookup_names_papers_as_the_table_does(tmp_path: Path) -> None:
    store = build_store(table(ROWS), tmp_path / "store")
    rows = np.array([4, 0, 5, 1, 1])
    found = store.lookup(rows)
    assert found.equals(store.papers(found.columns)[rows.tolist()])
    assert store.lookup(np.array([], np.int32)).schema == found.schema
    for bad in (-1, 6):
        with pytest.raises(IndexError):
            store.lookup(np.array([bad]))


def test_papers_are_named_with_what_the_table_says(tmp_path: Path) -> None:
    odd = ["", "Ünïcode 😀 的", "a", "e\u0301", None, "x" * 3000]
    papers = [
        paper(i, title=f"{odd[i % 6]}{i}", venue=odd[(i + 1) % 6], url=odd[(i + 2) % 6])
        | ({"citations": None} if i % 4 == 0 else {})
        | {"date_kind": ["first_public", "venue", "year", None][i % 4]}
        | ({"date": None, "date_precision": None} if i % 9 == 0 else {})
        for i in range(40)
    ]
    store = build_store(table(papers), tmp_path / "store")
    rows = np.random.default_rng(0).integers(0, store.n, 100)
    named = store.lookup(rows)
    slow = store.papers(named.columns)[rows].with_columns(
        pl.when(pl.col("venue", "url") != "").then(pl.col("venue", "url"))  # "" is null there
    )
    assert named.equals(slow)
    assert named["date_kind"].n_unique() == 4
    for columns in (["id"], ["citations", "id"], ["url", "date"], ["date_kind"], ["date"]):
        assert store.lookup(rows, columns).equals(slow.select(columns))


def test_a_window_is_a_slice(tmp_path: Path) -> None:
    store = build_store(table(ROWS), tmp_path / "store")
    day = dt.date
    assert store.window(day(2023, 1, 1), day(2023, 1, 1)) == (1, 3)
    assert store.window(day(2023, 1, 2), day(2023, 6, 3)) == (3, 3)
    assert store.window(day(1, 1, 1), day(9999, 12, 31)) == (0, 5)  # undated ones never
    assert store.window(day(2024, 1, 1), day(2023, 1, 1)) == (5, 5)


def test_the_same_papers_are_the_same_bytes(tmp_path: Path) -> None:
    many = [paper(i, date=dt.date(2023, 1, 1 + i % 9)) for i in range(200)]
    one = build_store(table(many), tmp_path / "one")
    two = build_store(table(many[::-1]), tmp_path / "two")
    for name in one.manifest.files:
        assert (one.path / name).read_bytes() == (two.path / name).read_bytes(), name
    assert one.manifest.fingerprint == two.manifest.fingerprint


@pytest.mark.parametrize(
    ("change", "content", "facts"),
    [
        ({"citations": 9}, False, True),
        ({"citations": None}, False, True),
        ({"venue": "ICML"}, False, True),
        ({"date": dt.date(2023, 7, 1)}, False, True),
        ({"title": "Other"}, True, False),
        ({"abstract": ""}, True, False),
        ({"abstract": None}, True, False),
        ({"id": "q"}, True, True),
        ({"kind": "survey"}, False, True),
        ({"authors": ["A. One B. Two"]}, False, False),
    ],
)
def test_identities(change: dict[str, Any], content: bool, facts: bool) -> None:
    before, after = table([paper(1), paper(2)]).papers, table([paper(1, **change), paper(2)]).papers
    assert (content_id(before) != content_id(after)) == content
    assert (facts_id(before) != facts_id(after)) == facts
    assert content_id(before) != content_id(before, 3)
    for changed, first in ((content, first_content_id), (facts, first_facts_id)):
        differ = first(before.get_column) != first(after.get_column)
        assert differ == (changed and change.keys() != {"kind"})


def content_id(papers: pl.DataFrame, text_version: int = 2) -> str:
    state = content_hash(text_version)
    state.add(papers)
    return state.hexdigest()


def facts_id(papers: pl.DataFrame) -> str:
    state = facts_hash()
    state.add(papers)
    return state.hexdigest()


def test_text_moved_between_fields_is_other_content() -> None:
    one = table([paper(1, title="ab", abstract="c"), paper(2, title="d", abstract="e")]).papers
    two = table([paper(1, title="a", abstract="bc"), paper(2, title="d", abstract="e")]).papers
    assert content_id(one) != content_id(two)


def test_an_existing_store_is_opened_or_kept(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first = build_store(table(ROWS), path)
    inode = (path / "papers.parquet").stat().st_ino
    assert build_store(table(ROWS[::-1]), path).content_id == first.content_id
    assert (path / "papers.parquet").stat().st_ino == inode
    with pytest.raises(UsageError, match="--overwrite"):
        build_store(table(ROWS[:3]), path)
    assert build_store(table(ROWS[:3]), path, overwrite=True).n == 3
    assert first.lookup(np.array([0]))["id"].to_list() == ["p0005"]  # still its own files


def test_the_same_papers_from_another_file_are_the_same_store(tmp_path: Path) -> None:
    here = table(ROWS, n_rejects=3)
    files = pl.Series("file", ["z", "stdin", "a"])  # their order says nothing either
    there = PaperTable(
        here.papers.with_columns(source=pl.lit("stdin")),
        here.rejects.with_columns(files),
        here.counts,
    )
    store = build_store(here, tmp_path / "store")
    assert build_store(there, tmp_path / "store").manifest == store.manifest
    other = here.rejects.with_columns(reason=pl.lit("no abstract"))
    with pytest.raises(UsageError, match="--overwrite"):
        build_store(PaperTable(here.papers, other, here.counts), tmp_path / "store")


def test_a_store_that_is_right_is_kept_in_spite_of_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "store"
    build_store(table(ROWS), path)
    inode = (path / "papers.parquet").stat().st_ino
    build_store(table(ROWS), path, overwrite=True)
    assert (path / "papers.parquet").stat().st_ino == inode
    (path / "dates.npy").write_bytes(b"cut")
    build_store(table(ROWS), path, overwrite=True)
    verify_store(path)


def test_a_length_that_would_move_matches_is_none_of_a_unit_row() -> None:
    def scaled(factor: float) -> NDArray[np.float32]:
        return np.eye(3, 8, dtype=np.float32) * np.float32(factor)

    check_unit_rows(scaled(1 + 2e-6), "rows")
    check_unit_rows(scaled(0), "rows")
    for factor in (1 + 5e-5, 1 - 5e-5, np.nan):
        with pytest.raises(ArtefactError, match="rows: row 0 has length"):
            check_unit_rows(scaled(factor), "rows")


def test_no_papers_are_a_store(tmp_path: Path) -> None:
    store = build_store(table([]), tmp_path / "store")
    assert store.n == 0 and store.papers().height == 0
    assert store.window(dt.date(2023, 1, 1), dt.date(2024, 1, 1)) == (0, 0)
    assert store.lookup(np.array([], np.int64)).height == 0
    verify_store(tmp_path / "store")


def test_ids_must_be_there_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'p0001' comes 2 times"):
        build_store(table([paper(1), paper(1)]), tmp_path / "store")
    with pytest.raises(DataError, match="no id"):
        build_store(table([paper(1, id=None)]), tmp_path / "store")
    with pytest.raises(StorageError):
        build_store(table([paper(1)]), Path("/proc/store"))
    assert list(tmp_path.iterdir()) == []


def test_encoders_are_asked_for_by_name(tmp_path: Path) -> None:
    store = build_store(table(ROWS), tmp_path / "store")
    assert store.encoders() == []
    for name in (None, "minilm"):
        with pytest.raises(UsageError, match="hindsight-fast embed"):
            store.vectors(name)
    with pytest.raises(UsageError, match="no name"):
        store.vectors("../../elsewhere")


@pytest.mark.parametrize("name", ["papers.parquet", "lookup-text.npy", "dates.npy"])
def test_files_of_another_store_are_refused(tmp_path: Path, name: str) -> None:
    one = build_store(table([paper(1), paper(2)]), tmp_path / "one")
    two = build_store(table([paper(1, title="Other"), paper(3, citations=7)]), tmp_path / "two")
    (one.path / name).write_bytes((two.path / name).read_bytes())
    with pytest.raises(ArtefactError, match=name):
        Store.open(one.path)


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    code = (
        "import resource; from pathlib import Path; from paper_tables import paper, table\n"
        "from hindsight_fast.store import build_store\n"
        "papers = table([paper(i) for i in range(5000)])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, 90_000))\n"
        f"build_store(papers, Path({str(tmp_path / 'store')!r}))\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "StorageError: could not write" in done.stderr and "File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_was_replaced_is_not_read_on(tmp_path: Path) -> None:
    store = build_store(table(ROWS), tmp_path / "store")
    build_store(table(ROWS[:3]), tmp_path / "store", overwrite=True)
    with pytest.raises(ArtefactError, match="was replaced while it was in use"):
        store.papers(["id"], 0, 2)


@pytest.mark.parametrize("size", [1, 7, 1000, 70_000])
def test_how_papers_come_does_not_matter(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindsight_fast.store._tables.ROW_GROUP", 64)
    monkeypatch.setattr("hindsight_fast.store._read.AT_ONCE", 128)
    rows = [paper(i, abstract=f"{i} ü " * (i % 50), topics=["a", "b"][: i % 3]) for i in range(200)]
    whole = table(rows, n_rejects=3)
    one = build_store(whole, tmp_path / "one")
    papers = whole.papers.sort("date", "id", nulls_last=True)
    parts = Gathered(
        lambda: (part for part in papers.iter_slices(size)),
        papers.height,
        whole.rejects,
        whole.merges,
        whole.conflicts,
        whole.counts,
    )
    two = build_store(parts, tmp_path / "two")
    assert one.manifest.files == two.manifest.files
    assert two.papers().equals(papers)
    assert pl.concat(two.pieces()).equals(papers)
    assert pl.concat(two.pieces("title", "id")).equals(papers.select("title", "id"))
    assert (two.content_id, two.facts_id) == (
        content_id(papers, two.text_version),
        facts_id(papers),
    )
    verify_store(two.path)


def test_values_that_look_alike_are_other_values() -> None:
    def facts(**change: Any) -> str:
        return facts_id(table([paper(1, **change), paper(2)]).papers)

    lists: list[Any] = [None, [], ["a"], ["a", "b"], ["ab"], ["", "ab"], [None, "ab"]]
    assert len({facts(topics=topics) for topics in lists}) == 7
    assert len({facts(year=year) for year in (None, 0, 2023)}) == 3
    assert len({facts(kind=kind) for kind in (None, "", "survey")}) == 3


def merged_table() -> PaperTable:
    """Three papers of five records, and a reject."""
    rows = [paper(1, n_records=3), paper(2), paper(3)]
    one = table(rows, n_rejects=1)
    merge = dict.fromkeys(MERGE_SCHEMA) | {"id": "p0001", "records": ["a x", "b y", "c z"]}
    conflict = {"kind": "same_title", "key": "k", "ids": ["p0001", "p0002"], "n": 2, "detail": ""}
    return PaperTable(
        one.papers,
        one.rejects,
        {"n_in": 7, "n_papers": 3, "n_merged": 2, "n_rejects": 1, "n_left_out": 1},
        merges=pl.DataFrame([merge], schema=MERGE_SCHEMA),
        conflicts=pl.DataFrame([conflict], schema=CONFLICT_SCHEMA),
    )


def test_what_became_of_records_is_kept(tmp_path: Path) -> None:
    made = merged_table()
    store = build_store(made, tmp_path / "store")
    assert store.merges().equals(made.merges)
    assert store.conflicts().equals(made.conflicts)
    assert store.rejects().equals(made.rejects)
    verify_store(store.path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n_merged": 3}, "the counts don't add up"),
        ({"n_merged": 1, "n_left_out": 2}, "its papers are of 5 records"),
        ({"n_rejects": 0, "n_left_out": 2}, "the counts don't add up"),
    ],
)
def test_counts_that_do_not_add_up_are_found(
    tmp_path: Path, change: dict[str, int], told: str
) -> None:
    store = build_store(merged_table(), tmp_path / "store")
    rewritten(store, counts=store.manifest.table("counts") | change)
    with pytest.raises(ArtefactError, match=told):
        verify_store(store.path)


def test_merges_are_of_papers(tmp_path: Path) -> None:
    store = build_store(merged_table(), tmp_path / "store")
    for ids in (["p0009"], ["p0001", "p0001"]):
        rows = [dict.fromkeys(MERGE_SCHEMA) | {"id": one} for one in ids]
        pl.DataFrame(rows, schema=MERGE_SCHEMA).write_parquet(store.path / "merges.parquet")
        rewritten(store)
        with pytest.raises(ArtefactError, match=r"merges\.parquet tells of other papers"):
            verify_store(store.path)


def rewritten(store: Store, **body: Any) -> None:
    """Another store of the files that lie there, with other facts in its manifest."""
    files = {name: (store.path / name).read_bytes() for name in store.manifest.files}
    with publish(store.path, "store", "rewritten", overwrite=True) as staging:
        for name, raw in files.items():
            (staging.folder / name).write_bytes(raw)
        staging.body |= {**store.manifest.body, **body}


def with_abstracts(n: int, of: int = 200) -> PaperTable:
    rows = [paper(i, abstract="Words." if i < n else None) for i in range(of)]
    return table(rows)


def test_a_share_that_drops_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store"
    old = build_store(with_abstracts(160), path)
    told = r"30\.0% \(60 of 200\) have an abstract, where it was 80\.0% \(160 of 200\)"
    with pytest.raises(DataError, match=told + ".*--allow-drop"):
        build_store(with_abstracts(60), path, overwrite=True)
    with pytest.raises(DataError, match=told):
        build_store(with_abstracts(60), tmp_path / "other", reuse=old)
    assert [f.name for f in tmp_path.iterdir()] == ["store"]
    assert Store.open(path).content_id == old.content_id
    build_store(with_abstracts(128), tmp_path / "just", reuse=old)  # a fifth less is no drop yet
    build_store(with_abstracts(60), tmp_path / "new")
    build_store(with_abstracts(60), path, overwrite=True, allow_drop=True)
    build_store(with_abstracts(80, of=99), path, overwrite=True)
    build_store(with_abstracts(10, of=99), path, overwrite=True)  # too few to say anything
    rows = [paper(i, citations=None, venue=None) for i in range(200)]
    with pytest.raises(DataError, match=r"0\.0% .* have a venue, .*; 0\.0% .* citations, where it"):
        build_store(table(rows), tmp_path / "new", overwrite=True)


def test_a_store_that_can_not_be_read_is_replaced_without_comparing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    build_store(with_abstracts(160), path)
    (path / "dates.npy").unlink()
    build_store(with_abstracts(60), path, overwrite=True)


def test_a_store_keeps_its_venues(tmp_path: Path) -> None:
    store = build_store(table(ROWS), tmp_path / "store")
    assert store.venues is venues.table()


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    def parts() -> Generator[pl.DataFrame]:
        yield table(ROWS).papers[:1]
        raise KeyboardInterrupt

    made = table(ROWS)
    gathered = Gathered(parts, 6, made.rejects, made.merges, made.conflicts, made.counts)
    with pytest.raises(KeyboardInterrupt):
        build_store(gathered, tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("dates.npy", r"dates\.npy holds other dates"),
        ("date-kinds.npy", r"date-kinds\.npy holds other kinds"),
        ("citations.npy", r"citations\.npy holds other counts"),
        ("lookup-text.npy", "the lookup files name other papers"),
        ("lookup-starts.npy", "the lookup files name other papers"),
        ("papers.parquet", "(ids or texts|dates, venues or counts) are not those"),
    ],
)
def test_files_that_tell_otherwise_are_found(tmp_path: Path, name: str, told: str) -> None:
    store = build_store(table([paper(i) for i in range(9)]), tmp_path / "store")
    changed = {
        "dates.npy": [paper(i, date=dt.date(2023, 7, i + 1)) for i in range(9)],
        "date-kinds.npy": [paper(i, date_kind="venue") for i in range(9)],
        "citations.npy": [paper(i, citations=i + 1) for i in range(9)],
    }.get(name, [paper(i, title=paper(8 - i)["title"]) for i in range(9)])
    other = build_store(table(changed), tmp_path / "other")
    shutil.copy(other.path / name, store.path / name)
    rewritten(store)
    with pytest.raises(ArtefactError, match=told):
        verify_store(store.path)
