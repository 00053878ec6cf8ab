"""The text rule of ideas: shape, templates, hostile input."""

import pytest

from hindsight_fast.idea_text import MAX_CHARS, IdeaText, idea_texts


def one(title: str = "", problem: str = "", method: str = "", text: str = "") -> IdeaText:
    return idea_texts([title], [problem], [method], [text])[0]


METHOD = "Train a small critic on edits, and reward the policy by what the critic keeps."
PROBLEM = "Language models repeat what they read. Nobody knows how to stop that."


@pytest.mark.parametrize(
    ("fields", "head", "body", "shape"),
    [
        (
            {"title": "T one", "problem": PROBLEM, "method": METHOD},
            "T one",
            f"{PROBLEM} {METHOD}",
            "title+detail",
        ),
        ({"title": "T one", "method": METHOD}, "T one", METHOD, "title+detail"),
        ({"problem": PROBLEM, "method": METHOD}, PROBLEM, METHOD, "problem+method"),
        (
            {"problem": PROBLEM, "method": METHOD, "text": "composite"},
            PROBLEM,
            METHOD,
            "problem+method",
        ),
        ({"title": "T one", "text": METHOD}, "T one", METHOD, "title+text"),
        ({"title": "T one", "text": f"T one\n{METHOD}"}, "T one", METHOD, "title+text"),
        ({"title": "A title? Of two sentences."}, "A title? Of two sentences.", "", "title+detail"),
        (
            {"problem": PROBLEM},
            "Language models repeat what they read.",
            "Nobody knows how to stop that.",
            "one text",
        ),
        (
            {"text": "First sentence here. The rest! Of it."},
            "First sentence here.",
            "The rest! Of it.",
            "one text",
        ),
        ({"text": f"# A heading alone\n\n{METHOD}"}, "A heading alone", METHOD, "one text"),
        ({"text": f"A first line alone\n\n{METHOD}"}, "A first line alone", METHOD, "one text"),
        (
            {"text": "One sentence over\ntwo lines. Then more."},
            "One sentence over two lines.",
            "Then more.",
            "one text",
        ),
        (
            {"text": "no full stop at all in this one"},
            "no full stop at all in this one",
            "",
            "one text",
        ),
        (
            {"text": "これは一つの文です。次の文もここにあります。"},
            "これは一つの文です。",
            "次の文もここにあります。",
            "one text",
        ),
    ],
)
def test_shape(fields: dict[str, str], head: str, body: str, shape: str) -> None:
    made = one(**fields)
    assert (made.head, made.body, made.shape) == (head, body, shape)
    assert made.status == "ok"


@pytest.mark.parametrize(
    "heading",
    [
        "What is the problem?",
        "What is the problem?**  ",
        "**[Question 1] - What is the problem?**",
        "[Question 1]: What is the problem?",
        "## Problem",
        "Problem:",
        "**Problem Statement:**",
        "1. Problem",
    ],
)
def test_template_headings_are_stripped(heading: str) -> None:
    made = one(problem=f"{heading}\n{PROBLEM}\n\n**", method=f"### Proposed Method\n{METHOD}")
    assert (made.head, made.body) == (PROBLEM, METHOD)


def test_labels_are_stripped_and_ordinary_words_stay() -> None:
    assert one(problem=f"Problem: {PROBLEM}", method=f"Method: {METHOD}").head == PROBLEM
    kept = "Problem solving by search: a survey of what worked in games and in planning."
    assert one(text=kept).head == kept
    assert (
        one(title="Methods for graphs: a study", method=METHOD).head
        == "Methods for graphs: a study"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Accuracy on CIFAR-10. Models fail below 0.96 cosine.",
        "a learning rate of 0.1 is used in step 2. of each round (3) [4].",
        "1,000 ideas are scored; question 5: which of them came true?",
    ],
)
def test_numbers_inside_a_text_stay(text: str) -> None:
    assert one(problem=f"Problem: {text}", method=METHOD).head == text
    assert one(problem=text, method=f"2) Method: {METHOD}").head == text


def test_the_same_idea_has_the_same_text_alone_and_among_others() -> None:
    fields = [("", PROBLEM, METHOD, ""), ("T one", "", METHOD, ""), ("", "", "", "Short. text")]
    together = idea_texts(*(list(column) for column in zip(*fields, strict=True)))
    assert together == [one(*idea) for idea in fields]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", "empty"),
        (" \n\t ", "empty"),
        ("...---***", "empty"),
        ("Problem:", "empty"),
        ("better LLMs", "too_short"),
        ("Use bigger models now please", "ok"),
        ("自然语言处理中的注意力机制在长文本上的效率问题与改进方法研究探讨和展望分析总结", "ok"),
    ],
)
def test_status(text: str, status: str) -> None:
    assert one(text=text).status == status


@pytest.mark.parametrize(
    "unit", ["a", "(((( ", "\n", "😀", "# ", "**", "<i>", "&amp;", "1. ", "Problem: ", "a. "]
)
def test_two_million_characters_are_cut_and_said_to_be(unit: str) -> None:
    made = one(text=unit * (2_000_000 // len(unit)))
    assert made.cut
    assert len(made.head) + len(made.body) <= MAX_CHARS
