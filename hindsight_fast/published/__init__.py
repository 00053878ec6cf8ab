"""Vectors of papers that others have published, to be taken over in place of encoding.

Semantic Scholar's bulk shards (JSON lines) or parquet tables. Records meet the papers of a store
by corpus id, DOI, arXiv id or the store's own id; each names the model that made its vector, and
some of the papers are encoded again, to see that it really did.
"""

from hindsight_fast.published._check import SAMPLE, Check, check_published
from hindsight_fast.published._files import MAX_BAD, PublishedFile, open_published

__all__ = ["MAX_BAD", "SAMPLE", "Check", "PublishedFile", "check_published", "open_published"]
