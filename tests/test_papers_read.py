"""Files to one table: counts, refusals, options, any input at all, and the real files."""

import json
import random
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hindsight_fast.errors import DataError, HindsightError, StorageError, UsageError
from hindsight_fast.papers import PAPER_SCHEMA, REJECT_SCHEMA, PaperTable, read_papers, venues
from hindsight_fast.papers.choosing import Where
from hindsight_fast.papers.options import Options
from hindsight_fast.papers.read import read_table

TODAY = date(2026, 11, 30)


def lines(path: Path, *rows: dict[str, Any] | str) -> Path:
    texts = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def one(tmp_path: Path, **facts: Any) -> dict[str, Any]:
    path = lines(
        tmp_path / "one.jsonl", {"title": "A title of its own", "abstract": "We do."} | facts
    )
    return read_papers([path], today=TODAY).papers.to_dicts()[0]


DATED: list[tuple[dict[str, Any], tuple[str, str, str]]] = [
    ({"arxiv_id": "1812.00001", "date": "2025-03-04"}, ("2018-12-01", "month", "first_public")),
    ({"id": "arxiv:2510.14703", "date": "2025-10-17"}, ("2025-10-17", "day", "first_public")),
    ({"url": "https://arxiv.org/abs/2308.13904", "year": "2023", "venue": "Arxiv"},
     ("2023-08-01", "month", "first_public")),
    ({"doi": "10.48550/arXiv.2308.13904"}, ("2023-08-01", "month", "first_public")),
    ({"date": "2023-05-02"}, ("2023-05-02", "day", "first_public")),
    ({"date": "2023-05-02", "venue": "CoRR"}, ("2023-05-02", "day", "first_public")),
    ({"date": "8 2022", "venue": "ijcai", "year": "2022"}, ("2022-08-01", "month", "venue")),
    ({"date": "28--30 Mar 2022", "venue": "aistats"}, ("2022-03-28", "day", "venue")),
    ({"date": "2024-05-02", "venue": "A Journal of Things"}, ("2024-05-02", "day", "venue")),
    ({"date": "2023-10-02", "venue": "Submitted to ICLR 2024"},
     ("2023-10-02", "day", "first_public")),
    ({"arxiv_id": "9901.00001", "year": 2023}, ("2023-01-01", "year", "year")),
    ({"date": "dec 2022", "venue": "emnlp", "year": "2023"}, ("2022-12-01", "month", "venue")),
    ({"year": "2024", "venue": "ICLR"}, ("2024-05-01", "month", "venue")),
    ({"venue": "ICLR 2024"}, ("2024-05-01", "month", "venue")),
    ({"venue": "ICLR 2024", "year": 2023}, ("2023-01-01", "year", "year")),
    ({"date": "bad", "year": 2023}, ("2023-01-01", "year", "year")),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "expected"), DATED)
def test_dates(tmp_path: Path, facts: dict[str, Any], expected: tuple[str, str, str]) -> None:
    paper = one(tmp_path, **facts)
    assert (str(paper["date"]), paper["date_precision"], paper["date_kind"]) == expected


def test_undated_stays_undated(tmp_path: Path) -> None:
    for facts in ({}, {"date": "bad"}, {"date": "9999-12-31"}, {"year": "20"}, {"venue": "ICLR"},
                  {"venue": "Lecture Notes 2075"}, {"id": "9901.00001"}):  # fmt: skip
        paper = one(tmp_path, **facts)
        assert (paper["date"], paper["date_precision"], paper["date_kind"]) == (None, None, None)


def test_words_for_nothing_are_nothing(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("abstract", "venue", "citations", "doi", "date", "url"), "None")
    paper = one(tmp_path, **nothing)
    assert [paper[name] for name in nothing] == [None] * len(nothing)
    assert paper["status"] == "title_only"


def test_the_same_work_before_the_cutoff(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "a.jsonl",
        {"title": "One work", "arxiv_id": "2302.00001", "citations": 40, "venue": "arXiv"},
        {"title": "One Work.", "date": "2023-12-10", "citations": 120, "venue": "NeurIPS 2023"},
    )
    table = read_papers([path], today=TODAY)
    (paper,) = table.papers.to_dicts()
    assert (paper["date"], paper["citations"]) == (date(2023, 2, 1), 120)
    assert paper["venue"] == "NeurIPS" and table.counts["n_merged"] == 1


