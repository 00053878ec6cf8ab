"""Which records are one paper, and what the one paper says."""

import random
import re
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight_fast.papers import conflicts, duplicates, merging, venues
from hindsight_fast.papers.merging import Merged
from hindsight_fast.papers.schema import CONFLICT_SCHEMA, MERGE_SCHEMA, PAPER_SCHEMA, Role

TITLE = "A study of many things"


def record(id: str | None, year: int | None = 2023, **facts: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PAPER_SCHEMA)
    row |= {"id": id, "title": TITLE, "abstract": f"Abstract {id}.", "year": year, "status": "ok"}
    if year is not None:
        row |= {"date": date(year, 1, 1), "date_precision": "year", "date_kind": "year"}
        row["date_origin"] = "year"
    return row | facts


def merge_all(*rows: dict[str, Any]) -> Merged:
    """Merge records, and check what holds for any of them."""
    roles = pl.Series("role", [row.get("role", Role.RECORD) for row in rows], dtype=pl.UInt8)
    plain = [{name: row[name] for name in PAPER_SCHEMA} for row in rows]
    table = pl.DataFrame(plain, schema=PAPER_SCHEMA).with_columns(roles)
    merged = merging.merge(table, venues.table())
    records = [row for row in rows if row.get("role", Role.RECORD) <= Role.OLD]
    n_records = sum(row.get("n_records") or 1 for row in records)
    assert merged.papers["n_records"].sum() == n_records
    assert merged.papers["id"].is_unique().all() and not merged.papers["id"].null_count()
    assert merged.papers["id"].is_sorted() and merged.merges["id"].is_sorted()
    for found, schema in (
        (merged.papers, PAPER_SCHEMA),
        (merged.merges, MERGE_SCHEMA),
        (merged.conflicts, CONFLICT_SCHEMA),
    ):
        assert dict(found.schema) == schema
    backwards = merging.merge(table[list(range(table.height))[::-1]], venues.table())
    assert backwards.papers.equals(merged.papers) and backwards.merges.equals(merged.merges)
    assert backwards.conflicts.equals(merged.conflicts) and backwards[4:] == merged[4:]
    return merged


def merge(*rows: dict[str, Any]) -> pl.DataFrame:
    return merge_all(*rows).papers


LONG = "A study of many things, and of some more of them"


def of_bee(id: str, year: int | None, **facts: Any) -> dict[str, Any]:
    return record(id, year, **({"title": LONG, "authors": ["Ada Bee"]} | facts))


