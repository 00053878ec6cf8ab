"""Texts to vectors: those of a batch of ideas, and those of a store's papers."""

from hindsight_fast.encoding._cache import CACHE_LIMIT, CacheUse, VectorCache, is_cache
from hindsight_fast.encoding._cost import (
    SAMPLE,
    precision_cost,
    precision_cost_of_papers,
    sample_papers,
)
from hindsight_fast.encoding._embed import embed_store
from hindsight_fast.encoding._filling import Progress
from hindsight_fast.encoding._forecast import Forecast, tokens_per_second
from hindsight_fast.encoding._taking import Taken
from hindsight_fast.encoding._texts import CountingEncoder, encode_texts

__all__ = [
    "CACHE_LIMIT",
    "SAMPLE",
    "CacheUse",
    "CountingEncoder",
    "Forecast",
    "Progress",
    "Taken",
    "VectorCache",
    "embed_store",
    "encode_texts",
    "is_cache",
    "precision_cost",
    "precision_cost_of_papers",
    "sample_papers",
    "tokens_per_second",
]
