"""Verbs that look and change nothing: info, verify, doctor."""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Json
from hindsight_fast.cli.facts import rows
from hindsight_fast.cli.pool import coverage_lines
from hindsight_fast.cli.score import print_systems

Thing = Annotated[
    Path,
    typer.Argument(help="A store, vectors, a pool, a score table, a collection or a model."),
]


def info(path: Thing, as_json: Json = False) -> None:
    """Say what a store, a pool, a score table or another such thing is and what it holds.

    Example: hindsight-fast info pool
    """
    facts = _facts(path)
    kind = facts["kind"]
    if kind == "store":
        from hindsight_fast import data_report
        from hindsight_fast.store import Store

        report = data_report.examine(Store.open(path))
        facts |= {"report": data_report.as_json(report)}
        if not as_json:
            _tell(facts)
            console.table(
                "",
                ["what became of the records", "how many"],
                [[what, f"{n:,}"] for what, n in data_report.in_words(report.counts).items() if n],
                right=(1,),
            )
            for line in data_report.lines(report):
                typer.echo(console.printable(line))
    elif not as_json:
        _tell(facts)
    console.finish(as_json, facts, f"{path} {'are' if kind == 'vectors' else 'is a'} {kind}")


def verify(path: Thing, as_json: Json = False) -> None:
    """Check every byte of a store, a pool or a score table, and that its parts belong together.

    Vectors, a cache of them, a collection and a model are checked too.

    Example: hindsight-fast verify pool
    """
    checked = verified(path)
    console.finish(
        as_json, {"path": str(path), "whole": True, "checked": checked}, f"{path} is whole"
    )


def verified(path: Path) -> list[str]:
    """Check every byte of any artefact; what was checked, a phrase each."""
    from hindsight_fast import pool, runs
    from hindsight_fast.encoding import VectorCache, is_cache
    from hindsight_fast.model_folders import verify_model

    if is_cache(path):
        with closing(VectorCache(path)) as cache:
            return cache.verify()
    if (path / "card.json").is_file():
        return [f"{verify_model(path)['n_golden']} golden vectors"]
    return runs.verify(path) if runs.is_scores(path) else pool.verify_artefact(path)


def doctor(as_json: Json = False) -> None:
    """Say whether this machine is ready: packages, threads, kernels, inference engine, models.

    Example: hindsight-fast doctor
    """
    from hindsight_fast.health import examine

    findings = examine()
    if not as_json:
        width = max(len(one.what) for one in findings)
        for one in findings:  # lines, not a table: what is missing must not be cut
            mark = {True: "ok", False: "NO", None: "--"}[one.ok]
            typer.echo(f"{mark}  {one.what:<{width}}  {one.found}")
    bad = [one for one in findings if one.ok is False]
    summary = {
        "ready": not bad,
        "findings": [{"what": f.what, "ok": f.ok, "found": f.found} for f in findings],
    }
    text = "ready" if not bad else f"not ready: {', '.join(one.what for one in bad)}"
    console.finish(as_json, summary, text)
    if bad:
        raise typer.Exit(4)


def _facts(path: Path) -> dict[str, Any]:
    from hindsight_fast import pool, runs
    from hindsight_fast.model_folders import model_facts

    if runs.is_scores(path):
        return runs.describe(path)
    if (path / "card.json").is_file():
        return {"kind": "model", "path": str(path), **model_facts(path)}
    return pool.describe(path)


def _tell(facts: dict[str, Any]) -> None:
    """Say it in words, which facts that others wrote need not allow."""
    try:
        _tell_rows(facts)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        from hindsight_fast.errors import ArtefactError

        raise ArtefactError(
            f"what its manifest says of this {facts['kind']} can't be told ({error!r}); it was not "
            "written by this program, or not by this version"
        ) from error


def _tell_rows(facts: dict[str, Any]) -> None:
    told = rows(facts)
    width = max(len(what) for what, _ in told)
    for what, value in told:  # lines, not a table: a signature must not be cut
        typer.echo(console.printable(f"{what:<{width}}  {value}"))
    if facts["kind"] == "pool":
        for line in coverage_lines(facts["coverage"]):
            typer.echo(console.printable(line))
    if facts["kind"] == "score table":
        print_systems(facts)