PREPRINT: dict[str, Any] = {"venue": "arXiv", "arxiv_id": "2301.00001"}
ONE: dict[str, tuple[dict[str, Any], ...]] = {
    "title, same year": (record("a"), record("b")),
    "title, next year": (record("a"), record("b", 2024)),
    "title, preprint two years before": (record("a", 2022, **PREPRINT), record("b", 2024)),
    "title but for case and signs": (record("a"), record("b", title="A Study of 'Many' Things!")),
    "title but for the marker": (record("a"), record("b", title=f"[RETRACTED] {TITLE}")),
    "doi": (record("a", doi="10.1145/x"), record("b", 2010, doi="10.1145/x", title="Other words")),
    "arxiv id": (record("a", **PREPRINT), record("b", 2010, **PREPRINT, title="Other words")),
    "corpus id": (
        record("a", corpus_id=7),
        record("b", 2010, corpus_id=7, title="Other words", authors=["Cy Dee"]),
    ),
    "id with our suffix and title": (record("a~0123456789ab"), record("a", 2010)),
    "id and title": (record("a"), record("a", 2010, abstract="Other words")),
    "undated, same abstract": (record("a", abstract="Same."), record("b", None, abstract="Same.")),
    "same authors": (record("a", authors=["Ada Bee", "C D"]), record("b", authors=["Bee, A."])),
    "same authors, initials last": (
        record("a", authors=["Ada Bee"]),
        record("b", authors=["Bee A"]),
    ),
    "same abstract, whatever the years": (
        record("a", 2021, abstract="Same."),
        record("b", 2024, abstract="Same."),
    ),
    "one without authors": (record("a", authors=["Ada Bee"]), record("b")),
    "long title and first author, whatever the years": (
        of_bee("a", 2015),
        of_bee("b", 2024, **PREPRINT),
    ),
    "long title and first author, known years before": (
        of_bee("a", 2015, venue="arXiv"),
        of_bee("b", 2024, authors=["Bee, A."], doi="10.1145/x"),
    ),
    "long title and first author, in few letters": (
        of_bee("a", 2015, title="大規模言語モデルの評価方法"),
        of_bee("b", 2024, title="大規模言語モデルの評価方法", **PREPRINT),
    ),
    "long title and first author, one more near each": (
        of_bee("a", 2015),
        record("b", 2016, title=LONG),
        of_bee("c", 2024, **PREPRINT),
        record("d", 2024, title=LONG, venue="arXiv"),
    ),
}
TWO: dict[str, tuple[dict[str, Any], ...]] = {
    "titles that differ in a sign": (
        record("a", title="C++ for learning"),
        record("b", title="C for learning"),
    ),
    "generic title of one id": (
        record("a", 2019, title="Editorial"),
        record("a", 2023, title="Editorial", abstract="Another."),
    ),
    "doi of a volume": (
        record("a", doi="10.1145/x", title="First words", authors=["Ada Bee"]),
        record("b", doi="10.1145/x", title="Other words", authors=["Cy Dee"]),
    ),
    "doi of a volume, from two sources": (
        record("a", doi="10.1145/x", title="First words", authors=["Ada Bee"]),
        record("b", doi="10.1145/x", title="First words", authors=["Bee, A."]),
        record("c", doi="10.1145/x", title="Other words", authors=["Cy Dee"]),
        record("d", doi="10.1145/x", title="Other words", authors=["Cy Dee"]),
    ),
    "other title": (record("a"), record("b", title="A study of few things")),
    "two years apart": (record("a", 2022), record("b", 2024)),
    "preprint three years before": (record("a", 2021, **PREPRINT), record("b", 2024)),
    "undated": (record("a", None), record("b")),
    "generic": (record("a", title="Preface"), record("b", title="PREFACE.")),
    "generic, with a name": (
        record("a", title="Asian Conference on Things: Preface"),
        record("b", title="Asian Conference on Things: Preface"),
    ),
    "no letter in the title": (record("a", title="?!"), record("b", title="?!")),
    "other first author": (record("a", authors=["Ada Bee"]), record("b", authors=["Ed Eff"])),
    "one id, two papers": (record("a"), record("a", title="Something else")),
    "short title, years apart": (
        of_bee("a", 2015, title="Large language models"),
        of_bee("b", 2024, title="Large language models", **PREPRINT),
    ),
    "long title, years apart, one first author known": (
        of_bee("a", 2015),
        record("b", 2024, title=LONG, **PREPRINT),
    ),
    "long title, years apart, other first author": (
        of_bee("a", 2015),
        of_bee("b", 2024, authors=["Ed Eff"], **PREPRINT),
    ),
    "long title, years apart, other first author of that name": (
        of_bee("a", 2015),
        of_bee("b", 2024, authors=["Eve Bee"], **PREPRINT),
    ),
    "long title and first author, both published": (of_bee("a", 2015), of_bee("b", 2024)),
    "long title and first author, two preprints": (
        of_bee("a", 2015, **PREPRINT),
        of_bee("b", 2024, venue="arXiv", arxiv_id="2401.00001"),
    ),
    "long title and first author, other DOI": (
        of_bee("a", 2015, doi="10.1145/x"),
        of_bee("b", 2024, doi="10.1145/y", **PREPRINT),
    ),
    "long title and first author, no year": (
        of_bee("a", None),
        of_bee("b", 2024, **PREPRINT),
    ),
}


@pytest.mark.parametrize("rows", ONE.values(), ids=ONE)
def test_one_paper(rows: tuple[dict[str, Any], ...]) -> None:
    assert merge(*rows).height == 1


@pytest.mark.parametrize("rows", TWO.values(), ids=TWO)
def test_two_papers(rows: tuple[dict[str, Any], ...]) -> None:
    assert merge(*rows).height == 2


def test_a_title_that_returns_every_year_does_not_chain() -> None:
    assert merge(*(record(f"r{year}", year) for year in range(2015, 2023))).height == 4


