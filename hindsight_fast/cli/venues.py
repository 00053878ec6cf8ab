"""Verbs about venues: venues check."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Json

if TYPE_CHECKING:
    import polars as pl

    from hindsight_fast.papers.venues import Table

app = typer.Typer(no_args_is_help=True, help="Venues: which names are known.")

_SAID = {
    "top": "main track of a top venue",
    "known": "another venue that is known",
    "preprint": "a preprint server or archive",
    "side_event": "a workshop, Findings or the like",
    "undecided": "a submission, rejected or undecided",
    "unmatched": "another name",
    "none": "no venue",
}


@app.callback()
def venues() -> None:
    """Venues: which names are known."""


@app.command()
def check(
    files: Annotated[
        list[Path],
        typer.Argument(help="Files of papers, folders of them, or stores; - is stdin."),
    ],
    more: Annotated[
        Path | None, typer.Option("--venues", help="More venues and aliases: a TOML file.")
    ] = None,
    column: Annotated[
        str | None, typer.Option("--column", help="Where the venue is under another name.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="auto, or a reader's name.")] = "auto",
    limit: Annotated[
        int, typer.Option("--limit", help="List the N most frequent unmatched names.", min=1)
    ] = 40,
    as_json: Json = False,
) -> None:
    """List the venue names that are not known, the most frequent first, and what they may mean.

    What is missing goes into a file of your own, which build takes as well:

    \b
      \\[\\[venue]]               # one that is known: another alias
      name = "NeurIPS"
      aliases = ["NuerIPS"]
      \\[\\[venue]]               # a new one, and when it was held
      name = "CogSci"
      aliases = ["Cognitive Science Society"]
      months = { 2024 = 7 }

    Example: hindsight-fast venues check papers.jsonl --venues my.toml

    Then: hindsight-fast build papers.jsonl --venues my.toml --out store
    """
    from hindsight_fast.papers import answers
    from hindsight_fast.papers import venues as known_venues
    from hindsight_fast.papers.venue_check import check as check_names
    from hindsight_fast.storage import kind_of

    made = [path for path in files if (path / "manifest.json").is_file()]
    stores = [path for path in made if kind_of(path) != answers.KIND]
    sources = [path for path in files if path not in stores]
    table = None if more is None else known_venues.load(more)
    if table is None:
        table = _table_of(stores) if stores and not sources else known_venues.table()
    checked = check_names(_venues(stores, sources, column, form, table), table, limit)
    rows = checked.unmatched.rows(named=True)
    if not as_json:
        for name, n in checked.counts.items():
            typer.echo(f"{n:>12,}  {_SAID[name]}")
        console.table(
            "",
            ["records", "venue as written", "nearest known"],
            [[f"{row['n']:,}", row["venue"], row["nearest"] or "-"] for row in rows],
            right=(0,),
            long=(1,),
        )
    counts = checked.counts | {"unmatched_names": checked.n_unmatched}
    console.finish(
        as_json,
        {"counts": counts, "unmatched": rows, "venues": table.fingerprint},
        f"{checked.counts['unmatched']:,} of {sum(checked.counts.values()):,} records have one of "
        f"{checked.n_unmatched:,} names that are not known; {len(rows):,} are listed",
    )


def _table_of(stores: list[Path]) -> "Table":
    from hindsight_fast.papers import venues as known_venues
    from hindsight_fast.store import Store

    tables = {table.fingerprint: table for table in (Store.open(path).venues for path in stores)}
    return tables.popitem()[1] if len(tables) == 1 else known_venues.table()


def _venues(
    stores: list[Path], sources: list[Path], column: str | None, form: str, table: "Table"
) -> "Iterator[pl.Series]":
    from hindsight_fast.papers.intake import Intake
    from hindsight_fast.papers.options import Options
    from hindsight_fast.store import Store

    for path in stores:
        yield from (papers["venue"] for papers in Store.open(path).pieces("venue"))
    if not sources:
        return
    with (
        console.progress("reading", "records") as advance,
        console.files_of(sources) as names,
        TemporaryDirectory(prefix="hindsight-venues-") as work,
    ):
        done = 0

        def add(more: int) -> None:
            nonlocal done
            done += more
            advance(done, 0)

        mapping = {} if column is None else {"venue": column}
        options = Options(names=names, format=form, mapping=mapping, venues=table, progress=add)
        for chunk in Intake(list(names), options, Path(work)).chunks():
            yield chunk.papers["venue"]
