"""Files as services hand them out, read whole: how many records, and papers looked up by hand.

What is expected of a paper was read in the file itself. Needs the shared folder.
"""

from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hindsight_fast.errors import DataError
from hindsight_fast.papers import PaperTable, read_papers, readers, venues
from hindsight_fast.papers.readers import streams

TODAY = date(2026, 11, 30)


@cache
def read(shared: Path, *names: str) -> PaperTable:
    return read_papers([shared / "data" / "raw" / name for name in names], today=TODAY)


ACL, ATOM, BIBTEX = (
    "acl_anthology_xml",
    "arxiv_api_atom/q_testing_s0_m100_cfe7536492ca.xml",
    "bibtex",
)
OLD, SNAPSHOT = "arxiv_api_atom/id_astro-ph_0601001_s0_m100_3150dca9dc76.xml", "arxiv_kaggle"
GRAPH = "s2_graph_api/paper_search_2023-03-05.json"

COUNTS = [
    (ACL, {"n_in": 81, "n_papers": 81, "n_paratext": 1, "n_venues": 81}),
    (ATOM, {"n_in": 100, "n_papers": 100, "n_undated": 0}),
    (OLD, {"n_in": 1, "n_papers": 1}),
    (BIBTEX, {"n_in": 138, "n_papers": 138, "n_title_only": 109, "n_undated": 0}),
    (SNAPSHOT, {"n_in": 200, "n_papers": 200, "n_withdrawn": 1, "n_undated": 0}),
    ("openalex", {"n_in": 2, "n_papers": 2, "n_title_only": 2, "n_citations": 2}),
    ("paperlists", {"n_in": 106, "n_papers": 106, "n_citations": 105}),
    (GRAPH, {"n_in": 10, "n_papers": 10, "n_title_only": 4}),
    ("s2_bulk", {"n_in": 100, "n_papers": 100, "n_citations": 100, "n_undated": 3}),
]


@pytest.mark.parametrize(("name", "expected"), COUNTS)
def test_counts(shared: Path, name: str, expected: dict[str, int]) -> None:
    counts = read(shared, name).counts
    assert {key: counts[key] for key in expected} == expected
    assert counts["n_rejects"] == 0


PAPERS: list[tuple[str, str, dict[str, Any]]] = [
    (ACL, "ACL:2022.acl-long.1", {
        "title": "AdapLeR: Speeding up Inference by Adaptive Length Reduction",
        "authors": ["Ali Modarressi", "Hosein Mohebbi", "Mohammad Taher Pilehvar"],
        "venue": "ACL", "year": 2022, "date": "2022-05-01", "date_precision": "month",
        "date_kind": "venue", "revised": None, "doi": "10.18653/v1/2022.acl-long.1",
        "url": "https://aclanthology.org/2022.acl-long.1/", "source": "acl", "status": "ok"}),
    (ACL, "ACL:2022.acl-long.0", {
        "title": "Proceedings of the 60th Annual Meeting of the Association for Computational "
        "Linguistics (Volume 1: Long Papers)",
        "authors": ["Smaranda Muresan", "Preslav Nakov", "Aline Villavicencio"],
        "status": "paratext", "abstract": None}),
    (ACL, "ACL:2022.acl-long.52", {"revised": "2022-12-19", "venue": "ACL"}),
    (ATOM, "arXiv:2202.12139", {
        "title": "Testing Deep Learning Models: A First Comparative Study of Multiple Testing "
        "Techniques",
        "authors": ["Mohit Kumar Ahuja", "Arnaud Gotlieb", "Helge Spieker"],
        "date": "2022-02-24", "date_precision": "day", "date_kind": "first_public",
        "revised": "2022-02-24", "field": "cs.SE; cs.LG", "arxiv_id": "2202.12139",
        "doi": "10.1109/icstw55395.2022.00035", "source": "arxiv"}),
    (ATOM, "arXiv:1009.3186", {"date": "2010-09-16", "revised": "2011-07-22", "venue": "arXiv"}),
    (OLD, "arXiv:astro-ph/0601001", {
        "arxiv_id": "astro-ph/0601001", "date": "2006-01-02", "venue": "ActaAstron"}),
    (BIBTEX, "goldman-etal-2022-un", {
        "title": "(Un)solving Morphological Inflection: Lemma Overlap Artificially Inflates "
        "Models' Performance",
        "authors": ["Omer Goldman", "David Guriel", "Reut Tsarfaty"],
        "venue": "ACL", "date": "2022-05-01", "date_precision": "month", "year": 2022,
        "doi": "10.18653/v1/2022.acl-short.96", "status": "title_only", "source": "bibtex"}),
    (BIBTEX, "zhou-srikumar-2022-closer", {
        "title": "A Closer Look at How Fine-tuning Changes BERT", "venue": "ACL"}),
    (SNAPSHOT, "arXiv:0704.0001", {
        "title": "Calculation of prompt diphoton production cross sections at Tevatron and LHC "
        "energies",
        "date": "2007-04-02", "date_precision": "day", "date_kind": "first_public",
        "revised": "2007-07-24", "venue": "Phys.Rev.D", "doi": "10.1103/physrevd.76.013009",
        "field": "hep-ph", "status": "ok"}),
    (SNAPSHOT, "arXiv:0704.0156", {"status": "withdrawn", "date": "2007-04-02"}),
    ("openalex", "W3035764705", {
        "title": "Genome editing with CRISPR–Cas nucleases, base editors, transposases and prime "
        "editors",
        "venue": "Nature Biotechnology", "date": "2020-06-22", "citations": 2282,
        "citations_source": "openalex", "doi": "10.1038/s41587-020-0561-9"}),
    ("paperlists", "paperlists:a7a0e02bf3", {
        "title": "ASML: A Scalable and Efficient AutoML Solution for Data Streams",
        "venue": "AutoML", "citations": 2, "citations_source": "google_scholar",
        "authors": ["Nilesh Verma", "Albert Bifet", "Bernhard Pfahringer", "Maroua Bahri"]}),
    (GRAPH, "CorpusId:250364723", {
        "title": "Big Data: A Transition from Conventional Databases",
        "doi": "10.48175/ijarsct-5682", "corpus_id": 250364723, "source": "s2"}),
    ("s2_bulk", "CorpusId:107479270", {
        "title": "Finite Element Analysis of M15 and M19 Mines Under Wheeled Vehicle Load",
        "date": "2008-03-01", "citations": 0, "citations_source": "s2",
        "doi": "10.21236/ada478288", "corpus_id": 107479270, "venue": None}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "id_", "expected"), PAPERS)