@pytest.mark.parametrize(
    "years", [(2019, 2020, 2021), (2015, 2018, 2024), range(2015, 2021), (2015, 2017, 2019)]
)
def test_a_title_that_comes_back_again_and_again_is_a_report(years: Sequence[int]) -> None:
    published = [of_bee(f"r{year}", year) for year in years]
    before = merge(*published).height
    assert before > 1
    # Whose preprint is it? Where a year tells, of that year's; never of all.
    late = of_bee("late", 2030, venue="arXiv", arxiv_id="3001.00001")
    assert merge(*published, late).height == before + 1
    preprints = [
        row | {"venue": "arXiv", "arxiv_id": f"{row['year'] - 2000}01.00001"} for row in published
    ]
    assert (merge(*preprints).height > 1) == (years[-1] - years[0] > 2)


@pytest.mark.parametrize("number", [1, 2])
def test_a_publication_and_its_preprint_however_far_apart_are_one(number: int) -> None:
    rows = [of_bee("a", 2015), of_bee("b", 2016), of_bee("c", 2024, **PREPRINT)]
    whole = merge(*rows)
    first = merge(*rows[:number], rows[2]).to_dicts()
    again = merge(*(row | {"role": Role.OLD} for row in first), *rows[number:2])
    assert (whole.height, again.height, again["n_records"].sum()) == (1, 1, 3)


def test_a_witness_of_the_same_author_tells_of_years_before() -> None:
    kept = of_bee("a", 2024)
    seen = of_bee("b", 2020, role=Role.DATED, **PREPRINT | {"arxiv_id": "2001.00001"})
    (paper,) = merge(kept, seen).to_dicts()
    assert (paper["year"], paper["date"], paper["arxiv_id"]) == (
        2024,
        date(2020, 1, 1),
        "2001.00001",
    )


def test_the_order_of_records_does_not_matter() -> None:
    rng = random.Random(3)
    rows = [
        record(
            f"p{rng.randrange(40)}",
            rng.randrange(2018, 2025),
            title=f"Title of {rng.randrange(12)}",
            citations=rng.randrange(5),
            authors=[f"A {rng.randrange(9)}"] if i % 5 == 0 else None,
            **(PREPRINT | {"arxiv_id": f"2301.{i:05}"} if i % 3 == 0 else {}),
        )
        for i in range(120)
    ]
    assert merge(*rows).equals(merge(*rng.sample(rows, len(rows))))


def test_too_many_of_a_kind_are_not_one() -> None:
    at_most = [record(f"p{i:02}") for i in range(duplicates.LARGEST)]
    assert merge(*at_most).height == 1
    too_many = [record(f"p{i:02}") for i in range(duplicates.LARGEST + 1)]
    assert merge(*too_many).height == len(too_many)
    for shared in ({"doi": "10.1145/v"}, {"arxiv_id": "2301.00001"}, {"corpus_id": 7}):
        rows = [{**row, **shared, "title": f"T {row['id']}"} for row in too_many]
        assert merge(*rows).height == len(rows)


def test_what_the_one_paper_says() -> None:
    preprint = record(
        "arxiv:2302.00001", 2023, abstract="A longer abstract of it.", venue="arXiv",
        arxiv_id="2302.00001", date=date(2023, 2, 1), date_precision="month",
        date_kind="first_public", citations=40, citations_source="there",
    )  # fmt: skip
    published = record(
        "neurips:1", 2023, abstract="Short.", venue="NeurIPS", doi="10.1145/x",
        date=date(2023, 12, 10), date_precision="day", date_kind="venue", citations=120,
        citations_source="here", citations_as_of=date(2025, 1, 1),
    )  # fmt: skip
    (paper,) = merge(preprint, published).to_dicts()
    assert paper["id"] == "neurips:1"
    assert (paper["venue"], paper["doi"], paper["arxiv_id"]) == (
        "NeurIPS",
        "10.1145/x",
        "2302.00001",
    )
    assert (paper["date"], paper["date_precision"]) == (date(2023, 2, 1), "month")
    assert paper["date_kind"] == "first_public"
    assert (paper["citations"], paper["citations_source"]) == (120, "here")
    assert paper["citations_as_of"] == date(2025, 1, 1)
    assert paper["abstract"] == "A longer abstract of it."


