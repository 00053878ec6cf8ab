"""Verbs that score ideas: score, explain."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Device, GpuMem, Json, Overwrite, Precision, Threads
from hindsight_fast.cli.embedding import load

if TYPE_CHECKING:
    from hindsight_fast.pool import Pool
    from hindsight_fast.scoring import Scorer

PoolPath = Annotated[Path, typer.Option("--pool", help="A pool made by `pool`.")]
Search = Annotated[
    str,
    typer.Option("--search", help="auto, exact, or index (where the pool has one)."),
]
ScanDevice = Annotated[
    str,
    typer.Option(
        "--scan-device",
        help="Where all papers are looked at: cpu, cuda, cuda:1, or auto: the GPU that encodes. "
        "The scores are the same. Beside the encoder, it may take --gpu-mem once more.",
    ),
]
Theta = Annotated[
    float | None, typer.Option("--theta", help="Similarity of a match; default: the pool's.")
]
K = Annotated[int | None, typer.Option("--k", help="Neighbours looked at; default: the pool's.")]
StorePath = Annotated[
    Path | None, typer.Option("--store", help="The pool's store, if it is no longer in its place.")
]
Encoder = Annotated[
    str | None, typer.Option("--encoder", help="Folder of the model, if it is not in its place.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-precision",
        help="Accept papers in a precision other than float32, float16 and that of the ideas.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Open the pool's index though somebody else made it, from now on."
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        help="A folder of vectors: no text is encoded twice, in other runs neither. Several "
        "processes of one machine may share it; at 4 GiB, what was not used for longest goes.",
    ),
]


def score(
    ideas: Annotated[
        Path, typer.Argument(help="Ideas: .jsonl, .json, .csv, .parquet; - is stdin.")
    ],
    pool: PoolPath,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="The score table: .parquet, .csv or .jsonl; without an ending, a folder of "
            "parquet files of 65,536 ideas each.",
        ),
    ],
    matches: Annotated[
        Path | None, typer.Option("--matches", help="Also the K nearest papers of each idea.")
    ] = None,
    search: Search = "auto",
    scan_device: ScanDevice = "auto",
    recall: Annotated[
        float,
        typer.Option(
            "--recall",
            help="Share of the K nearest papers that an index is to find; of many ideas, some are "
            "tried first to see what that takes.",
            min=0.5,
            max=1,
        ),
    ] = 0.999,
    theta: Theta = None,
    k: K = None,
    limit: Annotated[int | None, typer.Option("--limit", help="The first N ideas.", min=1)] = None,
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
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first idea that can't be read.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Score ideas against a pool: the impact of the best later paper that each anticipated.

    Interrupted or killed, it goes on where it was when the same command is run again.

    Example: hindsight-fast score ideas.jsonl --pool pool --out scores.parquet
    """
    from hindsight_fast import runs

    runs.check_targets(ideas, out, matches)
    how = Opening(encoder, device, precision, gpu_mem, threads, allow or [], cache)
    scorer = open_scorer(
        pool, store, how, k=k, theta=theta, search=search, scan_device=scan_device, trust=trust
    )
    with (
        console.progress("scoring", "ideas") as advance,
        console.files_of([ideas]) as files,
        console.kept_when_stopped(
            f"the last {runs.BATCH:,} ideas at most"
            + ("" if cache is None else ", whose vectors are in the cache")
        ),
    ):
        summary = runs.score_file(
            scorer,
            next(iter(files)),
            out,
            matches=matches,
            limit=limit,
            strict=strict,
            overwrite=overwrite,
            recall=recall,
            progress=advance,
            tell=console.note,
        )
    if not as_json:
        print_systems(summary)
    console.finish(as_json, summary, _last_line(summary, out))


