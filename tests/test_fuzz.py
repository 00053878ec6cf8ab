"""Damaged records of every format by the ten-thousand: no crash but a DataError, and none lost.

Each file begins with some good records, so that its format is found; of the others many are
damaged: values of other types, keys twice or gone, huge numbers, deep nesting, control characters,
lone surrogates, other encodings, cut lines, random bytes, commas too many. What can be counted
without parsing (lines, elements, entries) must come out as papers, merged records and rejects.
"""

import csv
import io
import json
import random
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.sax.saxutils import escape

import polars as pl
import pytest

from hindsight_fast.errors import DataError
from hindsight_fast.papers import Options, gather, read_papers, readers
from hindsight_fast.papers.kinds import KINDS
from hindsight_fast.papers.readers import Given, lines, streams
from hindsight_fast.papers.readers.lines import is_list, is_object

TODAY = date(2026, 6, 1)
GOOD = 6  # records at each file's beginning that stay whole
WORDS = (
    "learning graph models with attention of sparse rewards and the study of language in large",
    "networks Schrödinger $k$ <mask> {B}ayes R\\'enyi &amp; 图 é",
)


class Raw(str):
    """JSON as it stands, where a value is."""


DEEP: Final = Raw("[" * 2000 + "]" * 2000)
ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 3.5, 1e308, 2**63, -(10**30), "", " ", "x", "\0", "\ud800", "\udc00a",
    "\x85\x1f", "\u202e\ufeff", "null", "NaN", "-1", "1e9", "9" * 50, "a" * 3000, "(" * 999,
    [], {}, [[]], [None], ["x", None, 3], [{}], {"name": 1}, {"name": None}, {"a": {"b": [1]}},
    "2023-13-45", "0000", "12 2023", "2024-02-30T25:00:00Z", "10.1/", "10.48550/arXiv.2301.00001",
    "2399.00001", "https://arxiv.org/abs/2301.00002v9", "<b>", "&#xD800;&#0;", "\\'{", "$\\\"",
    "{", "}", '"', "@article{x,", "]]>", "Retracted: x", "title", -0.0,
    Raw("1e999"), Raw("NaN"), Raw("-"), Raw("01"), Raw("tru"), Raw('"\\ud800"'), Raw('"\\q"'),
    Raw("1" * 5000), DEEP, Raw("{,}"), Raw("1,"), Raw("'x'"), Raw(""),
)  # fmt: skip


class Dice(random.Random):
    """Random choices of which files are made."""

    def words(self, n: int) -> str:
        return " ".join(self.choices(" ".join(WORDS).split(), k=n))

    def one(self, *values: Any) -> Any:
        return self.choice(values)


# -- records of each format, as they should be ---------------------------------------------------


def own(dice: Dice, i: int) -> dict[str, Any]:
    return {
        "id": f"p{i}", "title": dice.words(5), "abstract": dice.words(30),
        "authors": ["Ada Bee", "C. Dee"], "venue": dice.one("NeurIPS", "", None), "year": 2023,
        "date": dice.one("2023-05", "2023-05-02", None), "citations": dice.one(3, "4", None),
        "doi": f"10.1000/{i}", "arxiv_id": f"2305.{i:05d}", "corpus_id": i, "kind": "article",
        "language": "en", "citations_dated": "2023:1 2024:2", "status": dice.one(None, "retracted"),
    }  # fmt: skip


def s2_graph(dice: Dice, i: int) -> dict[str, Any]:
    return {
        "paperId": f"{i:040x}", "corpusId": i, "url": "https://x.org", "title": dice.words(5),
        "externalIds": {"ArXiv": f"2305.{i:05d}", "DOI": None}, "abstract": dice.words(30),
        "venue": "ICLR",
        "publicationVenue": {"name": "ICLR", "type": "conference"}, "year": 2024,
        "publicationDate": "2024-01-02", "publicationTypes": ["Review"], "citationCount": i,
        "journal": {"name": "J", "pages": "1"}, "fieldsOfStudy": ["Computer Science"],
        "s2FieldsOfStudy": [{"category": "Biology", "source": "external"}], "tldr": {"text": "So."},
        "authors": [{"authorId": "1", "name": "Ada Bee"}],
    }  # fmt: skip


