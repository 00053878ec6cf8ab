"""Cleaning of titles and abstracts, and the markers read off them."""

import unicodedata

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight_fast.papers import accents, text
from reference_text import clean_text as slow_clean

CLEANED = {
    "R&amp;D in <i>E. coli</i>\n studies": "R&D in E. coli studies",
    "a < b and c > d": "a < b and c > d",
    "x<b and c>d": "x<b and c>d",
    "<mask> and <think>why</think> </s> <p, q>": "<mask> and <think>why</think> </s> <p, q>",
    "&lt;i&gt;x&lt;/i&gt; CO<sub>2</sub>": "x CO2",
    "&lt;mask&gt;": "<mask>",
    "&amp;lt;": "<",
    "&amp;amp;lt;": "<",
    "AT&T, &notanentity; &A;": "AT&T, &notanentity; &A;",
    "&#177;1 &#x3b1; &#0;": "±1 α \ufffd",
    "<jats:title>Abstract</jats:title><jats:p>We do.</jats:p><jats:p>So.</jats:p>": "We do. So.",
    '<a href="x">link</a><br/>y <SPAN class="a b">z</SPAN>': "link y z",
    "a\x00b\x07c\x85d": "a b c d",
    "soft\u00adhyphen zero\u200bwidth \ufeffmark": "softhyphen zerowidth mark",
    "e\u0301 \u00a0 \u2028x\t": "é x",
    "  We do\n  this\nso.\n": "We do this so.",
    "<math><mi>x</mi> <mn>2</mn></math> of <math>": "x 2 of",
    "<mml:math><mml:mi>x</mml:mi><mml:annotation a='b'>x</mml:annotation></mml:math>": "x",
    "say <math> and <mi>": "say <math> and <mi>",
    '<formula formulatype="inline"><tex Notation="TeX">$x$</tex></formula> H<inf>2</inf>O': (
        "$x$ H2O"
    ),
    "a <formula> is no <tex>": "a <formula> is no <tex>",
    "<!-- a --><![CDATA[b]]> c": "b c",
    r"a \documentclass[12pt]{minimal} \usepackage{x}\begin{document}$n$\end{document} b": "a $n$ b",
    "an e\ufb00ect, \ufb01rst": "an effect, first",
    "&Atilde;&copy;t&amp;eacute;": "été",
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
    "<math>", "</mi>", "<inf>", "</inf>", "<tex notation=a>", "<!--", "-->", "<![CDATA[", "]]>",
    "<mml:annotation>", "</annotation>", r"\documentclass", r"\begin{document}", "\\end{document}",
    "$", "\\", "{", "}",
    "\u00c3", "\u00e2", "\u20ac", "\u2122", "\u0094", "\ufb01", "&semi;", "&lt;i&gt;",
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_clean_agrees_with_slow_twin_and_leaves_what_is_clean(raw: str) -> None:
    cleaned = clean_one(raw)
    assert cleaned == slow_clean(raw)
    assert clean_one(cleaned) == cleaned


def test_the_callers_column_stays() -> None:
    raw = pl.Series(["<i>a</i> &amp; \\'e", "No abstract", "nan"])
    before = raw.to_list()
    for rule in (text.clean, text.missing_to_null, text.no_abstract, text.title_key):
        rule(raw)
    text.status(raw, raw)
    assert raw.to_list() == before


def test_all_that_is_not_in_normal_form_is_found() -> None:
    every = [chr(code) for code in range(0x80, 0x110000) if not 0xD800 <= code < 0xE000]
    changed = [one for one in every if unicodedata.normalize("NFC", one) != one]
    normal = [" ".join(unicodedata.normalize("NFC", one).split()) for one in changed]
    assert text.clean(pl.Series(changed)).to_list() == normal


ACCENTS = {
    r"Schr\"{o}dinger, na\"{\i}ve, na\"\i ve, {\'e}tude": "Schrödinger, naïve, naïve, étude",
    r"Erd\H{o}s--R\'{e}nyi, Erd\H os": "Erdős--Rényi, Erdős",
    r"fa\c{c}ade, Fran\c cois, {\'etude}": "façade, François, {étude}",
    r"{\L}ojasiewicz, \L{}ojasiewicz, \L ojasiewicz": "Łojasiewicz, Łojasiewicz, Łojasiewicz",
    r"K\L{}, Wei{\ss}, Gro\ss e, Gro\ss{}, Gr\o nlund": "KŁ, Weiß, Große, Groß, Grønlund",
    r"2{\AA}, 2\AA{} or 2 \AA resolution": "2Å, 2Å or 2 Å resolution",
    r"{\v s}, \v{\i}, {\'{\i}}, \u{A}, k\={a}k\={a}, \.{I}": "š, ǐ, í, Ă, kākā, İ",
    r"na\"\{\i\}ve B\v\{a\}i": "naïve Bǎi",
    r"\r{ho}, \b{eta}, \k{appa}, \c{opyright}": r"\r{ho}, \b{eta}, \k{appa}, \c{opyright}",
    r"$\~R^d$, $\H$, $$\'e$$ and \'e": r"$\~R^d$, $\H$, $$\'e$$ and é",
    r"costs \$5, Erd\H{o}s \$": r"costs \$5, Erdős \$",
    r"in \O(n) or \o(n), \i.e.": r"in \O(n) or \o(n), \i.e.",
    r"the \"best\" one, the user\'s \'e": r"the \"best\" one, the user\'s \'e",
    r"about \~75\% at /\~ann, a\.txt, x\\'e": r"about \~75\% at /\~ann, a\.txt, x\\'e",
}


@pytest.mark.parametrize(("raw", "expected"), ACCENTS.items())
def test_accents_of_tex(raw: str, expected: str) -> None:
    assert clean_one(raw) == expected


MARKS = {
    "0300": "`", "0301": "'", "0302": "^", "0303": "~", "0304": "=", "0306": "u", "0307": ".",
    "0308": '"', "030A": "r", "030B": "H", "030C": "v", "0327": "c", "0328": "k",
}  # fmt: skip
LATIN = [one for one in map(chr, range(0xC0, 0x180)) if unicodedata.decomposition(one)[5:] in MARKS]


@settings(deadline=None)
@given(st.text(alphabet=LATIN, min_size=1, max_size=3), st.sampled_from(("{M{B}}", "M{B}")))
def test_any_accented_letter_comes_back(word: str, form: str) -> None:
    spelled = ""
    for letter in word:
        base, mark = list(unicodedata.normalize("NFD", letter))
        spelled += form.replace("M", f"\\{MARKS[f'{ord(mark):04X}']}").replace("B", base)
    assert accents.with_accents(f"of {spelled} too") == f"of {word} too"


def misread(right: str, encoding: str) -> str:
    """Give the text as it looks where its UTF-8 is read as another encoding."""
    return "".join(bytes([byte]).decode(encoding, "ignore") or chr(byte) for byte in right.encode())


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize(
    "right",
    [
        "The Möbius strip – a naïve “reading” of Erdős’s café",
        "ℓ0 norms, x → y, a ≤ b, 360°, 5 µm, α-helix, Ω, β = ½",
        "Привет, мир: Łódź, Ştefan, Čerchov, İzmir",
        "À la carte: São Paulo, Österreich, Ærø, señor, €5, ™",
    ],
)
def test_misread_text_comes_back(right: str, encoding: str) -> None:
    assert clean_one(misread(right, encoding)) == right
    assert clean_one(right) == right
    if encoding == "cp1252":
        assert clean_one(misread(misread(right, encoding), encoding)) == right


@pytest.mark.parametrize(
    "right",
    [
        "IRMÃ” e «AMANHÃ»", "3 Å–5 Å, 20 mÅ”, 2 Å²", "«La société», voilà »", "‘đâ’” Itô’s",
        "⟨Â²⟩ of the operator Â·B̂", "ESPAÑA – NIÑ…", "Ünïcode ∑", "naïve façade, Ångström",
    ],
)  # fmt: skip
def test_right_text_stays(right: str) -> None:
    assert clean_one(right) == right


def test_misread_in_parts() -> None:
    assert clean_one("a 360\u00c2\u00b0 view – “all”") == "a 360° view – “all”"
    assert clean_one("the robot\x92s stakeholders\x80\x99") == "the robot’s stakeholders"


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
        "\U0001f600",
        "\\'",
        "$\\'e",
        "\u00c3\u00a9",
        "<math><mi>",
        "<annotation></",
        r"\documentclass \end{document}",
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


SENTENCE = "We show how things are done, and that they are done well."
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
    assert text.status(pl.Series([title]), pl.Series([SENTENCE])).to_list() == [expected]


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
    assert keys == ["thekmeansrevisited", "grosse", "grosse", None, None, "हिंदी"]


STUBS = {
    "We propose": "stub",
    "Abstract here": "stub",
    "TBD": "stub",
    "https://example.org/a/paper.pdf": "stub",
    "Project page: https://example.org/" + "a" * 90: "stub",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor.": "stub",
    "The abstract should briefly summarize the contents of the paper in 150-250 words.": "stub",
    "A study of things.": "stub",  # the title once more
    "We study the framework of": "stub",
    "One well-known and much-studied model of the": "stub",
    "Many approaches to learning from the few examples that one has are focused on": "stub",
    "We show that P is not NP.": "ok",
    "我们提出一种新的方法来解决大规模语言模型的推理问题。": "ok",
    "我们提出": "stub",
    SENTENCE: "ok",
    "The abstract of a paper is what most people read of it; we count how often.": "ok",
}


def test_stubs() -> None:
    abstracts = pl.Series(list(STUBS))
    abstracts = abstracts.set(text.no_abstract(abstracts), None)
    titles = pl.Series(["A study of things"] * len(STUBS))
    assert dict(zip(STUBS, text.status(titles, abstracts), strict=True)) == STUBS


def test_no_abstract() -> None:
    given_ = pl.Series(
        ["No abstract available.", "[Abstract not available]", "No abstract idea", None]
    )
    assert text.no_abstract(given_).to_list() == [True, True, False, False]
