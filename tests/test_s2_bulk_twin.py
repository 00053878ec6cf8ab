"""The join of Semantic Scholar's bulk shards is that of a twin that holds all in dicts."""

import gzip
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulk_shards import RELEASE, Datasets, Json, abstract, edge, paper, read, write
from hindsight_fast.papers.records import RAW_SCHEMA
from hindsight_fast.papers.s2_bulk import buckets, shards

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
