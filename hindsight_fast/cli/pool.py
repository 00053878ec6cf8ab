"""From a store to the papers of a window: pool."""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Conditions, Json, Overwrite, Threads, Topics
from hindsight_fast.cli.days import first_day, last_day


def pool(
    store: Annotated[Path, typer.Argument(help="A store made by build.")],
    out: Annotated[Path, typer.Option("--out", help="The pool to make.")],
    cutoff: Annotated[
        str, typer.Option("--cutoff", help="T: ideas know what was public before its first day.")
    ],
    until: Annotated[str, typer.Option("--until", help="E: last day of the window, included.")],
    start: Annotated[
        str | None, typer.Option("--from", help="Start the window later than T (a clean window).")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="Needed where the store has several.")
    ] = None,
    where: Conditions = None,
    topic: Topics = None,
    impact: Annotated[
        str,
        typer.Option(
            "--impact",
            help="paper, or known, log, percentile, 12-months, 24-months: how citations count.",
        ),
    ] = "paper",
    k: Annotated[int, typer.Option("--k", help="Neighbours looked at per idea.", min=1)] = 20,
    theta: Annotated[
        float | None, typer.Option("--theta", help="Similarity of a match; default: the model's.")
    ] = None,
    index: Annotated[bool, typer.Option("--index", help="Build an HNSW index as well.")] = False,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="The same index bytes each time (one thread).")
    ] = False,
    require_first_public: Annotated[
        bool,
        typer.Option("--require-first-public", help="Leave out what only a venue or year dates."),
    ] = False,
    reuse: Annotated[
        Path | None,
        typer.Option("--reuse", help="An older pool: what of it still holds is taken over."),
    ] = None,
    threads: Threads = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Take the papers of a window, with their impact: what ideas are scored against.

    Example: hindsight-fast pool store --out pool --cutoff 2023-06 --until 2025-12
    """
    from hindsight_fast.index import IndexConfig
    from hindsight_fast.papers.choosing import Where
    from hindsight_fast.pool import build_pool
    from hindsight_fast.store import Store

    began = time.monotonic()
    with (
        console.progress("index", "papers") if index else nullcontext() as advance,
        console.kept_when_stopped("the part of the index under way") if index else nullcontext(),
    ):
        made = build_pool(
            Store.open(store),
            out,
            encoder=encoder,
            cutoff=first_day(cutoff, "--cutoff"),
            until=last_day(until, "--until"),
            start=None if start is None else first_day(start, "--from"),
            k=k,
            theta=theta,
            recipe=impact,
            where=Where(tuple(where or ()), tuple(topic or ())),
            index=IndexConfig(deterministic=deterministic) if index else None,
            require_first_public=require_first_public,
            reuse=reuse,
            overwrite=overwrite,
            threads=console.threads_to_use(threads),
            progress=advance,
        )
    seconds = round(time.monotonic() - began, 3)
    coverage = made.coverage
    if not as_json:
        for line in coverage_lines(coverage):
            typer.echo(line)
        if "reused" in made.manifest.body:
            typer.echo(f"of {reuse}: {reused_in_words(made.manifest.table('reused'))}")
    summary = {
        "pool": str(out),
        "signature": made.signature(made.k, made.theta, "exact"),
        "n_papers": made.n_papers,
        "coverage": coverage,
        "reused": made.manifest.body.get("reused"),
        "seconds": seconds,
    }
    console.finish(
        as_json, summary, f"made {out}: a pool of {made.n_papers:,} papers; {seconds:.1f} s"
    )


def reused_in_words(reused: dict[str, Any]) -> str:
    """What was taken over from an older pool, for a person."""
    taken = ["what the exact scan looks at first"] if reused["projection"] else []
    if reused["n_taken"]:
        taken.append(f"{reused['n_taken']:,} papers of its index, {reused['n_added']:,} are new")
    told = f"taken over: {'; '.join(taken)}" if taken else "nothing is taken over"
    return told + (f" ({reused['why']})" if reused["why"] else "")


_OUTSIDE = {
    "straddling": "dated too coarsely (a year that begins before the window)",
    "public_before": "listed with a year of the window, but public before",
}
_KEPT_OUT = {
    "title_only": "without abstract",
    "stub": "with a stub for an abstract",
    "left_out": "not chosen by --where or --topic",
    "not_first_public": "dated by a venue or year alone",
    "citations_unknown": "with unknown citations",
    "not_encoded": "not encoded",
}


def coverage_lines(covered: dict[str, Any]) -> list[str]:
    """What a score on a pool rests on, for a person."""
    n, share = covered["papers"], console.share
    kept_out = {name: count for name, count in covered["kept_out"].items() if count}
    cited, top = covered["citations"], covered["top_paper"]
    lines = [
        f"{covered['in_window']:,} papers in the window, {n:,} take part; kept out: "
        + (_tallied(kept_out, _KEPT_OUT) or "none"),
        "not in the window: " + _tallied(covered["outside"], _OUTSIDE),
        f"known citations {share(covered['citations_known'], n)}, known venue "
        f"{share(covered['venue_known'], n)}, both {share(covered['both_known'], n)}; "
        f"main track of a top venue {share(covered['top_venue'], n)}",
    ]
    lines += [
        f"dated by {kind}: {share(one['papers'], n)} of papers, "
        f"{share(one['share_of_impact'], 1)} of impact"
        for kind, one in covered["date_kind"].items()
    ]
    if "c" in covered:  # pools of format 1 say it by the recipe's name alone
        lines.append(f"citations count as {covered['c']}")
    if not n:
        lines.append("warning: the pool holds no paper; every idea will score 0")
    by_count = covered.get("by_count", True)
    if top is not None and by_count:
        lines.append(
            f"citations: median {cited['p50']:,}, 99th percentile {cited['p99']:,}; the maximum, "
            f"{cited['max']:,}, is set by {top['title']!r} ({top['id']}), which alone spans "
            f"{share(top['share_of_range'], 1)} of the range"
        )
    lines += [
        f"next: {one['title']!r} ({one['id']}) with {one['citations']:,} citations; from the one "
        f"below to it is {share(one['share_of_range'], 1)} of the range"
        for one in covered.get("outliers", [])[1:]
        if by_count
    ]
    if len(covered["sources"]) > 1:
        sources = ", ".join(f"{name} ({count:,})" for name, count in covered["sources"].items())
        lines.append(f"warning: counts of several sources are mixed: {sources}")
    if covered["citations_known"] and covered["as_of"] is None:
        lines.append(
            "nobody says when citations were counted, so signatures have citations=unknown; the "
            "column citations_as_of of your records would say it"
        )
    strong = covered["date_kind"].get("first_public", {"papers": 0})["papers"]
    if n - strong > n / 10:
        lines.append(
            f"warning: {n - strong:,} papers are dated by a venue or a year alone, and may have "
            "been public before the cutoff; `build --dates` with arXiv's metadata finds out, "
            "`pool --require-first-public` leaves them out"
        )
    if n and covered["both_known"] < n / 2:
        lines.append(
            "warning: fewer than half of the papers have both a known count and a known venue; "
            "on this pool the match rate says more than the score"
        )
    return lines


def _tallied(counts: dict[str, int], words: dict[str, str]) -> str:
    return ", ".join(f"{count:,} {words.get(name, name)}" for name, count in counts.items())
