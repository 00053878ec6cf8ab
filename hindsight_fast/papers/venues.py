"""Which venue a name means: an exact match, after normalising, with a table of names and aliases.

Normalising folds case and Unicode forms and drops what does not tell venues apart: years,
ordinals, volume numbers, "Proceedings of the", sponsors, kinds of presentation. What does tell
them apart stays, so a workshop, a Findings volume, a companion, a demo or tutorial track and a
rejected or withdrawn submission match nothing and keep the name they came with. Datasets and
benchmarks at NeurIPS is a track with its own entry, and no top venue.

How much a resolved name says, from the most to the least: a top venue; another of the table
(`is_known`); a venue that the table lacks (`is_named`); a preprint server; a submission that is
rejected, withdrawn or undecided, which names where a paper has not appeared.

A name may have several parts (commas, colons, brackets): each must mean the same venue or
nothing; only what follows a full name with its short name ("..., ICLR 2024, Vienna, Austria")
may be a place, if it is no track; a publisher may follow any.
"""

import re
from collections import Counter
from functools import cache, lru_cache
from typing import Final

import polars as pl

from hindsight_fast.papers.venue_table import Table, extended, fold, load, table

__all__ = [
    "Table",
    "extended",
    "findings_of",
    "is_known",
    "is_named",
    "is_preprint",
    "is_side_event",
    "is_top",
    "is_undecided",
    "load",
    "month_held",
    "rank",
    "resolve",
    "table",
    "within_volume",
    "year_in",
]

_ARXIV = re.compile(r"^(?:arxiv\b|corr\s*[,/(]?\s*abs)")
_SEPARATOR = re.compile(r"[,:;()\[\]|]|\s[-–—]\s|\.\s")
_ANTHOLOGY = re.compile(r"^https?://(?:www\.)?aclanthology\.org/")
_NOTE = re.compile(r"\(?repo name/commit of [0-9-]+; no venue column\)?")
_YEAR = re.compile(r"(?<![0-9])((?:19|20)[0-9]{2})(?![0-9])")
_TRACK = re.compile(r"\btrack\b")
_MOST: Final = 1 << 16  # names whose meaning is remembered
_FEW: Final = 8

_VOLUMES: Final = {
    "Findings": r"\b2[0-9]{3}\.findings-[a-z]+\.[0-9]",
    "Workshop": r"\bw[0-9]{2}-[0-9]{4}\b|thecvf\.com/content[_/][a-z0-9_]*?(?:w/|[a-z]w_[0-9]{4}/)",
    "Industry Track": r"\b2[0-9]{3}\.[a-z]+-industry\.[0-9]",
    "Demonstrations": r"\b2[0-9]{3}\.[a-z]+-demos?\.[0-9]",
    "Student Research Workshop": r"\b2[0-9]{3}\.[a-z]+-srw\.[0-9]",
    "Tutorials": r"\b2[0-9]{3}\.[a-z]+-tutorials?\.[0-9]",
    "Datasets and Benchmarks": (
        r"datasets-benchmarks-proceedings\.neurips|neurips\.cc/.*datasets_and_benchmarks"
    ),
}
"""What ids and addresses of the ACL Anthology, of CVF and of NeurIPS say of the volume, where it is
not the main one. Lists by venue and year often name the conference alone."""

_FINDINGS = (
    r"(?i)findings(?:\s+of)?(?:\s+the\s+association\s+for\s+computational\s+linguistics\s*:)?"
)

_ANY_VOLUME = "|".join(_VOLUMES.values())


def resolve(venues: pl.Series, table: Table) -> pl.Series:
    """Replace venue names by those of the table.

    Parameters
    ----------
    venues : polars.Series of String
    table : Table

    Returns
    -------
    polars.Series of String
        The table's name for a main track or a preprint server; null where no venue is given
        (also where nothing but a year, a publisher or "Poster" is); else the name as it came.
    """
    if venues.null_count() == len(venues):
        return venues
    unique = venues.unique().drop_nulls()
    may_mean = unique.filter(
        unique.str.to_lowercase().str.contains(_candidates(table)) | ~_is_ascii(unique)
    )
    meant = pl.Series([_meaning(name, table) for name in may_mean], dtype=pl.String)
    return venues.replace(may_mean, meant) if len(may_mean) else venues


