"""What the names of counts mean, for a person."""

from collections.abc import Mapping
from typing import Final

_COUNTS: Final = {
    "n_in": "records read",
    "n_papers": "papers",
    "n_merged": "records merged into a paper of others",
    "n_rejects": "rejects",
    "n_left_out": "records left out by a condition",
    "n_dates": "records of files of dates, which are no papers",
    "n_dates_rejects": "rejects of files of dates",
    "n_dated_earlier": "papers that files of dates dated earlier, or at all",
    "n_title_only": "papers without an abstract",
    "n_stub": "papers with a stub for an abstract",
    "n_paratext": "covers, indexes and the like",
    "n_retracted": "retracted papers",
    "n_withdrawn": "withdrawn papers",
    "n_undated": "papers without a date",
    "n_citations": "papers with a known count of citations",
    "n_venues": "papers of a known venue",
    "n_venues_unlisted": "papers of a venue that is not known",
    "ids_suffixed": "papers that shared an id with another, now with a suffix",
    "ids_made": "records without an id, which got one",
    "too_many_alike": "records alike, too many to be one paper",
}


def in_words(counts: Mapping[str, int]) -> dict[str, int]:
    """Put the counts of a build (`Gathered.counts`) under words, in an order to read them in."""
    order = {name: place for place, name in enumerate(_COUNTS)}
    names = sorted(counts, key=lambda name: (order.get(name, len(order)), name))
    return {_meaning(name): counts[name] for name in names}


def _meaning(name: str) -> str:
    if name in _COUNTS:
        return _COUNTS[name]
    what, _, rest = name.partition("_")
    rest = rest.replace("_", " ")
    told = {"malformed": f"values of {rest} not understood", "s2": f"Semantic Scholar: {rest}"}
    return told.get(what, name.replace("_", " "))