def test_what_became_of_which_record() -> None:
    """Each value of a merged paper stands in the record that is named for it."""
    rng = random.Random(4)
    rows = [
        record(
            f"p{i}",
            rng.randrange(2021, 2024),
            title=f"Title of {rng.randrange(20)}",
            abstract=rng.choice([None, "Short.", f"A longer abstract {i}."]),
            venue=rng.choice([None, "CVPR", "arXiv", "SIGIR"]),
            citations=rng.choice([None, 1, 7, 90]),
            citations_source=f"count of {i}",
            citations_dated=rng.choice([None, f"2023:{i}"]),
            corpus_id=rng.choice([None, i]),
            doi=rng.choice([None, f"10.1145/{rng.randrange(300)}"]),
            revised=rng.choice([None, date(2024, 1, 1 + i % 28)]),
            topics=rng.choice([None, [], ["A"], ["A", "B"]]),
            status=rng.choice(["ok", "ok", "title_only", "withdrawn", "paratext", "stub"]),
            source=rng.choice(["here", "there"]),
            role=rng.choice([Role.RECORD, Role.RECORD, Role.LEFT_OUT, Role.DATED]),
            tldr=f"In short {i}",
        )
        for i in range(90)
    ]
    merged = merge_all(*rows)
    known = {f"{row['source']} {row['id']}": row for row in rows}
    known |= {f"[{name}]": row for name, row in known.items()}
    papers = {paper["id"]: paper for paper in merged.papers.to_dicts()}
    assert merged.merges.height > 10 and max(map(len, merged.merges["records"])) >= 4
    told = merged.merges.to_dicts()
    for line in told:
        paper = papers[line["id"]]
        records: list[dict[str, Any]] = [known[name] for name in line["records"]]
        witness = [one["role"] > Role.OLD for one in records]
        assert witness == sorted(witness) and not witness[0]
        for name in MERGE_SCHEMA.keys() - {"id", "records"}:
            if line[name] is None:
                assert paper[name] is None
                continue
            place: int = line[name]
            winner = records[place]
            assert winner[name] == paper[name], name
            allowed = {"date", "doi", "arxiv_id", "status"}
            assert name in allowed or winner["role"] <= Role.OLD, name
        assert paper["date"] == min(one["date"] for one in records)
        own = [one for one in records if one["role"] <= Role.OLD]
        assert paper["revised"] == max(
            (one["revised"] for one in own if one["revised"]), default=None
        )
    one_record = papers.keys() - {line["id"] for line in told}
    assert all(papers[id]["n_records"] == 1 for id in one_record)


def test_the_count_and_its_source_stay_together() -> None:
    (paper,) = merge(
        record("a", citations=9), record("b", doi="10.1145/x", citations=3, citations_source="b")
    ).to_dicts()
    assert (paper["id"], paper["citations"], paper["citations_source"]) == ("b", 9, None)


def test_dated_counts_are_of_the_day_of_the_count_or_name_theirs() -> None:
    """Else 12 months would be taken for over, of which the dated counts tell three."""
    first, later = date(2024, 1, 1), date(2025, 1, 1)
    dated: dict[str, Any] = {"citations": 5, "citations_as_of": first, "citations_dated": "2023:5"}
    own_day = "2023:5 @2024-01-01"
    for day, expected in ((first, "2023:5"), (later, own_day), (None, own_day)):
        one: dict[str, Any] = {"citations": 9, "citations_as_of": day}
        (paper,) = merge(record("a", **one), record("b", **dated)).to_dicts()
        assert (paper["citations"], paper["citations_dated"]) == (9, expected)
        # Once more, as a paper of an older store.
        old = record("z", role=Role.OLD, **one, citations_dated=expected)
        (paper,) = merge(old, record("b", citations=3, citations_as_of=first)).to_dicts()
        assert (paper["citations"], paper["citations_dated"]) == (9, expected)
        (paper,) = merge(old, record("b", citations=10, citations_as_of=first)).to_dicts()
        assert (paper["citations"], paper["citations_dated"]) == (10, "2023:5")
    (paper,) = merge(record("a"), record("b", **dated)).to_dicts()
    assert (paper["citations"], paper["citations_dated"]) == (5, "2023:5")
    (paper,) = merge(record("a"), record("b", **dated | {"citations": None})).to_dicts()
    assert (paper["citations"], paper["citations_dated"]) == (None, own_day)


