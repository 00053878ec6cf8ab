"""Verbs that score ideas: score, explain."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Device, Json, Overwrite, Threads

if TYPE_CHECKING:
    from hindsight_fast.scoring import Scorer

PoolPath = Annotated[Path, typer.Option("--pool", help="A pool made by `pool`.")]
Search = Annotated[
    str,
    typer.Option("--search", help="auto, exact, or index (where the pool has one)."),
]
Theta = Annotated[
    float | None, typer.Option("--theta", help="Similarity of a match; default: the pool's.")
]
K = Annotated[int | None, typer.Option("--k", help="Neighbours looked at; default: the pool's.")]
StorePath = Annotated[
    Path | None, typer.Option("--store", help="The pool's store, if it is no longer in its place.")
]
Encoder = Annotated[
    str | None, typer.Option("--encoder", help="Folder of the model, if it is not in its place.")
]


def score(
    ideas: Annotated[
        Path, typer.Argument(help="Ideas: .jsonl, .json, .csv, .parquet; - is stdin.")
    ],
    pool: PoolPath,
    out: Annotated[Path, typer.Option("--out", help="The score table: .parquet, .csv or .jsonl.")],
    matches: Annotated[
        Path | None, typer.Option("--matches", help="Also the K nearest papers of each idea.")
    ] = None,
    search: Search = "auto",
    theta: Theta = None,
    k: K = None,
    limit: Annotated[int | None, typer.Option("--limit", help="The first N ideas.", min=1)] = None,
    store: StorePath = None,
    encoder: Encoder = None,
    device: Device = "auto",
    threads: Threads = None,
    overwrite: Overwrite = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first idea that can't be read.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Score ideas against a pool: the impact of the best later paper that each anticipated.

    Example: hindsight-fast score ideas.jsonl --pool pool --out scores.parquet
    """
    from hindsight_fast import runs

    runs.check_targets(ideas, out, matches)
    scorer = open_scorer(pool, encoder, device, threads, store, k=k, theta=theta, search=search)
    with console.progress("scoring", "ideas") as advance, console.files_of([ideas]) as files:
        summary = runs.score_file(
            scorer,
            next(iter(files)),
            out,
            matches=matches,
            limit=limit,
            strict=strict,
            overwrite=overwrite,
            progress=advance,
        )
    if not as_json:
        _print_summary(summary)
    console.finish(as_json, summary, _last_line(summary, out))


def explain(
    idea: Annotated[str, typer.Argument(help="An idea's text, or a file of ideas; - is stdin.")],
    pool: PoolPath,
    idea_id: Annotated[
        str | None, typer.Option("--id", help="Which idea of the file; default: its first.")
    ] = None,
    theta: Theta = None,
    k: K = None,
    store: StorePath = None,
    encoder: Encoder = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Say in words what one idea matched, why it scored as it did, and what nearly matched.

    Example: hindsight-fast explain ideas.jsonl --id rag-3 --pool pool
    """
    from hindsight_fast.explanation import explain_idea
    from hindsight_fast.ideas import find_idea

    found = find_idea(idea if idea != "-" else sys.stdin.read(), idea_id)
    scorer = open_scorer(pool, encoder, device, threads, store, k=k, theta=theta, search="exact")
    explanation = explain_idea(scorer, found)
    if not as_json:
        # The table first: what it says in words then stands at the end, where one looks.
        console.table(
            f"The nearest papers to {found['idea_id'].item()}:",
            ["", "similarity", "impact", "citations", "venue", "date", "paper"],
            explanation.rows,
            right=(1, 2, 3),
            long=(6,),
        )
        typer.echo(explanation.text)
    console.finish(as_json, explanation.facts, explanation.facts["signature"])


def open_scorer(
    pool: Path,
    encoder: str | None,
    device: str,
    threads: int | None,
    store: Path | None,
    *,
    k: int | None,
    theta: float | None,
    search: str,
) -> "Scorer":
    """Pool and encoder, opened and checked against each other."""
    from hindsight_fast import Pool, Scorer, load_encoder

    opened, threads = Pool.open(pool, store), console.threads_to_use(threads)
    loaded = load_encoder(encoder or opened.encoder, device=device, threads=threads)
    console.note(f"{loaded.name} on {loaded.device}")
    return Scorer(opened, loaded, k=k, theta=theta, search=search, threads=threads)


def _print_summary(summary: dict[str, Any]) -> None:
    rows = [
        [
            one["system"] or "(none)",
            f"{one['n']:,}",
            f"{one['n_scored']:,}",
            "-" if one["mean_score"] is None else f"{one['mean_score']:.4f}",
            console.share(one["n_matched"], one["n_scored"]),
            "-" if one["mean_tokens"] is None else f"{one['mean_tokens']:.0f}",
            console.share(one["n_truncated"], one["n_scored"]),
        ]
        for one in summary["systems"]
    ]
    columns = ["system", "ideas", "scored", "mean score", "match rate", "tokens", "truncated"]
    console.table("", columns, rows, right=(1, 2, 3, 4, 5, 6), long=(0,))
    for line in summary["notes"]:
        typer.echo(line)
    typer.echo(summary["signature"])


def _last_line(summary: dict[str, Any], out: Path) -> str:
    counts = summary["counts"]
    if summary["already_done"]:
        return f"{out} holds these scores already: nothing was done"
    seconds = summary["seconds"]["total"]
    return (
        f"scored {counts['scored']:,} of {counts['ideas']:,} ideas to {out} in {seconds:.1f} s "
        f"({summary['device']}, search {summary['search']})"
    )
