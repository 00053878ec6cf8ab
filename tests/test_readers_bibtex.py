"""BibTeX: entries, macros, months, TeX in texts and names, damage, and cuts that change nothing."""

import gzip
import logging
import random
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from bibtexparser.model import Entry
from bibtexparser.splitter import Splitter

from hindsight_fast.papers import read_papers, readers
from hindsight_fast.papers.readers import Given, _tex, bibtex, streams, tables
from hindsight_fast.papers.readers._raw import BETWEEN

WHOLE = r"""% Exported on a Tuesday by somebody@example.org
@comment{ jabref-meta: databaseType:bibtex; }
@preamble{ "\newcommand{\x}{y}" }
@string{ acl = "Annual Meeting of the " # {Association for Computational Linguistics} }
@STRING(nips = {NeurIPS})

@Article{both,
  title = {{B}ayesian {\"O}del \& the {LLM}: $\alpha_{1}$ -- a ``test''},
  author = "M{\"u}ller, J{\"o}rg and {The {LLaMA} Team, Inc.} and van der Berg, Jr., Jan and
            \'Elodie Durand and others",
  journal = nips # " 2023",
  month = 5, day = 3, year = 2023,
  doi = {10.1007/978-3-030\_1}, url = {\url{https://x.org/a\_b}},
  abstract = {First line
    second line, 5\% better.},
  pages = "1--2"
}
@inproceedings{macros, title = "Say {"}x{"}", booktitle = ACL, month = jun # "~5", year = {2022} }
Anything between entries is a comment.
@misc(parens, title={In (round) brackets}, journal={CoRR}, volume={abs/1810.04805}, year=2018)
"""