def openalex(dice: Dice, i: int) -> dict[str, Any]:
    source = {"id": "https://openalex.org/S1", "display_name": "Nature", "type": "journal"}
    return {
        "id": f"https://openalex.org/W{i}", "doi": f"https://doi.org/10.1000/{i}",
        "title": dice.words(5), "display_name": dice.words(5), "publication_year": 2023,
        "publication_date": "2023-03-04", "language": "en", "type": "article",
        "authorships": [{"author": {"display_name": "Ada Bee"}, "raw_author_name": "A. Bee"}],
        "primary_location": {"source": source, "landing_page_url": "https://x.org"},
        "locations": [{"source": None, "landing_page_url": f"https://arxiv.org/abs/2305.{i:05d}"}],
        "abstract_inverted_index": {"We": [0, 2], "do": [1], "things": [3]}, "is_retracted": False,
        "is_paratext": False, "cited_by_count": 5, "updated_date": "2026-01-02T03:04:05",
        "counts_by_year": [{"year": 2024, "cited_by_count": 5}],
        "primary_topic": {"display_name": "T", "field": {"display_name": "F"}},
        "concepts": [{"display_name": "C", "level": 0}], "host_venue": None,
    }  # fmt: skip


def arxiv(dice: Dice, i: int) -> dict[str, Any]:
    return {
        "id": f"2305.{i:05d}", "submitter": "Ada Bee", "authors": "Ada Bee and C. Dee",
        "title": dice.words(3) + "\n  " + dice.words(3), "comments": "Accepted at ICML 2023",
        "journal-ref": None, "doi": None, "report-no": None, "categories": "cs.LG stat.ML",
        "license": "http://x.org", "abstract": "  " + dice.words(20) + "\n" + dice.words(9) + "\n",
        "versions": [{"version": "v1", "created": "Mon, 2 Apr 2007 19:18:42 GMT"}],
        "update_date": "2023-06-01", "authors_parsed": [["Bee", "Ada", ""], ["Dee", "C.", ""]],
    }  # fmt: skip


def paperlists(dice: Dice, i: int) -> dict[str, Any]:
    return {
        "id": f"x{i}", "title": dice.words(5), "track": "main", "status": "Poster", "author": "A;B",
        "abstract": dice.words(30), "tldr": "", "site": "https://x.org", "gs_citation": i,
        "bibtex": f"@inproceedings{{x,\n title={{{dice.words(3)}}},\n year={{2024}},\n month=7}}",
        "primary_area": "theory",
    }  # fmt: skip


def s2_paper(dice: Dice, i: int) -> dict[str, Any]:
    return {
        "corpusid": i, "externalids": {"ArXiv": f"2305.{i:05d}", "DOI": None, "MAG": "7"},
        "url": "https://x.org", "title": dice.words(5), "authors": [{"name": "Ada Bee"}],
        "venue": "", "publicationvenueid": f"v{i}", "year": 2023, "citationcount": 2,
        "s2fieldsofstudy": [{"category": "Biology"}], "publicationtypes": ["JournalArticle"],
        "publicationdate": None, "journal": None, "updated": "2024-03-01T01:02:03.456Z",
    }  # fmt: skip


def s2_abstract(dice: Dice, i: int) -> dict[str, Any]:
    return {"corpusid": i, "openaccessinfo": {"license": None}, "abstract": dice.words(30)}


def s2_citation(dice: Dice, i: int) -> dict[str, Any]:
    cited = dice.randint(1, i)
    return {"citationid": i, "citingcorpusid": str(i), "citedcorpusid": cited, "intents": None}


def s2_tldr(dice: Dice, i: int) -> dict[str, Any]:
    return {"corpusid": i, "model": "m", "text": dice.words(9)}


def s2_venue(dice: Dice, i: int) -> dict[str, Any]:
    return {"id": f"v{i}", "name": "ICLR", "alternate_names": [], "alternate_issns": []}


def s2_id(dice: Dice, i: int) -> dict[str, Any]:
    return {"sha": f"{i:040x}", "corpusid": i, "primary": True}


SHARDS: Final = {
    "papers": s2_paper, "abstracts": s2_abstract, "citations": s2_citation, "tldrs": s2_tldr,
    "publication-venues": s2_venue, "paper-ids": s2_id,
}  # fmt: skip