LISTED: list[dict[str, Any]] = [
    {"title": "Known before", "venue": "NeurIPS", "year": 2023, "authors": ["Ada Bee"]},
    {"title": "Known later", "venue": "NeurIPS", "year": 2023, "citations": 3},
    {"title": "Taken back", "venue": "ICLR", "year": 2024},
]
SEEN: list[dict[str, Any]] = [
    {"title": "Known Before.", "arxiv_id": "2302.00001", "citations": 40, "authors": ["Bee, A."]},
    {"title": "Known later", "arxiv_id": "2311.00002", "abstract": "We look at it."},
    {"title": "Taken back", "arxiv_id": "2312.00003", "abstract": "Withdrawn by the authors"},
    {"title": "Of no interest", "arxiv_id": "2301.00004"},
]


def test_files_of_dates_tell_what_was_public_before(tmp_path: Path) -> None:
    """The preprint of a listed paper takes it out of windows that begin later, and says no more."""
    listed, seen = lines(tmp_path / "a.jsonl", *LISTED), lines(tmp_path / "b.jsonl", *SEEN, "bad")
    table = read_table([listed], Options(today=TODAY, dates=(seen,), max_bad=0.2))
    before, later, back = table.papers.sort("title").to_dicts()
    assert (before["date"], before["date_kind"]) == (date(2023, 2, 1), "first_public")
    assert (before["arxiv_id"], before["citations"], before["n_records"]) == ("2302.00001", None, 1)
    assert (later["date"], later["citations"], later["abstract"]) == (date(2023, 11, 1), 3, None)
    assert (back["date"], back["status"]) == (date(2023, 12, 1), "withdrawn")
    counts = table.counts
    assert (counts["n_in"], counts["n_papers"], counts["n_merged"]) == (3, 3, 0)
    assert (counts["n_dates"], counts["n_dates_rejects"], counts["n_rejects"]) == (4, 1, 0)
    assert counts["n_dated_earlier"] == 3
    assert table.merges["records"].list.len().to_list() == [2, 2, 2]