def explain(
    idea: Annotated[str, typer.Argument(help="An idea's text, or a file of ideas; - is stdin.")],
    pool: PoolPath,
    idea_id: Annotated[
        str | None, typer.Option("--id", help="Which idea of the file; default: its first.")
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
    as_json: Json = False,
) -> None:
    """Say in words what one idea matched, why it scored as it did, and what nearly matched.

    Example: hindsight-fast explain ideas.jsonl --id rag-3 --pool pool
    """
    from hindsight_fast.explanation import explain_idea
    from hindsight_fast.ideas import find_idea

    found = find_idea(idea if idea != "-" else sys.stdin.read(), idea_id)
    how = Opening(encoder, device, precision, gpu_mem, threads, allow or [], cache)
    scorer = open_scorer(pool, store, how, k=k, theta=theta, search="exact", trust=trust)
    explanation = explain_idea(scorer, found)
    if not as_json:
        # The table first: what it says in words then stands at the end, where one looks.
        console.table(
            f"The nearest papers to {found['idea_id'].item()}:",
            ["", "similarity", "impact", "citations", "venue", "date", "paper"],
            explanation.rows,
            right=(1, 2, 3),
            long=(6,),
        )
        typer.echo(explanation.text)
    console.finish(as_json, explanation.facts, explanation.facts["signature"])


class Opening(NamedTuple):
    """How ideas are to be encoded: the options that `score` and `explain` share."""

    encoder: str | None = None
    device: str = "auto"
    precision: str = "auto"
    gpu_mem: float | None = None
    threads: int | None = None
    allow: Sequence[str] = ()
    cache: Path | None = None


def open_scorer(
    pool: Path,
    store: Path | None,
    how: Opening,
    *,
    k: int | None,
    theta: float | None,
    search: str,
    scan_device: str = "auto",
    trust: bool = False,
) -> "Scorer":
    """Pool, cache and encoder, opened and checked against each other."""
    from hindsight_fast import Pool, Scorer
    from hindsight_fast.encoding import VectorCache

    opened = Pool.open(pool, store, trust=trust)
    if "index" in opened.set_aside and opened.index is None and search != "exact":
        _without_index(opened, search, how.threads)
    cache = None if how.cache is None else VectorCache(how.cache)
    name = how.encoder or opened.encoder
    loaded = load(name, how.device, how.threads, how.precision, how.gpu_mem)
    return Scorer(
        opened,
        loaded,
        k=k,
        theta=theta,
        search=search,
        threads=how.threads,
        cache=cache,
        allow=how.allow,
        scan_device=scan_device,
        scan_memory=None if how.gpu_mem is None else round(how.gpu_mem * 1e9),
    )


def _without_index(pool: "Pool", search: str, threads: int | None) -> None:
    """Say what becomes of an index that somebody else made; it is made anew if asked for."""
    others = f"{pool.path} was made by somebody else, so its index is not opened"
    if search == "index":
        console.note(f"{others}, but made anew, once (--trust opens it)")
        with console.progress("making an index", "papers") as advance:
            pool.make_index(threads, advance)
    else:
        console.note(
            f"{others}: every paper is looked at (--trust opens it, --search index makes it anew)"
        )


def print_systems(summary: dict[str, Any]) -> None:
    """The table of systems, with what is to be noted and the signature."""
    rows = [
        [
            one["system"] or "(none)",
            f"{one['n']:,}",
            f"{one['n_scored']:,}",
            "-" if one["mean_score"] is None else f"{one['mean_score']:.4f}",
            console.share(one["n_matched"], one["n_scored"]),
            "-" if one["mean_tokens"] is None else f"{one['mean_tokens']:.0f}",
            console.share(one["n_truncated"], one["n_scored"]),
        ]
        for one in summary["systems"]
    ]
    columns = ["system", "ideas", "scored", "mean score", "match rate", "tokens", "truncated"]
    console.table("", columns, rows, right=(1, 2, 3, 4, 5, 6), long=(0,))
    for line in summary["notes"]:
        typer.echo(line)
    typer.echo(summary["signature"])


def _last_line(summary: dict[str, Any], out: Path) -> str:
    counts = summary["counts"]
    if summary["already_done"]:
        return f"{out} holds these scores already: nothing was done"
    seconds = f"{summary['seconds']['total']:.1f} s"
    facts = [f"{summary['device']} in {summary['precision']['ideas']}"]
    facts.append(f"search {summary['search']}")
    if summary["resumed"]:
        facts.append(f"{summary['resumed']:,} were done before")
        seconds += " over all its runs"
    if summary["parts_lost"]:
        facts.append(f"{summary['parts_lost']:,} parts had not survived and were made again")
    return (
        f"scored {counts['scored']:,} of {counts['ideas']:,} ideas to {out} in {seconds} "
        f"({', '.join(facts)})"
    )
