"""Verbs that turn papers into a pool: build, embed, pool."""

import re
import time
from calendar import monthrange
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hindsight_fast.cli import console, published
from hindsight_fast.cli.console import Device, GpuMem, Json, Overwrite, Precision, Threads

if TYPE_CHECKING:
    from hindsight_fast.agreement import Agreement
    from hindsight_fast.encoders import Encoder
    from hindsight_fast.encoding import Forecast, Progress
    from hindsight_fast.papers.schema import PaperTable


def build(
    sources: Annotated[
        list[Path], typer.Argument(help="Files of papers, or folders of them; - is stdin.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The store to make.")],
    form: Annotated[str, typer.Option("--format", help="auto, or a reader's name.")] = "auto",
    mapping: Annotated[
        list[str] | None, typer.Option("--map", help="ours=theirs: a column under another name.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", help="Only the first N records of each file; files are often sorted.", min=1
        ),
    ] = None,
    max_bad: Annotated[
        float,
        typer.Option(
            "--max-bad",
            help="Share of a file's records that may be rejects (one always may, unless 0).",
            min=0,
            max=1,
        ),
    ] = 0.1,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="Encode at once with this model.")
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Read, clean and merge papers, and order them by date: a store.

    Example: hindsight-fast build papers.jsonl more.parquet --map title=name --out store
    """
    from hindsight_fast.papers import read_papers
    from hindsight_fast.store import build_store

    began = time.monotonic()
    model = None if encoder is None else _load(encoder, device, threads)
    with console.progress("reading", "records") as advance, console.files_of(sources) as files:
        table = read_papers(
            list(files),
            names=files,
            format=form,
            mapping=_mapping(mapping),
            limit=limit,
            max_bad=max_bad,
            progress=_summed(advance),
        )
    store = build_store(table, out, overwrite=overwrite)
    counts = table.counts
    encoded = None if model is None else _embed(out, model, None, overwrite)
    summary: dict[str, Any] = {
        "store": str(out),
        "content_id": store.content_id,
        "facts_id": store.facts_id,
    }
    summary |= {"counts": counts, "ignored_columns": list(table.ignored), "encoded": encoded}
    summary["seconds"] = round(time.monotonic() - began, 3)
    if not as_json:
        for line in _build_lines(table):
            typer.echo(line)
    console.finish(
        as_json,
        summary,
        f"built {out}: {counts['n_in']:,} records are {counts['n_papers']:,} papers, "
        f"{counts['n_merged']:,} merged into one of them and {counts['n_rejects']:,} rejects"
        + (f" (see {out / 'rejects.parquet'})" if counts["n_rejects"] else "")
        + f"; {summary['seconds']:.1f} s",
    )


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
    model = _load(encoder, device, threads, precision, gpu_mem)
    summary = _embed(store, model, since, overwrite, source)
    summary["seconds"] = round(time.monotonic() - began, 3)
    if not as_json:
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


def pool(
    store: Annotated[Path, typer.Argument(help="A store made by build.")],
    out: Annotated[Path, typer.Option("--out", help="The pool to make.")],
    cutoff: Annotated[
        str, typer.Option("--cutoff", help="T: ideas know what was public before its first day.")
    ],
    until: Annotated[str, typer.Option("--until", help="E: last day of the window, included.")],
    start: Annotated[
        str | None, typer.Option("--from", help="Start the window later than T (a clean window).")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="Needed where the store has several.")
    ] = None,
    k: Annotated[int, typer.Option("--k", help="Neighbours looked at per idea.", min=1)] = 20,
    theta: Annotated[
        float | None, typer.Option("--theta", help="Similarity of a match; default: the model's.")
    ] = None,
    index: Annotated[bool, typer.Option("--index", help="Build an HNSW index as well.")] = False,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="The same index bytes each time (one thread).")
    ] = False,
    require_first_public: Annotated[
        bool,
        typer.Option("--require-first-public", help="Leave out what only a venue or year dates."),
    ] = False,
    threads: Threads = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Take the papers of a window, with their impact: what ideas are scored against.

    Example: hindsight-fast pool store --out pool --cutoff 2023-06 --until 2025-12
    """
    from hindsight_fast.index import IndexConfig
    from hindsight_fast.pool import build_pool
    from hindsight_fast.store import Store

    began = time.monotonic()
    with console.progress("index", "papers") if index else nullcontext() as advance:
        made = build_pool(
            Store.open(store),
            out,
            encoder=encoder,
            cutoff=first_day(cutoff, "--cutoff"),
            until=last_day(until, "--until"),
            start=None if start is None else first_day(start, "--from"),
            k=k,
            theta=theta,
            index=IndexConfig(deterministic=deterministic) if index else None,
            require_first_public=require_first_public,
            overwrite=overwrite,
            threads=console.threads_to_use(threads),
            progress=advance,
        )
    seconds = round(time.monotonic() - began, 3)
    coverage = made.coverage
    if not as_json:
        for line in coverage_lines(coverage):
            typer.echo(line)
    summary = {
        "pool": str(out),
        "signature": made.signature(made.k, made.theta, "exact"),
        "n_papers": made.n_papers,
        "coverage": coverage,
        "seconds": seconds,
    }
    console.finish(
        as_json, summary, f"made {out}: {made.n_papers:,} papers in the window; {seconds:.1f} s"
    )


_OUTSIDE = {"straddling": "dated too coarsely (a year that begins before the window)"}