def test_what_is_left_out_still_tells_when(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", *LISTED, *SEEN)
    options = Options(today=TODAY, where=Where(("venue = 'NeurIPS'",)))
    table = read_table([path], options)
    before, later = table.papers.sort("title").to_dicts()
    assert (before["date"], before["citations"]) == (date(2023, 2, 1), None)
    assert (later["date"], later["abstract"]) == (date(2023, 11, 1), None)
    counts = table.counts
    assert (counts["n_in"], counts["n_papers"], counts["n_left_out"]) == (7, 2, 5)
    whole = read_table([path], Options(today=TODAY))
    assert (whole.counts["n_papers"], whole.counts["n_merged"]) == (4, 3)


def test_order_of_files_does_not_matter(tmp_path: Path) -> None:
    rng = random.Random(5)
    rows = [_row(rng) | {"title": f"Title {rng.randrange(40)} words"} for _ in range(200)]
    paths = [lines(tmp_path / f"{i}.jsonl", *rows[i::4]) for i in range(4)]
    forth = read_papers(paths, max_bad=1, today=TODAY)
    back = read_papers(paths[::-1], max_bad=1, today=TODAY)
    assert forth.papers.equals(back.papers) and forth.rejects.equals(back.rejects)
    assert forth.counts == back.counts and forth.counts["n_merged"] >= 30
    forth.papers.write_parquet(tmp_path / "a.parquet")
    back.papers.write_parquet(tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_own_output_reads_back(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "a.jsonl",
        {"id": "a", "title": "One work", "abstract": "We.", "authors": ["A B"], "venue": "NIPS",
         "date": "2023-05-02", "citations": 3, "citations_as_of": "2025-01-01", "corpus_id": 7,
         "field": "cs", "doi": "10.1145/x"},
    )  # fmt: skip
    first = read_papers([path])
    told = ["date_kind", "date_origin", "date_precision", "n_records", "topics"]
    first.papers.drop(told[:3]).write_parquet(tmp_path / "b.parquet")
    again = read_papers([tmp_path / "b.parquet"])
    assert again.papers.equals(first.papers)
    assert again.ignored == tuple(told[3:])


STORE = '{"format_version": 1, "kind": "store"}'


def test_folders(tmp_path: Path) -> None:
    """Only tables, at any depth; nothing hidden, nothing of ours, no folder named like a table."""
    for name in ("a.jsonl", "deep/er/b.JSON", "other/c.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        lines(tmp_path / name, {"title": f"A title in {name}"})
    (tmp_path / "other" / "manifest.json").write_text('{"name": "of another program"}')
    (tmp_path / "store").mkdir()
    read_papers([tmp_path / "a.jsonl"]).papers.write_parquet(tmp_path / "store" / "papers.parquet")
    (tmp_path / "store" / "manifest.json").write_text(STORE)
    for name in ("store/vectors/x", ".store.partial", "x.json"):
        (tmp_path / name).mkdir(parents=True)
    lines(tmp_path / "store" / "vectors" / "x" / "d.jsonl", {"title": "Ours"})
    lines(tmp_path / ".store.partial" / "e.jsonl", {"title": "Hidden"})
    lines(tmp_path / "deep" / ".f.jsonl", {"title": "Hidden"})
    with pytest.raises(DataError, match=r"manifest.json has no column 'title'"):
        read_papers([tmp_path])
    (tmp_path / "other" / "manifest.json").unlink()
    expected = {f"A title in {name}" for name in ("a.jsonl", "deep/er/b.JSON", "other/c.jsonl")}
    assert set(read_papers([tmp_path]).papers["title"]) == expected
    with pytest.raises(DataError, match="is what this package made"):
        read_papers([tmp_path / "store"])


def test_a_link_that_leads_nowhere_is_no_silent_gap(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", {"title": "One of two"})
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "absent")
    with pytest.raises(DataError, match=r"b.jsonl: no such file"):
        read_papers([tmp_path])
    (tmp_path / "b.jsonl").unlink()
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "b.jsonl")
    with pytest.raises(StorageError, match=r"b.jsonl can't be read"):
        read_papers([tmp_path])


def test_files_go_by_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = lines(Path("a.jsonl"), *({"title": f"Number {i}"} for i in range(9)), "bad", {})
    assert read_papers([path], max_bad=1).rejects["file"].to_list() == ["a.jsonl"] * 2
    named = read_papers([path], names={path: "-"}, max_bad=1)
    assert named.rejects["file"].to_list() == ["-"] * 2
    table = read_papers(
        [path, tmp_path / "a.jsonl", tmp_path], max_bad=1
    )  # one file, spelled three ways
    assert table.counts["n_in"] == 11 and set(table.rejects["file"]) == {"a.jsonl"}
    with pytest.raises(DataError, match=r"^-: 2 of 11"):
        read_papers([path], names={path: "-"}, max_bad=0)
    path.write_text("")
    with pytest.raises(DataError, match=r"^- is empty"):
        read_papers([path], names={path: "-"})


def test_malformed_is_what_its_own_column_could_not_say(tmp_path: Path) -> None:
    arxiv, doi = "https://arxiv.org/abs/2308.13904", "https://doi.org/10.1145/x"
    rows: list[tuple[dict[str, Any], set[str]]] = [
        ({"doi": "10.48550/arXiv.2308.13904"}, set()),
        ({"doi": "10.48550/arXiv.0601.0001"}, {"doi"}),
        ({"doi": "nonsense", "url": doi}, {"doi"}),
        ({"arxiv_id": "nonsense", "url": arxiv}, {"arxiv_id"}),
        ({"arxiv_id": "9901.00001"}, {"arxiv_id"}),
        ({"corpus_id": "12.0"}, set()),
        ({"corpus_id": "12.5"}, {"corpus_id"}),
        ({"venue": "ICLR 2075"}, set()),
    ]
    for facts, expected in rows:
        path = lines(tmp_path / "a.jsonl", {"title": "A title"} | facts)
        counts = read_papers([path], today=TODAY).counts
        found = {name.removeprefix("malformed_") for name in counts if name.startswith("malf")}
        assert found == expected, facts


def test_venues_in_the_table_and_others_are_told_apart(tmp_path: Path) -> None:
    names = ["ICLR 2024", "A Journal of Things", "Submitted to ICLR 2024", "arXiv", "Poster", None]
    rows = [{"title": f"Number {i}", "venue": name} for i, name in enumerate(names)]
    counts = read_papers([lines(tmp_path / "a.jsonl", *rows)]).counts
    assert (counts["n_venues"], counts["n_venues_unlisted"]) == (1, 1)


def test_max_bad(tmp_path: Path) -> None:
    good = [{"title": f"Number {i} of these"} for i in range(18)]
    two_bad = lines(tmp_path / "a.jsonl", *good, "bad", '{"title": null}')
    assert read_papers([two_bad]).counts["n_rejects"] == 2
    with pytest.raises(
        DataError, match=r"2 of 20 .*\n  line 19: not JSON.*: bad\n  line 20: no title"
    ):
        read_papers([two_bad], max_bad=0.09)
    one_bad = lines(tmp_path / "b.jsonl", *good[:2], "bad")
    assert read_papers([one_bad]).counts["n_rejects"] == 1  # one alone is never reason enough
    with pytest.raises(DataError, match="1 of 3"):
        read_papers([one_bad], max_bad=0)
    only_bad = lines(tmp_path / "c.jsonl", '{"title": ""}')
    with pytest.raises(DataError, match="none of 1"):
        read_papers([only_bad], max_bad=1)


def test_mapping(tmp_path: Path) -> None:
    mapped = lines(tmp_path / "a.jsonl", {"name": "A b c", "title": "not this", "text": "We."})
    plain = lines(tmp_path / "b.jsonl", {"title": "D e f"})
    mapping = {"title": "name", "abstract": "text"}
    table = read_papers([mapped, plain], mapping=mapping)
    assert set(table.papers["title"]) == {"A b c", "D e f"}
    assert table.papers["abstract"].drop_nulls().to_list() == ["We."]
    with pytest.raises(UsageError, match=r"no column 'titel', did you mean 'title'\?"):
        read_papers([plain], mapping={"titel": "name"})
    with pytest.raises(UsageError, match=r"no source has the column 'nam'.*did you mean 'name'"):
        read_papers([mapped], mapping={"title": "nam"})


def test_a_mapping_is_for_columns_of_ones_own(tmp_path: Path) -> None:
    work = {"id": "https://openalex.org/W1", "title": "A b c", "display_name": "A b c"}
    works = lines(tmp_path / "a.jsonl", work | {"abstract_inverted_index": None})
    paper = {"corpusid": 1, "externalids": {"DOI": None}, "title": "On it", "citationcount": 1}
    shard = lines(tmp_path / "b.jsonl", paper)
    own = lines(tmp_path / "c.jsonl", {"name": "D e f"})
    mapping = {"title": "name"}
    said = r"a\.jsonl is openalex, whose columns are known: --map is for tables with"
    with pytest.raises(UsageError, match=said):
        read_papers([works], mapping=mapping)
    said = r"b\.jsonl is s2_bulk \(and 1 more are of such formats\), whose"
    with pytest.raises(UsageError, match=said):
        read_papers([shard, works], mapping=mapping)
    assert read_papers([works, own], mapping=mapping).counts["n_papers"] == 2
    dates = Options(today=TODAY, mapping=mapping, dates=(own,))
    assert read_table([works], dates).counts["n_dates"] == 1


def test_limit_is_per_file(tmp_path: Path) -> None:
    paths = [
        lines(tmp_path / f"{i}.jsonl", *({"title": f"File {i} number {j}"} for j in range(9)))
        for i in range(2)
    ]
    assert read_papers(paths, limit=3).counts["n_in"] == 6
    assert read_papers([paths[0]] * 2, limit=3).counts["n_in"] == 3


def test_options_are_checked(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"title": "A b"})
    for limit in (0, -1):
        with pytest.raises(UsageError, match="at least 1"):
            read_papers([path], limit=limit)
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match="from 0 to 1"):
            read_papers([path], max_bad=share)
    with pytest.raises(UsageError, match="no source"):
        read_papers([])


