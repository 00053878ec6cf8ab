"""Verbs that collect papers over the network: collect s2, collect openalex."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Json, Overwrite
from hindsight_fast.cli.days import first_day, last_day

if TYPE_CHECKING:
    from hindsight_fast.papers.collect import Plan, Query, Service, Watch

app = typer.Typer(
    no_args_is_help=True, help="Collect papers over the network: s2 (Semantic Scholar), openalex."
)

Out = Annotated[Path, typer.Option("--out", help="The folder to make: raw answers and a table.")]
Cutoff = Annotated[str, typer.Option("--cutoff", help="First day of publication asked for.")]
Until = Annotated[str, typer.Option("--until", help="Last day of publication, included.")]
Text = Annotated[
    str | None, typer.Option("--query", help="What to search, in the service's own syntax.")
]
Topics = Annotated[
    Path | None,
    typer.Option("--topics", help="A TOML file of topics; default: the ten AI topics that ship."),
]
Names = Annotated[
    list[str] | None, typer.Option("--topic", help="Only this topic of them; may be repeated.")
]
Rate = Annotated[
    float | None,
    typer.Option("--rate", help="Requests a second, at most; default: what is polite."),
]


@app.command()
def s2(
    out: Out,
    cutoff: Cutoff,
    until: Until,
    query: Text = None,
    topics: Topics = None,
    topic: Names = None,
    rate: Rate = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Collect papers that Semantic Scholar finds in titles and abstracts; free of charge.

    A key in S2_API_KEY is used where there is one: without, all anonymous users share one limit,
    and waits are common. The dates are the service's; an earlier preprint is told by the record
    itself (its arXiv id), and keeps the paper out of a pool. What is stopped goes on with the same
    command.

    Example: hindsight-fast collect s2 --topic reasoning --cutoff 2023-06 --until 2025-12 --out llm

    Example: hindsight-fast collect s2 --query '"protein folding" | AlphaFold' --cutoff 2023-06
    --until 2025-12 --out found
    """
    from hindsight_fast.papers.collect import S2

    queries = _queries(S2, query, topics, topic)
    _collect(S2, queries, (cutoff, until), out, 0.0, rate, overwrite, as_json)


@app.command()
def openalex(
    out: Out,
    cutoff: Cutoff,
    until: Until,
    query: Text = None,
    topics: Topics = None,
    topic: Names = None,
    max_spend: Annotated[
        float,
        typer.Option(
            "--max-spend", help="USD that the collection may cost, over all runs together.", min=0
        ),
    ] = 1.0,
    rate: Rate = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Collect works that OpenAlex finds; each 100 are billed (0.001 USD, 1 USD a day is free).

    A key in OPENALEX_API_KEY is needed. Title, abstract and, where OpenAlex has it, full text are
    searched: `build --topics` and `pool --topic` choose by title and abstract afterwards. The
    dates are the service's; a preprint before the window that is a work of its own is not found:
    a wider window or `build --dates` tells of it. What is stopped goes on with the same command,
    and pays for no page twice.

    Example: hindsight-fast collect openalex --topic reasoning --cutoff 2023-06 --until 2025-12
    --out found --max-spend 0.50
    """
    from hindsight_fast.papers.collect import OPENALEX

    queries = _queries(OPENALEX, query, topics, topic)
    _collect(OPENALEX, queries, (cutoff, until), out, max_spend, rate, overwrite, as_json)


def _queries(
    service: "Service", query: str | None, file: Path | None, names: list[str] | None
) -> "tuple[Query, ...]":
    from hindsight_fast.errors import UsageError
    from hindsight_fast.papers import topics
    from hindsight_fast.papers.collect import Query, queries_of

    if query is None:
        known = topics.load(file)
        return queries_of(service, topics.named(known, names) if names else known)
    if file or names:
        raise UsageError("--query and topics: give one or the other")
    if not query.strip():
        raise UsageError("--query is empty")
    return (Query("query", query.strip()),)


def _collect(
    service: "Service",
    queries: "tuple[Query, ...]",
    dates: tuple[str, str],
    out: Path,
    max_spend: float,
    rate: float | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    from hindsight_fast.errors import UsageError
    from hindsight_fast.papers.collect import Manners, Window, collect

    began = time.monotonic()
    window = Window(first_day(dates[0], "--cutoff"), last_day(dates[1], "--until"))
    if window.last < window.first:
        raise UsageError(f"--until {dates[1]} is before --cutoff {dates[0]}")
    manners = Manners(service.rate if rate is None else rate)
    told = "1 query" if len(queries) == 1 else f"{len(queries)} queries"
    console.note(
        f"{service.title}: {told}, papers published {window}; {_terms(service, max_spend)}"
    )
    with (
        console.kept_when_stopped("the page under way"),
        console.progress("collecting", "papers") as advance,
    ):
        body, made = collect(
            service,
            queries,
            window,
            out,
            max_spend=max_spend,
            manners=manners,
            overwrite=overwrite,
            watch=_watch(advance),
        )
    summary = {"collection": str(out), "already_there": not made, **body}
    summary["seconds"] = round(time.monotonic() - began, 3)
    for line in _doubts(body):
        console.note(line)
    console.finish(as_json, summary, _last_line(out, made, summary))


def _terms(service: "Service", max_spend: float) -> str:
    from hindsight_fast.papers.collect import money

    if not service.price:
        return "free of charge"
    return (
        f"billed {money(service.price)} for each page of {service.page_size}, at most "
        f"{money(max_spend)} (--max-spend)"
    )


def _watch(advance: console.Advance) -> "Watch":
    from hindsight_fast.papers.collect import Plan, Progress, Watch, money

    def plan(it: Plan) -> None:
        for name, n in it.announced.items():
            console.note(f"  {name}: {n:,} papers")
        if it.pages_left:
            console.note(_forecast(it))

    def progress(now: Progress) -> None:
        more = f"{now.pages:,} pages" + ("" if now.spent is None else f", {money(now.spent)}")
        advance(now.papers, now.announced, label=now.query, more=more)

    return Watch(plan, progress, console.note)


def _forecast(plan: "Plan") -> str:
    from hindsight_fast.papers.collect import money

    text = f"to come: {plan.pages_left:,} pages, at least {console.duration(plan.seconds_left)}"
    if plan.cost_left is not None and plan.spent is not None:
        left = "" if plan.left is None else f", the key has {money(plan.left)} left"
        text += f"; about {money(plan.cost_left)} more ({money(plan.spent)} spent{left})"
    return text


def _doubts(body: dict[str, Any]) -> list[str]:
    """What a person should know of a collection before relying on it."""
    lines: list[str] = []
    for query in body["queries"]:
        low, high = query["announced"]
        if low < 0.95 * high:
            lines.append(
                f"warning: {query['name']!r} was announced with {low:,} and later with {high:,} "
                "papers: what the service knows changed meanwhile, and some may be missing"
            )
        elif query["n"] < high:
            lines.append(f"note: {query['name']!r} has {query['n']:,} of {high:,} announced papers")
    return lines


def _last_line(out: Path, made: bool, summary: dict[str, Any]) -> str:
    from hindsight_fast.papers.collect import money

    spent = summary["spent_usd"]
    what = f"{summary['n_records']:,} records of {summary['n_ids']:,} papers"
    if not made:
        return f"{out} holds just this already: {what}; nothing was asked"
    return (
        f"collected {out}: {what} on {summary['n_pages']:,} pages"
        + ("" if spent is None else f", {money(spent)}")
        + f"; {summary['seconds']:.1f} s. Next: hindsight-fast build {out} --out STORE"
    )