def within_volume(venues: pl.Series, *places: pl.Series) -> pl.Series:
    """Add to a venue's name the volume in which an id, DOI or address has the paper.

    ``EMNLP`` with ``10.18653/v1/2022.findings-emnlp.4`` is ``EMNLP Findings``, no main track.

    Parameters
    ----------
    venues : polars.Series of String
        Resolved names.
    places : polars.Series of String
        Ids, DOIs and addresses of the same records.
    """
    for place in places:
        low = place.str.to_lowercase()
        told = (low.str.contains(_ANY_VOLUME) & venues.is_not_null()).fill_null(False)
        if not told.any():
            continue
        rows = told.arg_true()
        few = pl.DataFrame({"venue": venues.gather(rows), "place": low.gather(rows)})
        volume = pl.coalesce(
            pl.when(pl.col("place").str.contains(pattern)).then(pl.lit(volume))
            for volume, pattern in _VOLUMES.items()
        )
        has = (
            pl.col("venue").str.to_lowercase().str.contains(volume.str.to_lowercase(), literal=True)
        )
        named = pl.when(has).then("venue").otherwise(pl.format("{} {}", "venue", volume))
        venues = venues.clone().scatter(rows, few.select(named).to_series())
    return venues


def findings_of(venues: pl.Series, table: Table) -> pl.Series:
    """Name the conference whose Findings a venue is (``ACL`` of ``Findings of ACL 2021``).

    Null for all else. A paper of the Findings was turned down by the main track, so where another
    record lists it under the conference's name, that name is not its venue.
    """
    findings = venues.str.contains("(?i)findings").fill_null(False)
    if not findings.any():
        return pl.Series(venues.name, [None] * len(venues), dtype=pl.String)
    rest = venues.set(~findings, None).str.replace(_FINDINGS, " ")
    named = resolve(rest, table)
    return named.set(~is_known(named, table), None)


def is_top(venues: pl.Series, table: Table) -> pl.Series:
    """Tell which resolved venues are the paper's seven, main track; False for unknown."""
    return venues.is_in(list(table.top)).fill_null(False)


def is_preprint(venues: pl.Series, table: Table) -> pl.Series:
    """Tell which resolved venues are preprint servers; False for unknown."""
    return venues.is_in(list(table.preprint)).fill_null(False)


def is_known(venues: pl.Series, table: Table) -> pl.Series:
    """Tell which resolved venues are in the table and no preprint server; False for unknown."""
    return venues.is_in(list(set(table.names.values()) - table.preprint)).fill_null(False)


def is_named(venues: pl.Series, table: Table) -> pl.Series:
    """Tell which resolved venues name a place of publication, in the table or not.

    Preprint servers do not, nor do submissions that are rejected, withdrawn or undecided.
    """
    return venues.is_not_null() & ~is_preprint(venues, table) & ~is_undecided(venues, table)


def is_undecided(venues: pl.Series, table: Table) -> pl.Series:
    """Tell which resolved venues are submissions that are rejected, withdrawn or undecided."""
    return _found(venues, table.undecided, table)


def is_side_event(venues: pl.Series, table: Table) -> pl.Series:
    """Tell which resolved venues are workshops, Findings, demos and the like."""
    return _found(venues, table.side_event, table)


def rank(venues: pl.Series, table: Table) -> pl.Series:
    """Order resolved venues by how much they say, 5 to 1 (see above); 0 where there is none."""
    named = is_named(venues, table)
    degrees = (
        is_top(venues, table),
        is_known(venues, table),
        named,
        named | is_preprint(venues, table),
    )
    return sum((degree.cast(pl.Int8) for degree in degrees), venues.is_not_null().cast(pl.Int8))


