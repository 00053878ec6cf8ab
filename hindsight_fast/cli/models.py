"""Verbs about encoders: models list, get, verify."""

from typing import Annotated

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Json

app = typer.Typer(no_args_is_help=True, help="Encoders: list, get, verify.")


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

    Example: hindsight-fast models get minilm
    """
    from hindsight_fast.model_folders import download_size, get_model, installed_models

    if name not in installed_models() and (size := download_size(name)):
        console.note(f"fetching {name} ({size / 1e6:.0f} MB, once)")
    folder, fetched = get_model(name)
    console.finish(
        as_json,
        {"model": name, "folder": str(folder), "fetched": fetched},
        f"{name} is in {folder}" + ("" if fetched else " already"),
    )


@app.command()
def verify(
    name: Annotated[str, typer.Argument(help="A name, or the folder of a model.")],
    as_json: Json = False,
) -> None:
    """Check every byte of an encoder and its golden vectors.

    Example: hindsight-fast models verify minilm
    """
    from hindsight_fast.model_folders import verify_model

    facts = verify_model(name)
    worst = facts["worst_cosine"]
    proof = "it has no golden vectors" if worst is None else f"golden vectors agree to {worst:.7f}"
    console.finish(as_json, facts, f"{name} is whole; {proof}")
