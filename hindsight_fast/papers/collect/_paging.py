"""Paging through the answers to one query: which page may come next, and which is the last."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from hindsight_fast.papers.answers import Kept, file_name
from hindsight_fast.papers.collect._service import Astray, Page, Query

_SHORTFALL = 0.05
"""Share of the papers announced that may be missing in the end: Semantic Scholar only estimates."""


@dataclass(slots=True)
class Paging:
    """The pages of one query so far.

    Attributes
    ----------
    number : int
        Of the query, from 0.
    query : Query
    slug : str
        How the names of its files begin.
    pages : list of Kept
    restarts : int
        How often it began anew.
    """

    number: int
    query: Query
    slug: str
    pages: list[Kept] = field(default_factory=list[Kept])
    restarts: int = 0

    @property
    def n(self) -> int:
        """Records that came."""
        return sum(page.n for page in self.pages)

    @property
    def announced(self) -> int:
        """Records that there are, as far as is known."""
        return max(self.pages[-1].total if self.pages else 0, self.n)

    @property
    def done(self) -> bool:
        """Whether all pages are there."""
        return bool(self.pages) and self.pages[-1].following is None

    @property
    def next_file(self) -> str:
        """Name of the file for the next page."""
        return file_name(self.slug, len(self.pages) + 1)

    def check(self, page: Page) -> Page:
        """Find a page that can't be the next one; the last one follows nothing.

        Raises
        ------
        Astray
        """
        asked = {one.following for one in self.pages}
        if page.following is not None and page.following in asked:
            raise Astray("it continues with a page that was there before")
        if page.ids and digest(page.ids) in {one.digest for one in self.pages}:
            raise Astray("it is a page that was there before")
        n = self.n + len(page.ids)
        if page.ids and page.following is not None:
            return page
        if n < (1 - _SHORTFALL) * page.total - 2:
            raise Astray(f"it is the last page, with {n:,} of the {page.total:,} announced")
        return page._replace(following=None)

    def facts(self) -> dict[str, Any]:
        """Say what came of the query."""
        totals = [page.total for page in self.pages]
        return {
            "name": self.query.name,
            "query": self.query.text,
            "n": self.n,
            "pages": len(self.pages),
            "announced": [min(totals), max(totals)],
        }


def digest(ids: list[str]) -> str:
    """Hash of the ids of a page."""
    return hashlib.blake2b("\n".join(ids).encode(), digest_size=16).hexdigest()