def test_counts_must_add_up() -> None:
    counts = {"n_in": 3, "n_papers": 0, "n_merged": 2, "n_rejects": 0}
    papers, rejects = pl.DataFrame(schema=PAPER_SCHEMA), pl.DataFrame(schema=REJECT_SCHEMA)
    with pytest.raises(HindsightError, match="internal error: 3 records became 0 papers, 2 merged"):
        PaperTable(papers, rejects, counts)


ODD: tuple[Any, ...] = (
    None, "", "None", "\x00", "\ud800", "é", "<i>", "&amp;&lt;", "-1", "12", "1.2k", "2023", "9999",
    "8 2022", "2405.14012", "10.1145/x", "ICLR 2024", "NIPS", "Retraction: x", 0, -1, 12.9, 1e308,
    True, [], ["a", None], [["a"]], {}, {"name": "A"}, 10**30, "x" * 3000, "cs/0601001", "(" * 99,
)  # fmt: skip


def _row(rng: random.Random) -> dict[str, Any]:
    names = [*PAPER_SCHEMA, "something", ""]
    row: dict[str, Any] = {name: rng.choice(ODD) for name in rng.sample(names, rng.randrange(8))}
    return row | ({"title": f"Title {rng.randrange(300)} words"} if rng.random() < 0.8 else {})


