"""What a job will cost before it begins: plan."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Device, Json, Precision, Threads

if TYPE_CHECKING:
    from hindsight_fast.planning import Gpu, Plan

GB = 1e9


def plan(
    papers: Annotated[int, typer.Option("--papers", help="Papers of the pool (N).", min=1)],
    ideas: Annotated[int, typer.Option("--ideas", help="Ideas to score (M).", min=1)] = 200,
    encoder: Annotated[
        str, typer.Option("--encoder", help="A model's name, or the folder that holds it.")
    ] = "specter2",
    device: Device = "auto",
    precision: Precision = "auto",
    k: Annotated[int, typer.Option("--k", help="Neighbours looked at per idea.", min=1)] = 20,
    index: Annotated[
        bool | None,
        typer.Option(
            "--index/--no-index",
            help="With an HNSW index or not; default: where the exact scan would be noticed.",
        ),
    ] = None,
    connectivity: Annotated[
        int, typer.Option("--connectivity", help="Links per paper of the index (M).", min=2)
    ] = 16,
    tokens: Annotated[
        int,
        typer.Option("--tokens-per-paper", help="Length of a typical text; an idea's too.", min=1),
    ] = 230,
    votes: Annotated[
        int, typer.Option("--votes", help="Of the judge per idea, where one is asked.", min=0)
    ] = 3,
    gpu: Annotated[
        str,
        typer.Option(
            "--gpu", help="Also estimate for t4, l4, rtx4090, a100, h100, h200, all, or none."
        ),
    ] = "none",
    max_ram: Annotated[
        float | None, typer.Option("--max-ram", help="GB of memory that it may take.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where it will be: whose disk.")] = Path(),
    no_calibration: Annotated[
        bool,
        typer.Option("--no-calibration", help="Measure nothing; take another machine's speeds."),
    ] = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Say what a job will take: time, memory, disk. Refuses what can't fit.

    Speeds are measured here in some ten seconds; nothing is kept.

    Example: hindsight-fast plan --papers 1000000 --ideas 100000 --gpu a100
    """
    from hindsight_fast.errors import UsageError
    from hindsight_fast.planning import (
        GPUS,
        Job,
        assumed,
        look,
        make_plan,
        measure_speeds,
        shape_of,
    )

    if gpu not in ("none", "all", *GPUS):
        raise UsageError(f"--gpu {gpu}: expected one of {', '.join(GPUS)}, all or none")
    gpus = [one for name, one in GPUS.items() if gpu in (name, "all")]
    job = Job(papers, ideas, encoder, device, precision, k, index, connectivity, tokens, votes)
    shape = shape_of(encoder)
    if device not in ("auto", "cpu") and (no_calibration or not shape.installed):
        raise UsageError(
            f"--device {device}: only a model that is here can be tried there; --gpu estimates "
            "what a class of GPUs would take"
        )
    machine = look(
        out,
        max_ram=None if max_ram is None else max_ram * GB,
        threads=console.threads_to_use(threads),
    )
    if no_calibration:
        speeds = assumed(shape.dim)
    else:
        speeds = measure_speeds(
            job,
            shape,
            Path(machine.place),
            machine.threads,
            tell=lambda what: console.note(f"trying {what}"),
        )
    made = make_plan(job, shape, machine, speeds)
    refused = made.refusal()
    if not as_json:
        _print(made, gpus)
    console.finish(as_json, made.facts(gpus), _last_line(made))
    if refused is not None:
        raise refused


