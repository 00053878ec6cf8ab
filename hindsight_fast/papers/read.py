"""Source files to one table of papers: read, clean, check, merge, count."""

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

import polars as pl

from hindsight_fast.errors import DataError, UsageError
from hindsight_fast.papers import readers, venues
from hindsight_fast.papers.merging import Merged, merge
from hindsight_fast.papers.options import COLUMNS, MAX_BAD, Options
from hindsight_fast.papers.readers import streams
from hindsight_fast.papers.records import clean
from hindsight_fast.papers.schema import PAPER_SCHEMA, REJECT_SCHEMA, PaperTable
from hindsight_fast.papers.sources import find_files

_SHOWN = 5


class _File(NamedTuple):
    papers: list[pl.DataFrame]
    rejects: list[pl.DataFrame]
    malformed: Counter[str]
    columns: frozenset[str]


def read_papers(
    sources: Sequence[Path],
    *,
    names: Mapping[Path, str] | None = None,
    format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    limit: int | None = None,
    max_bad: float = MAX_BAD,
    today: date | None = None,
    progress: Callable[[int], None] | None = None,
) -> PaperTable:
    """Read papers from files, clean them and merge duplicates.

    Parameters
    ----------
    sources : sequence of pathlib.Path
        Files, or folders of them; the order does not matter. One named twice is read once. In a
        folder, what is hidden or belongs to a store, a pool or a run is left out.
    names : mapping of pathlib.Path to str, optional
        What rejects and errors call a file, where its path says nothing (``-`` for standard
        input that was spooled); by default the path as given.
    format : str, default "auto"
        Name of a reader; by default each file's content decides.
    mapping : mapping of str to str, optional
        Our column name to the files'.
    limit : int, optional
        Read only the first so many records of each file, for a first try.
    max_bad : float, default 0.1
        Share of rejects above which a file is refused, from 0 to 1. One reject alone never is
        reason enough unless this is 0; a file of which no record is a paper always is.
    today : datetime.date, optional
        Dates more than 400 days after it are not believed; the current day (UTC) by default.
    progress : callable, optional
        Called with the number of records of each batch.

    Returns
    -------
    PaperTable
        Papers ordered by id. Counts, besides those that must add up: ``n_title_only``,
        ``n_retracted``, ``n_withdrawn``, ``n_undated``, ``n_citations``, ``n_venues`` (papers
        with known citations, a venue of the table), ``n_venues_unlisted`` (a venue that the table
        lacks), ``ids_suffixed``, ``ids_made``, ``too_many_alike``
        (see `merging.Merged`) and ``malformed_<column>``.

    Raises
    ------
    UsageError
        An option that makes no sense: unknown format or column in the mapping, a limit or share
        out of range, no source.
    DataError
        A file that can't be read or is refused; the message names it and says why.
    """
    options = Options(
        names=names or {},
        format=format,
        mapping=mapping or {},
        limit=limit,
        max_bad=max_bad,
        today=today or datetime.now(UTC).date(),
        progress=progress,
    )
    return read_table(sources, options)


def read_table(sources: Sequence[Path], options: Options) -> PaperTable:
    """Read papers as `read_papers` does, with any options."""
    if not sources:
        raise UsageError("no source: name at least one file of papers")
    mapping = options.mapping
    files = [
        _read_file(path, options.names.get(path, str(path)), options)
        for path in find_files(sources)
    ]
    columns = frozenset[str]().union(*(file.columns for file in files))
    _check_found(mapping, columns)
    papers = _together([frame for file in files for frame in file.papers], PAPER_SCHEMA)
    rejects = _together([frame for file in files for frame in file.rejects], REJECT_SCHEMA)
    malformed = sum((file.malformed for file in files), Counter[str]())
    n_in = papers.height + rejects.height
    merged = merge(papers, options.venues)
    return PaperTable(
        papers=merged.papers,
        rejects=rejects.sort("file", "line"),
        counts=_counts(n_in, rejects.height, merged, malformed),
        ignored=tuple(sorted(columns - {*COLUMNS, *mapping.values()})),
        merges=merged.merges,
        conflicts=merged.conflicts,
    )


def _check_found(mapping: Mapping[str, str], columns: frozenset[str]) -> None:
    for ours, theirs in mapping.items():
        if theirs not in columns:
            close = difflib.get_close_matches(theirs, columns, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"no source has the column {theirs!r} mapped to {ours!r}{hint}")


def _read_file(path: Path, name: str, options: Options) -> _File:
    file = _File([], [], Counter(), frozenset())
    try:
        head = streams.head(path)
        reader = readers.find(path, head, options.format)
        for batch in reader.read(path, head, options.mapping, options.limit):
            cleaned = clean(batch.records, options.rules)
            source = cleaned.papers["source"].fill_null(path.name)
            file.papers.append(cleaned.papers.with_columns(source))
            for rejects in (batch.rejects, cleaned.rejects):
                file.rejects.append(rejects.select(pl.lit(name).alias("file"), pl.all()))
            file.malformed.update(cleaned.malformed)
            file = file._replace(columns=file.columns | batch.columns)
            if options.progress is not None:
                options.progress(batch.records.height + batch.rejects.height)
    except DataError as error:
        raise DataError(str(error).replace(str(path), name)) from error
    _judge(name, file, options.mapping, options.max_bad)
    return file


def _judge(path: str, file: _File, mapping: Mapping[str, str], max_bad: float) -> None:
    """Refuse a file that holds no papers, or too many rejects."""
    n_papers = sum(frame.height for frame in file.papers)
    rejects = _together(file.rejects, REJECT_SCHEMA).sort("line")
    n = n_papers + rejects.height
    if n == 0:
        raise DataError(f"{path} holds no record")
    if file.columns and not n_papers and not file.columns & {"title", mapping.get("title", "")}:
        wanted = mapping.get("title", "title")
        raise DataError(
            f"{path} has no column {wanted!r}: it has {', '.join(sorted(file.columns)[:20])}; "
            f"expected are {', '.join(COLUMNS)}, or other names with --map title=THEIRS"
        )
    allowed = max(max_bad * n, 1 if max_bad else 0)
    if n_papers and rejects.height <= allowed:
        return
    first = "\n".join(
        f"  line {line}: {reason}" + (f": {record[:80]}" if record else "")
        for line, reason, record in rejects.head(_SHOWN).select("line", "reason", "record").rows()
    )
    raise DataError(
        f"{path}: {rejects.height} of {n} records can't be used (allowed is a share of "
        f"{max_bad:g}, see --max-bad):\n{first}"
    )


def _together(frames: list[pl.DataFrame], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(schema=schema), *frames])


def _counts(n_in: int, n_rejects: int, merged: Merged, malformed: Counter[str]) -> dict[str, int]:
    papers = merged.papers
    status = papers["status"]
    known = venues.is_known(papers["venue"], venues.table())
    return {
        "n_in": n_in,
        "n_papers": papers.height,
        "n_merged": merged.n_merged,
        "n_rejects": n_rejects,
        "n_title_only": int((status == "title_only").sum()),
        "n_retracted": int((status == "retracted").sum()),
        "n_withdrawn": int((status == "withdrawn").sum()),
        "n_undated": papers["date"].null_count(),
        "n_citations": papers.height - papers["citations"].null_count(),
        "n_venues": int(known.sum()),
        "n_venues_unlisted": int((venues.is_named(papers["venue"], venues.table()) & ~known).sum()),
        "ids_suffixed": merged.n_suffixed,
        "ids_made": merged.n_made,
        "too_many_alike": merged.n_too_many,
        **{f"malformed_{name}": count for name, count in sorted(malformed.items()) if count},
    }
