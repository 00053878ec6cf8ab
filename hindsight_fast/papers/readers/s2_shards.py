"""Which dataset of Semantic Scholar's bulk releases a shard belongs to, told by its keys."""

import json
import re
from collections.abc import Set
from typing import Any, Final

from hindsight_fast.papers.readers.lines import is_object

DATASETS: Final[dict[str, frozenset[str]]] = {
    "citations": frozenset({"citingcorpusid", "citedcorpusid"}),
    "paper-ids": frozenset({"corpusid", "sha", "primary"}),
    "tldrs": frozenset({"corpusid", "model", "text"}),
    "embeddings": frozenset({"corpusid", "model", "vector"}),
    "publication-venues": frozenset({"id", "name", "alternate_names", "alternate_issns"}),
    "papers": frozenset({"corpusid", "externalids", "title", "citationcount"}),
    "authors": frozenset({"authorid", "name", "papercount"}),
    "s2orc": frozenset({"corpusid", "content"}),
    "abstracts": frozenset({"corpusid", "abstract", "openaccessinfo"}),
}
"""Keys that every record of a dataset has, and no record of those above it."""

_LOOKED_AT = 20
_KEY = re.compile(rb'"(\w{1,30})"\s*:')


def s2_dataset(head: bytes) -> str | None:
    """Name the bulk dataset that a file is a shard of: one of `DATASETS`, or None.

    The first of its first 20 lines that is JSON decides. A line longer than `head` is told by the
    keys in what there is of it.

    Parameters
    ----------
    head : bytes
        First bytes of the file, decompressed.
    """
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", _LOOKED_AT)
    for line in lines[:_LOOKED_AT]:
        keys = _keys(line)
        if keys is not None:
            return s2_named(keys)
    if len(lines) == 1 and head.lstrip().startswith(b"{"):
        return s2_named({key.decode("ascii", "replace") for key in _KEY.findall(head)})
    return None


def _keys(line: bytes) -> set[str] | None:
    """Keys of an object on a line of its own; None where there is none."""
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return set(value) if is_object(value) else None


def s2_named(keys: Set[str]) -> str | None:
    """Name the dataset whose records have these keys, or None."""
    low = {key.lower() for key in keys}
    if "paperid" in low:  # an answer of the Graph API
        return None
    return next((name for name, needed in DATASETS.items() if needed <= low), None)
