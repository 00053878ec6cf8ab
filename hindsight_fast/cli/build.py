"""From files of papers to a store: build."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hindsight_fast.cli import console
from hindsight_fast.cli.console import Conditions, Device, Json, Overwrite, Threads, Topics
from hindsight_fast.cli.embedding import encode, load

if TYPE_CHECKING:
    from hindsight_fast.papers import Gathered

# Of jemalloc, which polars brings: to give memory back within a second, as it does by itself, and
# to take it anew is a sixth of the work.
_ALLOCATOR = "dirty_decay_ms:10000,muzzy_decay_ms:0"


def build(
    sources: Annotated[
        list[Path] | None, typer.Argument(help="Files of papers, or folders of them; - is stdin.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option("--out", help="The store to make.")],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="auto, s2_bulk, s2_graph, openalex, arxiv_snapshot, arxiv_atom, "
            "acl_anthology, paperlists, bibtex or own.",
        ),
    ] = "auto",
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
    where: Conditions = None,
    topic: Topics = None,
    topics: Annotated[
        Path | None,
        typer.Option(
            "--topics",
            help="File of named topics (TOML) in place of the ten of AI that ship; a paper keeps "
            "the names of those that it has.",
        ),
    ] = None,
    dates: Annotated[
        list[Path] | None,
        typer.Option(
            "--dates",
            help="arXiv metadata (or other papers): tells when papers were first public, by id "
            "and title; adds none.",
        ),
    ] = None,
    venues: Annotated[
        Path | None, typer.Option("--venues", help="More venues and aliases (see venues check).")
    ] = None,
    reuse: Annotated[
        Path | None,
        typer.Option(
            "--reuse", help="An earlier store: its papers too, with their ids and vectors."
        ),
    ] = None,
    updates: Annotated[
        list[Path] | None,
        typer.Option("--updates", help="Update files of a Semantic Scholar release diff."),
    ] = None,
    deletes: Annotated[
        list[Path] | None,
        typer.Option("--deletes", help="Delete files of a Semantic Scholar release diff."),
    ] = None,
    allow_drop: Annotated[
        bool,
        typer.Option(
            "--allow-drop", help="Even if far fewer papers have abstracts, dates ... than before."
        ),
    ] = False,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="Encode at once with this model.")
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Read, clean and merge papers, and order them by date: a store.

    A source is a file or a folder of shards: Semantic Scholar's bulk releases or API answers,
    OpenAlex works, arXiv's metadata or API answers, ACL Anthology XML, paperlists, BibTeX, or a
    table with our own columns.

    Example: hindsight-fast build proceedings.jsonl --dates arxiv-metadata.json --out store
    """
    os.environ.setdefault("_RJEM_MALLOC_CONF", _ALLOCATOR)  # before polars is there
    from hindsight_fast.errors import UsageError
    from hindsight_fast.papers import Options, gather
    from hindsight_fast.papers import topics as known_topics
    from hindsight_fast.papers import venues as known_venues
    from hindsight_fast.papers.choosing import Where, check_topics
    from hindsight_fast.papers.options import Old
    from hindsight_fast.storage import working_folder
    from hindsight_fast.store import Store, build_store, is_store_there, topics_of

    began = time.monotonic()
    model = None if encoder is None else load(encoder, device, threads)
    tagged = known_topics.load(topics)
    check_topics(topic or (), [one.name for one in tagged])
    table = known_venues.load(venues)
    old = None if reuse is None else Store.open(reuse)
    if old is not None and (lost := topics_of(old) - {one.name for one in tagged}):
        raise UsageError(
            f"papers of {reuse} have topics that this build does not know: "
            f"{', '.join(sorted(lost))}; give the same --topics"
        )
    place = Path(os.path.realpath(out))  # a name, even where `out` is "." or a link
    if is_store_there(place, overwrite=overwrite) and not overwrite:
        console.note(
            f"{out} is there already: it stays if the papers are the same in the end; replacing it "
            "takes --overwrite"
        )
    with (
        console.progress("reading", "records") as advance,
        console.files_of(sources or []) as files,
        working_folder(place.with_name(f".{place.name}.gathering")) as work,
    ):
        options = Options(
            names=files,
            format=form,
            mapping=_mapping(mapping),
            limit=limit,
            max_bad=max_bad,
            venues=table,
            topics=tagged,
            where=Where(tuple(where or ()), tuple(topic or ())),
            dates=tuple(dates or ()),
            reuse=None if old is None else Old(old.pieces, old.merges(), old.conflicts()),
            updates=tuple(updates or ()),
            deletes=tuple(deletes or ()),
            progress=_summed(advance),
        )
        papers = gather(list(files), work, options)
        store = build_store(
            papers, place, overwrite=overwrite, reuse=old, allow_drop=allow_drop, table=table
        )
    counts = papers.counts
    encoded = None if model is None else encode(place, model, None, overwrite)
    summary: dict[str, Any] = {
        "store": str(out),
        "content_id": store.content_id,
        "facts_id": store.facts_id,
    }
    summary |= {"counts": counts, "ignored_columns": list(papers.ignored), "encoded": encoded}
    summary["seconds"] = round(time.monotonic() - began, 3)
    if not as_json:
        for line in _build_lines(papers):
            typer.echo(line)
    left_out = counts.get("n_left_out", 0)
    console.finish(
        as_json,
        summary,
        f"built {out}: {counts['n_in']:,} records are {counts['n_papers']:,} papers, "
        f"{counts['n_merged']:,} merged into one of them"
        + (f", {left_out:,} left out" if left_out else "")
        + f" and {counts['n_rejects']:,} rejects"
        + (f" (see {out / 'rejects.parquet'})" if counts["n_rejects"] else "")
        + f"; {summary['seconds']:.1f} s",
    )


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


def _build_lines(table: "Gathered") -> list[str]:
    """What a person should know of a store before using it."""
    counts, lines = table.counts, list[str]()
    if table.ignored:
        names = console.printable(", ".join(table.ignored))
        lines.append(f"columns that mean nothing here: {names} (see --map)")
    for key, meaning in (
        ("n_title_only", "have no abstract, and stay out of pools"),
        ("n_undated", "have no date, and stay out of pools"),
        ("n_stub", "have a stub for an abstract, and stay out of pools"),
        ("n_retracted", "are retracted, and stay out of pools"),
        ("n_withdrawn", "are withdrawn, and stay out of pools"),
        ("ids_suffixed", "shared an id with another paper: both have a suffix, as in ID~1a2b3c"),
        ("s2_abstracts_unknown", "have an abstract in the shards, but no record of their own"),
    ):
        if counts.get(key):
            lines.append(f"papers that {meaning}: {counts[key]:,}")
    if counts.get("n_dates"):
        lines.append(
            f"records of --dates files, which tell dates and are no papers: {counts['n_dates']:,}"
        )
    if "n_dated_earlier" in counts:
        lines.append(f"papers that they date earlier, or at all: {counts['n_dated_earlier']:,}")
    if counts.get("unused_embeddings"):
        lines.append("shards of embeddings are for `embed --from-vectors`")
    if not counts["n_papers"]:
        lines.append("warning: the store holds no paper")
    malformed = {k.removeprefix("malformed_"): v for k, v in counts.items() if "malformed_" in k}
    told = [f"{value:,} of {name}" for name, value in malformed.items() if value]
    if told:
        lines.append(f"values not understood, taken as unknown: {', '.join(told)}")
    return lines
