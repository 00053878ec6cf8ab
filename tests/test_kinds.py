"""Kinds: what sources call their records, and titles that say survey."""

import polars as pl
import pytest

from hindsight_fast.papers.kinds import KINDS, kind

GIVEN = {
    # Semantic Scholar
    "JournalArticle": "article", "Conference": "article", "Review": "survey",
    "JournalArticle;Review": "survey", "Review; JournalArticle": "survey",
    "Book": "book", "BookSection": "article", "Book;Conference": "article", "Dataset": "dataset",
    "Editorial;JournalArticle": "editorial", "LettersAndComments": "editorial", "News": "editorial",
    "Study": "article", "CaseReport": "article", "ClinicalTrial": "article",
    "JournalArticle;MetaAnalysis": "survey",
    # OpenAlex and Crossref
    "article": "article", "preprint": "preprint", "review": "survey", "book-chapter": "article",
    "dissertation": "thesis", "dataset": "dataset", "erratum": "erratum", "letter": "editorial",
    "paratext": "other", "peer-review": "other", "report": "report", "retraction": "erratum",
    "standard": "other", "supplementary-materials": "other", "reference-entry": "other",
    "proceedings-article": "article", "posted-content": "preprint", "monograph": "book",
    # BibTeX
    "inproceedings": "article", "PhdThesis": "thesis", "mastersthesis": "thesis",
    "techreport": "report", "proceedings": "book", "misc": None,
    # what nobody knows
    "quux": None, ";": None, "article;quux": "article",
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), GIVEN.items())
def test_what_the_source_says(given: str, expected: str | None) -> None:
    kinds = kind(pl.Series([given]), pl.Series(["A title"]))
    assert kinds.to_list() == [expected]
    assert expected in (*KINDS, None)


SURVEYS = [
    "A Survey", "Widgets: A Survey", "a survey of widgets", "Survey of Widgets",
    "Survey on widgets", "A Survey on the Widgets of Tomorrow", "Widgets, a review",
    "A Comprehensive Survey of Widgets", "Widgets -- A Survey", "Widgets (survey)",
    "Widgets: Survey, Taxonomy, and Outlook", "An Opinionated Survey of Widgets",
    "A Systematic Review", "Widgets: A Systematic Literature Review of Gears",
    "A Review of Widgets", "A Critical and Comprehensive Review on Widgets",
    "Widgets: A Scoping Review", "Widgets in use: review and outlook",
    "How do widgets turn? A Data-Driven Survey of Gears", "Are widgets safe? A Review",
]  # fmt: skip
NO_SURVEYS = [
    "Reviewing Widgets", "Survey Data of Widgets", "Movie Reviews with Widgets",
    "Sentiment of Movie Reviews", "Peer Review of Widgets", "Automated Code Review",
    "A Benchmark for Code Review", "A Survey-Based Widget", "A Review Dataset for Widgets",
    "A Nationwide Survey of Widget Users", "Simulating Survey Responses with Widgets",
    "Automatic Survey Generation", "Helpfulness of a Review", "The Sky Survey of Widgets",
    "Widgets", "Surveying Widgets",
]  # fmt: skip


@pytest.mark.parametrize("given", [None, "preprint", "JournalArticle", "quux"])
def test_titles_that_say_survey(given: str | None) -> None:
    for titles, surveys in ((SURVEYS, True), (NO_SURVEYS, False)):
        kinds = kind(pl.Series([given] * len(titles), dtype=pl.String), pl.Series(titles))
        wrong = [t for t, one in zip(titles, kinds, strict=True) if (one == "survey") != surveys]
        assert wrong == []


def test_what_is_more_telling_than_a_title() -> None:
    given = pl.Series(["erratum", "editorial", "dataset", "dissertation", "book", None])
    kinds = kind(given, pl.Series(["Widgets: A Survey"] * 5 + [None]))
    assert kinds.to_list() == ["erratum", "editorial", "dataset", "thesis", "survey", None]
    assert kinds.name == "kind"
    assert given.to_list()[0] == "erratum"


def test_no_rows() -> None:
    empty = pl.Series([], dtype=pl.String)
    assert kind(empty, empty).to_list() == []
