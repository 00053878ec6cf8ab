"""Answers of the arXiv API, what XML may not do, and what arXiv's free words say of a venue."""

import gzip
import random
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import polars as pl
import pytest
import zstandard

from hindsight_fast.errors import DataError
from hindsight_fast.papers import read_papers, readers, venues
from hindsight_fast.papers.readers import (
    Given,
    _arxiv,
    _xml,
    acl_anthology,
    arxiv_atom,
    streams,
    tables,
)

HEAD = """<?xml version='1.0' encoding='UTF-8'?>
<feed xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/"
 xmlns:arxiv="http://arxiv.org/schemas/atom" xmlns="http://www.w3.org/2005/Atom">
  <id>https://arxiv.org/api/abcdefg</id>
  <title>arXiv Query: search_query=all:nets</title>
  <updated>2026-04-12T22:45:06Z</updated>
  <opensearch:totalResults>2</opensearch:totalResults>
"""
ENTRY = """  <entry>
    <id>http://arxiv.org/abs/2305.01234v3</id>
    <title>Nets that
  learn &amp; forget</title>
    <updated>2024-01-05T10:00:00Z</updated>
    <link href="https://arxiv.org/abs/2305.01234v3" rel="alternate" type="text/html"/>
    <summary>  We teach &lt;mask&gt; to nets. </summary>
    <category term="cs.LG" scheme="http://arxiv.org/schemas/atom"/>
    <category term="cs.CL" scheme="http://arxiv.org/schemas/atom"/>
    <published>2023-05-02T15:05:19Z</published>
    <arxiv:comment>Accepted to ICML 2023, 9 pages</arxiv:comment>
    <arxiv:primary_category term="cs.CL"/>
    <author>
      <name>Ada Müller</name>
      <arxiv:affiliation>Somewhere</arxiv:affiliation>
    </author>
    <author><name>Bo Li</name></author>
    <arxiv:doi>10.1000/xyz</arxiv:doi>
  </entry>
"""
ERROR = """  <entry>
    <id>https://arxiv.org/api/errors#incorrect_id_format_for_abc</id>
    <title>Error</title>
    <summary>incorrect id format for abc</summary>
  </entry>
"""


def entry(number: int, **more: str) -> str:
    inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in more.items())
    return (
        f"<entry><id>http://arxiv.org/abs/2301.{number:05d}v1</id><title>Title {number}</title>"
        f"<summary>Of number {number}.</summary>{inner}</entry>\n"
    )


def feed(path: Path, *entries: str, head: str = HEAD) -> Path:
    path.write_text(head + "".join(entries) + "</feed>\n", encoding="utf-8")
    return path


def rows(path: Path, limit: int | None = None) -> tuple[list[dict[str, Any]], list[Any]]:
    """Records and rejects of a feed, all batches together."""
    batches = list(arxiv_atom.read(path, streams.head(path), Given(limit=limit)))
    return (
        [row for batch in batches for row in batch.records.to_dicts()],
        [row for batch in batches for row in batch.rejects.rows()],
    )


def test_an_entry(tmp_path: Path) -> None:
    (record,), rejects = rows(feed(tmp_path / "a.xml", ENTRY))
    assert not rejects
    assert {name: value for name, value in record.items() if value is not None} == {
        "line": 8,
        "id": "arXiv:2305.01234",
        "title": "Nets that\n  learn & forget",
        "abstract": "  We teach <mask> to nets. ",
        "authors": ["Ada Müller", "Bo Li"],
        "venue": "ICML 2023",
        "first_public": "2023-05-02T15:05:19Z",
        "revised": "2024-01-05T10:00:00Z",
        "doi": "10.1000/xyz",
        "arxiv_id": "2305.01234",
        "field": "cs.CL; cs.LG",
        "kind": "preprint",
        "url": "https://arxiv.org/abs/2305.01234",
        "source": "arxiv",
    }


