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
may be a place.
"""

import re
import tomllib
import unicodedata
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from hindsight_fast.config import fingerprint
from hindsight_fast.errors import UsageError

_SIDE_EVENT = re.compile(
    r"\b(?:workshops?|findings|companion|tutorials?|demos?|demonstrations?|student|doctoral|"
    r"consortium|extended abstracts?|late breaking|datasets|tiny papers|blog\w*|industry|"
    r"challenge|competition|co-?located)\b|@"
)
_SUBMISSION = re.compile(  # "paper12" is how OpenReview names one, whatever became of it
    r"\b(?:reject(?:ed|s|ions?)?|withdraw(?:n|als?)?|not accepted|declined|submitted|"
    r"submissions?[0-9]*|paper[0-9]+(?![\w.])|(?:under|in) (?:double[- ]blind )?review)\b"
)
_ARXIV = re.compile(r"^(?:arxiv\b|corr\s*[,/(]?\s*abs)")
_SEPARATOR = re.compile(r"[,:;()\[\]|]|\s[-–—]\s")
_NOT_WORD = re.compile(r"[^\w]+")
_NUMBER = re.compile(r"^(?:[0-9]+(?:st|nd|rd|th)?|(?:v|vol|no|pp|top)[0-9]+)$")
_GLUED_YEAR = re.compile(r"^([a-z]{3,})((?:19|20)?[0-9]{2})$")
_YEAR = re.compile(r"(?<![0-9])((?:19|20)[0-9]{2})(?![0-9])")


class Table(NamedTuple):
    """The venue table.

    Attributes
    ----------
    names : dict of str to str
        Normalised alias to name.
    top : frozenset of str
        Names of the paper's seven venues.
    preprint : frozenset of str
        Names of preprint servers, where nothing is published yet.
    nothing : frozenset of str
        What people write where no venue is known.
    added : str
        Text of the user's file that extends the shipped table; empty without one.
    """

    names: dict[str, str]
    top: frozenset[str]
    preprint: frozenset[str]
    nothing: frozenset[str]
    added: str = ""

    @property
    def fingerprint(self) -> str:
        """Hash of all that the table says."""
        return fingerprint([self.names, *(sorted(names) for names in self[1:4])])


@cache
def _content() -> dict[str, Any]:
    text = files("hindsight_fast").joinpath("data/venues.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _dropped() -> frozenset[str]:
    return frozenset(word for words in _content()["dropped"].values() for word in words.split())


@cache
def _stems() -> frozenset[str]:
    """Words of short names, which a year may be glued to: ``cvpr2023``, ``naacl-hlt21``."""
    names = [name for venue in _content()["venue"] for name in (venue["name"], *venue["aliases"])]
    short = [_NOT_WORD.split(_fold(name)) for name in names if " " not in name]
    return frozenset(word for words in short for word in words)


@cache
def table() -> Table:
    """Read the table that ships with the package (data/venues.toml)."""
    content = _content()
    names: dict[str, str] = {}
    for venue in content["venue"]:
        for alias in (venue["name"], *venue["aliases"]):
            names[_normal(_fold(alias))] = venue["name"]
    top, preprint = (
        frozenset(venue["name"] for venue in content["venue"] if venue.get(flag, False))
        for flag in ("top", "preprint")
    )
    return Table(names, top, preprint, frozenset(content["nothing"]))


def load(path: Path | None = None) -> Table:
    """Read the table that ships with the package, extended by a user's file.

    Raises
    ------
    UsageError
        The file is missing or not as it must be; the message names it and the key.
    """
    if path is None:
        return table()
    try:
        return extended(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the venues can't be read: {error}") from error


def extended(added: str, source: str) -> Table:
    """Extend the shipped table by what a user's file says, as `Table.added` keeps it.

    Parameters
    ----------
    added : str
        Text of the file; the shipped table itself where it is empty.
    source : str
        What errors call the file.

    Raises
    ------
    UsageError
        The text is not as it must be.
    """
    if not added:
        return table()
    raise UsageError(f"{source}: not yet")


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
    unique = venues.unique().drop_nulls()
    resolved = [_resolve_one(name, table) for name in unique]
    return venues.replace_strict(unique, pl.Series(resolved, dtype=pl.String), default=None)


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
    submissions = [name for name in venues.unique().drop_nulls() if _SUBMISSION.search(_fold(name))]
    return venues.is_not_null() & ~is_preprint(venues, table) & ~venues.is_in(submissions)


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


def _one_year(name: str) -> str | None:
    years = set(_YEAR.findall(name))
    return years.pop() if len(years) == 1 else None


def _resolve_one(name: str, known: Table) -> str | None:
    folded = _fold(name)
    if folded.strip(" .") in known.nothing or not _normal(folded):
        return None
    if _ARXIV.match(folded):
        return "arXiv"
    if _SUBMISSION.search(folded):
        return name
    if _SIDE_EVENT.search(folded):
        return known.names.get(_normal(folded), name)  # side tracks with an entry of their own
    whole = known.names.get(_normal(folded))
    if whole is not None:
        return whole
    parts = [part for part in (_normal(part) for part in _SEPARATOR.split(folded)) if part]
    if not parts or parts[0] not in known.names:
        return name
    meanings = [known.names.get(part) for part in parts]
    if meanings[0] in meanings[1:2]:  # full name and short name: what follows is the place
        meanings = [meaning for meaning in meanings if meaning is not None]
    return meanings[0] if len(set(meanings)) == 1 else name


def _fold(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold()
    folded = folded.replace("&", " and ").replace("_", " ")
    return re.sub(r"\(?repo name/commit of [0-9-]+; no venue column\)?", " ", folded)


def _normal(folded: str) -> str:
    """Words that tell venues apart, in order."""
    words: list[str] = []
    for word in _NOT_WORD.sub(" ", folded.replace("'", " ").replace("%", " ")).split():
        glued = _GLUED_YEAR.match(word)
        kept = glued.group(1) if glued and glued.group(1) in _stems() else word
        if kept not in _dropped() and not _NUMBER.match(kept):
            words.append(kept)
    return " ".join(words)