def test_papers(shared: Path, name: str, id_: str, expected: dict[str, Any]) -> None:
    papers = {paper["id"]: paper for paper in read(shared, name).papers.to_dicts()}
    found = {key: papers[id_][key] for key in expected}
    days = {key: str(value) for key, value in found.items() if isinstance(value, date)}
    assert found | days == expected


def test_side_events_are_no_venue_of_the_table(shared: Path) -> None:
    """21 of the 138 entries are of Findings, one of the demonstrations, one of industry."""
    papers = read(shared, BIBTEX).papers
    named = papers["venue"].str.contains("Findings|Demonstrations|Industry")
    assert named.sum() == 23
    assert not venues.is_known(papers["venue"].filter(named), venues.table()).any()
    atom = read(shared, ATOM).papers
    workshops = atom.filter(atom["venue"].str.contains("(?i)workshop"))["venue"]
    assert len(workshops) >= 4
    assert not venues.is_known(workshops, venues.table()).any()


def test_all_together(shared: Path) -> None:
    """One of the entries is one of the 80 papers: both have its DOI."""
    table = read(shared, *(name for name, _ in COUNTS))
    counts = table.counts
    assert counts["n_in"] == sum(expected["n_in"] for _, expected in COUNTS)
    assert (counts["n_merged"], counts["n_rejects"]) == (1, 0)
    (merged,) = table.papers.filter(table.papers["n_records"] == 2).to_dicts()
    assert merged["title"] == "A Closer Look at How Fine-tuning Changes BERT"
    assert merged["doi"] == "10.18653/v1/2022.acl-long.75"
    assert merged["venue"] == "ACL"


@pytest.mark.parametrize(
    ("name", "format"),
    [
        (f"{ACL}/2022.acl_head80.xml", "acl_anthology"),
        (ATOM, "arxiv_atom"),
        (f"{BIBTEX}/paperlists_bibtex_strings.bib", "bibtex"),
        (f"{SNAPSHOT}/arxiv-metadata-oai-snapshot_sample.jsonl", "arxiv_snapshot"),
        ("openalex/openalex_works_api_page.json", "openalex"),
        ("paperlists/automl2024.json", "paperlists"),
        (GRAPH, "s2_graph"),
    ],
)
def test_formats_are_found_without_a_name(
    shared: Path, tmp_path: Path, name: str, format: str
) -> None:
    path = tmp_path / "download"
    path.write_bytes((shared / "data" / "raw" / name).read_bytes())
    assert readers.find(path, streams.head(path), "auto").name == format


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("arxiv_api_atom/id_abc_s0_m100_b79c8dcf6bc3.xml", "incorrect id format for abc"),
        ("s2_graph_api/vcr_PaperWithNullValues.json", "no title"),
        ("ideas_native", "is a file of ideas"),
    ],
)
def test_what_holds_no_papers_is_refused(shared: Path, name: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read(shared, name)