def rows(path: Path, text: str | bytes) -> tuple[list[dict[str, Any]], list[Any]]:
    """Records, without their nulls, and rejects."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    batches = list(bibtex.read(path, streams.head(path), Given()))
    records = [row for batch in batches for row in batch.records.to_dicts()]
    known = [{name: value for name, value in row.items() if value is not None} for row in records]
    return known, [row for batch in batches for row in batch.rejects.rows()]


def one(tmp_path: Path, fields: str, kind: str = "article") -> dict[str, Any]:
    (record,), rejects = rows(tmp_path / "a.bib", f"@{kind}{{key, {fields}}}")
    assert not rejects
    return record


def test_entries(tmp_path: Path) -> None:
    records, rejects = rows(tmp_path / "a.bib", WHOLE)
    assert not rejects
    assert records == [
        {
            "line": 7,
            "id": "both",
            "title": "Bayesian Ödel & the LLM: $\\alpha_{1}$ – a “test”",
            "abstract": "First line\n    second line, 5% better.",
            "authors": ["Jörg Müller", "The LLaMA Team, Inc.", "Jan van der Berg Jr.",
                        "Élodie Durand"],
            "venue": "NeurIPS 2023",
            "year": "2023",
            "date": "2023-5-3",
            "doi": "10.1007/978-3-030_1",
            "kind": "article",
            "url": "https://x.org/a_b",
            "source": "bibtex",
        },
        {
            "line": 18,
            "id": "macros",
            "title": 'Say "x"',
            "venue": "Annual Meeting of the Association for Computational Linguistics",
            "year": "2022",
            "date": "June 5 2022",
            "kind": "inproceedings",
            "source": "bibtex",
        },
        {
            "line": 20,
            "id": "parens",
            "title": "In (round) brackets",
            "venue": "CoRR",
            "year": "2018",
            "arxiv_id": "1810.04805",
            "kind": "misc",
            "source": "bibtex",
        },
    ]  # fmt: skip


def test_through_cleaning(tmp_path: Path) -> None:
    path = tmp_path / "refs.bib.gz"
    path.write_bytes(gzip.compress(WHOLE.encode()))
    table = read_papers([path])
    assert (table.counts["n_in"], table.counts["n_papers"]) == (3, 3)
    papers = table.papers.sort("id").select("id", "venue", "date", "date_precision", "arxiv_id")
    assert [(a, b, str(c), d, e) for a, b, c, d, e in papers.rows()] == [
        ("both", "NeurIPS", "2023-05-03", "day", None),
        ("macros", "ACL", "2022-06-05", "day", None),
        ("parens", "arXiv", "2018-10-01", "month", "1810.04805"),
    ]


def test_damage_is_a_reject_with_its_line_and_the_rest_is_read(tmp_path: Path) -> None:
    text = """@article{a, title = {unclosed, year = 2020
@article{b, title = {Fine}, title = {Twice}}

@article{b, title = {Same key}}
@article
{c, title = {Elsewhere}}
@article{d title = {no comma}}
@article{e, title = "5" disk", year = 2020}
@article{f, title = {Fine again}}
@string{broken = {x}, y = 3
@article{g, title = {cut
"""
    records, rejects = rows(tmp_path / "a.bib", text)
    assert [(row["line"], row["id"], row["title"]) for row in records] == [
        (2, "b", "Fine"),
        (4, "b", "Same key"),
        (9, "f", "Fine again"),
    ]
    assert [(line, shown.split("\n")[0]) for line, _, shown in sorted(rejects)] == [
        (1, "@article{a, title = {unclosed, year = 2020"),
        (5, "@article"),
        (7, "@article{d title ="),
        (8, '@article{e, title = "5" disk", year = 2020}'),
        (10, "@string{broken = {x}, y = 3"),
        (11, "@article{g, title = {cut"),
    ]
    assert all(reason.startswith(("not BibTeX: ", "no entry: ")) for _, reason, _ in rejects)


def test_what_the_parser_would_log_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = logging.getLogger("bibtexparser").level
    rows(tmp_path / "a.bib", "@article{a, title = {x\n@article{b, title={y}}")
    assert not caplog.records
    assert logging.getLogger("bibtexparser").level == before


def test_an_entry_without_title_is_a_reject(tmp_path: Path) -> None:
    path = tmp_path / "a.bib"
    path.write_text("@misc{a, year=2020}\n@misc{b, title={T}}\n@misc{c,}\n@misc{d, title={{}}}\n")
    table = read_papers([path], max_bad=1)
    assert table.rejects.select("line", "reason").rows() == [
        (1, "no title"), (3, "no title"), (4, "no title")
    ]  # fmt: skip


def test_other_encodings(tmp_path: Path) -> None:
    text = "@misc{a, title={Café}}\n@misc{b, title={Cafe}}\n@string{x = {é}}\n@misc{c, title=x}"
    records, rejects = rows(tmp_path / "a.bib", text.encode("latin-1"))
    assert [row["title"] for row in records] == ["Cafe", "x"]
    assert rejects == [
        (1, "not UTF-8", "@misc{a, title={Caf\ufffd}}"),
        (3, "not UTF-8", "@string{x = {\ufffd}}"),
    ]
    records, rejects = rows(tmp_path / "a.bib", "\ufeff" + text.replace("\n", "\r\n"))
    assert [row["title"] for row in records] == ["Café", "Cafe", "é"]
    assert not rejects


def test_macros_of_macros_stay_small(tmp_path: Path) -> None:
    doubled = "".join(f"@string{{a{i + 1} = a{i} # a{i}}}\n" for i in range(60))
    text = '@string{a0 = "x"}\n' + doubled + "@misc{k, title = a10}\n@misc{l, title = a59}\n"
    records, rejects = rows(tmp_path / "a.bib", text)
    assert records[0]["title"] == "x" * 1024
    assert len(records[1]["title"]) < 2000  # of the last that could be made: its name
    assert rejects[0][:2] == (12, "a value of more than 2000 characters")


def test_an_entry_too_long_is_a_reject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bibtex, "LONGEST_ENTRY", 5000)
    long = "@misc{long, title = {" + "x\n" * 9000 + "}}\nmore\n"
    other = "".join(f"@misc{{k{i}, title = {{T{i}}}}}\n" for i in range(300))
    text = "% a comment\n" + other + long + other
    records, rejects = rows(tmp_path / "a.bib", text)
    assert len(records) == 600
    assert records[300]["line"] == 302 + 9002
    assert [row[:2] for row in rejects] == [(302, "an entry longer than 0 MiB")]
    assert rejects[0][2].startswith("@misc{long, title = {x\nx")
    records, rejects = rows(tmp_path / "a.bib", text.replace("x\n", "x"))
    assert len(records) == 600
    assert [row[:2] for row in rejects] == [(302, "an entry longer than 0 MiB")]


PIECES = [
    b"@article{k%d,\n title={T%d},\n}\n", b'@misc(p%d, title="a @b{c} %d")', b"\n", b"@string",
    b"@comment{%d, ", b"{", b"}", b'"', b"@", b"\\", b",", b"=", b"(", b")", b"#", b"\xff",
    b" @book{b%d, author={A and B}, title = {in {braces} %d}", b"\r\n", b"text\n", b"@misc\n{",
]  # fmt: skip


def test_cuts_change_no_entry_and_damage_loses_none(tmp_path: Path) -> None:
    """Against the parser, given the whole text at once."""
    logging.getLogger("bibtexparser").setLevel(logging.CRITICAL + 1)
    random.seed(4)
    for _ in range(300):
        parts = random.choices(PIECES, weights=[9] + [1] * (len(PIECES) - 1), k=25)
        content = b"".join(part.replace(b"%d", str(random.randrange(9)).encode()) for part in parts)
        records, rejects = rows(tmp_path / "a.bib", content)
        text = content.decode("utf-8", "surrogateescape")
        blocks = Splitter(text).split().blocks
        whole = [getattr(block, "ignore_error_block", None) or block for block in blocks]
        keys = [
            block.key
            for block in whole
            if isinstance(block, Entry) and "\udcff" not in (block.raw or "")
        ]
        assert [row.get("id", "") for row in records] == keys
        numbers = [row["line"] for row in records] + [row[0] for row in rejects]
        starts = re.compile(r"[ \t]*@(?!comment|string)\w*[ \t]*[{(]", re.IGNORECASE)
        begun = [i for i, line in enumerate(text.split("\n"), start=1) if starts.match(line)]
        assert set(begun) <= set(numbers)
        assert len(begun) <= len(numbers)


def test_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BATCH_RECORDS", 2)
    path = tmp_path / "a.bib"
    path.write_text(WHOLE)
    sizes = [batch.records.height for batch in bibtex.read(path, b"", Given())]
    assert sizes == [2, 1]
    assert [batch.records.height for batch in bibtex.read(path, b"", Given(limit=1))] == [1]


FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("year=2022, month=may", {"date": "May 2022", "year": "2022"}),
    ("year=2022, month={28--30 Mar}", {"date": "28–30 Mar 2022"}),
    ("year=2022, month=MAR, day={7}", {"date": "7 March 2022"}),
    ("year=2022, month=3, day=7", {"date": "2022-3-7"}),
    ("year=2022", {"date": None, "year": "2022"}),
    ("month=may", {"date": None, "year": None}),
    ("date={2022-05-22/2022-05-27}", {"date": "2022-05-22", "year": "2022"}),
    ("date={2022-05}, year=2021", {"date": None, "year": "2021"}),
    ("eprint={1706.03762v5}, archivePrefix={arXiv}", {"arxiv_id": "1706.03762v5"}),
    ("eprint={hep-th/9901001}, eprinttype={arxiv}", {"arxiv_id": "hep-th/9901001"}),
    ("eprint={1706.03762}", {"arxiv_id": "1706.03762"}),
    ("eprint={https://x.org/1.pdf}", {"arxiv_id": None}),
    ("eprint={12345678}, eprinttype={pubmed}", {"arxiv_id": None}),
    ("journal={arXiv preprint arXiv:1706.03762}", {"arxiv_id": "1706.03762"}),
    ("journal={arXiv:cs.CL/0601001v1}", {"arxiv_id": "cs.CL/0601001"}),
    ("journal={Physics 1706.03762}", {"arxiv_id": None}),
    ("booktitle={ICLR}, journal={J}", {"venue": "ICLR"}),
    ("journaltitle={J. of \\'Etudes}", {"venue": "J. of Études"}),
    ("booktitle={ICLR 2024}, note={Under review}", {"venue": "Submitted to ICLR 2024"}),
    ("note={Under review}", {"venue": None}),
    ("note={Withdrawn by the authors}", {"status": "withdrawn"}),
    ("note={This paper has been retracted}", {"status": "retracted"}),
    ("note={Code withdrawn later}", {"status": None}),
    ("subtitle={A Study}", {"title": "T: A Study"}),
    ("howpublished={\\url{https://arxiv.org/abs/2101.00001}}",
     {"url": "https://arxiv.org/abs/2101.00001"}),
    ("url={arxiv.org/abs/2101.00001}", {"url": "arxiv.org/abs/2101.00001"}),
    ("url={https://x.org/~a--b/{\\%}20{\\_}c}", {"url": "https://x.org/~a--b/%20_c"}),
    ("url={https://api.semanticscholar.org/CorpusID:123}", {"corpus_id": "123"}),
    ("editor={A, B}", {"authors": ["B A"]}),
    ("author={others}", {"authors": None}),
    ("langid={ngerman}", {"language": "ngerman"}),
    ("year = 2 # 0 # {2} # \"2\"", {"year": "2022"}),
    ("year = { 2022 }", {"year": "2022"}),
    ("booktitle = {C\\# in #2}", {"venue": "C# in #2"}),
    ("booktitle = {a} # unknown", {"venue": "aunknown"}),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), FIELDS)
def test_fields(tmp_path: Path, fields: str, expected: dict[str, Any]) -> None:
    record = one(tmp_path, f"title={{T}}, {fields}")
    assert {name: record.get(name) for name in expected} == expected


def test_a_volume_is_no_paper(tmp_path: Path) -> None:
    assert one(tmp_path, "title={ACL}", "Proceedings")["status"] == "paratext"


TEXTS: list[tuple[str, str]] = [
    (r"A {BERT} for {W}izard-of-{O}z", "A BERT for Wizard-of-Oz"),
    (r"{\'e}\'{e}\'e{\'{e}}\'\i {\`A} \^o \~n \=a {\.z}", "éééé" + "í À ô ñ ā ż"),
    (r"\v{c}\c c\H{o}\k{a}\r{a}\u{g}\d{s} {\v s}", "čçőąåğṣ š"),
    (r"{\ss}{\ae}{\O} \l{}od\'z na{\"\i}ve", "ßæØ łodź naïve"),
    (r"it\'s and don\'t, {\'s}", "it's and don't, ś"),
    (r"\& \% \$5 \# \_ \{x\} a\,b 5\;m", "& % $5 # _ {x} a b 5 m"),
    (r"\emph{much} {\em more} \textbf{bold \texttt{code}} \url{https://x.org}",
     "much more bold code https://x.org"),
    (r"an \unknown{argument} and \alpha alone", r"an argument and \alpha alone"),
    (r"keep $x_{i} \emph{y}$ and $$\frac{a}{b}$$", r"keep $x_{i} \emph{y}$ and $$\frac{a}{b}$$"),
    (r"\$5 and {\$6} to \$7", "$5 and $6 to $7"),
    (r"one dollar $ only, {A}", "one dollar $ only, A"),
    (r"Figure~1, ~5 times, a~{b}", "Figure 1, ~5 times, a b"),
    (r"pages 1--2 --- a ``quote'' it's", "pages 1–2 — a “quote” it's"),
    (r"\begin{itemize} \item one \item two \end{itemize}", "   one  two  "),
    (r"\LaTeX{} and {\TeX}, \ldots", "LaTeX and TeX, …"),
    (r"10\textdegree{} \textasciitilde x \~{}y a\\b", "10° ~x ~y a b"),
    (r"no TeX: <mask> a < b & c_1 ^2 #3", r"no TeX: <mask> a < b & c_1 ^2 #3"),
    ("ends with a backslash \\", "ends with a backslash \\"),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_plain_text(text: str, expected: str) -> None:
    assert _tex.plain(pl.Series([text, None])).to_list() == [expected, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada Lovelace", ["Ada Lovelace"]),
        ("Lovelace, Ada  and\n  Knuth, Donald E.", ["Ada Lovelace", "Donald E. Knuth"]),
        ("de la Cruz, Ana AND Li, Bo", ["Ana de la Cruz", "Bo Li"]),
        ("King, Jr., Martin Luther", ["Martin Luther King Jr."]),
        ("{Barnes and Noble, Inc.} and others", ["Barnes and Noble, Inc."]),
        ('Sch{\\"o}lkopf, Bernhard', ["Bernhard Schölkopf"]),
        ("Alexandra Sand and Andy Land", ["Alexandra Sand", "Andy Land"]),
        ("a, b, c, d", ["a, b, c, d"]),
        (" and and , and", None),
        ("others", None),
        ("", None),
    ],
)
def test_names(text: str, expected: list[str] | None) -> None:
    found = _tex.people(pl.Series([text, None])).str.split(BETWEEN)
    assert found.to_list() == [expected, None]


@pytest.mark.parametrize(
    ("named", "head", "is_one"),
    [
        ("a.bib", b"", True),
        ("a.bib", b"only a comment", True),
        ("a.BIB.gz", b"% x\n@article{", True),
        ("a.bib", b"<!DOCTYPE html>", False),
        ("a.bib", b'{"title": "x"}', False),
        ("a.bib", b"}\n{@article{", True),
        ("a.bib", b"PK\x03\x04\0\0", False),
        ("a.txt", b"% comment\n\n  @InProceedings {a,", True),
        ("a.txt", b"\xef\xbb\xbf@string(a = {b})", True),
        ("a.csv", b'title,bibtex\n"x","\n@article{a,', False),
        ("a.txt", b"@someone said (so", False),
        ("a.jsonl", b'{"bibtex": "@article{a,"}', False),
    ],
)
def test_sniffing(named: str, head: bytes, is_one: bool) -> None:
    assert bibtex.sniff(Path(named), head) is is_one


def test_it_is_found(tmp_path: Path) -> None:
    for named in ("refs.bib", "refs", "refs.txt"):
        path = tmp_path / named
        path.write_text(WHOLE.split("\n", 5)[5])
        assert readers.find(path, streams.head(path), "auto") is bibtex.READER
