"""The main job on the embedded example."""

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Device, Json, Threads

if TYPE_CHECKING:
    import polars as pl

    from hindsight_fast.encoders import Encoder

CUTOFF, UNTIL = "2023-06", "2025-12"

ILLUSTRATION = (
    "This is an illustration, not evidence: a few hundred chosen papers, 24 ideas written by hand "
    "for this purpose, and a small general encoder in place of SPECTER2."
)


def demo(
    out: Annotated[
        Path | None, typer.Option("--out", help="Keep store, pool and scores in this new folder.")
    ] = None,
    encoder: Annotated[str, typer.Option("--encoder", help="A model's name or folder.")] = "minilm",
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Score 24 example ideas against a few hundred real papers, from raw files to a table.

    Example: hindsight-fast demo
    """
    if out is not None:
        _run(out, encoder, device, threads, as_json)
        return
    with tempfile.TemporaryDirectory(prefix="hindsight-demo-") as folder:
        _run(Path(folder), encoder, device, threads, as_json)


def _run(folder: Path, name: str, device: str, threads: int | None, as_json: bool) -> None:
    from importlib.resources import as_file, files

    import polars as pl

    from hindsight_fast import Pool, Scorer, runs
    from hindsight_fast.cli.days import first_day, last_day
    from hindsight_fast.encoding import embed_store
    from hindsight_fast.papers import read_papers
    from hindsight_fast.pool import build_pool
    from hindsight_fast.store import build_store

    began = time.monotonic()
    model = _model(name, device, threads)
    with as_file(files("hindsight_fast") / "data" / "example") as example:
        table = read_papers([example / "papers.jsonl"])
        store = build_store(table, folder / "store")
        with console.progress("encoding", "papers") as advance:
            embed_store(store, model, progress=lambda p: advance(p.done, p.total))
        made = build_pool(
            store,
            folder / "pool",
            encoder=model.name,
            cutoff=first_day(CUTOFF, "cutoff"),
            until=last_day(UNTIL, "until"),
            threads=threads,
        )
        scorer = Scorer(Pool.open(folder / "pool"), model, threads=threads)
        summary = runs.score_file(scorer, example / "ideas.jsonl", folder / "scores.parquet")
        ideas = pl.read_ndjson(example / "ideas.jsonl")
    titles = store.papers(["id", "title"]).rename({"id": "nearest_paper_id", "title": "nearest"})
    scores = (
        pl.read_parquet(folder / "scores.parquet", glob=False)
        .with_columns(ideas["title"])
        .join(titles, on="nearest_paper_id", how="left", maintain_order="left")
    )
    if not as_json:
        _show(scores, summary)
        typer.echo(
            f"\n{store.n} papers, {made.n_papers} of them in the window {CUTOFF} to {UNTIL}; "
            f"{scores.height} ideas; {time.monotonic() - began:.1f} s in all."
        )
        typer.echo(summary["signature"])
    console.finish(as_json, {**summary, "illustration": ILLUSTRATION}, ILLUSTRATION)


def _model(name: str, device: str, threads: int | None) -> "Encoder":
    """The encoder, fetched if need be: a first look should be one command."""
    from hindsight_fast.encoders import load_encoder
    from hindsight_fast.model_folders import download_size, get_model, installed_models

    if name == "minilm" and name not in installed_models():
        console.note(f"fetching minilm ({download_size(name) / 1e6:.0f} MB, once)")
        get_model(name)
    return load_encoder(name, device=device, threads=threads)


def _show(scores: "pl.DataFrame", summary: dict[str, Any]) -> None:
    for system in summary["systems"]:
        rows = [
            [
                f"{one['score']:.3f}",
                one["title"],
                one["best_title"]
                or f"(none; at {one['nearest_similarity']:.2f}: {one['nearest']})",
                one["best_date"] or "",
                one["best_venue"] or "",
                _citations(one),
            ]
            for one in scores.sort("score", "margin", descending=True).iter_rows(named=True)
            if one["system"] == system["system"]
        ]
        title = (
            f"{system['system']}: mean score {system['mean_score']:.3f}, "
            f"match rate {console.share(system['n_matched'], system['n_scored'])}"
        )
        columns = ["score", "idea", "the paper that it anticipated", "when", "where", "cited"]
        console.table(title, columns, rows, right=(0, 5), long=(1, 2))


def _citations(one: dict[str, Any]) -> str:
    if not one["matched"]:
        return ""
    return "?" if one["best_citations"] is None else f"{one['best_citations']:,}"