def coverage_lines(covered: dict[str, Any]) -> list[str]:
    """What a score on a pool rests on, for a person."""
    n, share = covered["papers"], console.share
    kept_out = {name: count for name, count in covered["kept_out"].items() if count}
    cited, top = covered["citations"], covered["top_paper"]
    lines = [
        f"{covered['in_window']:,} papers in the window, {n:,} take part; kept out: "
        + (", ".join(f"{count:,} {name}" for name, count in kept_out.items()) or "none"),
        "not in the window: "
        + ", ".join(f"{n:,} {_OUTSIDE.get(name, name)}" for name, n in covered["outside"].items()),
        f"known citations {share(covered['citations_known'], n)}, known venue "
        f"{share(covered['venue_known'], n)}, both {share(covered['both_known'], n)}; "
        f"main track of a top venue {share(covered['top_venue'], n)}",
    ]
    lines += [
        f"dated by {kind}: {share(one['papers'], n)} of papers, "
        f"{share(one['share_of_impact'], 1)} of impact"
        for kind, one in covered["date_kind"].items()
    ]
    if top is not None:
        lines.append(
            f"citations: median {cited['p50']:,}, 99th percentile {cited['p99']:,}; the maximum, "
            f"{cited['max']:,}, is set by {top['title']!r} ({top['id']}), which alone spans "
            f"{share(top['share_of_range'], 1)} of the range"
        )
    if len(covered["sources"]) > 1:
        sources = ", ".join(f"{name} ({count:,})" for name, count in covered["sources"].items())
        lines.append(f"warning: counts of several sources are mixed: {sources}")
    if n and covered["both_known"] < n / 2:
        lines.append(
            "warning: fewer than half of the papers have both a known count and a known venue; "
            "on this pool the match rate says more than the score"
        )
    return lines


def first_day(text: str, option: str) -> date:
    """`2023`, `2023-06` or `2023-06-01` as its first day."""
    return _interval(text, option)[0]


def last_day(text: str, option: str) -> date:
    """`2023`, `2023-06` or `2023-06-01` as its last day."""
    return _interval(text, option)[1]


def _interval(text: str, option: str) -> tuple[date, date]:
    from hindsight_fast.errors import UsageError

    if match := re.fullmatch(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?", text):
        year, month, day = (None if part is None else int(part) for part in match.groups())
        with suppress(ValueError):
            first = date(year or 0, month or 1, day or 1)
            if day is not None:
                return first, first
            end_month = month or 12
            return first, date(year or 0, end_month, monthrange(year or 0, end_month)[1])
    raise UsageError(f"{option} {text}: 2023, 2023-06 or 2023-06-01 was expected")


def _summed(advance: console.Advance) -> Callable[[int], None]:
    done = 0

    def add(more: int) -> None:
        nonlocal done
        done += more
        advance(done, 0)

    return add


def _mapping(pairs: list[str] | None) -> dict[str, str]:
    from hindsight_fast.errors import UsageError

    split = [pair.partition("=") for pair in pairs or []]
    for ours, _, theirs in split:
        if "=" in theirs and "," in theirs:
            raise UsageError(f"--map {ours}={theirs}: give --map once for each column")
        if not ours or not theirs:
            raise UsageError(f"--map {ours or theirs}: expected ours=theirs, as in title=name")
    return {ours: theirs for ours, _, theirs in split}


def _build_lines(table: "PaperTable") -> list[str]:
    """What a person should know of a store before using it."""
    counts, lines = table.counts, list[str]()
    if table.ignored:
        lines.append(f"columns that mean nothing here: {', '.join(table.ignored)} (see --map)")
    for key, meaning in (
        ("n_title_only", "have no abstract, and stay out of pools"),
        ("n_undated", "have no date, and stay out of pools"),
        ("n_retracted", "are retracted, and stay out of pools"),
        ("n_withdrawn", "are withdrawn, and stay out of pools"),
        ("ids_suffixed", "shared an id with another paper, and have a suffix"),
    ):
        if counts.get(key):
            lines.append(f"{counts[key]:,} papers {meaning}")
    malformed = {k.removeprefix("malformed_"): v for k, v in counts.items() if "malformed_" in k}
    told = [f"{value:,} of {name}" for name, value in malformed.items() if value]
    if told:
        lines.append(f"values not understood, taken as unknown: {', '.join(told)}")
    return lines


def _load(
    name: str,
    device: str,
    threads: int | None,
    precision: str = "auto",
    gpu_mem: float | None = None,
) -> "Encoder":
    from hindsight_fast.encoders import load_encoder

    encoder = load_encoder(
        name,
        device=device,
        precision=precision,
        threads=console.threads_to_use(threads),
        gpu_mem=None if gpu_mem is None else int(gpu_mem * 1e9),
    )
    console.note(encoder.in_words())
    return encoder


def _embed(
    path: Path,
    encoder: "Encoder",
    since: str | None,
    overwrite: bool,
    source: published.Source | None = None,
) -> dict[str, Any]:
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
            foretell=_foretell,
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


def _foretell(cost: "Forecast") -> None:
    done = f"; {cost.n_done:,} are done already" if cost.n_done else ""
    console.note(
        f"about {console.duration(cost.seconds)}: {cost.n_papers:,} texts of "
        f"{cost.tokens_per_text:.0f} tokens at {cost.tokens_per_second:,.0f} tokens/s{done}"
    )


def _tell_cost(precision: str, cost: "Agreement") -> None:
    console.note(
        f"what {precision} costs, on {cost.n} papers encoded in float32 too: {cost.in_words()}"
    )
