"""Cleaning of titles and abstracts, and the markers read off them."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight_fast.papers import text
from reference import clean_text as slow_clean

CLEANED = {
    "R&amp;D in <i>E. coli</i>\n studies": "R&D in E. coli studies",
    "a < b and c > d": "a < b and c > d",
    "x<b and c>d": "x<b and c>d",
    "<mask> and <think>why</think> </s> <p, q>": "<mask> and <think>why</think> </s> <p, q>",
    "&lt;i&gt;x&lt;/i&gt; CO<sub>2</sub>": "x CO2",
    "&lt;mask&gt;": "<mask>",
    "&amp;lt;": "<",
    "&amp;amp;lt;": "&lt;",
    "AT&T, &notanentity; &A;": "AT&T, &notanentity; &A;",
    "&#177;1 &#x3b1; &#0;": "±1 α \ufffd",
    "<jats:title>Abstract</jats:title><jats:p>We do.</jats:p><jats:p>So.</jats:p>": "We do. So.",
    '<a href="x">link</a><br/>y <SPAN class="a b">z</SPAN>': "link y z",
    "a\x00b\x07c\x85d": "a b c d",
    "soft\u00adhyphen zero\u200bwidth \ufeffmark": "softhyphen zerowidth mark",
    "e\u0301 \u00a0 \u2028x\t": "é x",
    "lone \ud800 one": "lone \ufffd one",
    "\ud83d\ude00": "\U0001f600",
    "  ": "",
}


def clean_one(raw: str) -> str:
    return str(text.clean(pl.Series([text.without_surrogates(raw)])).item())


@pytest.mark.parametrize(("raw", "expected"), CLEANED.items())
def test_clean(raw: str, expected: str) -> None:
    assert clean_one(raw) == slow_clean(raw) == expected


def test_nulls_stay_and_the_name_too() -> None:
    raws = [text.without_surrogates(raw) for raw in CLEANED]
    column = text.clean(pl.Series("title", [*raws, None]))
    assert column.to_list() == [*CLEANED.values(), None]
    assert column.name == "title"


PIECES = (
    *"<>/&;#x3ab =\"'\n\x00\u0301\u00ade:.-", "</", "p", "br", "SUB", "span", "h7", "title",
    "m:mi-2", "<jats:title>", "</jats:title>", "Abstract", "jats:", "<i>", "<A ", "href", "a='b<'",
    'class="c d"', "&amp;", "&lt;", "&num;", "lt;", "#38;", "&#150;", "&#0;", "&#xD800;", "\u00a0",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_clean_agrees_with_slow_twin(raw: str) -> None:
    assert clean_one(raw) == slow_clean(raw)


@pytest.mark.parametrize(
    "piece",
    [
        "(",
        "<",
        "&amp;",
        "&#38;",
        "<b ",
        "<a x=",
        '<i a="',
        "\n",
        "e\u0301",
        "\u0301",
        "[retracted ",
    ],
)
def test_hostile_input_ends(piece: str) -> None:
    hostile = piece * (500_000 // len(piece))
    column = pl.Series([hostile])
    assert len(clean_one(hostile)) <= len(hostile)
    assert text.status(column, column).len() == text.title_key(column).len() == 1


@pytest.mark.parametrize("word", ["", " ", "None", "null", "NaN", "n/a", "undefined"])
def test_missing_words_are_null(word: str) -> None:
    assert text.missing_to_null(pl.Series([word, "Nullable types"])).to_list() == [
        None,
        "Nullable types",
    ]


STATUS = {
    "Paper Withdrawn": "withdrawn",
    "Retraction: X": "retracted",
    "RETRACTED ARTICLE: Y": "retracted",
    "[RETRACTED] Breaking the bottleneck": "retracted",
    "**Paper retracted by author request (see pdf)** Regression": "retracted",
    "Retraction notice to 'Y'": "retracted",
    "A study of things (Retracted)": "retracted",
    "A study (Retracted article. See vol. 3)": "retracted",
    "WITHDRAWN: A study": "withdrawn",
    "Retraction rates in trials 2000-2020": "ok",
    "Retracted articles in PubMed: a study": "ok",
    "Withdrawn behaviour in adolescents": "ok",
    "Fast optimization without retraction": "ok",
    "Papers retracted in 2020": "ok",
}


@pytest.mark.parametrize(("title", "expected"), STATUS.items())
def test_markers_in_titles(title: str, expected: str) -> None:
    assert text.status(pl.Series([title]), pl.Series(["We do."])).to_list() == [expected]


@pytest.mark.parametrize(
    ("abstract", "expected"),
    [
        ("This paper has been withdrawn by the author due to an error in Lemma 2.", "withdrawn"),
        ("The manuscript was retracted because of an error.", "retracted"),
        ("Withdrawn.", "withdrawn"),
        ("We study why papers are withdrawn. This paper has been withdrawn, they say.", "ok"),
        (None, "title_only"),
    ],
)
def test_markers_in_abstracts(abstract: str | None, expected: str) -> None:
    status = text.status(pl.Series(["Things"]), pl.Series([abstract], dtype=pl.String))
    assert status.to_list() == [expected]


def test_title_key() -> None:
    titles = pl.Series(
        ["The $k$-Means: Revisited!", "[RETRACTED] Größe", "Grosse", "?!", None, "हिंदी"]
    )
    keys = text.title_key(titles).to_list()
    assert keys == ["thekmeansrevisited", "große", "grosse", None, None, "हिंदी"]


def test_no_abstract() -> None:
    given_ = pl.Series(
        ["No abstract available.", "[Abstract not available]", "No abstract idea", None]
    )
    assert text.no_abstract(given_).to_list() == [True, True, False, False]
