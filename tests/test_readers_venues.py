"""Readers that choose among names of venues know those that a user adds."""

import json
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hindsight_fast.papers import Options, gather, venues

MINE = venues.extended(
    '[[venue]]\nname = "QZConf"\n[[venue]]\nname = "MyPrints"\npreprint = true\n', "my.toml"
)
ARXIV = {
    "id": "2401.00001",
    "title": "A title",
    "abstract": "A text.",
    "comments": "Accepted to QZConf 2024",
    "categories": "cs.CL",
    "versions": [{"version": "v1", "created": "Mon, 1 Jan 2024 00:00:00 GMT"}],
}
OPENALEX = {
    "id": "https://openalex.org/W1",
    "title": "A title",
    "publication_year": 2024,
    "primary_location": {"source": {"display_name": "MyPrints", "type": "repository"}},
}
PAPERLISTS = {"title": "A title", "author": "A B;C D", "status": "Poster", "track": "main"} | {
    "bibtex": "@inproceedings{a,\nbooktitle={Some Book of Proceedings},\nyear={2024}}"
}
CASES = {
    "arxiv-metadata.json": (ARXIV, "arXiv", "QZConf"),
    "works.jsonl": (OPENALEX, None, "MyPrints"),
    "qzconf2024.json": ([PAPERLISTS], "Some Book of Proceedings 2024", "QZConf"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_venue_that_the_user_added_is_known(name: str, tmp_path: Path) -> None:
    content, without, with_mine = CASES[name]
    path = tmp_path / name
    path.write_text(json.dumps(content) + "\n")

    def venue(**options: Any) -> str | None:
        with tempfile.TemporaryDirectory() as work:
            gathered = gather([path], Path(work), Options(**options))
            found: str | None = pl.concat(gathered.parts())["venue"].item()
            return found

    assert (venue(), venue(venues=MINE)) == (without, with_mine)