ENTRY = """<entry><id>http://arxiv.org/abs/2305.{i:05d}v{0}</id><title>{1}</title>
<summary>{2}</summary><published>{3}</published><updated>{3}</updated><author><name>{4}</name>
</author><arxiv:comment>{5}</arxiv:comment><category term="cs.LG"/></entry>"""
FEED = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom" '
    'xmlns:arxiv="http://arxiv.org/schemas/atom"><id>http://arxiv.org/api/x</id>\n{}\n</feed>\n'
)
PAPER = """<paper id="{i}"><title>{1}</title><author><first>{0}</first><last>{4}</last></author>
<abstract>{2}</abstract><doi>{3}</doi><pages>{5}</pages></paper>"""
COLLECTION = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<collection id="2023.acl"><volume id="long">\n<meta>'
    "<booktitle>Proceedings</booktitle><month>July</month><year>2023</year></meta>\n{}\n"
    "</volume></collection>\n"
)
BIBTEX = """@article{{key{i},
  author = {{{4}}},
  title = {{{1}}},
  abstract = "{2}",
  year = {3}, note = {{{5}}}, month = jul,
  eprint = {{2305.{i:05d}}},
}}
"""


# -- damage --------------------------------------------------------------------------------------


def damaged(dice: Dice, record: dict[str, Any]) -> str:
    """JSON of a record with some values, or their keys, put wrong."""
    for _ in range(dice.randint(1, 3)):
        place = dice.choice([each for each in held(record) if each] or [record])
        if is_list(place):
            spoil_list(dice, place)
        elif is_object(place):
            spoil_object(dice, place)
    return text_of(record)


def held(value: Any) -> Iterator[Any]:
    """Objects and arrays of a value, itself first."""
    if is_object(value) or is_list(value):
        yield value
        for inner in value.values() if is_object(value) else value:
            yield from held(inner)


def spoil_object(dice: Dice, place: dict[str, Any]) -> None:
    key = dice.choice(list(place or {"x": 1}))
    match dice.randrange(8):
        case 0:
            place.pop(key, None)
        case 1:
            other = dice.one("", "\ud800", "id", "title", key.upper(), key + "\0")
            place[other] = place.get(key)
        case _:
            place[key] = deepcopy(dice.choice(ODD))


def spoil_list(dice: Dice, place: list[Any]) -> None:
    if dice.random() < 0.2:
        place *= 3
    else:
        place[dice.randrange(len(place))] = deepcopy(dice.choice(ODD))


def text_of(value: Any) -> str:
    """JSON, with `Raw` values as they stand."""
    if isinstance(value, Raw):
        return str(value)
    if is_object(value):
        return "{" + ", ".join(f"{text_of(k)}: {text_of(v)}" for k, v in value.items()) + "}"
    if is_list(value):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return json.dumps(value)


def torn(dice: Dice, line: bytes) -> bytes:
    """A record's bytes with a piece cut out, put twice, or other bytes in it; still one line."""
    a, b = sorted(dice.choices(range(len(line) + 1), k=2))
    match dice.randrange(8):
        case 0:
            line = line[:a]
        case 1:
            line = line[:a] + line[min(b, a + 20) :]
        case 2:
            line = line[:b] + line[a:]
        case 3:
            line = line[:a] + dice.randbytes(dice.randint(1, 6)) + line[a:]
        case 4:
            line = line[:a] + dice.one(b",", b'"', b"\\", b"{", b"}", b"]", b"\0", b"\r") + line[a:]
        case 5:
            line = line.decode("utf-8", "replace").encode(dice.one("utf-16", "latin-1"), "replace")
        case 6:
            line = line.replace(dice.one(b'"', b",", b":", b" "), dice.one(b"", b",,", b"'"))
        case _:
            line = line + line[a:b]
    return line.replace(b"\n", b" ")


# -- files ---------------------------------------------------------------------------------------


class File(NamedTuple):
    """A file's name and bytes, and how many records it has, if that is certain."""

    name: str
    content: bytes
    n: int | None = None


Record = Callable[[Dice, int], dict[str, Any]]


def units(dice: Dice, record: Record, n: int, *, tear: bool) -> list[bytes]:
    """JSON texts of records, the first of them good."""
    made: list[bytes] = []
    for i in range(1, n + 1):
        value = record(dice, i)
        if i <= GOOD or dice.random() < 0.2:
            made.append(json.dumps(value).encode())
        elif tear and dice.random() < 0.4:
            made.append(torn(dice, json.dumps(value, ensure_ascii=False).encode()))
        else:
            made.append(damaged(dice, value).encode("utf-8", "surrogatepass"))
    return made


def json_lines(record: Record) -> Callable[[Dice, int], File]:
    def make(dice: Dice, n: int) -> File:
        made = units(dice, record, n, tear=True)
        return File("x.jsonl", b"\n".join(made), sum(1 for line in made if line.strip()))

    return make


