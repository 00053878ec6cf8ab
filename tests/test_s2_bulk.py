"""Joining Semantic Scholar's bulk shards on disk, against a twin that holds all in dicts."""

import gzip
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight_fast.errors import DataError
from hindsight_fast.papers import gather, s2_bulk
from hindsight_fast.papers.readers import streams
from hindsight_fast.papers.records import RAW_SCHEMA
from hindsight_fast.papers.s2_bulk import buckets, rows, shards
from hindsight_fast.papers.s2_bulk.joining import Keep

Datasets = Mapping[str, Sequence[Path]]
Json = dict[str, Any]

RELEASE = "2024-03-12"
SUPERSEDED = (
    "abstract",
    "citations",
    "citations_as_of",
    "citations_dated",
    "citations_source",
    "field",
    "kind",
    "license",
    "tldr",
)


def paper(corpus_id: object, **more: Any) -> Json:
    """A record of the papers dataset, at its native shape."""
    return {
        "corpusid": corpus_id,
        "externalids": {"ACL": None, "DBLP": None, "ArXiv": None, "MAG": "7", "DOI": None},
        "url": f"https://www.semanticscholar.org/paper/{corpus_id}",
        "title": f"On {corpus_id}",
        "authors": [{"authorId": "1", "name": "Ada Bee"}, {"authorId": None, "name": "C. Dee"}],
        "venue": "",
        "publicationvenueid": None,
        "year": 2023,
        "referencecount": 3,
        "citationcount": 0,
        "influentialcitationcount": 0,
        "isopenaccess": False,
        "s2fieldsofstudy": [
            {"category": "Computer Science", "source": "external"},
            {"category": "Computer Science", "source": "s2-fos-model"},
            {"category": "Biology", "source": "s2-fos-model"},
        ],
        "publicationtypes": ["Review", "JournalArticle"],
        "publicationdate": "2023-05-04",
        "journal": {"name": "", "pages": "1-2", "volume": "3"},
        "updated": "2024-03-01T01:02:03.456Z",
    } | more


def abstract(corpus_id: object, text: str | None, **more: Any) -> Json:
    open_access = {
        "externalids": {"MAG": None, "ACL": None, "DOI": None, "ArXiv": None},
        "license": None,
        "url": None,
        "status": None,
    }
    return {"corpusid": corpus_id, "openaccessinfo": open_access, "abstract": text} | more


def edge(citing: object, cited: object) -> Json:
    return {
        "citingcorpusid": citing,
        "citedcorpusid": cited,
        "isinfluential": False,
        "contexts": ["as in [3]"],
        "intents": [["background"], None],
    }


