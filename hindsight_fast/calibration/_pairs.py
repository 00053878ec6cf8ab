"""Files of graded pairs: two texts, or papers of the store, and how much they belong together.

A record has a side a and a side b, each either `a_id` (a paper of the store, by its id), or
`a_title` and `a_abstract` (encoded as a paper is), or `a_text` (one text, encoded as an idea is:
its first sentence before the rest). `grade` is a number; or `label` is true or false. A `topic`
may be given.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.calibration._search import Step, cosines, encode
from hindsight_fast.errors import DataError
from hindsight_fast.idea_text import idea_texts
from hindsight_fast.papers import text as paper_text
from hindsight_fast.papers.readers import lines, streams, tables
from hindsight_fast.scoring import Scorer

EXPECTED: Final = (
    "a pair needs a_id, or a_title and a_abstract, or a_text; the same of b; and grade (a number) "
    "or label (true or false)"
)

Text = tuple[str, str]
Side = Text | int
"""A text to encode, or a row of the store."""

_COLUMNS: Final[dict[str, pl.DataType]] = {
    **{
        f"{side}_{part}": pl.String()
        for side in "ab"
        for part in ("id", "title", "abstract", "text")
    },
    "topic": pl.String(),
    "grade": pl.Float64(),
}
_LABELS: Final = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


@dataclass(frozen=True, slots=True)
class Pairs:
    """n graded pairs with their similarities.

    Attributes
    ----------
    similarities : ndarray of shape (n,), float32
    grades : ndarray of shape (n,), float64
    groups : ndarray of shape (n,), int64
        The same for pairs with the same side a.
    topics : list of str
    n_left_out : int
        Records that are no pairs: unreadable, without a grade, of unknown papers, of the same text.
    """

    similarities: NDArray[np.float32]
    grades: NDArray[np.float64]
    groups: NDArray[np.int64]
    topics: list[str]
    n_left_out: int


def read(path: Path, scorer: Scorer, step: Step = lambda done, total: None) -> Pairs:
    """Read and encode a file of pairs: .jsonl, .json, .csv or .parquet.

    Raises
    ------
    DataError
        It can't be read, or holds no pair.
    UsageError
        It has texts, and the scorer no encoder.
    """
    records = pl.DataFrame([_row(one) for one in _records(path)], schema=_COLUMNS)
    known = _rows_of_ids(scorer, {*records["a_id"].drop_nulls(), *records["b_id"].drop_nulls()})
    sides = zip(_sides(records, "a", known), _sides(records, "b", known), strict=True)
    good = list[tuple[Side, Side, float, str]]()
    for (a, b), grade, topic in zip(sides, records["grade"], records["topic"], strict=True):
        if a is not None and b is not None and grade is not None and a != b:
            good.append((a, b, grade, topic or ""))
    if not good:
        raise DataError(f"{path}: none of {records.height:,} records is a graded pair; {EXPECTED}")
    left, right, grades, topics = zip(*good, strict=True)
    vectors = _Vectors(scorer, [*left, *right], step)
    groups: dict[Side, int] = {}
    return Pairs(
        cosines(vectors.of(left), vectors.of(right)),
        np.array(grades, np.float64),
        np.array([groups.setdefault(a, len(groups)) for a in left], np.int64),
        list(topics),
        records.height - len(good),
    )


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    """Records, empty ones where they can't be read."""
    form = tables.form(path, streams.head(path))
    if form is None:
        raise DataError(f"{path} is no table of pairs: .jsonl, .json, .csv or .parquet is expected")
    if form == "parquet":
        for frame in tables.frames(path, None):
            yield from frame.iter_rows(named=True)
        return
    for record in lines.records(path, form):
        yield {} if isinstance(record.content, lines.Bad) else record.content


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: record.get(name) for name in _COLUMNS if name != "grade"}
    return {name: None if text in (None, "") else str(text) for name, text in texts.items()} | {
        "grade": _grade(record)
    }


def _grade(record: Mapping[str, Any]) -> float | None:
    """A number, or 1 and 0 of a label; None where neither says anything."""
    value = record.get("label") if record.get("grade") in (None, "") else record["grade"]
    if isinstance(value, str):
        value = _LABELS.get(value.strip().casefold(), value)
    if not isinstance(value, str | int | float):
        return None
    try:
        grade = float(value)
    except ValueError:
        return None
    return grade if np.isfinite(grade) else None


def _rows_of_ids(scorer: Scorer, ids: set[str]) -> dict[str, int]:
    """Rows of the papers of the store that have such an id and a vector."""
    store, start, found = scorer.pool.store, 0, dict[str, int]()
    array = store.vectors(scorer.pool.encoder).array
    for piece in store.pieces("id") if ids else ():
        names = piece["id"]
        for place in names.is_in(list(ids)).arg_true().to_list():
            if array[start + place].any():
                found[names[place]] = start + place
        start += piece.height
    return found


def _sides(records: pl.DataFrame, name: str, known: Mapping[str, int]) -> list[Side | None]:
    """What side a or b of each record is; None where it's nothing."""
    title, abstract = (
        paper_text.clean(records[f"{name}_{part}"].fill_null("")) for part in ("title", "abstract")
    )
    nothing = [""] * records.height
    texts = records[f"{name}_text"].fill_null("").to_list()
    as_ideas = idea_texts(title.to_list(), nothing, nothing, texts)
    sides = list[Side | None]()
    for paper, head, body, idea in zip(
        records[f"{name}_id"], title, abstract, as_ideas, strict=True
    ):
        if paper is not None:
            sides.append(known.get(paper))
        elif head and body:
            sides.append((head, body))
        else:
            sides.append((idea.head, idea.body) if idea.status == "ok" else None)
    return sides


class _Vectors:
    """Vectors of sides: texts encoded once, papers' from the store."""

    def __init__(self, scorer: Scorer, sides: list[Side], step: Step) -> None:
        self._stored = scorer.pool.store.vectors(scorer.pool.encoder).array
        texts = list(dict.fromkeys(side for side in sides if not isinstance(side, int)))
        self._place = {text: i for i, text in enumerate(texts)}
        self._encoded = encode(scorer, texts, step) if texts else self._stored[:0]

    def of(self, sides: Sequence[Side]) -> NDArray[np.float32]:
        """(n, d)."""
        return np.array(
            [
                self._stored[side] if isinstance(side, int) else self._encoded[self._place[side]]
                for side in sides
            ],
            np.float32,
        )
