"""The ACL Anthology's XML: ids old and new, which volume is the main one, dates, what is gone."""

import random
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from hindsight_fast.errors import DataError
from hindsight_fast.papers import read_papers, readers, venues
from hindsight_fast.papers.readers import Given, _xml, acl_anthology, streams

ACL = "Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics"
PAPER = """    <paper id="7">
      <title><fixed-case>B</fixed-case>ig nets &amp; <i>small</i> <tex-math>k</tex-math>-NN</title>
      <author id="ada-m"><first>Ada</first><last>Müller</last><affiliation>U</affiliation>
        <variant script="hani"><first>A</first><last>B</last></variant></author>
      <author><first/><last>Plato</last></author>
      <pages>1-15</pages>
      <abstract>We <b>show</b><br/>that <url>https://x.org</url> works.</abstract>
      <url hash="0a">2023.acl-long.7</url>
      <doi>10.18653/v1/2023.acl-long.7</doi>
      <revision id="1" href="2023.acl-long.7v1" hash="1"/>
      <revision id="2" href="2023.acl-long.7v2" hash="2" date="2023-09-01">Typo.</revision>
      <revision id="3" href="2023.acl-long.7v3" hash="3" date="2024-01-02">Table.</revision>
    </paper>
"""


def meta(booktitle: str | None = ACL, *venue: str, month: str = "July", more: str = "") -> str:
    title = "" if booktitle is None else f"<booktitle>{booktitle}</booktitle>"
    venues = "".join(f"<venue>{name}</venue>" for name in venue)
    return (
        f"<meta>{title}<editor><first>Ed</first><last>Itor</last></editor>"
        f"<month>{month}</month><year>2023</year>{venues}{more}</meta>\n"
    )


def volume(*papers: str, name: str = "long", meta: str = meta(ACL, "acl"), more: str = "") -> str:
    inner = "".join(papers)
    return f'  <volume id="{name}" type="proceedings"{more}>\n    {meta}{inner}  </volume>\n'


def collection(path: Path, *volumes: str, name: str = "2023.acl") -> Path:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<collection id="{name}">\n'
    path.write_text(text + "".join(volumes) + "</collection>\n", encoding="utf-8")
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    batches = list(acl_anthology.read(path, streams.head(path), Given()))
    assert not any(batch.rejects.height for batch in batches)
    return [row for batch in batches for row in batch.records.to_dicts()]


def one(tmp_path: Path, *volumes: str, name: str = "2023.acl") -> dict[str, Any]:
    (record,) = rows(collection(tmp_path / "a.xml", *volumes, name=name))
    return record


def test_a_paper(tmp_path: Path) -> None:
    record = one(tmp_path, volume(PAPER))
    assert {name: value for name, value in record.items() if value is not None} == {
        "line": 5,
        "id": "ACL:2023.acl-long.7",
        "title": "Big nets & small $k$-NN",
        "abstract": "We show that https://x.org works.",
        "authors": ["Ada Müller", "Plato"],
        "venue": ACL,
        "year": "2023",
        "date": "July 2023",
        "revised": "2024-01-02",
        "doi": "10.18653/v1/2023.acl-long.7",
        "kind": "inproceedings",
        "url": "https://aclanthology.org/2023.acl-long.7/",
        "source": "acl",
    }


def test_through_cleaning(tmp_path: Path) -> None:
    path = collection(tmp_path / "2023.acl.xml", volume("<frontmatter/>\n", PAPER))
    assert readers.find(path, streams.head(path), "auto") is acl_anthology.READER
    table = read_papers([path])
    assert (table.counts["n_in"], table.counts["n_papers"]) == (2, 2)
    front, paper = table.papers.sort("id").to_dicts()
    assert (front["id"], front["title"], front["status"]) == (
        "ACL:2023.acl-long.0",
        ACL,
        "paratext",
    )
    assert front["authors"] == ["Ed Itor"]
    assert (paper["venue"], str(paper["date"])) == ("ACL", "2023-07-01")
    assert paper["status"] != "paratext"
    assert (paper["date_precision"], paper["date_kind"]) == ("month", "venue")


@pytest.mark.parametrize(
    ("where", "within", "item", "expected"),
    [
        ("2022.acl", "long", "1", "2022.acl-long.1"),
        ("2022.findings", "acl", "12", "2022.findings-acl.12"),
        ("P18", "1", "1", "P18-1001"),
        ("W18", "1", "1", "W18-0101"),
        ("W18", "63", "10", "W18-6310"),
        ("C69", "1", "2", "C69-0102"),
        ("D19", "1", "1", "D19-1001"),
        ("D19", "57", "2", "D19-5702"),
        ("J05", "4", "101", "J05-4101"),
        ("P18", "x", "1", "P18-x.1"),
    ],
)
def test_ids(tmp_path: Path, where: str, within: str, item: str, expected: str) -> None:
    paper = f'<paper id="{item}"><title>T</title></paper>'
    record = one(tmp_path, volume(paper, name=within), name=where)
    assert record["id"] == f"ACL:{expected}"
    assert record["url"] == f"https://aclanthology.org/{expected}/"


