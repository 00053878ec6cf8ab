"""Semantic Scholar's bulk datasets: shards joined by corpus id, and the diffs between releases.

What `read` counts, beside its records and rejects:

===========================  =====================================================================
``s2_papers_repeated``       records of the papers dataset whose corpus id another record has too
``s2_papers_superseded``     of them, those that are older: they give their dates and ids only
``s2_abstracts``             records of the abstracts dataset
``s2_abstracts_joined``      those that a paper got
``s2_abstracts_repeated``    those of a corpus id that another has too; the newest counts
``s2_abstracts_unknown``     those of a corpus id that no paper of the shards has
``s2_tldrs``, ...            the same of tldrs
``s2_citations``             records of the citations dataset
``s2_citations_half``        those of which one end is not known to Semantic Scholar
``s2_citations_joined``      pairs of a citing and a cited paper that is joined with texts
``s2_citations_repeated``    records that give such a pair again (a release may hold each twice)
``s2_citations_unknown``     of the pairs, those whose citing paper is in no shard
``s2_citations_undated``     of the pairs, those whose citing paper has neither date nor year
``s2_partly_dated``          papers whose dated counts are not told, as too few are dated
``s2_paper_ids``             records of the API without a corpus id that paper-ids shards name
``malformed_<key>``          values of another type than they should be, taken as unknown
``unused_<dataset>``         shards of datasets that say nothing of papers
===========================  =====================================================================
"""

from hindsight_fast.papers.s2_bulk.diffs import Diffs, diffs, read_updates
from hindsight_fast.papers.s2_bulk.joining import Settings, check, read
from hindsight_fast.papers.s2_bulk.old import changed
from hindsight_fast.papers.s2_bulk.paper_ids import corpus_ids, with_corpus_ids

__all__ = [
    "Diffs",
    "Settings",
    "changed",
    "check",
    "corpus_ids",
    "diffs",
    "read",
    "read_updates",
    "with_corpus_ids",
]
