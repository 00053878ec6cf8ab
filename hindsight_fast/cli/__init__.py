"""The command line: one program, one file per group of verbs.

Every verb imports what it needs when it runs, so that ``--help`` is quick.
"""

import os
import signal
import sys
import warnings
from pathlib import Path
from typing import NoReturn

import typer

from hindsight_fast.cli import (
    build,
    calibrate,
    collect,
    console,
    demo,
    embedding,
    inspection,
    models,
    plan,
    pool,
    report,
    score,
    serve,
    venues,
)

app = typer.Typer(
    name="hindsight-fast",
    help="Score research ideas by the impact of the later papers that they anticipated.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo.demo)
app.command()(build.build)
app.command()(embedding.embed)
app.command()(pool.pool)
app.command()(score.score)
app.command()(score.explain)
app.command()(calibrate.calibrate)
app.command()(serve.serve)
app.command()(inspection.info)
app.command()(inspection.verify)
app.command()(inspection.doctor)
app.command()(plan.plan)
app.command()(report.report)
app.add_typer(models.app, name="models")
app.add_typer(collect.app, name="collect")
app.add_typer(venues.app, name="venues")


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
    # Started with one of them closed, Python has none; what is said there is then lost.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    try:
        console.check_names(sys.argv)
        with warnings.catch_warnings():
            warnings.showwarning = console.warn
            try:
                app()
            except Exception:
                console.go_on()
                raise
        sys.stdout.flush()
    except HindsightError as error:
        console.note(f"hindsight-fast: {error}")
        sys.exit(error.exit_code)
    except ImportError as error:  # a package is missing, or refuses the version of another
        sys.stderr.write(
            f"hindsight-fast: {error.name or 'a package'} can't be imported: {error}; the versions "
            "that go together are in constraints.txt (pip install -c constraints.txt ...)\n"
        )
        sys.exit(4)
    except OSError as error:  # of what has no sentence of its own: standard output, the work folder
        sys.stderr.write(f"hindsight-fast: the system refused: {error}\n")
        sys.exit(5)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # polars': values that no table can hold
            raise
        console.note(f"hindsight-fast: a file is damaged, `verify` says which: {error}")
        sys.exit(3)
    sys.exit(0)