def test_a_paper_without_id_has_none(tmp_path: Path) -> None:
    record = one(tmp_path, volume("<paper><title>T</title></paper>"))
    assert (record["id"], record["url"], record["title"]) == (None, None, "T")


VENUES: list[tuple[str, str, str | None, tuple[str, ...], str]] = [
    # collection, volume, title of the volume, venues that it names, what is made of it
    ("2023.acl", "long", f"{ACL} (Volume 1: Long Papers)", ("acl",), "ACL"),
    ("2023.acl", "short", f"{ACL} (Volume 2: Short Papers)", ("acl",), "ACL"),
    ("P19", "1", f"{ACL}", ("acl",), "ACL"),
    ("2023.emnlp", "main", "Proceedings of the 2023 Conference on Empirical Methods in Natural "
     "Language Processing", ("emnlp",), "EMNLP"),
    ("2021.acl", "long", None, ("acl",), "ACL"),
    ("2021.acl", "demo", None, ("acl",), ""),
    ("2021.acl", "srw", None, ("acl",), ""),
    ("2023.acl", "demo", f"{ACL} (Volume 3: System Demonstrations)", ("acl",), ""),
    ("2023.acl", "srw", f"{ACL} (Volume 4: Student Research Workshop)", ("acl",), ""),
    ("2023.acl", "industry", f"{ACL} (Volume 5: Industry Track)", ("acl",), ""),
    ("2023.acl", "tutorials", f"{ACL} (Volume 6: Tutorial Abstracts)", ("acl",), ""),
    ("2023.findings", "acl", "Findings of the Association for Computational Linguistics: ACL 2023",
     ("findings",), ""),
    ("2023.findings", "acl", f"{ACL}: Findings", ("acl",), ""),
    # Where the title of the volume does not say it, the ids do.
    ("2023.acl", "demo", ACL, ("acl",), ""),
    ("2023.acl", "tutorials", ACL, ("acl",), ""),
    ("2023.acl", "industry", ACL, ("acl",), ""),
    ("2023.acl", "srw", ACL, ("acl",), ""),
    ("2023.findings", "acl", ACL, ("findings",), ""),
    ("2023.acl", "1", ACL, ("nlp4x", "ws"), ""),
    ("W18", "1", "Proceedings of the First Workshop on Nets for ACL 2018", ("ws",), ""),
]  # fmt: skip


@pytest.mark.parametrize(("where", "within", "title", "named", "expected"), VENUES)
def test_only_a_main_volume_is_the_venue(
    tmp_path: Path,
    where: str,
    within: str,
    title: str | None,
    named: tuple[str, ...],
    expected: str,
) -> None:
    path = collection(
        tmp_path / "a.xml", volume(PAPER, name=within, meta=meta(title, *named)), name=where
    )
    venue = read_papers([path]).papers["venue"]
    if expected:
        assert venue.to_list() == [expected]
    else:
        assert not venues.is_known(venue, venues.table()).any()
        assert venues.is_named(venue, venues.table()).all()


@pytest.mark.parametrize(
    ("title", "more", "in_paper", "expected"),
    [
        ("Transactions of the ACL, Volume 10",
         "<journal-title>Transactions of the Association for Computational Linguistics"
         "</journal-title>", "", "TACL"),
        ("Transactions of the Association for Computational Linguistics, Volume 1", "", "", "TACL"),
        ("Computational Linguistics, Volume 48, Issue 1 - March 2022", "", "",
         "Computational Linguistics"),
        ("A Volume of Things", "", "<journal>TACL</journal>", "TACL"),
    ],
)  # fmt: skip
def test_journals(tmp_path: Path, title: str, more: str, in_paper: str, expected: str) -> None:
    paper = f'<paper id="1"><title>T</title><abstract>A</abstract>{in_paper}</paper>'
    text = volume(paper, name="10", meta=meta(title, more=more)).replace("proceedings", "journal")
    path = collection(tmp_path / "a.xml", text, name="2022.tacl")
    (record,) = rows(path)
    assert record["kind"] == "article"
    assert read_papers([path]).papers["venue"].to_list() == [expected]


