"""Verbs that look and change nothing: info, verify, doctor."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Json

Folder = Annotated[Path, typer.Argument(help="A store, a pool, or a score table.")]


def info(path: Folder, as_json: Json = False) -> None:
    """Say what a store, a pool or a score table is and what it holds.

    Example: hindsight-fast info pool
    """
    from hindsight_fast import pool, runs

    facts = runs.describe(path) if path.is_file() else pool.describe(path)
    told = _lines(facts)
    if facts["kind"] == "store":
        from hindsight_fast import data_report
        from hindsight_fast.store import Store

        report = data_report.examine(Store.open(path))
        told += data_report.lines(report)
        facts |= {"report": data_report.as_json(report)}
    if not as_json:
        for line in told:
            typer.echo(line)
    console.finish(as_json, facts, f"{path} is a {facts['kind']}")


def verify(path: Folder, as_json: Json = False) -> None:
    """Check every byte of a store, a pool or a score table, and that its parts belong together.

    Example: hindsight-fast verify pool
    """
    from hindsight_fast import pool, runs

    checked = runs.verify(path) if path.is_file() else pool.verify_artefact(path)
    console.finish(
        as_json, {"path": str(path), "whole": True, "checked": checked}, f"{path} is whole"
    )


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


def _lines(facts: dict[str, Any], indent: str = "") -> list[str]:
    lines = list[str]()
    for name, value in facts.items():
        if isinstance(value, dict):
            lines.append(f"{indent}{name}:")
            lines += _lines(value, indent + "  ")  # pyright: ignore[reportUnknownArgumentType]
        else:
            lines.append(f"{indent}{name}: {value}")
    return lines
