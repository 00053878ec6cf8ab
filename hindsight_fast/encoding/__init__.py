"""Texts to vectors: those of a batch of ideas, and those of a store's papers."""

from hindsight_fast.encoding._cache import CACHE_LIMIT, VectorCache
from hindsight_fast.encoding._embed import embed_store
from hindsight_fast.encoding._texts import CountingEncoder, encode_texts

__all__ = ["CACHE_LIMIT", "CountingEncoder", "VectorCache", "embed_store", "encode_texts"]
