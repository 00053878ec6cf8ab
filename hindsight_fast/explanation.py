"""One idea in words: what it matched, why that gives its score, and what nearly matched."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hindsight_fast.costs import Cost, measure, total_error
from hindsight_fast.papers import dates
from hindsight_fast.scoring import Scorer
from hindsight_fast.summaries import notes_on_published
from hindsight_fast.tables import named_papers

_NOT_SCORED = {
    "empty": "the idea has no text",
    "too_short": "the idea is too short to be matched",
    "unreadable": "the record can't be read as an idea",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explained score.

    Attributes
    ----------
    text
        Sentences for a person.
    rows
        The K nearest papers: mark, similarity, impact, citations, venue, date, title.
    facts
        The same for a program.
    """

    text: str
    rows: list[list[str]]
    facts: dict[str, Any]


def explain_idea(scorer: Scorer, idea: pl.DataFrame) -> Explanation:
    """Explain the score of a frame of one idea (columns of `ideas.IDEA_SCHEMA`).

    Raises
    ------
    EncoderError
        The model failed, or its float32 reference can't be opened where that is needed.
    ArtefactError
        The pool's vectors were damaged since it was opened.
    """
    scored = scorer.score_batch(idea)
    row = scored.scores.row(0, named=True)
    facts: dict[str, Any] = {"signature": scorer.signature, "score": row, "nearest": []}
    if row["score"] is None:
        return Explanation(f"Not scored: {_NOT_SCORED[row['status']]}.", [], facts)
    if row["status"] == "empty_pool":
        return Explanation("Score 0: the pool has no papers.", [], facts)
    papers = _nearest(scorer, scored.matches.rows[0], scored.matches.similarities[0])
    costs = measure(scorer, idea)
    facts |= {"nearest": papers.to_dicts(), "costs": [cost.facts() for cost in costs]}
    lines = _sentences(scorer, row, papers) + _doubts(scorer, papers, costs)
    lines += [f"The {line}." for line in notes_on_published(scorer.pool.check)]
    return Explanation("\n".join(lines), _table(papers), facts)


def _nearest(
    scorer: Scorer, rows: np.ndarray[Any, Any], similarities: np.ndarray[Any, Any]
) -> pl.DataFrame:
    found = rows >= 0
    papers = named_papers(scorer.pool, rows[found])
    return papers.with_columns(
        pl.Series("similarity", similarities[found]),
        pl.Series("impact", np.asarray(scorer.pool.impact[rows[found]])),
        pl.Series("matched", similarities[found] >= np.float32(scorer.config.theta)),
    )


def _sentences(scorer: Scorer, row: dict[str, Any], papers: pl.DataFrame) -> list[str]:
    theta, lines = scorer.config.theta, list[str]()
    if row["matched"]:
        lines.append(
            f"Score {row['score']:.4f}: {row['n_matches']} of the {papers.height} nearest papers "
            f"have a similarity of at least {theta:g}, and this is the largest impact among them."
        )
        best = papers.row(by_predicate=pl.col("id") == row["best_paper_id"], named=True)
        lines.append(f"It anticipated {_named(best)}, at similarity {best['similarity']:.4f}.")
        if best["date_kind"] in dates.WEAK:
            lines.append(
                f"That paper is dated by its {best['date_kind']} alone: it may have been public "
                f"before {scorer.pool.cutoff}, and then was not anticipated."
            )
        lines.append(
            f"Its impact: {scorer.pool.impact_in_words(best['citations'], best['impact'])}."
        )
    else:
        lines.append(f"Score 0: no paper has a similarity of at least {theta:g}.")
    missed = papers.filter(~pl.col("matched")).head(1)
    if missed.height:
        near = missed.row(0, named=True)
        lines.append(
            f"The nearest that did not match is {_named(near)}, at {near['similarity']:.4f}, "
            f"{theta - near['similarity']:.4f} too little."
        )
    if row["saturated"]:
        lines.append("All of the nearest papers match, so a higher impact may lie beyond them.")
    return lines


def _doubts(scorer: Scorer, papers: pl.DataFrame, costs: list[Cost]) -> list[str]:
    """What another precision than float32 leaves open."""
    if not costs:
        return []
    error, theta = total_error(costs), float(np.float32(scorer.config.theta))
    near = papers.filter((pl.col("similarity").cast(pl.Float64) - theta).abs() <= error).height
    made_in = " and ".join(f"{cost.precision} {cost.side}" for cost in costs)
    return [
        f"The similarities of {made_in} were seen to differ from float32's by up to {error:.2g}: "
        f"{near} of these papers lie that near to theta."
    ]


def _named(paper: dict[str, Any]) -> str:
    cited = "citations unknown" if paper["citations"] is None else f"{paper['citations']} citations"
    return f'"{paper["title"]}" ({paper["venue"] or "venue unknown"}, {paper["date"]}, {cited})'


def _short(venue: str) -> str:
    """So much of a venue, which may be a whole reference, that a title has room beside it."""
    return venue if len(venue) <= 24 else f"{venue[:23]}…"


def _table(papers: pl.DataFrame) -> list[list[str]]:
    return [
        [
            "match" if one["matched"] else "",
            f"{one['similarity']:.4f}",
            f"{one['impact']:.4f}",
            "?" if one["citations"] is None else f"{one['citations']:,}",
            _short(one["venue"] or "?"),
            one["date"] or "?",
            one["title"],
        ]
        for one in papers.iter_rows(named=True)
    ]