def json_document(
    record: Record, before: bytes, after: bytes, *, tear: bool
) -> Callable[[Dice, int], File]:
    def make(dice: Dice, n: int) -> File:
        parts = units(dice, record, n, tear=tear)
        if before[:1] == b"{" and not tear:  # an object is parsed as a whole
            parts = [part if is_json(part) else b"{}" for part in parts]
        elif not tear:  # what is too deep refuses the file
            parts = [part.replace(DEEP.encode(), b"[[]]") for part in parts]
        return File("x.json", before + b",\n".join(parts) + after, None if tear else n)

    return make


def is_json(text: bytes) -> bool:
    try:
        return not isinstance(lines.json_value(text), lines.Bad)
    except RecursionError:
        return False


def texts(dice: Dice) -> list[str]:
    """Six fields, some of them odd."""
    plain = ["1", dice.words(5), dice.words(20), "2023-05-02T15:05:19Z", "Bee, Ada", "ICML 2023"]
    for _ in range(dice.one(0, 0, 1, 2)):
        odd = deepcopy(dice.choice(ODD))
        plain[dice.randrange(6)] = odd if isinstance(odd, str) else str(odd)
    return [re.sub("[\ud800-\udfff]", "\ufffd", text) for text in plain]


def xml(entry: str, around: str, *, tear: bool) -> Callable[[Dice, int], File]:
    def make(dice: Dice, n: int) -> File:
        entries: list[str] = []
        for i in range(1, n + 1):
            fields = [re.sub("[\x00-\x08\x0b-\x1f]", " ", text) for text in texts(dice)]
            fields = ["1", *fields[1:]]  # the version is a part of the id
            entries.append(entry.format(*map(escape, fields), i=i))
        content = around.format("\n".join(entries)).encode()
        if not tear:
            return File("x.xml", content, n)
        start = content.index(entries[min(GOOD, n) - 1].encode())
        return File("x.xml", content[:start] + torn(dice, content[start:]))

    return make


def bibtex(dice: Dice, n: int) -> File:
    entries: list[bytes] = []
    for i in range(1, n + 1):
        fields = ["1", "A title", "We do.", "2023", "A", "B"]
        if i > GOOD:  # an entry within a damaged one is one more
            fields = [text.replace("@article{", "@") for text in texts(dice)]
        entry = BIBTEX.format(*fields, i=i).encode()
        if i > GOOD and dice.random() < 0.3:
            first, _, rest = entry.partition(b"\n")
            entry = first + b"\n" + torn(dice, rest) + b"\n"
        entries.append(entry)
    return File("x.bib", b"\n".join(entries), n)


def comma_separated(dice: Dice, n: int) -> File:
    out = io.StringIO()
    names = list(own(dice, 0))
    table = csv.DictWriter(out, names)
    table.writeheader()
    for i in range(1, n + 1):
        row = own(dice, i) | {"authors": "Ada Bee; C. Dee"}
        if i > GOOD:
            odd = deepcopy(dice.choice(ODD))
            row[dice.choice(names)] = re.sub("[\ud800-\udfff\n\r]", "?", str(odd))
        table.writerow(row)
    return File("x.csv", out.getvalue().encode(), n)


FORMS: Final[dict[str, Callable[[Dice, int], File]]] = {
    **{
        f"{record.__name__} lines": json_lines(record)
        for record in (own, s2_graph, openalex, arxiv, paperlists)
    },
    "own array": json_document(own, b"[", b"]", tear=False),
    "own object": json_document(own, b'{"papers": [', b"]}", tear=False),
    "s2_graph answer": json_document(s2_graph, b'{"total": 9, "data": [', b"]}", tear=False),
    "openalex page": json_document(openalex, b'{"meta": {}, "results": [', b"]}", tear=False),
    "paperlists array": json_document(paperlists, b"[", b"]", tear=False),
    "atom": xml(ENTRY, FEED, tear=False),
    "acl": xml(PAPER, COLLECTION, tear=False),
    "bibtex": bibtex,
    "csv": comma_separated,
}
TORN: Final[dict[str, Callable[[Dice, int], File]]] = {
    "own array": json_document(own, b"[", b"]", tear=True),
    "s2_graph answer": json_document(s2_graph, b'{"total": 9, "data": [', b"]}", tear=True),
    "openalex page": json_document(openalex, b'{"meta": {}, "results": [', b"]}", tear=True),
    "atom": xml(ENTRY, FEED, tear=True),
    "acl": xml(PAPER, COLLECTION, tear=True),
}


