"""The table of venues: what data/venues.toml and a user's file like it say, ready for matching."""

import difflib
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from hindsight_fast.config import fingerprint
from hindsight_fast.errors import UsageError

_LISTS: Final = ("nothing", "side_events", "undecided", "imprints")
_KEYS: Final = ("name", "aliases", "top", "tier", "preprint", "months")

_NOT_WORD = re.compile(r"[^\w]+")
_NUMBER = re.compile(r"^(?:[0-9]+(?:st|nd|rd|th)?|(?:v|vol|no|pp|top)[0-9]+)$")
_GLUED_YEAR = re.compile(r"^([a-z]{3,})((?:19|20)?[0-9]{2})$")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What is known of venues.

    Attributes
    ----------
    names : mapping of str to str
        Normalised alias to name.
    top : frozenset of str
        Names of the paper's seven venues.
    tiers : mapping of str to int
        Name to 1 (of the first in its field) or 2 (strong), for some.
    preprint : frozenset of str
        Names of preprint servers, where nothing is published yet.
    months : mapping of (str, int) to int
        Name and year to the month in which its main track was held.
    nothing : frozenset of str
        What people write where no venue is known.
    side_event, undecided : re.Pattern
        Find, in a folded name, what makes it no main track or no publication.
    imprints : frozenset of str
        Normalised names of publishers, which may follow a venue's.
    dropped, sponsors : frozenset of str
        Words that do not tell venues apart; those that do only where an alias has them.
    openers, stems : frozenset of str
        First words of aliases; words of short names, which a year may be glued to (``cvpr2023``).
    added : str
        Text of the user's file that extends the shipped table; empty without one.
    fingerprint : str
        Hash of all that the table says.
    """

    names: Mapping[str, str]
    top: frozenset[str]
    tiers: Mapping[str, int]
    preprint: frozenset[str]
    months: Mapping[tuple[str, int], int]
    nothing: frozenset[str]
    side_event: re.Pattern[str]
    undecided: re.Pattern[str]
    imprints: frozenset[str]
    dropped: frozenset[str]
    sponsors: frozenset[str]
    openers: frozenset[str]
    stems: frozenset[str]
    added: str
    fingerprint: str

    def meaning(self, words: list[str]) -> str | None:
        """Venue that just these words name: an alias, or one after the other of the same venue."""
        whole = self._named(words)
        if whole is not None:
            return whole
        for cut in self._first_aliases(words):  # "ICLR 2025: International Conference on ..."
            first = self._named(words[:cut])
            if first is not None and first == self._named(words[cut:]):
                return first
        return None

    def _first_aliases(self, words: list[str]) -> range:
        """How many words an alias that comes first may have."""
        own = next((word for word in words if word not in self.sponsors), "")
        return range(1, len(words) if {own, *words[:1]} & self.openers else 0)

    def _named(self, words: list[str]) -> str | None:
        with_sponsors = self.names.get(" ".join(words))
        if with_sponsors is not None:
            return with_sponsors
        return self.names.get(" ".join(word for word in words if word not in self.sponsors))

    def words(self, folded: str) -> list[str]:
        """Words of a folded name, in order, but for those that do not tell venues apart."""
        return _words(folded, self.dropped, self.stems)


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
        return extended(path.read_text(encoding="utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read as a file of venues: {error}") from error


def extended(added: str, source: str) -> Table:
    """Extend the shipped table by what a user's file says.

    Parameters
    ----------
    added : str
        Text of the file, as `Table.added` keeps it; empty gives the shipped table.
    source : str
        What errors call the file.

    Raises
    ------
    UsageError
        The text is not as it must be.
    """
    if not added:
        return table()
    try:
        content = tomllib.loads(added)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not TOML: {error}") from error
    _check(content, source)
    return _table(_shipped(), content, added, source)


@cache
def table() -> Table:
    """Return the table that ships with the package (data/venues.toml)."""
    return _table(_shipped(), {}, "", "data/venues.toml")


def fold(name: str) -> str:
    """Fold case and Unicode forms of a venue's name."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return folded.replace("&", " and ").replace("_", " ")