def _print(made: "Plan", gpus: list["Gpu"]) -> None:
    columns = ["stage", "time", "private memory", "mapped files", "disk", "meanwhile", "speed is"]
    rows = [
        [
            stage.name if stage.counts else f"(or: {stage.name})",
            _time(stage.seconds + made.slowed(stage)),
            _size(stage.private),
            _size(stage.cached),
            _size(stage.kept),
            _size(stage.temporary),
            stage.how,
        ]
        for stage in made.stages
    ]
    job, machine, speeds = made.job, made.machine, made.speeds
    console.table(
        f"{job.papers:,} papers and {job.ideas:,} ideas, {job.encoder} of {made.shape.dim} numbers",
        columns,
        rows,
        right=(1, 2, 3, 4, 5),
    )
    for name, size in made.bytes_per_paper().items():
        typer.echo(f"{name}: {size:,.0f} bytes a paper, {_size(size * job.papers)} in all")
    typer.echo(
        f"memory: {_size(made.memory)} must be there, {_size(made.cached)} of mapped files beside "
        f"it should be; here are {_size(machine.memory)} ({machine.memory_is} limit)"
    )
    typer.echo(
        f"disk: {_size(made.disk)} in the end, {_size(made.disk_at_most)} at most; here are "
        f"{_size(machine.disk_free)} free at {machine.place}"
    )
    costs = made.costs
    typer.echo(
        f"rewards: {costs.rewards_per_s:,.3g} a second, {costs.cached_rewards_per_s:,.3g} of ideas "
        f"whose vectors are in the cache (an idea takes {1e3 * costs.encode:,.3g} ms to encode, "
        f"{1e3 * costs.search:,.3g} ms to search)"
    )
    calls = made.llm_calls()
    typer.echo(
        f"calls to language models, if these make the ideas (half of them with literature, in two "
        f"calls, half without, in one) and judge them ({job.votes} votes each): "
        f"{calls['generate_calls']:,} to generate ({_tokens(calls, 'generate')}), "
        f"{calls['judge_calls']:,} to judge ({_tokens(calls, 'judge')})"
    )
    if gpus:
        _print_gpus(made, gpus)
    for line in (*speeds.notes, *(f"warning: {text}" for text in made.warnings())):
        typer.echo(line)
    if speeds.measured:
        typer.echo(
            f"measured here in {speeds.seconds:.0f} s, with {machine.threads} threads: "
            f"{_measured(made)}; extrapolated from there: all else"
        )


def _print_gpus(made: "Plan", gpus: list["Gpu"]) -> None:
    from hindsight_fast.planning import UTILISATION

    on = [made.on(gpu) for gpu in gpus]
    rows = [
        [stage.name, *("too large" if s is None else _time(s) for s in each)]
        for stage, *each in zip(made.taken, *on, strict=True)
    ]
    rows.append(
        [
            "all of it",
            *("too large" if None in each else _time(sum(s for s in each if s)) for each in on),
        ]
    )
    console.table(
        "On one GPU, estimated and not measured: data sheets' products (float16 to encode, float32 "
        f"to scan) at {100 * UTILISATION:.0f}% of the peak, no faster than this machine makes "
        "tokens of texts; stages that no GPU helps as here",
        ["stage", *(gpu.name for gpu in gpus)],
        rows,
        right=tuple(range(1, len(gpus) + 1)),
    )


def _measured(made: "Plan") -> str:
    speeds = made.speeds
    found = [
        f"{speeds.records_per_s:,.0f} records/s",
        f"{speeds.gflops:,.0f} GFLOP/s",
        f"disk {speeds.write_bps / 1e6:,.0f} MB/s written, {speeds.read_bps / 1e6:,.0f} read",
        "scans and an index of a few thousand made-up papers",
    ]
    if speeds.tokens_per_s:
        found.append(
            f"{speeds.tokens_per_s:,.0f} tokens/s on {speeds.device} in {speeds.computed_in}"
        )
    return ", ".join(found)


def _tokens(calls: dict[str, int], kind: str) -> str:
    told, said = calls[f"{kind}_tokens_in"], calls[f"{kind}_tokens_out"]
    return f"about {_number(told)} tokens in, {_number(said)} out"


def _number(n: float) -> str:
    for word, size in (("billion", 1e9), ("million", 1e6), ("thousand", 1e3)):
        if n >= size:
            return f"{n / size:,.{1 if n < 100 * size else 0}f} {word}"
    return f"{n:.0f}"


def _last_line(made: "Plan") -> str:
    fits = "fits here" if made.refusal() is None else "does not fit here"
    return (
        f"{fits}: {console.duration(made.seconds)}, {_size(made.memory)} of memory, "
        f"{_size(made.disk_at_most)} of disk"
    )


def _time(seconds: float) -> str:
    return console.duration(seconds) if seconds >= 1 else "<1 s"


def _size(n_bytes: float) -> str:
    if not n_bytes:
        return "-"
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:,.{1 if n_bytes < 100 * size else 0}f} {unit}"
    return f"{n_bytes / 1e3:,.1f} kB"
