"""Topics: named filters of papers, by phrases in title or abstract.

The rule: a topic holds where one of its phrases stands in the title or in the abstract, its words
in their order, in any case, apart by one space or hyphen whichever the phrase has, the last word
with or without a plural "s", and no letter, digit or underscore right before or after it.
"""

import re
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from hindsight_fast.errors import UsageError
from hindsight_fast.papers.utf8 import is_wide

SHIPPED: Final = "data/topics.toml"

_LONGEST = 100  # characters of a name or phrase; with more, a pattern takes too much memory
_MOST = 64  # topics
_BETWEEN = "[ \\-\u2010\u2011\u2013]"
_SPLIT = re.compile(_BETWEEN)
_EXAMPLE = '[[topic]] with name = "..." and phrases = ["...", "..."]'


class Topic(NamedTuple):
    """A topic: a paper has it where one of its phrases is in the title or abstract."""

    name: str
    phrases: tuple[str, ...]


def load(path: Path | None = None) -> tuple[Topic, ...]:
    """Read a file of topics; without one, that which ships with the package (data/topics.toml).

    Raises
    ------
    UsageError
        The file is missing or not as it must be; the message names it and what is wrong.
    """
    if path is None:
        return _shipped()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the topics can't be read: {error}") from error
    return parse(text, str(path))


@cache
def _shipped() -> tuple[Topic, ...]:
    text = files("hindsight_fast").joinpath(SHIPPED).read_text(encoding="utf-8")
    return parse(text, SHIPPED)


def parse(text: str, source: str) -> tuple[Topic, ...]:
    """Read topics from the text of a file, which errors call `source`.

    Raises
    ------
    UsageError
        The text is not as it must be.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not TOML: {error}; expected is {_EXAMPLE}") from error
    entries: Any = content.get("topic")
    if not isinstance(entries, list) or not entries or content.keys() != {"topic"}:
        raise UsageError(f"{source}: nothing but {_EXAMPLE} is expected, at least once")
    topics = [_topic(entry, source) for entry in entries]  # pyright: ignore[reportUnknownVariableType]
    if len(topics) > _MOST:
        raise UsageError(f"{source} has {len(topics)} topics; {_MOST} at most can be told apart")
    names = [topic.name.casefold() for topic in topics]
    for topic in topics:
        if names.count(topic.name.casefold()) > 1:
            raise UsageError(f"{source}: the topic {topic.name!r} is there more than once")
    return tuple(topics)


def _topic(entry: Any, source: str) -> Topic:
    if not isinstance(entry, dict) or entry.keys() != {"name", "phrases"}:
        raise UsageError(f"{source}: a topic is {_EXAMPLE}; found {str(entry)[:80]}")  # pyright: ignore[reportUnknownArgumentType]
    name, phrases = entry["name"], entry["phrases"]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _LONGEST:
        raise UsageError(f"{source}: {str(name)[:80]!r} is no name of a topic")  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(phrases, list) or not phrases:
        raise UsageError(f"{source}: the topic {name!r} needs a list of phrases")
    for phrase in phrases:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(phrase, str) or not _is_phrase(phrase):
            raise UsageError(
                f"{source}: {str(phrase)[:80]!r} of the topic {name!r} is no phrase: words are "  # pyright: ignore[reportUnknownArgumentType]
                "expected, apart by single spaces or hyphens, without quotes, that begin and end "
                f"with a letter or digit, {_LONGEST} characters at most"
            )
    return Topic(name, tuple(phrases))  # pyright: ignore[reportUnknownArgumentType]


def _is_phrase(text: str) -> bool:
    words = _SPLIT.split(text)
    return (
        len(text) <= _LONGEST
        and all(words)
        and text[0].isalnum()
        and text[-1].isalnum()
        and text.isprintable()
        and '"' not in text
    )


def named(topics: tuple[Topic, ...], names: list[str]) -> tuple[Topic, ...]:
    """Return the topics of these names (in any case), in the order of `topics`.

    Raises
    ------
    UsageError
        There is none of that name.
    """
    known = {topic.name.casefold(): topic for topic in topics}
    for name in names:
        if name.casefold() not in known:
            raise UsageError(
                f"no topic {name!r}; there are: {', '.join(topic.name for topic in topics)}"
            )
    wanted = {name.casefold() for name in names}
    return tuple(topic for topic in topics if topic.name.casefold() in wanted)


def tag(topics: tuple[Topic, ...], titles: pl.Series, abstracts: pl.Series) -> pl.Series:
    """Name the topics of each paper, by the rule above.

    Parameters
    ----------
    topics : tuple of Topic
    titles, abstracts : polars.Series of String
        As `text.clean` leaves them; nulls say nothing.

    Returns
    -------
    polars.Series of List(String)
        ``topics``: names in the order of `topics`; null where no topics were asked for.
    """
    if not topics:
        return pl.Series("topics", [None] * len(titles), dtype=pl.List(pl.String()))
    both = pl.concat_str("title", "abstract", separator="\n", ignore_nulls=True)
    texts = pl.DataFrame({"title": titles, "abstract": abstracts}).select(
        both.str.to_lowercase().alias("text")
    )
    holds = texts.select(  # in parallel
        pl.col("text").str.contains(_pattern(topic, ascii_only=True)).alias(str(number))
        for number, topic in enumerate(topics)
    )
    more = is_wide(texts["text"]).arg_true()
    found = zip(topics, holds, strict=True)
    return _names(topics, [_checked(topic, texts["text"], held, more) for topic, held in found])


def _pattern(topic: Topic, *, ascii_only: bool) -> str:
    """A pattern for lower-cased text.

    Where only ASCII letters count as a part of a word, it is several times as fast, and finds too
    much in a text with others ("llm" in "llmé").
    """
    ways = "|".join(_BETWEEN.join(re.escape(w) for w in _words(p)) for p in topic.phrases)
    start, end = (
        r"(?-u:\b)" if all(phrase[place].isascii() for phrase in topic.phrases) else ""
        for place in (0, -1)
    )
    return rf"{start}(?:{ways})s?{end}" if ascii_only else rf"\b(?:{ways})s?\b"


def _words(phrase: str) -> list[str]:
    return _SPLIT.split(phrase.lower())


def _checked(topic: Topic, texts: pl.Series, found: pl.Series, more: pl.Series) -> pl.Series:
    """Look again where the fast pattern found something in a text of more than ASCII (`more`)."""
    again = more.filter(found.gather(more))
    if not len(again):
        return found
    exact = texts.gather(again).str.contains(_pattern(topic, ascii_only=False))
    return found.scatter(again, exact)


def _names(topics: tuple[Topic, ...], holds: list[pl.Series]) -> pl.Series:
    """Names of the topics that hold: by way of a number, as few combinations are ever met."""
    code = sum(
        (hold.cast(pl.UInt64) * (1 << number) for number, hold in enumerate(holds)),
        pl.zeros(len(holds[0]), dtype=pl.UInt64, eager=True),
    )
    met = code.unique()
    named = [[t.name for n, t in enumerate(topics) if number >> n & 1] for number in met]
    names = pl.Series("topics", named, dtype=pl.List(pl.String()))
    return names.gather(code.replace_strict(met, range(len(met)), return_dtype=pl.UInt32))