def test_a_paper(tmp_path: Path) -> None:
    paper = read_papers([feed(tmp_path / "a.xml", ENTRY)]).papers.to_dicts()[0]
    assert str(paper["date"]) == "2023-05-02"
    assert (paper["date_precision"], paper["date_kind"]) == ("day", "first_public")
    assert (paper["title"], paper["venue"]) == ("Nets that learn & forget", "ICML")
    assert str(paper["revised"]) == "2024-01-05"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://arxiv.org/abs/astro-ph/0601001v1", "astro-ph/0601001"),
        ("https://export.arxiv.org/abs/2405.14012", "2405.14012"),
        (" http://arxiv.org/abs/math.GT/0309136v12\n", "math.GT/0309136"),
    ],
)
def test_ids(tmp_path: Path, address: str, expected: str) -> None:
    text = f"<entry><id>{address}</id><title>T</title></entry>"
    (record,), _ = rows(feed(tmp_path / "a.xml", text))
    assert (record["id"], record["arxiv_id"]) == (f"arXiv:{expected}", expected)


def test_what_is_no_paper_is_a_reject(tmp_path: Path) -> None:
    other = "  <entry><id>https://blog.example/1</id><title>A post</title></entry>\n"
    records, rejects = rows(feed(tmp_path / "a.xml", ENTRY, ERROR, other))
    assert len(records) == 1
    assert rejects == [
        (
            27,
            "an error of the arXiv API: incorrect id format for abc",
            "https://arxiv.org/api/errors#incorrect_id_format_for_abc",
        ),
        (32, "its id is no address at arxiv.org: 'https://blog.example/1'", "A post"),
    ]


def test_an_answer_without_entries_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.xml is an answer of the arXiv API without entries"):
        read_papers([feed(tmp_path / "a.xml")])


def test_a_file_of_one_error_says_what_the_api_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 8: an error of the arXiv API: incorrect id format"):
        read_papers([feed(tmp_path / "a.xml", ERROR)])


def test_withdrawn_papers_are_marked(tmp_path: Path) -> None:
    said = {"arxiv:comment": "This paper has been withdrawn by the author due to an error"}
    records, _ = rows(feed(tmp_path / "a.xml", entry(1, **said), entry(2)))
    assert [record["status"] for record in records] == ["withdrawn", None]
    assert [record["venue"] for record in records] == ["arXiv", "arXiv"]


