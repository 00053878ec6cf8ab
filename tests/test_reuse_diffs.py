"""Diffs between Semantic Scholar's releases, applied to the papers of a store."""

import datetime as dt
import random
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from hindsight_fast.errors import DataError
from hindsight_fast.papers import gather, s2_bulk
from hindsight_fast.papers.merging import merge
from hindsight_fast.papers.options import Old, Options
from hindsight_fast.papers.records import RAW_SCHEMA, clean
from hindsight_fast.papers.schema import MERGE_SCHEMA, PAPER_SCHEMA, Role
from old_papers import (
    COLUMNS,
    LONGER,
    RENEWED,
    RULES,
    TEXT,
    Files,
    Json,
    abstract,
    apply,
    joint,
    old_of,
    paper,
    s2,
    tldr,
)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "diffs")


def test_what_no_diff_names_stays(files: Files) -> None:
    rows = [s2(1), s2(2, source="own", id="x"), s2(3), s2(4, corpus_id=None)]
    files.update("papers/part-0.gz", paper(77), paper(2))
    files.delete("papers-deletes.gz", 2, 88)
    found, _, counts = apply(old_of(rows), files.diffs)
    assert found == {row["id"]: row for row in rows}
    assert counts == {}


def test_a_renewed_record_leaves_its_date_and_texts(files: Files) -> None:
    files.update("part-0.gz", paper(2, title="On another matter"), paper("3", venue="X"))
    found, _, counts = apply(old_of([s2(1), s2(2)]), files.diffs)
    assert found["CorpusId:1"] == s2(1)
    assert found["CorpusId:2"] == s2(2, **dict.fromkeys(RENEWED))
    assert counts == {"s2_old_renewed": 1}


def test_a_deleted_record_is_gone(files: Files) -> None:
    files.delete("2024-03-12/papers/part-0.gz", 2, "3", 4)
    found, _, counts = apply(old_of([s2(1), s2(2), s2(3)]), files.diffs)
    assert found == {"CorpusId:1": s2(1)}
    assert counts == {"s2_old_deleted": 2, "s2_old_removed": 2}


def test_what_other_records_told_stays(files: Files) -> None:
    row = s2(5, id="acl:1", source="acl", venue="ACL", n_records=3, date_kind="first_public")
    by = {"venue": 0, "title": 0, "doi": 0, "abstract": 2, "authors": 2, "source": 0}
    records = ["acl acl:1", "s2 CorpusId:5", "arxiv file arXiv:2305.00001"]
    told = joint(row, records, by, default=1)
    old = old_of([row, s2(6)], [told])

    files.update("u", paper(5))
    found, merges, counts = apply(old, files.diffs)
    renewed = [name for name in RENEWED if name not in by]
    assert found["acl:1"] == row | dict.fromkeys(renewed) | {"n_records": 2}
    assert merges["acl:1"] == {
        "id": "acl:1",
        "records": [records[0], records[2]],
        **{name: {0: 0, 2: 1}.get(told[name]) for name in COLUMNS},
    }
    assert counts == {"s2_old_renewed": 1}

    files.updates.clear()
    files.delete("papers/1", 5)
    found, merges, counts = apply(old, files.diffs)
    gone = [name for name in COLUMNS if told[name] == 1 and name not in ("date", "status")]
    assert {"corpus_id", "tldr", "license", "year", "citations"} <= set(gone)
    assert found["acl:1"] == row | dict.fromkeys(gone) | {"n_records": 2}
    assert counts == {"s2_old_deleted": 1}


def test_of_two_records_one_is_deleted(files: Files) -> None:
    row = s2(5, n_records=2, venue="ACL")
    told = joint(row, ["s2 CorpusId:5", "s2 CorpusId:9"], {"venue": 1, "abstract": 1})
    files.delete("papers/1", 5)
    found, merges, _ = apply(old_of([row], [told]), files.diffs)
    left = found["CorpusId:5"]
    assert (left["corpus_id"], left["source"], left["venue"]) == (9, "s2", "ACL")
    assert (left["citations"], left["doi"], left["n_records"]) == (None, None, 1)
    assert merges == {}
    files.delete("papers/2", 9)
    assert apply(old_of([row], [told]), files.diffs)[0] == {}