def test_any_records_at_all(tmp_path: Path) -> None:
    """Some thousand mutated records: no crash, and the counts add up."""
    rng = random.Random(7)
    for turn in range(6):
        texts: list[bytes] = []
        for _ in range(500):
            text = bytearray(
                json.dumps(_row(rng), ensure_ascii=rng.random() < 0.5).encode(
                    "utf-8", "surrogatepass"
                )
            )
            if rng.random() < 0.2:
                for _ in range(rng.randrange(1, 4)):
                    text[rng.randrange(len(text))] = rng.randrange(256)
            texts.append(bytes(text).replace(b"\n", b" ") or b"{}")
        path = tmp_path / f"{turn}.jsonl"
        path.write_bytes(b"\n".join(texts))
        table = read_papers([path], max_bad=1, today=TODAY)
        assert table.counts["n_in"] == sum(1 for text in texts if text.strip())
        assert table.papers["id"].is_unique().all()
        assert (
            table.papers["date"].drop_nulls().is_between(date(1800, 1, 1), date(2028, 1, 4)).all()
        )
        path = tmp_path / f"{turn}.csv"
        path.write_bytes(b"id,title,abstract,year\n" + b"\n".join(texts))
        try:
            read_papers([path], max_bad=1, today=TODAY)
        except DataError as error:
            assert str(path) in str(error)


@pytest.fixture(scope="module")
def real(shared: Path) -> PaperTable:
    return read_papers(sorted((shared / "data" / "papers").glob("*.parquet")), today=TODAY)


def test_real_files(real: PaperTable) -> None:
    counts = real.counts
    assert counts["n_in"] == 139_272 and counts["n_rejects"] == 0
    assert 128_000 < counts["n_papers"] < 129_500
    assert counts["n_undated"] == 0 and counts["n_retracted"] == 4
    assert real.ignored == ("source_file",)


def test_real_window(real: PaperTable) -> None:
    papers = real.papers.filter(pl.col("status") == "ok")
    window = papers.filter(pl.col("date").is_between(date(2023, 6, 1), date(2025, 12, 31)))
    top = venues.is_top(window["venue"], venues.table())
    cited = window["citations"].is_not_null()
    assert 60_000 < window.height < 76_000
    assert 10_000 < top.sum() < 11_500 and 1_000 < (top & cited).sum() < 1_250
    assert window["citations"].max() == 3_403


def test_real_facts(real: PaperTable) -> None:
    def paper(title: str) -> dict[str, Any]:
        return real.papers.filter(pl.col("title").str.to_lowercase() == title.lower()).to_dicts()[0]

    lora = paper("LoRA: Low-Rank Adaptation of Large Language Models")
    assert (str(lora["date"]), lora["date_kind"], lora["venue"]) == (
        "2021-06-01",
        "first_public",
        "ICLR",
    )
    wrong = real.papers.filter(pl.col("citations") == 27_866).to_dicts()
    assert [(each["venue"], each["date"].year) for each in wrong] == [("WACV", 2020)]
