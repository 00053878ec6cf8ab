"""How far scores on a pool can be believed: calibrate."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Device, GpuMem, Json, Overwrite, Precision, Threads
from hindsight_fast.cli.score import (
    Allow,
    Cache,
    Encoder,
    K,
    Opening,
    PoolPath,
    StorePath,
    Theta,
    Trust,
    open_scorer,
)


def calibrate(
    pool: PoolPath,
    ideas: Annotated[
        Path | None,
        typer.Option(
            "--ideas", help="Ideas to look up; - is stdin; default: papers from before T."
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            "--pairs",
            help="Graded pairs to choose theta by: .jsonl, .csv or .parquet with a_id, or a_title "
            "and a_abstract, or a_text; the same of b; and grade or label.",
        ),
    ] = None,
    related: Annotated[
        float | None,
        typer.Option("--related", help="Least grade of a related pair; default: above the middle."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also a page of HTML with charts.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", help="At most N ideas, drawn at random; default: 2000.", min=1),
    ] = None,
    theta: Theta = None,
    k: K = None,
    store: StorePath = None,
    trust: Trust = False,
    encoder: Encoder = None,
    device: Device = "auto",
    precision: Precision = "auto",
    allow: Allow = None,
    gpu_mem: GpuMem = None,
    cache: Cache = None,
    threads: Threads = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Say how far scores on a pool can be believed: what theta, K, weights, size and index do.

    Example: hindsight-fast calibrate --pool pool --ideas ideas.jsonl --out calibration.html
    """
    from hindsight_fast import calibration
    from hindsight_fast.storage import publish_file, storage_errors

    _check_target(out, [pool, ideas, pairs], overwrite)
    how = Opening(encoder, device, precision, gpu_mem, threads, allow or [], cache)
    scorer = open_scorer(pool, store, how, k=k, theta=theta, search="exact", trust=trust)
    with ExitStack() as stack:
        # Begun before the work, so that a place which can't be written to is told of first.
        page = None if out is None else stack.enter_context(publish_file(out))
        files = stack.enter_context(console.files_of([] if ideas is None else [ideas]))
        with console.progress("calibrating", "done") as advance:
            found = calibration.calibrate(
                scorer,
                next(iter(files), None),
                pairs=pairs,
                related=related,
                limit=calibration.LIMIT if limit is None else limit,
                progress=advance,
            )
        if page is not None:
            with storage_errors(f"write {out}"):
                page.write_text(calibration.page(found), encoding="utf-8")
    if not as_json:
        for part in calibration.sections(found):
            if part.columns:
                console.table(part.title, part.columns, part.rows, right=part.right, long=part.long)
            else:
                typer.echo(f"\n{part.title}")
            for line in part.notes:
                typer.echo(console.printable(line))
        typer.echo(f"\n{found.signature}")
    wrote = "" if out is None else f"; wrote {out}"
    console.finish(as_json, found.facts(), calibration.summary(found) + wrote)


def _check_target(out: Path | None, sources: list[Path | None], overwrite: bool) -> None:
    from hindsight_fast.errors import UsageError

    if out is None:
        return
    if any(source is not None and source.resolve() == out.resolve() for source in sources):
        raise UsageError(f"--out {out} is what is to be read; choose another place for the page")
    if out.is_dir():
        raise UsageError(f"{out} is a folder; a file was expected for the page")
    if out.exists() and not overwrite:
        raise UsageError(f"{out} is there already; give --overwrite to replace it")