@pytest.mark.parametrize(
    ("month", "ingested", "expected"),
    [
        ("July", "2023-07-08", "July 2023"),  # in the month: says nothing
        ("July", "2023-08-08", "July 2023"),
        ("July", "2023-06-28", "2023-06-28"),  # public before the conference
        ("July", "1900-01-01", "July 2023"),  # how the Anthology writes that it is not known
        ("July", "soon", "July 2023"),
        ("9-14 July", "2023-07-08", "2023-07-08"),
        ("", "2023-06-28", "2023"),
        ("July", None, "July 2023"),
    ],
)
def test_when_it_was_public(
    tmp_path: Path, month: str, ingested: str | None, expected: str
) -> None:
    more = "" if ingested is None else f' ingest-date="{ingested}"'
    record = one(tmp_path, volume(PAPER, meta=meta(ACL, month=month), more=more))
    assert record["date"] == expected
    assert record["first_public"] is None


def test_a_paper_put_in_by_itself_has_its_own_day(tmp_path: Path) -> None:
    paper = PAPER.replace('id="7"', 'id="7" ingest-date="2023-06-30"')
    record = one(tmp_path, volume(paper, more=' ingest-date="2023-06-28"'))
    assert record["date"] == "2023-06-30"


@pytest.mark.parametrize(
    ("where", "year"), [("2022.acl", "2022"), ("P97", "1997"), ("P05", "2005")]
)
def test_a_volume_without_year_has_its_collections(tmp_path: Path, where: str, year: str) -> None:
    record = one(tmp_path, volume(PAPER, meta="<meta><month>May</month></meta>"), name=where)
    assert (record["year"], record["date"]) == (year, f"May {year}")


def test_a_volume_without_meta_keeps_its_papers_apart(tmp_path: Path) -> None:
    path = collection(tmp_path / "a.xml", volume(PAPER), volume(PAPER, name="short", meta=""))
    first, second = rows(path)
    assert (first["venue"], second["venue"], second["id"]) == (ACL, "short", "ACL:2023.acl-short.7")


@pytest.mark.parametrize(
    ("element", "status"),
    [
        ('<retracted date="2022-05-06">Not for the archive.</retracted>', "retracted"),
        ('<removed date="2022-05-06">Withdrawn.</removed>', "withdrawn"),
        ("<award>Best paper</award>", None),
    ],
)
def test_what_is_gone(tmp_path: Path, element: str, status: str | None) -> None:
    paper = PAPER.replace("<pages>", f"{element}<pages>")
    assert one(tmp_path, volume(paper))["status"] == status


def test_front_and_back_matter_are_paratext(tmp_path: Path) -> None:
    back = '<paper id="99" type="backmatter"><title>Index</title></paper>'
    front = '<frontmatter><url hash="1">2023.acl-long.0</url></frontmatter>'
    found = rows(collection(tmp_path / "a.xml", volume(front, back, PAPER)))
    assert [(row["id"][-2:], row["status"], row["title"][:8]) for row in found] == [
        (".0", "paratext", ACL[:8]),
        ("99", "paratext", "Index"),
        (".7", None, "Big nets"),
    ]


def test_a_paper_outside_of_a_volume_is_a_reject(tmp_path: Path) -> None:
    event = "<event id='acl-2023'><meta><title>ACL</title></meta></event>"
    path = collection(tmp_path / "a.xml", volume(PAPER), event, PAPER)
    batches = list(acl_anthology.read(path, streams.head(path), Given()))
    assert [batch.records.height for batch in batches] == [1]
    assert batches[0].rejects.rows() == [(19, "a paper outside of a volume", "")]


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        (b'<collection id="2022.acl">', True),
        (b'<?xml version="1.0"?>\n<!-- P18 -->\n<collection id="P18">\n<volume id="1">', True),
        (b'<collection id="somebodys books">', False),
        (b'<collection xmlns="http://www.loc.gov/MARC21/slim" id="P18">', False),
        (b'<volume id="P18">', False),
        (b"", False),
    ],
)
def test_sniffing(head: bytes, is_one: bool) -> None:
    assert acl_anthology.sniff(Path("anything"), head) is is_one


def test_damage_is_refused_or_changes_no_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_xml, "_PIECE", 700)
    path = collection(
        tmp_path / "a.xml", volume("<frontmatter/>", PAPER, PAPER), volume(PAPER, name="short")
    )
    whole = path.read_bytes()
    random.seed(3)
    for _ in range(200):
        damaged = bytearray(whole)
        start = random.randrange(len(damaged))
        end = start + random.choice([0, 1, 30])
        damaged[start:end] = random.choice([b"", b"<", b"&", b"\xff", b"x", b"<a/>", b"\n"])
        path.write_bytes(damaged)
        try:
            tree = ET.fromstring(bytes(damaged))
            n = len(tree.findall("volume/paper") + tree.findall("volume/frontmatter"))
        except (ET.ParseError, LookupError):
            n = -1
        try:
            batches = list(acl_anthology.read(path, streams.head(path), Given()))
            found = sum(batch.records.height for batch in batches)
        except DataError as error:
            assert n == -1 or "expected" in str(error)
        else:
            assert found == n
