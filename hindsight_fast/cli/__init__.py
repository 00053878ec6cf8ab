"""The command line: one program, one file per group of verbs.

Every verb imports what it needs when it runs, so that ``--help`` is quick.
"""

import signal
import sys
from typing import NoReturn

import typer

from hindsight_fast.cli import console, demo, inspection, models, papers, score

app = typer.Typer(
    name="hindsight-fast",
    help="Score research ideas by the impact of the later papers that they anticipated.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo.demo)
app.command()(papers.build)
app.command()(papers.embed)
app.command()(papers.pool)
app.command()(score.score)
app.command()(score.explain)
app.command()(inspection.info)
app.command()(inspection.verify)
app.command()(inspection.doctor)
app.add_typer(models.app, name="models")


def version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        from hindsight_fast.version import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Score research ideas by the impact of the later papers that they anticipated."""


def main() -> NoReturn:
    """Run the command line; exit codes as in the README."""
    from hindsight_fast.errors import HindsightError

    signal.signal(signal.SIGINT, console.stop)
    signal.signal(signal.SIGTERM, console.stop)
    try:
        app()
    except HindsightError as error:
        sys.stderr.write(f"hindsight-fast: {error}\n")
        sys.exit(error.exit_code)
    sys.exit(0)