@pytest.mark.parametrize(
    ("owner", "text", "expected"),
    [
        (0, LONGER, LONGER),
        (0, TEXT[:40] + ".", TEXT[:40] + "."),  # its own, though shorter
        (0, None, None),
        (1, LONGER, LONGER),  # another's, but longer
        (1, TEXT[:40], TEXT),
        (1, None, TEXT),
        (0, "<p>A &amp; B are shown to be one and the same thing here.</p>", "A & B are shown"),
    ],
)
def test_a_text_is_replaced(files: Files, owner: int, text: str | None, expected: str) -> None:
    row = s2(5, n_records=2)
    told = joint(row, ["s2 CorpusId:5", "own x"], {"abstract": owner})
    files.update("abstracts", abstract(5, text), abstract(6, LONGER))
    found, merges, counts = apply(old_of([row], [told]), files.diffs)
    left = found["CorpusId:5"]
    assert left["abstract"] == expected or left["abstract"].startswith(expected)
    assert left["status"] == ("title_only" if expected is None else "ok")
    assert left | {"abstract": TEXT, "status": "ok"} == row
    assert merges == {row["id"]: told}
    assert counts == {"s2_old_abstract": 1}


def test_texts_are_taken_away(files: Files) -> None:
    gone = s2(2, status="retracted")
    files.delete("abstracts/part", 1, 2, 9)
    files.delete("diff/tldrs-0.gz", 1)
    found, _, counts = apply(old_of([s2(1), gone, s2(3)]), files.diffs)
    assert found["CorpusId:1"] == s2(1, abstract=None, tldr=None, status="title_only")
    assert found["CorpusId:2"] == gone | {"abstract": None}
    assert found["CorpusId:3"] == s2(3)
    assert counts == {"s2_old_abstract": 2, "s2_old_tldr": 1}


def test_a_new_text_is_seen_for_what_it_is(files: Files) -> None:
    rows = [s2(1, abstract=None, status="title_only"), s2(2), s2(3, abstract=None)]
    german = (
        "Wir zeigen, dass dies so ist und dass es auch für die anderen Fälle gilt, die wir kennen."
    )
    open_access = {"license": "CC0", "url": None, "externalids": None}
    files.update(
        "abstracts",
        abstract(1, german, openaccessinfo=open_access),
        abstract("2", "This paper has been withdrawn."),
        "{",
    )
    files.update("tldrs", tldr(3, "  It &lt; that. "))
    found, _, counts = apply(old_of(rows), files.diffs)
    one = found["CorpusId:1"]
    assert one.pop("language") not in ("en", None)
    assert one == {name: value for name, value in rows[0].items() if name != "language"} | {
        "abstract": german,
        "status": "ok",
        "license": "CC0",
    }
    assert found["CorpusId:2"]["status"] == "withdrawn"
    assert found["CorpusId:3"]["tldr"] == "It < that."
    assert counts == {"s2_old_abstract": 2, "s2_old_tldr": 1}


def read_updates(files: Files, root: Path) -> tuple[pl.DataFrame, Counter[str]]:
    counts = Counter[str]()
    batches = [batch for _, batch in s2_bulk.read_updates(files.diffs, root / "work", counts)]
    return pl.concat(
        [pl.DataFrame(schema=RAW_SCHEMA), *(each.records for each in batches)]
    ), +counts


def test_the_later_day_decides(files: Files, tmp_path: Path) -> None:
    files.update("2024-03-05/papers/0", paper(1), paper(2), paper(3))
    files.delete("2024-03-05/papers/1", 3)
    files.delete("2024-03-12/papers/0", 1)
    files.update("2024-03-19/papers/0", paper(1, title="On its return"), paper(4))
    files.update("2024-03-05/abstracts/0", abstract(1, "Early."), abstract(4, "Late enough."))
    files.delete("2024-03-12/abstracts/0", 1)
    raw, counts = read_updates(files, tmp_path)
    assert sorted(raw["title"]) == ["On its return", "On the matter of 2", "On the matter of 4"]
    assert dict(raw.select("corpus_id", "abstract").iter_rows()) == {
        "1": None,
        "2": None,
        "4": "Late enough.",
    }
    assert (counts["s2_papers_deleted"], counts["s2_abstracts_deleted"]) == (2, 1)
    found, _, _ = apply(old_of([s2(1), s2(2), s2(3)]), files.diffs)
    assert found == {"CorpusId:2": s2(2, **dict.fromkeys(RENEWED))}


