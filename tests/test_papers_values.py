"""Citation counts and identifiers as people write them."""

import polars as pl

from hindsight_fast.papers import citations, identifiers

COUNTS = {
    "12": 12, " 7 ": 7, "12.0": 12, "+5": 5, "0": 0,
    "-1": None, "": None, "-1.0": None,
    "12.9": None, "-3": None, "true": None, "1.2k": None, "1,234": None, "9" * 30: None, "١٢": None,
}  # fmt: skip
UNKNOWN = ("-1", "", "-1.0")


def test_citations() -> None:
    counts, malformed = citations.parse(pl.Series([*COUNTS, None]))
    assert counts.to_list() == [*COUNTS.values(), None]
    assert counts.dtype == pl.Int64
    refused = [value is None and text not in UNKNOWN for text, value in COUNTS.items()]
    assert malformed.to_list() == [*refused, False]


ARXIV = {
    "2405.14012": "2405.14012",
    "2405.14012v2": "2405.14012",
    "arXiv:2405.14012 [cs.CL]": "2405.14012",
    "http://arxiv.org/abs/2405.14012v1": "2405.14012",
    "https://www.arxiv.org/pdf/2405.14012v3.pdf": "2405.14012",
    "10.48550/arXiv.2405.14012": "2405.14012",
    "https://doi.org/10.48550/arXiv.2405.14012": "2405.14012",
    "cs.CL/0601001": "cs/0601001",
    "hep-th/9901001v2": "hep-th/9901001",
    "0704.0001": "0704.0001",
    "2413.00001": None,
    "0601.0001": None,
    "1401.00001": None,
    "1812.1234": None,
    "12405.14012": None,
    "acl/0601001": None,
    "https://example.org/abs/2405.14012": None,
    "n/a": None,
}
DOIS = {
    "10.1145/ABC.1": "10.1145/abc.1",
    "https://doi.org/10.1145/ABC.1": "10.1145/abc.1",
    "doi:10.1145/x.": "10.1145/x",
    "10.48550/arXiv.2405.14012": None,
    "10.1/x": None,
    "11.1145/x": None,
    "": None,
}


def test_arxiv_ids() -> None:
    assert identifiers.arxiv(pl.Series([*ARXIV, None])).to_list() == [*ARXIV.values(), None]


def test_an_arxiv_id_that_is_only_mentioned_is_not_the_papers() -> None:
    mentions = [
        "https://github.com/a/b?ref=arxiv.org/abs/1706.03762",
        "see arxiv.org/abs/1706.03762",
        "https://example.org/10.48550/arXiv.1706.03762",
    ]
    assert identifiers.arxiv(pl.Series(mentions)).to_list() == [None] * 3
    links = ["http://arxiv.org/pdf/1706.03762v2", "https://www.arxiv.org/abs/1706.03762"]
    assert identifiers.arxiv(pl.Series(links)).to_list() == ["1706.03762"] * 2


def test_dois() -> None:
    assert identifiers.doi(pl.Series([*DOIS, None])).to_list() == [*DOIS.values(), None]
    urls = pl.Series(["https://doi.org/10.1145/ABC.1?x=1", "https://example.org/10.1145/x"])
    assert identifiers.doi_in_url(urls).to_list() == ["10.1145/abc.1", None]


def test_an_id_of_several_papers_gets_suffixes() -> None:
    papers = pl.DataFrame({"id": ["a", "a", "b", "a"], "key": ["x", "y", "x", "x"]})
    renamed, n = identifiers.tell_apart(papers, "key")
    ids = renamed["id"].to_list()
    assert n == 2 and ids[0] == ids[3] != ids[1] and ids[2] == "b"
    assert all(i.startswith("a~") and len(i) == 2 + identifiers.ID_DIGITS for i in (ids[0], ids[1]))
    backwards, _ = identifiers.tell_apart(papers.reverse(), "key")
    assert backwards["id"].to_list() == ids[::-1]