@pytest.mark.parametrize("named", ["a.xml", "a.atom", "answer", "a.json"])
@pytest.mark.parametrize("packed", [bytes, gzip.compress, zstandard.compress])
def test_it_is_found_by_what_it_holds(
    tmp_path: Path, named: str, packed: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / named
    path.write_bytes(packed((HEAD + ENTRY + "</feed>").encode()))
    assert readers.find(path, streams.head(path), "auto") is arxiv_atom.READER
    assert read_papers([path]).counts["n_papers"] == 1


def test_other_feeds_are_not(tmp_path: Path) -> None:
    blog = b'<feed xmlns="http://www.w3.org/2005/Atom"><title>A blog</title></feed>'
    for head in (blog, b"", b"<html>arxiv.org</html>", b"arxiv.org", b'{"a": "<feed>"}', b"<feed"):
        assert not arxiv_atom.sniff(tmp_path, head)


def test_pieces_of_any_size_and_batches_give_what_a_whole_tree_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random.seed(1)
    texts = ["a & b", "<i>", "“é”", "x\ny", "𝔸", "]]>", ""]
    entries = [entry(i, published=random.choice(texts)) for i in range(40)]
    path = feed(tmp_path / "a.xml", *entries, ERROR, *entries[:5])
    atom = "{http://www.w3.org/2005/Atom}"
    expected = [
        (one.findtext(f"{atom}title"), one.findtext(f"{atom}published"))
        for one in ET.parse(path).getroot().iter(f"{atom}entry")
        if "errors" not in (one.findtext(f"{atom}id") or "")
    ]
    expected = [(title, public or None) for title, public in expected]
    monkeypatch.setattr(tables, "BATCH_RECORDS", 7)
    for piece in (1, 5, 1000):
        monkeypatch.setattr(_xml, "_PIECE", piece)
        records, rejects = rows(path)
        found = [(record["title"], record["first_public"] or None) for record in records]
        assert found == expected
        assert len(rejects) == 1
        assert rows(path, 12)[0] == records[:12]


FEED = '<feed xmlns="http://www.w3.org/2005/Atom"><id>http://arxiv.org/</id>'
LATIN = b'<?xml version="1.0" encoding="ISO-8859-1"?>' + FEED.encode() + b"\xe9</feed>"
BOMB = (
    "<?xml version='1.0'?>\n<!DOCTYPE feed [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;'>]>\n"
    + FEED
    + "&b;</feed>"
)
REFUSED: list[tuple[str, str | bytes, str]] = [
    ("entity bomb", BOMB, "line 2 holds a document type declaration"),
    ("external", "<!DOCTYPE feed SYSTEM 'file:///etc/passwd'>" + FEED, "document type declaration"),
    ("undefined entity", FEED + "\n&nbsp;</feed>", "not whole XML: undefined entity at line 2"),
    ("deep", FEED + "<a>" * 1000, "line 1 holds elements nested more than 64 deep"),
    ("deep entry", FEED + "<entry>" + "<a>" * 1000, "elements nested more than 64 deep"),
    ("long text", FEED + "<entry>" + "x" * 9000, "holds an element of more than 0 MiB"),
    ("many elements", FEED + "<entry>" + "<a/>" * 3000, "holds an element of more than 0 MiB"),
    ("long attribute", FEED + "<a b='" + "x" * 9000, "holds an element of more than 0 MiB"),
    ("long comment", FEED + "<!--" + "x" * 9000, "holds an element of more than 0 MiB"),
    ("many names", FEED + "".join(f"<a{i}/>" for i in range(99)), "more than 50 different names"),
    ("cut", FEED + "\n<entry><title>T", "not whole XML: no element found at line 2"),
    ("cut in a tag", FEED + "\n<entry", "not whole XML: unclosed token at line 2"),
    ("two in one", FEED + "</feed>\n" + FEED, "junk after document element at line 2"),
    ("wrong tag", FEED + "\n\n</a>", "mismatched tag at line 3"),
    ("latin 1", LATIN, "in the encoding 'ISO-8859-1'; UTF-8 is expected"),
    ("no UTF-8", FEED.encode() + b"\n\xff</feed>", r"invalid token\) at line 2"),
    ("NUL", FEED + "\0</feed>", r"invalid token\) at line 1"),
    ("half a character", FEED + "&#xD800;</feed>", "invalid character number at line 1"),
    ("a page", "<!DOCTYPE html><html></html>", "<feed> .* is expected; .* <html>, a web page"),
    ("XHTML", "<html xmlns='http://www.w3.org/1999/xhtml'/>", "begins with .*html>, a web page"),
    ("another root", "<rss><channel/></rss>", "is expected; this begins with <rss>"),
    ("no XML", "Rate exceeded.", "is not whole XML: syntax error at line 1"),
]


@pytest.mark.parametrize(("content", "said"), [case[1:] for case in REFUSED])
def test_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | bytes, said: str
) -> None:
    monkeypatch.setattr(_xml, "LONGEST_ELEMENT", 5000)
    monkeypatch.setattr(_xml, "MOST_NAMES", 50)
    monkeypatch.setattr(_xml, "_PIECE", 1000)
    path = tmp_path / "a.xml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=said) as caught:
        rows(path)
    assert str(path) in str(caught.value)


def test_long_files_and_much_between_records_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_xml, "LONGEST_ELEMENT", 5000)
    monkeypatch.setattr(_xml, "_PIECE", 1000)
    entries = [" " * 9000 + entry(i, title="x" * 2000) for i in range(9)]
    records, _ = rows(feed(tmp_path / "a.xml", *entries, "<other>" + "<a/>" * 5000 + "</other>"))
    assert len(records) == 9


def test_damage_anywhere_is_refused_or_changes_no_count(tmp_path: Path) -> None:
    whole = (HEAD + ENTRY + ERROR + entry(1) + "</feed>").encode()
    path = tmp_path / "a.xml"
    random.seed(2)
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(random.choice([1, 1, 2])):
            start = random.randrange(len(damaged))
            end = start + random.choice([0, 1, 9])
            damaged[start:end] = random.choice([b"", b"<", b"&", b"\xff", b"x", b"<a/>", b"]]>"])
        path.write_bytes(damaged)
        try:
            n = len(ET.fromstring(bytes(damaged)).findall("{http://www.w3.org/2005/Atom}entry"))
        except (ET.ParseError, LookupError):
            n = -1
        try:
            records, rejects = rows(path)
            assert len(records) + len(rejects) == n
        except DataError as error:
            assert n < 1 or "expected" in str(error)