def test_dated_counts_of_the_same_day_come_first() -> None:
    day, other = date(2025, 1, 1), date(2025, 2, 1)
    rows = [
        record("a", citations=9, citations_as_of=day),
        record("b", citations=8, citations_as_of=other, citations_dated="2023:8"),
        record("c", citations=7, citations_as_of=day, citations_dated="2023:7"),
        record("d", citations=9, citations_dated="2023:9"),  # till when, nobody knows
    ]
    assert merge(*rows)["citations_dated"].to_list() == ["2023:7"]
    assert merge(rows[0], rows[1], rows[3])["citations_dated"].to_list() == ["2023:8 @2025-02-01"]
    assert merge(rows[0], rows[3])["citations_dated"].to_list() == [None]
    of_no_day = [record("e", citations=9), *rows[2:]]
    assert merge(*of_no_day)["citations_dated"].to_list() == ["2023:7 @2025-01-01"]
    assert merge(*of_no_day[::2])["citations_dated"].to_list() == ["2023:9"]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (("ok", "retracted"), "retracted"),
        (("withdrawn", "ok"), "withdrawn"),
        (("title_only", "ok"), "ok"),
        (("title_only", "title_only"), "title_only"),
        (("stub", "ok"), "ok"),
        (("stub", "title_only"), "stub"),
        (("paratext", "ok"), "paratext"),
        (("paratext", "withdrawn"), "withdrawn"),
    ],
)
def test_status(statuses: tuple[str, str], expected: str) -> None:
    rows = [
        record(f"p{i}", status=status, **({"abstract": None} if status == "title_only" else {}))
        for i, status in enumerate(statuses)
    ]
    assert merge(*rows)["status"].to_list() == [expected]


def test_a_witness_tells_when_and_no_more() -> None:
    """What was public before the cutoff under another record is known then, wherever it is."""
    kept = record("neurips:1", abstract="Short.", venue="NeurIPS", authors=["Ada Bee"])
    seen = record(
        "arxiv:1", 2022, abstract="A longer abstract.", authors=["Ada Bee"], citations=9,
        corpus_id=7, tldr="In short", venue="arXiv", arxiv_id="2209.00001", doi="10.1145/x",
        date=date(2022, 9, 1), date_precision="month", date_kind="first_public",
        date_origin="arxiv_id", role=Role.LEFT_OUT,
    )  # fmt: skip
    for role in (Role.LEFT_OUT, Role.DATED):
        (paper,) = merge(kept, seen | {"role": role}).to_dicts()
        dated = {name: seen[name] for name in seen if name.startswith("date")}
        told = dated | {"arxiv_id": seen["arxiv_id"], "doi": seen["doi"], "n_records": 1}
        assert paper == kept | told
    (paper,) = merge(kept | {"doi": "10.1145/y"}, seen | {"status": "retracted"}).to_dicts()
    assert (paper["doi"], paper["status"]) == ("10.1145/y", "retracted")
    (paper,) = merge(kept, seen | {"status": "paratext"}).to_dicts()
    assert paper["status"] == "ok"


def test_how_many_files_of_dates_date_earlier() -> None:
    def n(*rows: dict[str, Any]) -> int:
        return merge_all(*rows, record("z", title="Another")).n_dated_earlier

    def seen(day: date, precision: str, role: Role = Role.DATED) -> dict[str, Any]:
        return record("w", date=day, date_precision=precision, date_kind="venue", role=role)

    june, day, may = date(2023, 6, 1), date(2023, 6, 7), date(2023, 5, 9)
    kept = record("a", date=june, date_precision="month", date_kind="venue")
    assert n(kept, seen(may, "day")) == 1
    assert n(kept, seen(may, "day"), seen(may, "day") | {"id": "x"}) == 1
    assert n(kept, seen(day, "day")) == 0  # finer, but no earlier
    assert n(kept, seen(june, "month")) == n(kept, seen(date(2024, 1, 1), "year")) == 0
    assert n(kept, seen(may, "day", Role.LEFT_OUT)) == 0
    assert n(kept, seen(may, "day", Role.LEFT_OUT), seen(may, "day") | {"id": "x"}) == 0
    assert n(record("a", None, doi="10.1145/x"), seen(may, "day") | {"doi": "10.1145/x"}) == 1
    assert n(seen(may, "day")) == 0