def test_without_papers_there_is_nothing_to_read(files: Files, tmp_path: Path) -> None:
    files.update("a", abstract(1, "Some."))
    files.update("c", {"citingcorpusid": 1, "citedcorpusid": 2})
    files.delete("citations/c", 5)
    files.delete("empty.gz")
    raw, counts = read_updates(files, tmp_path)
    assert (raw.height, counts) == (0, {})
    assert apply(old_of([s2(3)]), files.diffs)[2] == {"unused_citations": 2}


def test_a_folder_stands_for_its_files(files: Files) -> None:
    files.update("up/papers/0.gz", paper(1))
    files.update("up/README.txt", "not JSON")
    files.update("up/abstracts/.hidden", "not JSON")
    files.delete("down/papers/0", 2)
    up, down = files.root / "up", files.root / "down"
    found = s2_bulk.diffs([up], [down])
    assert found.updates == {"papers": [up / "papers" / "0.gz"]}
    assert found.deletes["papers"].ids.to_list() == [2]


def test_the_dataset_of_a_delete_file_must_be_told(files: Files) -> None:
    files.delete("papers/diffs/more/part-0.gz", 1)
    with pytest.raises(DataError, match=r"part-0\.gz does not tell which dataset"):
        files.diffs  # noqa: B018
    files.deletes.clear()
    files.delete("new-papers-x/part-0.gz", 1, None)
    with pytest.raises(DataError, match=r"part-0\.gz, line 2: .* corpusid"):
        files.diffs  # noqa: B018


def merged(old: Old, files: Files, root: Path) -> pl.DataFrame:
    """The papers of a store after a diff, from its updates and what stays of it."""
    new = s2_bulk.changed(old, files.diffs, root / "old", RULES, Counter())
    there = pl.concat([pl.DataFrame(schema=PAPER_SCHEMA), *new.parts()])
    records = clean(read_updates(files, root)[0], RULES).papers
    roles = ((there, Role.OLD), (records, Role.RECORD))
    both = [frame.with_columns(role=pl.lit(role, pl.UInt8)) for frame, role in roles]
    return merge(pl.concat(both), RULES.venues).papers


def test_an_updated_paper_has_the_new_facts_the_old_id_text_and_date(
    files: Files, tmp_path: Path
) -> None:
    old = old_of([s2(1), s2(2), s2(3, id="mine", venue=None)])
    day = "2024-02-03"
    files.update(
        "2024-03-12/papers/0",
        paper(
            1, title="On a matter, corrected", publicationdate=day, externalids={"DOI": "10.1234/x"}
        ),
        paper(3, venue="International Conference on Machine Learning"),
        paper(4, publicationdate=day),
    )
    files.update("2024-03-12/abstracts/0", abstract(4, LONGER), abstract(2, LONGER))
    papers = {row["id"]: row for row in merged(old, files, tmp_path).iter_rows(named=True)}
    assert sorted(papers) == ["CorpusId:1", "CorpusId:2", "CorpusId:4", "mine"]
    one = papers["CorpusId:1"]
    assert (one["title"], one["doi"]) == ("On a matter, corrected", "10.1234/x")
    assert (one["citations"], one["citations_as_of"]) == (9, dt.date(2024, 3, 12))
    assert (one["venue"], one["citations_dated"]) == (None, None)
    assert (one["abstract"], one["tldr"]) == (TEXT, "It is so.")
    assert one["date"] == dt.date(2023, 5, 1)
    assert papers["CorpusId:2"] == s2(2, abstract=LONGER)
    assert papers["mine"]["venue"] == "ICML"
    assert papers["CorpusId:4"]["abstract"] == LONGER


def test_a_renewed_record_says_nothing_for_others(files: Files, tmp_path: Path) -> None:
    row = s2(5, n_records=2, venue="ACL", citations_source="s2")
    told = joint(row, ["s2 CorpusId:5", "acl ACL:5"], {"venue": 1})
    files.update("p", paper(5, venue="arXiv.org", citationcount=1))
    (found,) = merged(old_of([row], [told]), files, tmp_path).iter_rows(named=True)
    assert (found["id"], found["venue"], found["citations"]) == ("CorpusId:5", "ACL", 1)
    assert (found["n_records"], found["abstract"]) == (2, TEXT)


