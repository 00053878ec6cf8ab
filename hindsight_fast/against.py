"""A model held against vectors that others have published, with their papers' texts."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.agreement import Agreement, compare
from hindsight_fast.encoders import Encoder
from hindsight_fast.errors import DataError, EncoderError
from hindsight_fast.papers import text
from hindsight_fast.papers.readers import lines, streams, tables

_IDS = ("paper_id", "paperId", "id", "corpus_id", "corpusid", "corpusId")
_WORST = 5


@dataclass(frozen=True, slots=True)
class Against:
    """How far a model's vectors are from published ones of the same papers.

    Attributes
    ----------
    agreement : Agreement
        Of ours (the reference) and the published vectors.
    n_skipped : int
        Records without title or vector.
    norm_min, norm_mean, norm_max : float
        Lengths of the published vectors; ours are 1.
    worst : tuple of (str, float)
        Ids and cosines of the papers that are furthest apart.
    """

    agreement: Agreement
    n_skipped: int
    norm_min: float
    norm_mean: float
    norm_max: float
    worst: tuple[tuple[str, float], ...]

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        facts = asdict(self)
        return {**facts.pop("agreement"), **facts, "agrees": self.agreement.same_model}


class _Paper(NamedTuple):
    id: str
    title: str | None
    abstract: str | None
    vector: NDArray[np.float64]


def compare_with_published(encoder: Encoder, path: Path, limit: int | None = None) -> Against:
    """Encode the papers of a table and compare with the vectors that it gives.

    Texts are cleaned as a store's are.

    Parameters
    ----------
    path
        Parquet, JSON lines, JSON or CSV, also compressed: an id (``paper_id``, ``paperId``,
        ``corpus_id``, ``id``), ``title``, ``abstract``, and ``vector`` or ``embedding``: a list,
        text, or an object with ``model`` and ``vector``, as Semantic Scholar's API gives it.
    limit
        Only the first so many records.

    Raises
    ------
    DataError
        No such table, a vector that is none, or no paper with both a title and a vector.
    EncoderError
        The vectors are of another length, or named after another model.
    """
    papers, n_records = list[_Paper](), 0
    for place, record in islice(_records(path), limit):
        n_records += 1
        if (paper := _paper(record, f"{path}: record {place}", encoder)) is not None:
            papers.append(paper)
    pairs = _cleaned(papers)
    kept = [i for i, (title, _) in enumerate(pairs) if title]
    if not kept:
        raise DataError(
            f"{path}: none of {n_records} records has both a title and a vector; expected are "
            "the columns paper_id, title, abstract, vector"
        )
    ours = encoder.encode([pairs[i] for i in kept])
    theirs = np.array([papers[i].vector for i in kept])
    norms = np.sqrt(np.einsum("nd,nd->n", theirs, theirs))
    theirs /= norms[:, None]
    cosines = np.einsum("nd,nd->n", ours, theirs, dtype=np.float64)
    furthest: list[int] = np.argsort(cosines, kind="stable")[:_WORST].tolist()
    return Against(
        agreement=compare(ours, theirs, encoder.theta),
        n_skipped=n_records - len(kept),
        norm_min=float(norms.min()),
        norm_mean=float(norms.mean()),
        norm_max=float(norms.max()),
        worst=tuple((papers[kept[i]].id, float(cosines[i])) for i in furthest),
    )


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Records with their numbers (of text forms: their lines)."""
    form = tables.form(path, streams.head(path))
    if form is None:
        raise DataError(f"{path} is no table: parquet, JSON lines, JSON or CSV is read")
    if form == "parquet":
        rows = (row for frame in tables.frames(path, None) for row in frame.iter_rows(named=True))
        yield from enumerate(rows, start=1)
        return
    for record in lines.records(path, form):
        if isinstance(record.content, lines.Bad):
            raise DataError(f"{path}, line {record.line}: {record.content.reason}")
        yield record.line, record.content


def _paper(record: Mapping[str, Any], place: str, encoder: Encoder) -> _Paper | None:
    """What a record says of a paper; None where it has no vector."""
    value: Any = record.get("vector", record.get("embedding"))
    model: Any = record.get("model")
    if lines.is_object(value):
        value, model = value.get("vector"), value.get("model", model)
    if value is None:
        return None
    names = encoder.card.published_as
    if model is not None and names and model not in (*names, encoder.name):
        raise EncoderError(
            f"{place}: the vector is of the model {model!r}; {encoder.name}'s are published as "
            f"{' or '.join(names)}"
        )
    vector = _vector(value, place)
    if len(vector) != encoder.dim:
        raise EncoderError(
            f"{place}: the vector has {len(vector)} numbers; those of {encoder.name} have "
            f"{encoder.dim}: they were not made by this model"
        )
    found = next((record[key] for key in _IDS if record.get(key) is not None), place)
    title, abstract = (record.get(key) for key in ("title", "abstract"))
    return _Paper(
        str(found),
        None if title is None else str(title),
        None if abstract is None else str(abstract),
        vector,
    )


def _vector(value: object, place: str) -> NDArray[np.float64]:
    """A list of numbers, or the same as text."""
    numbers = (
        value.strip().strip("[]").replace(",", " ").split() if isinstance(value, str) else value
    )
    try:
        vector = np.array(numbers, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{place}: the vector is no list of numbers ({error})") from error
    if vector.ndim != 1 or not np.isfinite(vector).all() or not vector.any():
        raise DataError(f"{place}: the vector is zero, not finite, or no list of numbers")
    return vector


def _cleaned(papers: list[_Paper]) -> list[tuple[str, str]]:
    """Titles and abstracts as a store has them; "" where there is none."""
    columns = (
        pl.Series([None if value is None else text.without_surrogates(value) for value in column])
        for column in ([p.title for p in papers], [p.abstract for p in papers])
    )
    titles, abstracts = (
        text.missing_to_null(text.clean(column.cast(pl.String))) for column in columns
    )
    abstracts = abstracts.set(text.no_abstract(abstracts), None)
    return list(zip(titles.fill_null(""), abstracts.fill_null(""), strict=True))
