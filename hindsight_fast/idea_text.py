"""The text of an idea as the encoder sees it: one versioned rule, the same shape as a paper's.

A paper is encoded as title + separator + abstract, so an idea becomes a head and a body:

- title with a problem or a method: head = title, body = problem and method;
- problem and method: head = problem, body = method;
- title and text: head = title, body = text;
- one text alone: head = its first line where that stands alone, else its first sentence.

Where problem or method are given, ``text`` is taken for their composite and left out. Template
headings ("## Problem", "**[Question 1] - What is the problem?**", "Method:") are stripped: they
would make all ideas of one system resemble each other.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from hindsight_fast.papers import text as paper_text

IDEA_TEXT_VERSION = f"idea-2/{paper_text.TEXT_VERSION}"
"""Changes whenever the same idea would be encoded as another text."""

MAX_CHARS = 100_000
"""Characters of a field that are looked at; more is cut and counted as truncated."""

# Fewer words *and* fewer letters than this say too little to be matched (scripts without spaces
# have few words, so words alone can't tell).
MIN_WORDS = 5
MIN_LETTERS = 20

_HEADINGS = frozenset(
    """
abstract
approach
background
concise proposal
consolidated research proposal
experiment
experiments
hypothesis
idea
introduction
main idea
method
methodology
methods
motivation
objective
problem
problem statement
proposal
proposed approach
proposed method
proposed methodology
rationale
research idea
research plan
research problem
research proposal
research question
summary
title
what are the key components of my approach
what are the key components of my approach and results
what is the problem
why hasn't it been solved before
why is it hard
why is it interesting and important
""".splitlines()
)
_LABEL = re.compile(
    r"(?:abstract|approach|idea|method|methodology|problem|problem statement|proposed method"
    r"|rationale|research plan|research problem|title)\s?:\s+",
    re.IGNORECASE,
)
_NUMBERING = re.compile(
    r"\[?(?:question |step |part )?\d{1,2}[\].):]{1,2}[\s:-]{0,4}", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
_LONGEST_HEADLINE = 200


@dataclass(frozen=True, slots=True)
class IdeaText:
    """What is encoded of one idea.

    Attributes
    ----------
    head, body
        The two sides of the encoder's separator; both empty where there is no text.
    status
        "ok", "empty" or "too_short".
    shape
        Which fields made it: "title+detail", "problem+method", "title+text" or "one text".
    cut
        True where a field was longer than `MAX_CHARS`.
    """

    head: str
    body: str
    status: str
    shape: str
    cut: bool


def _without_templates(text: str) -> tuple[list[str], bool]:
    """Lines of `text` without template headings and markdown; whether the first stands alone."""
    kept: list[str] = []
    alone = False
    for raw in text.splitlines():
        line = raw.strip().replace("**", "").strip()
        is_heading = line.startswith("#")
        line = line.lstrip("#").strip()
        number = _NUMBERING.match(line)
        bare = line[number.end() :] if number else line
        if bare.rstrip(" :?.*_-").casefold() in _HEADINGS:  # the empty line is one of them
            alone = alone or len(kept) == 1
            continue
        if label := _LABEL.match(bare):
            line = bare[label.end() :]
        alone = alone or (is_heading and not kept)
        kept.append(line)
    return kept, alone and len(kept[0]) <= _LONGEST_HEADLINE


def _first_sentence(lines: list[str], first_alone: bool) -> tuple[str, str]:
    if first_alone:
        return lines[0], "\n".join(lines[1:])
    text = "\n".join(lines)
    end = _SENTENCE_END.search(text)
    return (text[: end.end()], text[end.end() :]) if end else (text, "")


def _head_body_shape(title: str, problem: str, method: str, text: str) -> tuple[str, str, str]:
    title_lines, _ = _without_templates(title)
    problem_lines, problem_alone = _without_templates(problem)
    method_lines, method_alone = _without_templates(method)
    text_lines, text_alone = _without_templates(text)
    detail = problem_lines + method_lines
    if title_lines:
        if title_lines == text_lines[: len(title_lines)]:
            text_lines = text_lines[len(title_lines) :]
        shape = "title+detail" if detail or not text_lines else "title+text"
        return "\n".join(title_lines), "\n".join(detail or text_lines), shape
    if problem_lines and method_lines:
        return "\n".join(problem_lines), "\n".join(method_lines), "problem+method"
    if detail:
        return *_first_sentence(detail, problem_alone or method_alone), "one text"
    return *_first_sentence(text_lines, text_alone), "one text"


def idea_texts(
    titles: Sequence[str],
    problems: Sequence[str],
    methods: Sequence[str],
    texts: Sequence[str],
) -> list[IdeaText]:
    """Head, body and status of many ideas; absent fields are empty strings.

    Linear in the length of the input, whatever it holds.
    """
    fields = list(zip(titles, problems, methods, texts, strict=True))
    made = [_head_body_shape(*(field[:MAX_CHARS] for field in idea)) for idea in fields]
    heads = paper_text.clean(pl.Series([head for head, _, _ in made], dtype=pl.String)).to_list()
    bodies = paper_text.clean(pl.Series([body for _, body, _ in made], dtype=pl.String)).to_list()
    return [
        IdeaText(
            head or "",
            body or "",
            status=_status(f"{head} {body}"),
            shape=shape,
            cut=any(len(field) > MAX_CHARS for field in idea),
        )
        for head, body, (_, _, shape), idea in zip(heads, bodies, made, fields, strict=True)
    ]


def _status(text: str) -> str:
    letters = sum(map(str.isalnum, text[:2000]))
    if letters == 0:
        return "empty"
    if letters < MIN_LETTERS and len(text.split()) < MIN_WORDS:
        return "too_short"
    return "ok"