@cache
def _shipped() -> dict[str, Any]:
    text = files("hindsight_fast").joinpath("data/venues.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _table(shipped: dict[str, Any], more: dict[str, Any], added: str, source: str) -> Table:
    venues = _together([*shipped["venue"], *more.get("venue", [])])
    lists = {name: [*shipped[name], *more.get(name, [])] for name in _LISTS}
    dropped = _all_words(shipped["dropped"])
    written = [(venue["name"], alias) for venue in venues for alias in _written(venue)]
    short = [_NOT_WORD.split(fold(alias)) for _, alias in written if " " not in alias]
    stems = frozenset(word for some in short for word in some)

    sponsors = _all_words(shipped["sponsors"])

    def words(name: str) -> list[str]:
        return _words(fold(name), dropped, stems)

    names: dict[str, str] = {}
    for name, alias in written:
        key = " ".join(words(alias))
        if not set(words(alias)) - sponsors:
            raise UsageError(f"{source}: the alias {alias!r} of {name!r} says nothing of its own")
        if names.setdefault(key, name) != name:
            raise UsageError(
                f"{source}: the alias {alias!r} of {name!r} already means {names[key]!r}; an "
                "alias may stand at one venue only"
            )
    return Table(
        names=names,
        top=_flagged(venues, "top"),
        tiers={venue["name"]: venue["tier"] for venue in venues if "tier" in venue},
        preprint=_flagged(venues, "preprint"),
        months={
            (venue["name"], int(year)): month
            for venue in venues
            for year, month in venue.get("months", {}).items()
        },
        nothing=frozenset(fold(name).strip(" .") for name in lists["nothing"]),
        side_event=_any_of(lists["side_events"], "@"),
        undecided=_any_of(lists["undecided"], r"\b(?:submission|paper)[0-9]+(?![\w.])"),
        imprints=frozenset(" ".join(words(name)) for name in lists["imprints"]),
        dropped=dropped,
        sponsors=sponsors,
        openers=frozenset(key.split()[0] for key in names),
        stems=stems,
        added=added,
        fingerprint=fingerprint([shipped, more]),
    )


def _together(venues: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each name; what comes later adds aliases and months, and decides flags."""
    by_name: dict[str, dict[str, Any]] = {}
    for venue in venues:
        before = by_name.get(venue["name"], {})
        by_name[venue["name"]] = {
            **before,
            **venue,
            "aliases": [*before.get("aliases", []), *venue.get("aliases", [])],
            "months": before.get("months", {}) | venue.get("months", {}),
        }
    return list(by_name.values())


def _written(venue: dict[str, Any]) -> list[str]:
    return [venue["name"], *venue["aliases"]]


def _flagged(venues: list[dict[str, Any]], flag: str) -> frozenset[str]:
    return frozenset(venue["name"] for venue in venues if venue.get(flag, False))


def _all_words(lists: dict[str, str]) -> frozenset[str]:
    return frozenset(word for words in lists.values() for word in words.split())


def _any_of(phrases: Iterable[str], other: str) -> re.Pattern[str]:
    """Find any of these phrases as whole words, however their words are set apart."""
    folded = (_NOT_WORD.sub(" ", fold(phrase)).split() for phrase in phrases)
    alternatives = "|".join(r"[\W_]+".join(map(re.escape, words)) for words in folded)
    return re.compile(rf"\b(?:{alternatives})\b|{other}")


def _words(folded: str, dropped: frozenset[str], stems: frozenset[str]) -> list[str]:
    words: list[str] = []
    for word in _NOT_WORD.sub(" ", folded).split():
        glued = _GLUED_YEAR.match(word)
        kept = glued.group(1) if glued and glued.group(1) in stems else word
        if kept not in dropped and not _NUMBER.match(kept):
            words.append(kept)
    return words


def _check(content: dict[str, Any], source: str) -> None:
    """Refuse a user's file that is not as it must be."""
    _check_keys(content, ("venue", *_LISTS), source, "a file of venues")
    for name in _LISTS:
        _check_texts(content.get(name, []), f"{source}: {name}")
    if not _is_list(content.get("venue", []), dict):
        raise UsageError(f"{source}: venues are written as [[venue]], with two brackets")
    for place, venue in enumerate(content.get("venue", []), 1):
        name = venue.get("name")
        if not isinstance(name, str) or not name.strip():
            raise UsageError(f'{source}: venue {place} has no name (name = "...")')
        here = f"{source}: venue {name!r}"
        _check_keys(venue, _KEYS, here, "a venue")
        _check_texts(venue.get("aliases", []), f"{here}: aliases")
        for flag in ("top", "preprint"):
            if not isinstance(venue.get(flag, False), bool):
                raise UsageError(f"{here}: {flag} is {venue[flag]!r}; expected is true or false")
        if "tier" in venue and not (type(venue["tier"]) is int and venue["tier"] in (1, 2)):
            raise UsageError(f"{here}: tier is {venue['tier']!r}; expected is 1 or 2")
        _check_months(venue.get("months", {}), here)


def _check_keys(found: dict[str, Any], expected: tuple[str, ...], where: str, what: str) -> None:
    for key in found:
        if key not in expected:
            close = difflib.get_close_matches(key, expected, 1)
            hint = f", did you mean {close[0]!r}?" if close else "."
            raise UsageError(
                f"{where}: the key {key!r} means nothing here{hint} {what.capitalize()} may have "
                f"{', '.join(expected)}"
            )


def _check_texts(found: object, where: str) -> None:
    if not _is_list(found, str):
        raise UsageError(f'{where} is {found!r}; expected is a list of texts, ["...", "..."]')


def _check_months(found: dict[str, Any], where: str) -> None:
    good = isinstance(found, dict) and all(  # pyright: ignore[reportUnnecessaryIsInstance]
        re.fullmatch("[12][0-9]{3}", year) and type(month) is int and 1 <= month <= 12
        for year, month in found.items()
    )
    if not good:
        raise UsageError(
            f"{where}: months is {found!r}; expected are years and the months 1 to 12, as in "
            "{ 2023 = 12 }"
        )


def _is_list(found: object, of: type) -> bool:
    if not isinstance(found, list):
        return False
    ones: list[Any] = found  # pyright: ignore[reportUnknownVariableType]
    return all(isinstance(one, of) for one in ones)
