"""What is looked up in a pool to calibrate it: ideas, or papers that stand in for them."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.calibration._search import Step, encode
from hindsight_fast.errors import DataError
from hindsight_fast.idea_text import IdeaText, idea_texts
from hindsight_fast.ideas import IDEA_SCHEMA, read_ideas
from hindsight_fast.papers import dates, topics
from hindsight_fast.papers.choosing import Where
from hindsight_fast.pool import Pool
from hindsight_fast.scoring import Scorer
from hindsight_fast.store import Store, topics_of

LIMIT: Final = 2000
"""Ideas that are looked at unless told otherwise."""

SEED: Final = 20230601

_FEW_EARLIER = 50  # papers from before T: with fewer, those of the pool stand in
_PIECE = 65_536  # rows read together
_LIST = pl.List(pl.String())


@dataclass(frozen=True, slots=True)
class Sample:
    """m ideas, or papers in their place.

    Attributes
    ----------
    kind
        "ideas", "earlier papers" or "papers of the pool".
    words
        What they are, for a person.
    vectors : ndarray of shape (m, d), float32
        Unit rows.
    own : ndarray of shape (m,), int32
        Which row of the pool each is itself; -1 where none.
    earlier : ndarray of shape (m,), int64
        Which row of the store each is, of papers from before T; else -1.
    topics : ndarray of shape (m,), uint64
        Those of `topic_names` that each has, a bit each.
    topic_names : list of str
        Topics that papers of the store have.
    precision : str
        Of the vectors.
    texts : polars.DataFrame
        The ideas (columns of `IDEA_SCHEMA`); no rows where papers stand in.
    """

    kind: str
    words: str
    vectors: NDArray[np.float32]
    own: NDArray[np.int32]
    earlier: NDArray[np.int64]
    topics: NDArray[np.uint64]
    topic_names: list[str]
    precision: str
    texts: pl.DataFrame

    @property
    def n(self) -> int:
        """How many they are."""
        return len(self.vectors)


def of_ideas(scorer: Scorer, source: Path | pl.DataFrame, limit: int, step: Step) -> Sample:
    """Encode at most `limit` of some ideas, each as likely as any other.

    Parameters
    ----------
    source
        A file, or a frame with all columns of `IDEA_SCHEMA`.

    Raises
    ------
    UsageError
        The scorer has no encoder.
    DataError
        No idea can be scored.
    """
    if isinstance(source, Path):
        frames: Iterable[pl.DataFrame] = read_ideas(source)
        name = source.name
    else:
        frames, name = [source], "the ideas given"
    drawn, n_given = _draw(frames, limit)
    texts, drawn = _scorable(drawn)
    if not texts:
        raise DataError(f"{name}: none of {n_given:,} ideas can be scored (no or too little text)")
    pairs = [(one.head, one.body) for one in texts]
    vectors = encode(scorer, pairs, step)
    names = sorted(topics_of(scorer.pool.store))
    words = f"{len(pairs):,} ideas of {name}"
    if n_given > limit:
        words += f", drawn at random from {n_given:,}"
    elif n_given > len(pairs):
        words += f" ({n_given - len(pairs):,} more can't be scored)"
    return Sample(
        "ideas",
        words,
        vectors,
        np.full(len(pairs), -1, np.int32),
        np.full(len(pairs), -1, np.int64),
        _topics_of_ideas(drawn, texts, names),
        names,
        "float32" if scorer.encoder is None else scorer.encoder.precision,
        drawn,
    )


def of_papers(pool: Pool, earlier: NDArray[np.int64], limit: int) -> Sample:
    """Papers in the place of ideas: some that were public before T, else some of the pool's own.

    `earlier` are the rows by `earlier_papers`.
    """
    store, found = pool.store, earlier
    members = np.flatnonzero(pool.impact >= 0)
    are_earlier = len(found) >= min(_FEW_EARLIER, max(len(members), 1))
    rows = drawn_rows(found if are_earlier else members + pool.offset, limit)
    vectors = np.array(store.vectors(pool.encoder).array[rows])
    names = sorted(topics_of(store))
    if are_earlier:
        words, n_there = f"papers of the store that were public before {pool.cutoff}", len(found)
        if pool.where or pool.topics or pool.first_public_only:
            words += ", chosen as the pool's were,"
    else:
        words, n_there = "papers of the pool, each without itself,", len(members)
    if n_there > limit:
        words = f"{words.rstrip(',')}, drawn at random from {n_there:,},"
    nobody = np.full(len(rows), -1, np.int64)
    return Sample(
        "earlier papers" if are_earlier else "papers of the pool",
        f"{len(rows):,} {words} stand in for ideas",
        vectors,
        (nobody if are_earlier else rows - pool.offset).astype(np.int32),
        rows if are_earlier else nobody,
        topics_of_rows(store, names)[rows],
        names,
        pool.precision,
        pl.DataFrame(schema=IDEA_SCHEMA),
    )


def earlier_papers(pool: Pool) -> tuple[NDArray[np.int64], int]:
    """Papers that were public before T for certain and meet the conditions of the pool.

    Returns the rows of those with vectors, and how many more have none.
    """
    store, where = pool.store, Where(tuple(pool.where), tuple(pool.topics))
    columns = sorted({"date", "date_precision", "date_kind", "status", *where.columns})
    before = store.window(dt.date.min, pool.cutoff - dt.timedelta(days=1))[1]
    array = store.vectors(pool.encoder).array
    found, n_bare = list[NDArray[np.int64]](), 0
    for start in range(0, before, _PIECE):
        stop = min(start + _PIECE, before)
        papers = store.papers(columns, start, stop)
        public = papers.select(dates.end(pl.col("date"), pl.col("date_precision")) < pool.cutoff)
        taken = public.to_series() & papers["status"].eq_missing("ok") & where.mask(papers)
        if pool.first_public_only:
            taken &= papers["date_kind"].eq_missing("first_public")
        has_vector, meets = array[start:stop].any(axis=1), taken.fill_null(False).to_numpy()
        found.append(start + np.flatnonzero(meets & has_vector))
        n_bare += int((meets & ~has_vector).sum())
    return np.concatenate(found) if found else np.empty(0, np.int64), n_bare


def drawn_rows(rows: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """At most so many of these rows, ascending, each as likely as any other."""
    if len(rows) <= limit:
        return rows
    return np.sort(np.random.default_rng(SEED).choice(rows, limit, replace=False))


def topics_of_rows(
    store: Store, names: Sequence[str], start: int = 0, stop: int | None = None
) -> NDArray[np.uint64]:
    """Which of these topics papers of the store have, a bit each."""
    if not names:
        return np.zeros((store.n if stop is None else stop) - start, np.uint64)
    return _bits(store.papers(["topics"], start, stop)["topics"], names)


def _bits(listed: pl.Series, names: Sequence[str]) -> NDArray[np.uint64]:
    """(n,) from lists of names."""
    found = np.zeros(len(listed), np.uint64)
    for place, name in enumerate(names):
        has = listed.list.contains(name).fill_null(False).to_numpy()
        found[has] |= np.uint64(1 << place)
    return found


def _topics_of_ideas(
    ideas: pl.DataFrame, texts: Sequence[IdeaText], names: Sequence[str]
) -> NDArray[np.uint64]:
    """By their own column where it names topics of the store, else by the phrases that ship."""
    if not names:
        return np.zeros(len(texts), np.uint64)
    known = {_plain(name): name for name in names}
    own = [known.get(_plain(topic)) for topic in ideas["topic"].fill_null("").to_list()]
    found = _bits(pl.Series([[] if one is None else [one] for one in own], dtype=_LIST), names)
    shipped = topics.load()
    if set(names) <= {topic.name for topic in shipped}:  # else nobody knows what their words are
        heads, bodies = (pl.Series([t.head for t in texts]), pl.Series([t.body for t in texts]))
        by_words = _bits(topics.tag(shipped, heads, bodies), names)
        found = np.where(found == 0, by_words, found)
    return found


def _plain(name: str) -> str:
    return name.casefold().replace("_", " ").replace("-", " ").strip()


def _draw(frames: Iterable[pl.DataFrame], limit: int) -> tuple[pl.DataFrame, int]:
    """At most `limit` ideas in their order, and of how many; always the same of the same ideas."""
    rng = np.random.default_rng(SEED)
    kept = pl.DataFrame(schema={**IDEA_SCHEMA, "lot": pl.Float64(), "place": pl.Int64()})
    n = 0
    for frame in frames:
        lots = pl.Series("lot", rng.random(frame.height))
        places = pl.Series("place", np.arange(n, n + frame.height))
        kept = pl.concat([kept, frame.with_columns(lots, places)]).bottom_k(limit, by="lot")
        n += frame.height
    return kept.sort("place").drop("lot", "place"), n


def _scorable(ideas: pl.DataFrame) -> tuple[list[IdeaText], pl.DataFrame]:
    """Texts of those that can be scored, and their rows."""
    fields = ("title", "problem", "method", "text")
    texts = idea_texts(*(ideas[name].fill_null("").to_list() for name in fields))
    given = ideas["status"].to_list()
    good = [one == "ok" and text.status == "ok" for one, text in zip(given, texts, strict=True)]
    scorable = ideas.filter(pl.Series(good, dtype=pl.Boolean))
    return [text for text, is_good in zip(texts, good, strict=True) if is_good], scorable
