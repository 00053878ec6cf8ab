"""The verb `embed`: papers to vectors, and what is told meanwhile."""

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hindsight_fast.cli import console, published
from hindsight_fast.cli.console import Device, GpuMem, Json, Overwrite, Precision, Threads
from hindsight_fast.cli.days import first_day

if TYPE_CHECKING:
    from hindsight_fast.agreement import Agreement
    from hindsight_fast.encoders import Encoder
    from hindsight_fast.encoding import Forecast, Progress


def embed(
    store: Annotated[Path, typer.Argument(help="A store made by build.")],
    more_files: published.MoreFiles = None,
    encoder: Annotated[
        str, typer.Option("--encoder", help="A model's name, or the folder that holds it.")
    ] = "specter2",
    since: Annotated[
        str | None, typer.Option("--since", help="Leave papers before this date unencoded.")
    ] = None,
    from_vectors: published.FromVectors = None,
    max_bad: published.MaxBad = 0.01,
    force: published.Force = False,
    device: Device = "auto",
    precision: Precision = "auto",
    gpu_mem: GpuMem = None,
    threads: Threads = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Encode the papers of a store: one unit vector each.

    Interrupted or killed, it goes on where it was when the same command is run again.

    Example: hindsight-fast embed store --encoder minilm --since 2023-06
    """
    from hindsight_fast.store import Store

    began = time.monotonic()
    source = published.source_of(from_vectors, more_files, max_bad, force)
    Store.open(store)  # a wrong folder should not wait for a model
    model = load(encoder, device, threads, precision, gpu_mem)
    summary = encode(store, model, since, overwrite, source)
    summary["seconds"] = round(time.monotonic() - began, 3)
    if not as_json and summary["worked"]:
        for line in published.lines(summary):
            typer.echo(line)
    console.finish(as_json, summary, f"{embed_line(summary)}; {summary['seconds']:.1f} s")


def embed_line(summary: dict[str, Any]) -> str:
    """What `embed` did, for a person."""
    where = f"{summary['store']} with {summary['encoder']}"
    n, n_vectors = summary["n_papers"], summary["n_encoded"] + summary["n_taken"]
    if not summary["worked"]:
        return f"nothing to do: {n_vectors:,} of {n:,} papers of {where} have their vectors"
    facts = [f"{summary['n_taken']:,} taken over"] if summary["n_taken"] else []
    if summary["resumed"]:
        facts.append(f"{summary['resumed']:,} were done before")
    if summary["n_lost"]:
        facts.append(f"{summary['n_lost']:,} pieces had not survived and were made again")
    if summary["n_retried"]:
        facts.append(f"{summary['n_retried']:,} encoded again in float32")
    if summary["truncated_share"]:
        facts.append(f"{100 * summary['truncated_share']:.1f}% of the texts were cut")
    if summary["tokens_per_second"]:
        facts.append(f"{summary['tokens_per_second']:,.0f} tokens/s")
    told = f" ({', '.join(facts)})" if facts else ""
    used = f"{summary['device']} in {summary['precision']}"
    return f"encoded {summary['n_encoded']:,} of {n:,} papers of {where} on {used}{told}"


def load(
    name: str,
    device: str,
    threads: int | None,
    precision: str = "auto",
    gpu_mem: float | None = None,
) -> "Encoder":
    """Open an encoder, and say what it runs on."""
    from hindsight_fast.encoders import load_encoder

    encoder = load_encoder(
        name,
        device=device,
        precision=precision,
        threads=console.threads_to_use(threads),
        gpu_mem=None if gpu_mem is None else round(gpu_mem * 1e9),
    )
    console.note(encoder.in_words())
    return encoder


def encode(
    path: Path,
    encoder: "Encoder",
    since: str | None,
    overwrite: bool,
    source: published.Source | None = None,
) -> dict[str, Any]:
    """Encode a store with a bar; returns what there is to tell of it."""
    from hindsight_fast.encoding import embed_store
    from hindsight_fast.store import Store

    store = Store.open(path)
    with console.progress("encoding", "papers") as advance, console.kept_when_stopped():
        watch = _Watch(advance)
        vectors = embed_store(
            store,
            encoder,
            since=None if since is None else first_day(since, "--since"),
            taken=[] if source is None else source.open(store, encoder),
            check=None if source is None else partial(source.check, store, encoder),
            overwrite=overwrite,
            progress=watch,
            foretell=partial(_foretell, published=source is not None),
            tell_cost=lambda cost: _tell_cost(encoder.precision, cost),
        )
    body = vectors.manifest.body
    return {
        "store": str(path),
        "encoder": encoder.name,
        "device": encoder.device,
        "precision": vectors.precision,
        "precision_cost": body.get("precision_cost"),
        "since": vectors.since and vectors.since.isoformat(),
        "n_papers": store.n,
        **{
            name: body.get(name, 0)
            for name in ("n_encoded", "n_taken", "n_texts", "n_tokens", "n_truncated", "n_retried")
        },
        "taken_counts": body.get("taken_counts", {}),
        "check": body.get("check"),
        "truncated_share": round(body["n_truncated"] / max(body["n_texts"], 1), 6),
        **watch.facts(),
    }


class _Watch:
    """Shows how far embedding is, and remembers it for the summary."""

    def __init__(self, advance: console.Advance) -> None:
        self._advance = advance
        self._last: Progress | None = None
        self._began = self._ended = 0.0

    def __call__(self, now: "Progress") -> None:
        self._ended = time.monotonic()
        if not now.tokens:
            self._began = self._ended
        self._last = now
        self._advance(now.done, now.total, tokens=now.tokens, label=now.label)

    def facts(self) -> dict[str, Any]:
        """Whether there was work, how much was done before and is lost, and how fast it was."""
        last, seconds = self._last, self._ended - self._began
        return {
            "worked": last is not None,
            "resumed": 0 if last is None else last.restored,
            "n_lost": 0 if last is None else last.lost,
            "tokens_per_second": round(last.tokens / seconds, 1) if last and seconds else None,
        }


def _foretell(cost: "Forecast", *, published: bool) -> None:
    if published and not cost.n_done:
        console.note(
            "warning: no published vector is of a paper that is asked for, so all are encoded; "
            "if that is a surprise, stop here, and look at the ids in the file and in the store"
        )
    done = f"; {cost.n_done:,} are done already" if cost.n_done else ""
    console.note(
        f"about {console.duration(cost.seconds)}: {cost.n_papers:,} texts of "
        f"{cost.tokens_per_text:.0f} tokens at {cost.tokens_per_second:,.0f} tokens/s{done}"
    )


def _tell_cost(precision: str, cost: "Agreement") -> None:
    console.note(
        f"what {precision} costs, on {cost.n} papers encoded in float32 too: {cost.in_words()}"
    )