def test_witnesses_alone_are_no_paper() -> None:
    seen = [record(id, role=Role.DATED) for id in "ab"]
    assert merge(*seen).height == 0
    assert merge(*seen, record("c", title="Another")).height == 1
    bridge = [record("a", 2020), record("b", 2021, role=Role.LEFT_OUT)]
    assert merge(*bridge, record("c", 2021, title="Words", arxiv_id="2101.00001")).height == 2
    joined = record("b", 2021, role=Role.LEFT_OUT, arxiv_id="2101.00001")
    assert (
        merge(record("a", 2020), joined, record("c", 2021, title="W", arxiv_id="2101.00001")).height
        == 1
    )


def test_a_witness_changes_no_id() -> None:
    other = record("a", title="Something else", role=Role.DATED)
    assert merge(record("a"), other)["id"].to_list() == ["a"]


def test_an_older_store_keeps_its_ids() -> None:
    old = record("z", 2022, abstract="Old words, and more of them.", citations=9, role=Role.OLD)
    old |= {"citations_source": "s2", "tldr": "In short", "n_records": 3}
    new = record("a", abstract="New.", doi="10.1145/x", citations=7, citations_source="s2")
    (paper,) = merge(old, new).to_dicts()
    assert (paper["id"], paper["n_records"], paper["citations"]) == ("z", 4, 9)
    assert (paper["doi"], paper["abstract"]) == ("10.1145/x", old["abstract"])
    # A newer record of the same id says all that it knows, even where that is less.
    for same in ({"id": "z"}, {"corpus_id": 7}):
        (paper,) = merge(old | {"corpus_id": 7}, new | same).to_dicts()
        assert (paper["id"], paper["citations"], paper["abstract"]) == ("z", 7, "New.")
        assert (paper["tldr"], paper["date"]) == ("In short", date(2022, 1, 1))
    papers = merge(old, record("z", title="Something else"))
    assert papers["id"].to_list()[0] == "z" and papers["id"].to_list()[1].startswith("z~")


def test_an_id_of_several_papers_gets_suffixes() -> None:
    rows = [record("a"), record("a", title="Something else"), record("b", title="Its own")]
    ids = merge(*rows)["id"].to_list()
    assert len({*ids}) == 3 and ids[2] == "b"
    assert all(re.fullmatch("a~[0-9a-f]{12}", id) for id in ids[:2])
    assert merge(*rows, record("c", title="More"))["id"].to_list() == [*ids, "c"]


def test_an_id_of_one_paper_gets_no_suffix() -> None:
    papers = merge(record("a", corpus_id=7), record("a", corpus_id=7, title="Its title, corrected"))
    assert papers["id"].to_list() == ["a"]


def _conflicts(*rows: dict[str, Any]) -> list[tuple[Any, ...]]:
    found = merge_all(*rows).conflicts
    return [tuple(line[name] for name in CONFLICT_SCHEMA) for line in found.to_dicts()]


def test_conflicts_of_the_same_papers_have_an_order() -> None:
    rows = [
        ("same_title", TITLE, ["a", "b"], 2, detail)
        for detail in (None, "first authors differ", "years apart or unknown")
    ]
    each = [pl.DataFrame([row], CONFLICT_SCHEMA, orient="row") for row in rows]
    assert conflicts.ordered(*each).equals(conflicts.ordered(*each[::-1]))


def test_conflicts_are_listed() -> None:
    assert _conflicts(record("a"), record("b")) == []
    assert _conflicts(record("b"), record("a", 2020)) == [
        ("same_title", TITLE, ["a", "b"], 2, "years apart or unknown")
    ]
    assert _conflicts(record("a", authors=["Ada Bee"]), record("b", authors=["Ed Eff"])) == [
        ("same_title", TITLE, ["a", "b"], 2, "first authors differ")
    ]
    prefaces = [record(f"p{i:02}", title="Preface") for i in range(25)]
    first = [f"p{i:02}" for i in range(20)]
    assert _conflicts(*prefaces) == [("generic_title", "Preface", first, 25, None)]
    assert _conflicts(*(row | {"title": TITLE} for row in prefaces)) == [
        ("too_many_alike", TITLE, first, 25, None)
    ]
    for name, value, said in (
        ("doi", "10.1145/x", "DOI 10.1145/x"),
        ("arxiv_id", "2301.00001", "arXiv 2301.00001"),
        ("corpus_id", 7, "corpus id 7"),
    ):
        rows = [row | {"title": f"T {row['id']}", name: value} for row in prefaces]
        assert _conflicts(*rows) == [("too_many_alike", said, first, 25, None)]
    volume = TWO["doi of a volume"]
    assert _conflicts(*volume) == [("volume_doi", "DOI 10.1145/x", ["a", "b"], 2, None)]
    assert _conflicts(*(row | {"role": Role.DATED} for row in prefaces)) == []


