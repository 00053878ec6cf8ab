"""Topics: phrases in titles and abstracts, held against a slow and obvious twin."""

import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight_fast.errors import UsageError
from hindsight_fast.papers import topics
from hindsight_fast.papers.topics import Topic

BETWEEN = "[ \\-\u2010\u2011\u2013]"
SOME = (
    Topic("language models", ("large language model", "LLM")),
    Topic("thought", ("chain-of-thought",)),
    Topic("café", ("café", "Zoë's method")),
    Topic("graphs", ("graph", "graph-of-thought")),
)


def twin(asked: tuple[Topic, ...], title: str | None, abstract: str | None) -> list[str]:
    """The rule, word for word."""
    return [
        topic.name
        for topic in asked
        if any(_stands(phrase, text) for phrase in topic.phrases for text in (title, abstract))
    ]


def _stands(phrase: str, text: str | None) -> bool:
    whole = (text or "").lower()
    words = [re.escape(word) for word in re.split(BETWEEN, phrase.lower())]
    for found in re.finditer(f"(?=({BETWEEN.join(words)}))", whole):
        before, after = whole[: found.start()], whole[found.end(1) :]
        ends = [after, after[1:]] if after.startswith("s") else [after]
        if not _in_word(before[-1:]) and not all(_in_word(end[:1]) for end in ends):
            return True
    return False


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def tags(asked: tuple[Topic, ...], texts: Sequence[tuple[str | None, str | None]]) -> pl.Series:
    titles, abstracts = zip(*texts, strict=True)
    return topics.tag(
        asked, pl.Series(titles, dtype=pl.String), pl.Series(abstracts, dtype=pl.String)
    )


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("Large Language Models as judges", True),
        ("a large-language-model", True),
        ("large‑language–model", True),
        ("LLMs", True),
        ("an LLM.", True),
        ("LLM's", True),
        ("“llm”", True),
        ("LLMS", True),
        ("llmé", False),
        ("éllm and LLM", True),
        ("éllms", False),
        ("xllm", False),
        ("llm2", False),
        ("llm_2", False),
        ("éllm_", False),
        ("llmss", False),
        ("large  language model", False),
        ("large, language model", False),
        ("enlarge language model", False),
        ("large language modelling", False),
        ("", False),
        (None, False),
    ],
)
def test_rule(text: str | None, holds: bool) -> None:
    asked = SOME[:1]
    assert (twin(asked, text, None) == ["language models"]) == holds
    found = tags(asked, [(text, None), (None, text), ("a title", text), (text, "an abstract")])
    assert found.to_list() == [["language models"] if holds else []] * 4


def test_no_phrase_runs_from_the_title_into_the_abstract() -> None:
    assert tags(
        SOME, [("On large language", "model sizes"), ("large language", None)]
    ).to_list() == [
        [],
        [],
    ]


def test_null_where_no_topics_are_asked_for() -> None:
    found = tags((), [("LLM", None), (None, None)])
    assert found.to_list() == [None, None]
    assert found.name == "topics"
    empty = topics.tag(SOME, pl.Series([], dtype=pl.String), pl.Series([], dtype=pl.String))
    assert empty.dtype == pl.List(pl.String()) == found.dtype


PIECES = st.sampled_from(
    ["large", "language", "model", "LLM", "llms", "chain", "of", "thought", "Thoughts", "café",
     "CAFÉ", "cafés", "Zoë's", "method", "graph", "graphs", " ", " ", " ", "-", "\u2011", "\u2013",
     ".", "s", "é", "1", "“", "_x", "\n"]
)  # fmt: skip
TEXT = st.none() | st.lists(PIECES, max_size=12).map("".join)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_equals_the_twin(texts: list[tuple[str | None, str | None]]) -> None:
    assert tags(SOME, texts).to_list() == [twin(SOME, *pair) for pair in texts]


def test_shipped_topics() -> None:
    shipped = topics.load()
    assert len(shipped) == 10
    papers = [(f"On {topic.phrases[0]}s", None) for topic in shipped]
    for topic, found in zip(shipped, tags(shipped, papers).to_list(), strict=True):
        assert topic.name in found


def test_own_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[topic]]\nname = "Proteins"\nphrases = ["protein folding", "AlphaFold 2"]\n')
    mine = topics.load(path)
    assert mine == (Topic("Proteins", ("protein folding", "AlphaFold 2")),)
    assert topics.named(mine, ["proteins"]) == mine
    with pytest.raises(UsageError, match="no topic 'protein'; there are: Proteins"):
        topics.named(mine, ["protein"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topic =", "is not TOML"),
        ("", "at least once"),
        ("topic = 3", "at least once"),
        ("topic = [3]", "a topic is"),
        ('name = "x"\n[[topic]]\nname = "a"\nphrases = ["b"]', "nothing but"),
        ('[[topic]]\nname = "a"', "a topic is"),
        ('[[topic]]\nname = ""\nphrases = ["b"]', "no name"),
        ('[[topic]]\nname = "a\\nb"\nphrases = ["b"]', "no name"),
        ('[[topic]]\nname = "a"\nphrases = "b"', "list of phrases"),
        ('[[topic]]\nname = "a"\nphrases = []', "list of phrases"),
        ('[[topic]]\nname = "a"\nphrases = [3]', "no phrase"),
        ('[[topic]]\nname = "a"\nphrases = [""]', "no phrase"),
        ('[[topic]]\nname = "a"\nphrases = ["b  c"]', "no phrase"),
        ('[[topic]]\nname = "a"\nphrases = ["C++"]', "no phrase"),
        ("[[topic]]\nname = 'a'\nphrases = ['b \"c\" d']", "no phrase"),
        ('[[topic]]\nname = "a"\nphrases = ["b"]\n[[topic]]\nname = "A"\nphrases = ["c"]', "once"),
        ("".join(f'[[topic]]\nname = "{n}"\nphrases = ["b"]\n' for n in range(65)), "65 topics"),
    ],
)
def test_a_file_that_is_not_as_it_must_be(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "topics.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as refused:
        topics.load(path)
    assert str(path) in str(refused.value)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        topics.load(tmp_path / "none.toml")


def test_many_topics_are_told_apart() -> None:
    many = tuple(Topic(f"t{number}", (f"word{number}",)) for number in range(64))
    papers = [(" ".join(f"word{n}" for n in range(first, 64, 7)), None) for first in range(7)]
    assert tags(many, papers).to_list() == [twin(many, *paper) for paper in papers]