def test_a_paper_that_has_grown_twice_is_still_told_apart(files: Files) -> None:
    """What another record told outlives Semantic Scholar's, whenever each of them came."""
    first = s2(1, n_records=2)
    told = joint(first, ["s2 CorpusId:1", "own X"], {"abstract": 1, "doi": 1})
    rows = [
        first | {"role": Role.OLD},
        s2(1, id="Z", source="acl", corpus_id=None, citations=1, tldr=None, role=Role.RECORD),
        s2(1, id="2301.00001", source="arxiv", role=Role.DATED),
    ]
    grown = merge(
        pl.DataFrame(rows, schema=PAPER_SCHEMA | {"role": pl.UInt8()}),
        RULES.venues,
        pl.DataFrame([told], schema=MERGE_SCHEMA),
    )
    (line,) = grown.merges.to_dicts()
    assert line["records"] == ["s2 CorpusId:1", "own X", "acl Z", "[arxiv 2301.00001]"]
    assert (line["citations"], line["abstract"], line["doi"], line["tldr"]) == (0, 1, 1, 0)
    files.delete("papers-deletes", 1)
    old = old_of(grown.papers.to_dicts(), grown.merges.to_dicts())
    found, after, _ = apply(old, files.diffs)
    paper = found["CorpusId:1"]
    assert (paper["abstract"], paper["doi"], paper["tldr"]) == (TEXT, "10.1234/1", None)
    assert (paper["n_records"], paper["source"], paper["citations"]) == (2, "own", None)
    assert after["CorpusId:1"]["records"] == ["own X", "acl Z", "[arxiv 2301.00001]"]


def release(root: Path, day: str, papers: Mapping[int, Json], texts: Mapping[int, Json]) -> Path:
    """A release of two datasets, in a folder."""
    files = Files(root / day)
    files.update("papers/part-0.gz", *(papers[one] for one in sorted(papers)))
    files.update("abstracts/part-0", *(texts[one] for one in sorted(texts, reverse=True)))
    return files.root


def test_a_store_and_a_diff_make_the_next_release(tmp_path: Path) -> None:
    """But for when counts were taken, and for how many records a paper was made of."""
    words = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    number = random.Random(4).randrange

    def text(key: int) -> str:
        return f"We show that {' '.join(words[number(10)] for _ in range(9))} is {key}."

    ids = [number(1, 10**8) for _ in range(60)]
    papers = {one: paper(one, title=f"On {text(one)}", year=2020 + one % 4) for one in ids}
    texts = {one: abstract(one, text(one)) for one in ids[:40]}
    first = release(tmp_path, "2024-03-05", papers, texts)
    there = gather([first], work_in(tmp_path), Options(today=RULES.today))
    old = Old(there.parts, there.merges, there.conflicts)

    files = Files(tmp_path / "2024-03-12")
    renewed = {one: papers[one] | {"citationcount": 50 + one % 7} for one in ids[5:25]}
    new = {one: paper(one, title=f"On {text(one)}") for one in range(1, 6)}
    files.update("papers/up.gz", *renewed.values(), *new.values())
    files.delete("papers/deletes/0.gz", *ids[:5], 999)
    new_texts = {one: abstract(one, text(one)) for one in [*ids[20:30], *ids[45:50], 1, 2]}
    files.update("abstracts/up.gz", *new_texts.values())
    files.delete("abstracts/deletes/0", *ids[:5], *ids[30:33])
    options = Options(
        today=RULES.today,
        reuse=old,
        updates=tuple(files.updates),
        deletes=tuple(path.parent for path in files.deletes),
    )
    grown = gather([], work_in(tmp_path), options)

    papers = {one: told for one, told in (papers | renewed | new).items() if one not in ids[:5]}
    gone = {*ids[:5], *ids[30:33]}
    texts = {one: told for one, told in (texts | new_texts).items() if one not in gone}
    second = release(tmp_path, "2024-03-19", papers, texts)
    expected = gather([second], work_in(tmp_path), Options(today=RULES.today))
    columns = [name for name in PAPER_SCHEMA if name not in ("citations_as_of", "n_records")]
    assert (
        pl.concat(grown.parts()).select(columns).equals(pl.concat(expected.parts()).select(columns))
    )
    assert grown.counts["s2_old_removed"] == 5
    assert grown.counts["n_papers"] == 60


def work_in(root: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=root))
