"""How far scores on a pool can be believed: calibrate."""

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
        typer.Option("--ideas", help="Ideas to look up; default: papers from before T."),
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
    from hindsight_fast.errors import UsageError
    from hindsight_fast.storage import publish_file

    if out is not None and out.exists() and not overwrite:
        raise UsageError(f"{out} is there already; give --overwrite to replace it")
    how = Opening(encoder, device, precision, gpu_mem, threads, allow or [], cache)
    scorer = open_scorer(pool, store, how, k=k, theta=theta, search="exact", trust=trust)
    with console.progress("calibrating", "done") as advance:
        found = calibration.calibrate(
            scorer,
            ideas,
            pairs=pairs,
            related=related,
            limit=calibration.LIMIT if limit is None else limit,
            progress=advance,
        )
    if out is not None:
        with publish_file(out) as staging:
            staging.write_text(calibration.page(found), encoding="utf-8")
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
