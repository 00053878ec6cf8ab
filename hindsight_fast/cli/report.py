"""What data are like, as a page: report."""

from pathlib import Path
from typing import Annotated

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Json, Overwrite


def report(
    store: Annotated[Path, typer.Option("--store", help="A store made by build.")],
    out: Annotated[Path, typer.Option("--out", help="The page of HTML to write.")],
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Show what a store's papers are like: counts and charts, on one page that needs no network.

    Example: hindsight-fast report --store store --out papers.html
    """
    from hindsight_fast.data_report import as_json as as_json_of
    from hindsight_fast.data_report import examine, page
    from hindsight_fast.errors import UsageError
    from hindsight_fast.storage import publish_file
    from hindsight_fast.store import Store

    if out.exists() and not overwrite:
        raise UsageError(f"{out} is there already; give --overwrite to replace it")
    found = examine(Store.open(store))
    with publish_file(out) as staging:
        staging.write_text(page(found), encoding="utf-8")
    console.finish(as_json, as_json_of(found), f"wrote {out}: {found.n:,} papers of {store}")