def write(path: Path, lines: Sequence[Json | str]) -> Path:
    """Write a shard, compressed where its name says so; texts go as they are."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    content = "".join(text + "\n" for text in texts).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def kept_from(year: str) -> Keep:
    """Choose the papers of a year."""

    def keep(raw: pl.DataFrame) -> pl.Series:
        return (raw["year"] == year).fill_null(False)

    return keep


def read(
    datasets: Datasets, year: str | None = None, bucket_bytes: int = 1000
) -> tuple[dict[tuple[Path, int], Json], list[tuple[Path, int, str]], Counter[str]]:
    """Read shards; records by their place, rejects, counts (zeros left out).

    Texts are joined to papers of `year`, by default to all.
    """
    keep = None if year is None else kept_from(year)
    records: dict[tuple[Path, int], Json] = {}
    rejects: list[tuple[Path, int, str]] = []
    counts = Counter[str]()
    chosen = s2_bulk.Settings(keep=keep, bucket_bytes=bucket_bytes)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        for path, batch in s2_bulk.read(datasets, work, counts, chosen):
            assert dict(batch.records.schema) == RAW_SCHEMA
            assert dict(batch.rejects.schema) == shards.REJECTS
            for row in batch.records.iter_rows(named=True):
                assert (path, row["line"]) not in records
                records[path, row["line"]] = row
            rejects += [(path, line, why) for line, why, _ in batch.rejects.iter_rows()]
        left = [path for path in work.rglob("*") if path.is_file()]
        assert not left, "buckets are freed on the way"
    return records, sorted(rejects), +counts


# The twin


def corpus_id(value: object) -> int | None:
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 1 <= value < 1 << 63 else None  # type: ignore[return-value, operator]


def lines_of(path: Path) -> Iterator[tuple[int, Json | None]]:
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    for number, line in enumerate(content.decode().split("\n"), start=1):
        if line.strip():
            try:
                value = json.loads(line, parse_constant=int)  # NaN is no JSON
            except ValueError:
                value = None
            yield number, value if isinstance(value, dict) else None


def month_of(record: Json) -> str | None:
    """``2023-05``, ``2023`` or None."""
    for text in (record["publicationdate"], str(record["year"] or "")):
        if text and text[:4].isdigit():
            return text[:7] if text[4:5] == "-" else text[:4]
    return None


def twin(
    datasets: Datasets, year: str | None = None
) -> tuple[dict[tuple[Path, int], Json], list[tuple[Path, int, str]], Counter[str]]:
    counts = Counter[str]()
    rejects: list[tuple[Path, int, str]] = []
    read: dict[str, list[tuple[Path, int, Json]]] = defaultdict(list)
    for dataset, paths in datasets.items():
        for path in paths:
            for number, value in lines_of(path):
                if value is None:
                    rejects.append((path, number, "bad"))
                elif dataset in ("abstracts", "tldrs") and corpus_id(value["corpusid"]) is None:
                    rejects.append((path, number, "no corpusid"))
                    counts[f"s2_{dataset}"] += 1
                else:
                    read[dataset].append((path, number, value))

    venues = {record["id"]: record["name"] for *_, record in read["publication-venues"]}
    papers: dict[int | None, list[tuple[tuple[Path, int], Json]]] = defaultdict(list)
    for path, number, record in read["papers"]:
        papers[corpus_id(record["corpusid"])].append(((path, number), record))
    newest = {
        key: max(same, key=lambda item: item[1]["updated"] or "")[1] for key, same in papers.items()
    }

    texts: dict[str, dict[int, Json]] = {}
    for dataset, text in (("abstracts", "abstract"), ("tldrs", "text")):
        by_id: dict[int, list[Json]] = defaultdict(list)
        for *_, record in read[dataset]:
            by_id[corpus_id(record["corpusid"]) or 0].append(record)
            counts[f"s2_{dataset}"] += 1
        counts[f"s2_{dataset}_repeated"] += sum(len(same) - 1 for same in by_id.values())
        counts[f"s2_{dataset}_unknown"] += len(set(by_id) - set(papers))
        texts[dataset] = {
            key: max(
                same,
                key=lambda r: (
                    r[text] is not None,
                    r.get("updated") or "",
                    len((r[text] or "").encode()),
                ),
            )
            for key, same in by_id.items()
        }

    cites: dict[int, set[int]] = defaultdict(set)
    for *_, record in read["citations"]:
        citing, cited = (corpus_id(record[f"{end}corpusid"]) for end in ("citing", "cited"))
        counts["s2_citations"] += 1
        if citing is None or cited is None:
            counts["s2_citations_half"] += 1
        else:
            cites[cited].add(citing)

    days = [record["updated"][:10] for *_, record in read["papers"] if record["updated"]]
    release = [path.parent.name for path in datasets["papers"] if path.parent.name[:3] == "202"]
    as_of = max(release or days, default=None)
    records: dict[tuple[Path, int], Json] = {}
    kept_ids: set[int] = set()
    for key, same in papers.items():
        for place, record in same:
            ids: Json = record["externalids"] or {}
            journal: Json = record["journal"] or {}
            found: Json = dict.fromkeys(RAW_SCHEMA)
            found |= {
                "line": place[1],
                "id": key and f"CorpusId:{key}",
                "corpus_id": key and str(key),
                "source": "s2",
                "citations_as_of": as_of,
                "title": record["title"],
                "authors": [one["name"] for one in record["authors"]]
                if record["authors"]
                else None,
                "venue": record["venue"]
                or venues.get(record["publicationvenueid"])
                or journal.get("name")
                or None,
                "year": None if record["year"] is None else str(record["year"]),
                "date": record["publicationdate"],
                "doi": ids.get("DOI"),
                "arxiv_id": ids.get("ArXiv"),
                "url": record["url"],
                "citations": None
                if record["citationcount"] is None
                else str(record["citationcount"]),
                "field": "; ".join(dict.fromkeys(f["category"] for f in record["s2fieldsofstudy"]))
                if record["s2fieldsofstudy"]
                else None,
                "kind": "; ".join(record["publicationtypes"])
                if record["publicationtypes"]
                else None,
            }
            if found["citations"]:
                found["citations_source"] = "s2"
            is_kept = year in (None, found["year"])
            if key is not None and is_kept:
                kept_ids.add(key)
                told = texts["abstracts"].get(key, {})
                open_access: Json = told.get("openaccessinfo") or {}
                url: str = open_access.get("url") or ""
                more: Json = open_access.get("externalids") or {}
                found["abstract"] = told.get("abstract")
                found["license"] = open_access.get("license")
                found["tldr"] = texts["tldrs"].get(key, {}).get("text")
                found["doi"] = found["doi"] or more.get("DOI")
                found["arxiv_id"] = (
                    found["arxiv_id"] or more.get("ArXiv") or (url if "arxiv.org/" in url else None)
                )
            if is_kept and datasets.get("citations"):
                months = [
                    month_of(newest[citing]) if citing in papers else None
                    for citing in cites.get(key or 0, ())
                ]
                of = max(len(months), int(record["citationcount"] or 0))
                dated = Counter(month for month in months if month)
                if months or record["citationcount"] is not None:
                    if dated.total() >= 0.9 * of:
                        tallies = [f"{month}:{n}" for month, n in sorted(dated.items())]
                        found["citations_dated"] = " ".join(["1800:0", *tallies])
                    else:
                        counts["s2_partly_dated"] += 1
            if key is not None and len(same) > 1:
                counts["s2_papers_repeated"] += 1
            if key is not None and (record["updated"] or "") < (newest[key]["updated"] or ""):
                counts["s2_papers_superseded"] += 1
                found |= dict.fromkeys(SUPERSEDED)
            records[place] = found
    for dataset in ("abstracts", "tldrs"):
        counts[f"s2_{dataset}_joined"] += len(kept_ids & set(texts[dataset]))
    for key in kept_ids & set(cites):
        counts["s2_citations_joined"] += len(cites[key])
        for one in cites[key]:
            counts["s2_citations_unknown"] += one not in papers
            counts["s2_citations_undated"] += one in papers and month_of(newest[one]) is None
    return records, sorted(rejects), +counts


def same(datasets: Datasets, year: str | None = None, bucket_bytes: int = 1000) -> None:
    """Check that the join finds what the twin does."""
    records, rejects, counts = read(datasets, year, bucket_bytes)
    expected, bad, expected_counts = twin(datasets, year)
    assert records.keys() == expected.keys()
    for place, record in expected.items():
        assert records[place] == record
    assert [item[:2] for item in rejects] == [item[:2] for item in bad]
    for one, other in zip(rejects, bad, strict=True):
        assert other[2] == "bad" or one[2] == other[2]
    repeated = counts.pop("s2_citations_repeated", 0)
    counts = Counter({name: n for name, n in counts.items() if not name.startswith("malformed")})
    assert counts == expected_counts
    assert repeated <= counts["s2_citations"]


IDS = st.integers(1, 9)
ANY_ID = st.one_of(
    IDS, IDS.map(str), st.sampled_from([None, 0, -4, "", "x7", 5.0, 1 << 62, str(1 << 62), 1 << 70])
)
WORDS = st.one_of(st.none(), st.text(max_size=12), st.just("a\nb \U0001f600"))
UPDATED = st.sampled_from(["2024-01-01T00:00:00Z", "2024-02-03T04:05:06Z", None])
BAD = st.sampled_from(["{", "[1]", '"x"', "nonsense", '{"corpusid": NaN}', "", " "])


@st.composite
def papers(draw: st.DrawFn) -> Json:
    venue = draw(st.sampled_from([None, "v1", "v2", "v9"]))
    return paper(
        draw(ANY_ID),
        title=draw(WORDS),
        year=draw(st.sampled_from([2022, 2023, None])),
        publicationdate=draw(st.sampled_from([None, None, "2023-05-04", "2022-11", "2022-12-31"])),
        citationcount=draw(st.sampled_from([0, 1, 2, None])),
        updated=draw(UPDATED),
        externalids=draw(
            st.sampled_from([None, {"ArXiv": "2305.00001"}, {"DOI": "10.1/x", "CorpusId": "3"}])
        ),
        publicationvenueid=venue,
        journal=None if venue else {"name": "Acta", "pages": None},
    )


@st.composite
def abstracts(draw: st.DrawFn) -> Json:
    # Of two of one length and day, the alphabet decides: that is not of interest here.
    text = draw(st.one_of(st.none(), st.integers(1, 40).map("a".__mul__)))
    access: list[Json | None] = [
        None,
        {"license": "CCBY", "url": "https://arxiv.org/pdf/2301.01234", "externalids": None},
        {"license": None, "url": "https://x.org", "externalids": {"DOI": "10.2/y", "MAG": None}},
    ]
    key = draw(ANY_ID)
    # What else it says depends on its length, so that of equal ones it does not matter which.
    return abstract(key, text, updated=draw(UPDATED), openaccessinfo=access[len(text or "") % 3])


@st.composite
def sets_of_shards(draw: st.DrawFn) -> dict[str, dict[str, list[Json | str]]]:
    """Datasets as lines by name of a file."""
    tldr = st.integers(1, 5).map("t".__mul__)
    venues: list[Json] = [{"id": "v1", "name": "ICLR"}, {"id": "v2", "name": "Acta"}]
    kinds: dict[str, st.SearchStrategy[Json]] = {
        "papers": papers(),
        "abstracts": abstracts(),
        "tldrs": st.fixed_dictionaries({"corpusid": ANY_ID, "text": tldr}),
        "citations": st.builds(edge, st.one_of(IDS, ANY_ID), st.one_of(IDS, ANY_ID)),
        "publication-venues": st.sampled_from([*venues, {"id": "v3", "name": None}]),
    }
    found: dict[str, dict[str, list[Json | str]]] = {}
    for dataset, kind in kinds.items():
        line: st.SearchStrategy[Json | str] = st.one_of(kind, kind, kind, BAD)
        found[dataset] = {}
        for number in range(draw(st.integers(int(dataset == "papers"), 2))):
            name = f"{dataset}-{number}{draw(st.sampled_from(['', '.jsonl', '.gz']))}"
            most = 60 if dataset == "citations" else 12
            found[dataset][name] = draw(st.lists(line, max_size=most))
    return found


@given(
    sets=sets_of_shards(),
    year=st.sampled_from([None, "2023"]),
    bucket_bytes=st.sampled_from([900, 1 << 20]),
    held_bytes=st.sampled_from([1, 1 << 20]),
    block_bytes=st.sampled_from([100, 1 << 20]),
    folder=st.sampled_from(["x", RELEASE]),
)
@settings(max_examples=30, deadline=None)
def test_the_join_on_disk_is_that_of_dicts(
    sets: dict[str, dict[str, list[Json | str]]],
    year: str | None,
    bucket_bytes: int,
    held_bytes: int,
    block_bytes: int,
    folder: str,
) -> None:
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patched:
        patched.setattr(buckets, "_HELD_BYTES", held_bytes)
        patched.setattr(shards, "_BLOCK_BYTES", block_bytes)
        datasets = {
            dataset: [write(Path(root, folder, name), lines) for name, lines in files.items()]
            for dataset, files in sets.items()
        }
        same(datasets, year, bucket_bytes)


def one(datasets: Datasets, **more: Any) -> Json:
    """Read shards of which one paper comes."""
    (record,) = read(datasets, **more)[0].values()
    return record


def test_a_paper_at_its_native_shape(tmp_path: Path) -> None:
    ids = {"ACL": None, "ArXiv": "2305.00001", "CorpusId": "7", "DOI": "10.1/x"}
    datasets = {
        "papers": [
            write(
                tmp_path / "part-0",
                [paper(7, citationcount=12, externalids=ids, publicationvenueid="v")],
            )
        ],
        "abstracts": [
            write(
                tmp_path / "part-1.gz",
                [
                    abstract(8, "Of no paper."),
                    abstract("7", "We show.")
                    | {
                        "openaccessinfo": {
                            "externalids": None,
                            "license": "CCBY",
                            "url": "http://x",
                        }
                    },
                ],
            )
        ],
        "tldrs": [
            write(tmp_path / "t", [{"corpusid": 7, "model": "tldr@v2.0.0", "text": "Shown."}])
        ],
        "publication-venues": [write(tmp_path / "v", [{"id": "v", "name": "ICLR", "type": None}])],
    }
    assert one(datasets) == {
        "line": 1,
        "id": "CorpusId:7",
        "title": "On 7",
        "abstract": "We show.",
        "authors": ["Ada Bee", "C. Dee"],
        "venue": "ICLR",
        "year": "2023",
        "date": "2023-05-04",
        "first_public": None,
        "revised": None,
        "citations": "12",
        "citations_source": "s2",
        "citations_as_of": "2024-03-01",
        "citations_dated": None,
        "doi": "10.1/x",
        "arxiv_id": "2305.00001",
        "corpus_id": "7",
        "field": "Computer Science; Biology",
        "kind": "Review; JournalArticle",
        "language": None,
        "tldr": "Shown.",
        "license": "CCBY",
        "url": "https://www.semanticscholar.org/paper/7",
        "source": "s2",
        "status": None,
    }
    assert read(datasets)[2] == {
        "s2_abstracts": 2,
        "s2_abstracts_joined": 1,
        "s2_abstracts_unknown": 1,
        "s2_tldrs": 1,
        "s2_tldrs_joined": 1,
    }


def test_citations_are_dated_by_who_cites(tmp_path: Path) -> None:
    citing = [
        paper(2, publicationdate="2023-05-04"),
        paper(3, publicationdate="2023-05-30"),
        paper(4, publicationdate=None, year=2023),
        paper(5, publicationdate=None, year=None),
    ]
    cited = [
        paper(1, citationcount=3),
        paper(11, citationcount=0),
        paper(12, citationcount=4),
        paper(13, citationcount=None),
        paper(14, citationcount=1),
    ]
    edges = [edge("2", "1"), edge("2", "1"), edge("3", "1"), edge("4", "1")]
    few_dated = [edge("2", "12"), edge("5", "12"), edge("99", "12"), edge("2", None)]
    datasets = {
        "papers": [write(tmp_path / "papers", [*citing, *cited])],
        "citations": [write(tmp_path / "one", edges), write(tmp_path / "two.gz", few_dated)],
    }
    records, _, counts = read(datasets)
    assert {row["corpus_id"]: row["citations_dated"] for row in records.values()} == {
        "1": "1800:0 2023:1 2023-05:2",  # each citing paper once, though the pair comes twice
        "11": "1800:0",  # cited by nobody, which is known
        "12": None,  # who cites it is known of one in four
        "13": None,
        "14": None,  # shards of citations are missing
        **dict.fromkeys(["2", "3", "4", "5"], "1800:0"),
    }
    assert counts == {
        "s2_citations": 8,
        "s2_citations_half": 1,
        "s2_citations_repeated": 1,
        "s2_citations_joined": 6,
        "s2_citations_unknown": 1,
        "s2_citations_undated": 1,
        "s2_partly_dated": 2,
    }


def test_of_what_is_left_out_no_text_is_written(tmp_path: Path) -> None:
    noise = [f"{number:x}" for number in range(10_000)]
    papers = [paper(number, year=2022) for number in range(1, 200)]
    texts = [abstract(number, " ".join(noise[number * 50 :][:50])) for number in range(1, 200)]
    datasets = {
        "papers": [write(tmp_path / "papers", [paper(1000), *papers])],
        "abstracts": [write(tmp_path / "abstracts", [abstract(1000, "Kept."), *texts])],
    }
    sizes: list[int] = []
    for keep in (None, kept_from("2023")):
        work = tmp_path / f"work-{len(sizes)}"
        for path, batch in s2_bulk.read(datasets, work, Counter(), s2_bulk.Settings(keep=keep)):
            assert path.name == "papers"
            abstracts = dict(batch.records.select("id", "abstract").iter_rows())
            assert abstracts["CorpusId:1000"] == "Kept."
            assert (abstracts["CorpusId:7"] is None) == (keep is not None)
            break
        sizes.append(sum(path.stat().st_size for path in work.rglob("*") if path.is_file()))
    assert read(datasets, "2023", 1 << 20)[2]["s2_abstracts_joined"] == 1


def test_values_of_another_type_are_unknown_and_counted(tmp_path: Path) -> None:
    odd = paper(
        "7",
        journal="Acta",
        authors=[{"name": 5}],
        s2fieldsofstudy={"category": "Law"},
        year="2023",
        citationcount=4.0,
        publicationtypes=[3],
        title="A \ud83d title",  # half of a pair
    )
    records, _, counts = read({"papers": [write(tmp_path / "papers", [odd])]})
    (found,) = records.values()
    assert found["title"].startswith("A ") and found["title"].endswith(" title")
    assert (found["year"], found["citations"], found["corpus_id"]) == ("2023", "4.0", "7")
    assert (found["authors"], found["field"], found["kind"], found["venue"]) == (None,) * 4
    assert counts == dict.fromkeys(
        [
            f"malformed_{key}"
            for key in ("journal", "authors", "s2fieldsofstudy", "publicationtypes")
        ],
        1,
    )


def test_lines_that_are_no_record_are_rejects_of_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LONGEST_LINE", 2000)
    monkeypatch.setattr(shards, "_BLOCK_BYTES", 64)
    deep = '{"title": ' + "[" * 5000 + "]" * 5000 + "}"
    papers = write(tmp_path / "p", [paper(1), deep, paper(2, title="t" * 3000), "[]", paper(3)])
    papers.write_bytes(b"\xef\xbb\xbf" + papers.read_bytes() + b'{"title": "\xff"}')
    texts = write(tmp_path / "a.gz", [abstract(1, "A."), abstract(None, "B."), "{"])
    records, rejects, _ = read({"papers": [papers], "abstracts": [texts]})
    assert sorted(records) == [(papers, 1), (papers, 5)]
    assert [(path.name, line) for path, line, _ in rejects] == [
        ("a.gz", 2),
        ("a.gz", 3),
        ("p", 2),
        ("p", 3),
        ("p", 4),
        ("p", 6),
    ]
    reasons = [why for *_, why in rejects]
    assert reasons[0] == "no corpusid"
    assert "longer than 2000 bytes" in reasons[3]
    assert "UTF-8" in reasons[5]


def test_a_limit_is_on_each_shard_of_papers(tmp_path: Path) -> None:
    datasets = {
        "papers": [
            write(tmp_path / name, ["{", *(paper(first + n) for n in range(5))])
            for name, first in (("one", 10), ("two", 20))
        ],
        "abstracts": [write(tmp_path / "a", [abstract(n, "A.") for n in range(1, 30)])],
    }
    found = list(s2_bulk.read(datasets, tmp_path / "work", Counter(), s2_bulk.Settings(limit=3)))
    records = pl.concat(batch.records for _, batch in found)
    assert sorted(records["corpus_id"]) == ["10", "11", "20", "21"]
    assert records["abstract"].to_list() == ["A."] * 4
    assert sum(batch.rejects.height for _, batch in found) == 2


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("2024-03-12/papers/part-0.gz", "2024-03-12"),
        ("papers-2024-03-12/20240314_0", "2024-03-12"),
        ("papers/20240315_071025_00151_3g69z", "2024-03-15"),
        ("20240315/papers/part-0", None),
        ("papers/part-20241315-7", None),
        ("2024-03-12/a/b/c/part", None),
    ],
)
def test_the_release_is_named_by_files_and_folders(path: str, day: str | None) -> None:
    assert rows.release_day(Path("/data", path)) == day


def test_other_shards_make_no_papers(tmp_path: Path) -> None:
    shard = write(tmp_path / "a.gz", [])
    with pytest.raises(DataError, match=r"a\.gz.* abstracts, .* shards of the papers dataset"):
        s2_bulk.check({"abstracts": [shard], "papers": []})
    with pytest.raises(DataError, match="embed --from-vectors"):
        s2_bulk.check({"embeddings": [shard]})
    s2_bulk.check({"papers": [shard], "embeddings": [shard]})


def test_shards_of_no_use_are_counted(tmp_path: Path) -> None:
    datasets = {
        "papers": [write(tmp_path / "p", [paper(1)])],
        "embeddings": [write(tmp_path / name, []) for name in "ab"],
    }
    assert read(datasets)[2] == {"unused_embeddings": 2}


def test_hashes_are_named_by_corpus_id(tmp_path: Path) -> None:
    hashes = [letter * 40 for letter in "abcd"]
    lines: list[Json | str] = [
        {"sha": hashes[0], "corpusid": 1, "primary": True},
        {"sha": hashes[1], "corpusid": "1", "primary": False},
        "{",
        {"sha": hashes[2], "corpusid": None, "primary": True},
    ]
    shard = write(tmp_path / "ids.gz", lines)
    more = write(tmp_path / "more", [{"sha": hashes[3], "corpusid": 4, "primary": True}])
    wanted = pl.Series([hashes[1].upper(), hashes[2], hashes[0], "e" * 40, None])
    found = s2_bulk.corpus_ids([shard, more], wanted)
    assert found.rows() == [(hashes[0], 1), (hashes[1], 1)]
    assert s2_bulk.corpus_ids([], wanted).schema == found.schema


def test_answers_of_the_api_are_named_by_shards_of_paper_ids(tmp_path: Path) -> None:
    hashes = [letter * 40 for letter in "abc"]
    answers: list[Json | str] = [
        {"paperId": hashes[0], "title": "A name of its own", "year": 2023, "abstract": None},
        {"paperId": hashes[1], "corpusId": 8, "title": "Known", "year": 2023, "abstract": None},
        {"paperId": hashes[2], "title": "Unknown", "year": 2023, "abstract": None},
    ]
    ids: list[Json | str] = [
        {"sha": hashes[0], "corpusid": 7, "primary": False},
        {"sha": hashes[1], "corpusid": 9, "primary": True},
    ]
    sources = [
        write(tmp_path / "answers.jsonl", answers),
        write(tmp_path / "ids", ids),
        write(tmp_path / "papers", [paper(7)]),
    ]
    for count in (3, 2):  # with shards of papers, and without
        (work := tmp_path / f"work-{count}").mkdir()
        found = gather(sources[:count], work)
        papers = pl.concat(found.parts()).sort("id")
        assert papers["id"].to_list() == ["CorpusId:7", "CorpusId:8", hashes[2]]
        assert papers["n_records"].to_list() == [count - 1, 1, 1]
        assert found.counts["s2_paper_ids"] == 1


def test_native_samples(shared: Path) -> None:
    root = shared / "data" / "raw" / "s2_bulk"
    datasets = {
        folder.name: sorted(path for path in folder.iterdir() if "sample" in path.name)
        for folder in root.iterdir()
        if folder.is_dir() and folder.name != "embeddings"
    }
    same(datasets, bucket_bytes=50_000)
    records, rejects, counts = read(datasets, bucket_bytes=1 << 20)
    assert (len(records), rejects) == (100, [])
    assert counts["s2_abstracts"] == counts["s2_abstracts_unknown"] == 100  # of other papers
    assert counts["s2_citations_half"] == 23
    assert sum(record["date"] is None for record in records.values()) == 65
    assert {record["citations_as_of"] for record in records.values()} == {"2022-02-10"}