def test_titles_that_differ_are_listed() -> None:
    first = record("a", title="Learning to represent edits", doi="10.1145/x")
    other = first | {"id": "b", "title": "Learning to Execute"}
    like = first | {"id": "c", "title": "Learning to represent edits of code"}
    found = [("titles_differ", first["title"], ["a"], 2, other["title"])]
    assert _conflicts(first, other, like) == found
    assert _conflicts(first, like) == []
    assert _conflicts(first, other | {"role": Role.DATED}) == []


def test_counts_that_differ_tenfold_are_listed() -> None:
    rows = [
        record("a", citations=120, citations_source="s2", doi="10.1145/x"),
        record("b", citations=12, citations_source="openalex"),
    ]
    assert _conflicts(*rows) == [("counts_differ", TITLE, ["a"], 2, "s2 120; openalex 12")]
    for low, high, told in ((0, 9, 0), (0, 10, 1), (13, 120, 0), (None, 120, 0)):
        rows[0]["citations"], rows[1]["citations"] = high, low
        assert len(_conflicts(*rows)) == told


def test_the_venue_that_says_most_stays() -> None:
    venues = [None, "Submitted to CVPR 2024", "arXiv", "Some workshop", "SIGIR", "CVPR"]
    for kept in range(1, len(venues) + 1):
        rows = [record(f"p{i}", venue=venue) for i, venue in enumerate(venues[:kept])]
        assert merge(*rows)["venue"].to_list() == [venues[kept - 1]]


@pytest.mark.parametrize(
    "findings",
    [
        "Findings of EMNLP 2022",
        "EMNLP Findings",
        "Findings of the Association for Computational Linguistics: EMNLP 2022",
    ],
)
def test_a_paper_of_the_findings_is_not_of_the_main_track(findings: str) -> None:
    merged = merge(
        record("a", venue="EMNLP"), record("b", venue=findings), record("c", venue="EMNLP")
    )
    assert merged["venue"].to_list() == [findings]
    assert merge(record("a", venue="ICLR"), record("b", venue=findings))["venue"].item() == "ICLR"
    others = merge(record("a", venue="EMNLP"), record("b", venue="EMNLP 2022 Workshop on X"))
    assert others["venue"].item() == "EMNLP"


def test_records_without_id() -> None:
    papers = merge(record(None), record(None), record(None, title="Something else"))
    assert papers.height == 2
    assert papers["id"].str.starts_with("content:").all()


def test_nothing() -> None:
    assert merge().height == 0


def _groups(n: int, edges: list[tuple[int, int]]) -> list[int]:
    """Slow twin: smallest number that can be reached."""
    labels = list(range(n))
    for _ in range(n):
        for a, b in edges:
            labels[a] = labels[b] = min(labels[a], labels[b])
    return labels


def _graphs(n: int) -> st.SearchStrategy[tuple[int, list[tuple[int, int]]]]:
    row = st.integers(0, n - 1)
    return st.tuples(st.just(n), st.lists(st.tuples(row, row), max_size=14))


@given(st.integers(1, 12).flatmap(_graphs))
def test_components(case: tuple[int, list[tuple[int, int]]]) -> None:
    n, pairs = case
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    rows, labels = duplicates.components(edges)
    expected = _groups(n, pairs)
    assert rows.tolist() == sorted({row for pair in pairs for row in pair})
    assert labels.tolist() == [expected[row] for row in rows]


def test_a_long_chain_is_one_component() -> None:
    """However its numbers run: at random, up and down, or halved again and again."""
    bits = 16
    numbers = np.arange(1 << bits)
    halved = np.zeros_like(numbers)
    for bit in range(bits):
        halved |= ((numbers >> bit) & 1) << (bits - 1 - bit)
    zigzag = np.stack(np.split(numbers, 2), axis=1).ravel()
    million = np.random.default_rng(0).permutation(1_000_000)
    for order in (million, zigzag, halved):
        rows, labels = duplicates.components(np.stack([order[:-1], order[1:]], axis=1))
        assert len(rows) == len(order) and not labels.any()