NAMED: list[tuple[str | None, str | None, str]] = [
    (None, None, "arXiv"),
    ("", "", "arXiv"),
    (None, "23 pages, 3 figures", "arXiv"),
    (None, "Accepted to NeurIPS 2023", "NeurIPS"),
    (None, "ICLR 2024", "ICLR"),
    (None, "9 pages; CVPR'22 Oral", "CVPR"),
    (None, "Published as a conference paper at ICLR 2021", "ICLR"),
    (None, "To appear at\n  CVPR 2022 (oral)", "CVPR"),
    (None, "Accepted as a main conference paper at ACL 2023. Code: https://x.org", "ACL"),
    (None, "Accepted by ICML 2024; code at https://x.org", "ICML"),
    (None, "Camera-ready version for ICML 2020", "ICML"),
    (None, "In Proceedings of the 58th Annual Meeting of the ACL", "ACL"),
    (None, "Accepted at NeurIPS 2022. Also presented at a workshop", "NeurIPS 2022 (workshop)"),
    (None, "Accepted at EMNLP 2022 Findings", "arXiv"),
    (None, "NeurIPS 2023 Workshop on Tables", "arXiv"),
    (None, "Submitted to ICML 2023", "arXiv"),
    (None, "Under review at ICLR 2025", "arXiv"),
    (None, "Extended version of a paper accepted at ICML 2020", "arXiv"),
    (None, "Withdrawn from ICML 2020", "arXiv"),
    (None, "Accepted for publication in a journal that no table knows", "arXiv"),
    (None, "as we show, this appears in many places", "arXiv"),
    ("Proceedings of the 2019 Conference on EMNLP, pages 1-10", None, "EMNLP"),
    ("Proceedings of the 37th International Conference on Machine Learning, PMLR 119:1-12, 2020",
     "Submitted to nothing", "ICML"),
    ("Transactions on Machine Learning Research (09/2023)", None, "TMLR"),
    ("NeurIPS 2021", "Published at the NeurIPS 2021 workshop on RL", "NeurIPS (workshop)"),
    ("Phys.Rev.D76:013009,2007", "37 pages", "Phys.Rev.D"),
    ("J. Fluid Mech. 585, 213-244 (2007)", None, "J. Fluid Mech"),
    ("Illinois J. Math. 52 (2008) no.2, 681-689", None, "Illinois J. Math"),
    ("Software Testing, 35(2):e1914, 2025", None, "Software Testing"),
    ("2021", None, "arXiv"),
]  # fmt: skip


TABLE = venues.table()


@pytest.mark.parametrize(("journal", "comment", "expected"), NAMED)
def test_where_a_paper_appeared(journal: str | None, comment: str | None, expected: str) -> None:
    given = [pl.Series([value], dtype=pl.String) for value in (journal, comment)]
    assert venues.resolve(_arxiv.venue(given[0], given[1], TABLE), TABLE).to_list() == [expected]


def test_a_column_of_venues_is_what_each_is_alone() -> None:
    journals, comments = (pl.Series([case[i] for case in NAMED], dtype=pl.String) for i in range(2))
    alone = [
        _arxiv.venue(journals[i : i + 1], comments[i : i + 1], TABLE)[0] for i in range(len(NAMED))
    ]
    assert _arxiv.venue(journals, comments, TABLE).to_list() == alone
    assert _arxiv.venue(journals[:0], comments[:0], TABLE).to_list() == []


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("This paper has been withdrawn by the authors.", True),
        ("This submission has been\n  withdrawn by arXiv administrators", True),
        ("12 pages. Paper withdrawn", True),
        ("Withdrawn due to a crucial error in equation 1", True),
        ("v2: withdrawn, as it is part of another", True),
        ("THIS ARTICLE IS WITHDRAWN", True),
        ("Withdrawn from ICML 2020", False),
        ("supersedes the withdrawn arXiv:1001.0001", False),
        ("How money is withdrawn by banks", False),
        ("5 pages", False),
        (None, False),
    ],
)
def test_withdrawn(comment: str | None, expected: bool) -> None:
    assert _arxiv.withdrawn(pl.Series([comment], dtype=pl.String)).to_list() == [expected]


def test_roots_are_named() -> None:
    assert _xml.root(b"<a b='1'><c>") == ("a", {"b": "1"})
    assert _xml.root(b"<!-- x --><!DOCTYPE a [") == ("a", {})
    assert _xml.root(b"<x:a xmlns:x='y'/>") == ("y}a", {})
    for head in (b"", b"{}", b"<!-- only", b"<a", b"a,b\n1,2", b"\x1f\x8b"):
        assert _xml.root(head) is None
    assert not acl_anthology.sniff(Path("a.xml"), FEED.encode())