# -- what must hold ------------------------------------------------------------------------------


def check_reading(path: Path, file: File) -> None:
    """Every record of the file is read, or refused, once."""
    head = streams.head(path)
    batches = list(readers.find(path, head, "auto").read(path, head, Given()))
    numbers = [n for batch in batches for part in batch[:2] for n in part["line"].to_list()]
    if file.n is not None:
        assert len(numbers) == file.n
    if file.name == "x.jsonl":
        numbered = enumerate(file.content.split(b"\n"), start=1)
        assert sorted(numbers) == [n for n, line in numbered if line.strip()]


def check_papers(path: Path, n: int | None) -> None:
    """What becomes of the records adds up, and is what it should be."""
    table = read_papers([path], max_bad=1.0, today=TODAY)
    papers, counts = table.papers, table.counts
    assert counts["n_in"] == counts["n_papers"] + counts["n_merged"] + counts["n_rejects"]
    assert counts["n_in"] == papers["n_records"].sum() + table.rejects.height
    if n is not None:
        assert counts["n_in"] == n
    assert papers["id"].is_unique().all() and papers["title"].null_count() == 0
    assert set(papers["kind"].drop_nulls()) <= set(KINDS)
    assert set(papers["date_precision"].drop_nulls()) <= {"day", "month", "year"}
    assert papers["date"].is_between(date(1800, 1, 1), date(2027, 12, 31)).all()
    assert (papers["citations"] >= 0).all()


def check(folder: Path, make: Callable[[Dice, int], File], seed: str, n: int) -> bool:
    """Make a file and read it; tell the seed if something is amiss, and whether it was refused."""
    file = make(Dice(seed), n)
    path = folder / file.name
    path.write_bytes(file.content)
    try:
        check_reading(path, file)
        check_papers(path, file.n)
    except DataError as error:
        assert str(path) in str(error)
        return False
    except Exception as error:
        error.add_note(f"in the file of seed {seed!r} with {n} records")
        raise
    return True


@pytest.mark.parametrize("form", FORMS)
def test_damaged_records(form: str, tmp_path: Path) -> None:
    for seed in range(2):
        assert check(tmp_path, FORMS[form], f"{form} {seed}", 300)


@pytest.mark.parametrize("form", TORN)
def test_torn_documents(form: str, tmp_path: Path) -> None:
    for seed in range(8):  # most are refused
        check(tmp_path, TORN[form], f"{form} {seed}", 20)


def damaged_sources(folder: Path, seed: int, n: int) -> int:
    """Write a file of each format, about the same papers; return how many records they hold."""
    total = 0
    for number, (form, make) in enumerate(FORMS.items()):
        file = make(Dice(f"{form} {seed}"), n)
        (folder / f"{number}-{file.name}").write_bytes(file.content)
        total += file.n or 0
    return total


def test_damaged_sources_together(tmp_path: Path) -> None:
    sources, work = tmp_path / "sources", tmp_path / "work"
    sources.mkdir()
    work.mkdir()
    n = damaged_sources(sources, 0, 80)
    table = read_papers([sources], max_bad=1.0, today=TODAY)
    assert table.counts["n_in"] >= n and table.counts["n_merged"] > 300
    gathered = gather([sources], work, Options(max_bad=1.0, today=TODAY))
    papers = pl.concat(gathered.parts())
    assert gathered.counts == table.counts
    assert papers.equals(table.papers.sort("date", "id", nulls_last=True))
    assert gathered.rejects.equals(table.rejects)
    assert gathered.merges.equals(table.merges) and gathered.conflicts.equals(table.conflicts)


def check_shards(folder: Path, seed: int, n: int) -> None:
    """Each line of a shard of papers becomes a paper, part of one, or a reject."""
    dice = Dice(seed)
    for name, record in SHARDS.items():
        made = units(dice, record, n, tear=True)
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(made))
    check_papers(folder, None)
    papers = (folder / "papers.jsonl").read_bytes().split(b"\n")
    table = read_papers([folder], max_bad=1.0, today=TODAY)
    refused = table.rejects.filter(pl.col("file").str.ends_with("papers.jsonl")).height
    read = int(table.papers["n_records"].sum()) + refused
    assert read == sum(1 for line in papers if line.strip())


@pytest.mark.parametrize("seed", range(2))
def test_damaged_shards(seed: int, tmp_path: Path) -> None:
    check_shards(tmp_path, seed, 300)
