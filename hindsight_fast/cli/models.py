"""Verbs about encoders: models list, get, export, verify."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Json, Overwrite

if TYPE_CHECKING:
    from hindsight_fast.against import Against

app = typer.Typer(no_args_is_help=True, help="Encoders: list, get, export, verify.")


@app.command("list")
def list_models(as_json: Json = False) -> None:
    """List the encoders that are known, and those that are here.

    Example: hindsight-fast models list
    """
    from hindsight_fast.model_folders import known_models, models_home

    rows = known_models()
    if not as_json:
        console.table(
            "",
            ["model", "dimensions", "theta", "here", "what it is"],
            [
                [
                    row["name"],
                    str(row["dim"] or "?"),
                    "?" if row["theta"] is None else f"{row['theta']:g}",
                    "yes" if row["installed"] else "no",
                    row["about"],
                ]
                for row in rows
            ],
            right=(1, 2),
        )
    summary = {"home": str(models_home()), "models": rows}
    console.finish(as_json, summary, f"models are in {models_home()}")


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="A name that `models list` shows.")],
    as_json: Json = False,
) -> None:
    """Fetch an encoder, prove it against golden vectors, and put it in its place.

    One that is there and whole is left as it is. Files of the Hugging Face hub come through its
    own cache (HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE are honoured), and a broken
    download is continued by the same command.

    Example: hindsight-fast models get minilm
    """
    from hindsight_fast.model_folders import get_model

    with console.progress(f"fetching {name}", "MB") as advance:
        folder, fetched = get_model(name, _in_megabytes(name, advance))
    console.finish(
        as_json,
        {"model": name, "folder": str(folder), "fetched": fetched},
        f"{name} is in {folder}" + ("" if fetched else " already"),
    )


def _in_megabytes(name: str, advance: console.Advance) -> Callable[[int, int], None]:
    """Say once what is fetched, then show it in MB."""
    said = False

    def show(done: int, total: int) -> None:
        nonlocal said
        if not said:
            console.note(f"fetching {name} ({total / 1e6:.0f} MB, once)")
            said = True
        advance(done // 1_000_000, total // 1_000_000)

    return show


@app.command()
def export(
    name: Annotated[
        str,
        typer.Argument(
            help="specter2, specter2-base, specter2-adhoc, or a new name for any BERT encoder."
        ),
    ],
    base: Annotated[
        Path, typer.Option("--base", help="Folder of the checkpoint: config, weights, tokenizer.")
    ],
    adapter: Annotated[
        Path | None, typer.Option("--adapter", help="Folder of the adapter: config and weights.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where to put the model; default: where `models get` would."),
    ] = None,
    theta: Annotated[
        float | None, typer.Option("--theta", help="Similarity of a match, for a new name.")
    ] = None,
    pooling: Annotated[
        Literal["cls", "mean"] | None,
        typer.Option("--pooling", help="Of tokens to a vector, where the folder doesn't tell."),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=3, help="Longest input; default: what the folder tells."),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option("--separator", help="Between title and abstract; default: a space."),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Make a model folder from published files on this machine; no network, no torch.

    Example: hindsight-fast models export specter2 --base BASE --adapter ADAPTER --out model
    """
    from hindsight_fast.model_export import TextRule, export_model
    from hindsight_fast.model_folders import model_facts

    rule = TextRule(theta, pooling, separator, max_tokens)
    placed = export_model(name, base, out, adapter=adapter, rule=rule, overwrite=overwrite)
    summary = {"model": name, "folder": str(placed.folder), "made": placed.made}
    console.finish(
        as_json,
        summary | model_facts(placed.folder),
        f"{name} is in {placed.folder}" + ("" if placed.made else " already"),
    )


@app.command()
def verify(
    name: Annotated[str, typer.Argument(help="A name, or the folder of a model.")],
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            help="Also compare with published vectors: a table of id, title, abstract, vector.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, help="Compare only the first so many records."),
    ] = None,
    device: console.Device = "auto",
    threads: console.Threads = None,
    as_json: Json = False,
) -> None:
    """Check every byte of an encoder and its golden vectors.

    Examples: hindsight-fast models verify minilm

    hindsight-fast models verify specter2 --against vectors.parquet
    """
    from hindsight_fast.model_folders import verify_model

    facts = verify_model(name)
    worst = facts["worst_cosine"]
    proof = "it has no golden vectors" if worst is None else f"golden vectors agree to {worst:.7f}"
    whole = f"{name} is whole; {proof}"
    if against is None:
        console.finish(as_json, facts, whole)
        return
    from hindsight_fast.against import compare_with_published
    from hindsight_fast.agreement import SAME_MODEL
    from hindsight_fast.encoders import load_encoder
    from hindsight_fast.errors import EncoderError

    encoder = load_encoder(name, device=device, threads=console.threads_to_use(threads))
    console.note(f"{whole}; encoding on {encoder.device}")
    found = compare_with_published(encoder, against, limit)
    console.finish(as_json, facts | {"against": found.facts()}, "\n".join(_against_lines(found)))
    if not found.agreement.same_model:
        raise EncoderError(
            f"the vectors of {against} were not made by {name} of these texts with this rule: "
            f"{found.agreement.in_words()}; a mean of at least {SAME_MODEL} is expected"
        )


def _against_lines(found: "Against") -> list[str]:
    of = found.agreement
    skipped = f", {found.n_skipped:,} without title or vector skipped" if found.n_skipped else ""
    worst = ", ".join(f"{paper} ({cosine:.6f})" for paper, cosine in found.worst)
    return [
        f"{of.n:,} papers compared{skipped}",
        f"cosine: mean {of.cosine_mean:.6f}, min {of.cosine_min:.6f}; percentiles 1: "
        f"{of.cosine_p1:.6f}, 5: {of.cosine_p5:.6f}, 50: {of.cosine_p50:.6f}",
        f"norm of the published vectors: {found.norm_min:.3f} to {found.norm_max:.3f}, mean "
        f"{found.norm_mean:.3f}",
        f"furthest apart: {worst}",
    ]