def year_in(venues: pl.Series) -> pl.Series:
    """Read the one year (1900 to 2099) in a venue's name; null where there is none or several."""
    unique = venues.unique().drop_nulls()
    found = [_one_year(name) for name in unique]
    return venues.replace_strict(unique, pl.Series(found, dtype=pl.String), default=None)


def month_held(venues: pl.Series, years: pl.Series, table: Table) -> pl.Series:
    """First day of the month in which a resolved venue was held that year, where that is known.

    Parameters
    ----------
    venues : polars.Series of String
    years : polars.Series of integers
    table : Table

    Returns
    -------
    polars.Series of Date
    """
    known = pl.DataFrame(
        [(name, year, month) for (name, year), month in table.months.items()],
        schema={"venue": pl.String, "year": pl.Int32, "month": pl.Int8},
        orient="row",
    )
    asked = pl.DataFrame({"venue": venues, "year": years.cast(pl.Int32)})
    return asked.join(known, on=["venue", "year"], how="left", maintain_order="left").select(
        pl.date("year", "month", 1).alias("date")
    )["date"]


def _found(venues: pl.Series, pattern: re.Pattern[str], table: Table) -> pl.Series:
    """Tell in which names, other than the table's own, a pattern is found."""
    unique = venues.unique().drop_nulls()
    unique = unique.filter(~unique.is_in(list(set(table.names.values()))))
    return venues.is_in([name for name in unique if pattern.search(fold(name))]).fill_null(False)


def _one_year(name: str) -> str | None:
    years = set(_YEAR.findall(name))
    return years.pop() if len(years) == 1 else None


def _is_ascii(names: pl.Series) -> pl.Series:
    return names.str.len_bytes() == names.str.len_chars()


@cache
def _candidates(table: Table) -> str:
    """Pattern of the lower-case ASCII names that may mean something: most do not.

    One has a word of some alias, the longest of those that few use, or of what stands for
    nothing; or it has no word of its own.
    """
    keys = [key.split() for key in table.names]
    uses = Counter(word for key in keys for word in key)
    telling = {min(key, key=lambda word: (uses[word] > _FEW, -len(word))) for key in keys}
    common = {*table.dropped, *table.sponsors, "v", "vol", "no", "pp", "top"}
    for text in table.nothing:
        telling.update(sorted(set(re.findall("[a-z]+", text)) - common, key=len)[-1:])
    telling.add("aclanthology")
    telling_one, common_one = ("|".join(map(re.escape, sorted(all))) for all in (telling, common))
    return rf"(?:^|[^a-z])(?:{telling_one})(?:[^a-z]|$)|^(?:[^a-z]+|(?:{common_one})(?:[^a-z]|$))*$"


@lru_cache(_MOST)
def _meaning(name: str, table: Table) -> str | None:
    folded = _NOTE.sub(" ", _ANTHOLOGY.sub("", fold(name)))
    words = table.words(folded)
    if folded.strip(" .") in table.nothing or not set(words) - table.sponsors:
        return None
    if _ARXIV.match(folded):
        return "arXiv"
    if table.undecided.search(folded):
        return name
    if table.side_event.search(folded):
        return table.meaning(words) or name  # side tracks with an entry of their own
    return table.meaning(words) or _meaning_of_parts(folded, table) or name


def _meaning_of_parts(folded: str, table: Table) -> str | None:
    parts = [(table.words(part), part) for part in _SEPARATOR.split(folded)]
    telling = [
        (words, part)
        for words, part in parts
        if set(words) - table.sponsors and " ".join(words) not in table.imprints
    ]
    first = table.meaning(telling[0][0]) if telling else None
    if first is None:
        return None
    others = [(table.meaning(words), part) for words, part in telling[1:]]
    if others and others[0][0] == first:  # full name and short name: what follows is the place
        others = [(meaning, part) for meaning, part in others if meaning or _TRACK.search(part)]
    return first if all(meaning == first for meaning, _ in others) else None
