"""Texts to vectors: those of a batch of ideas, and those of a store's papers."""

from hindsight_fast.encoding._embed import embed_store
from hindsight_fast.encoding._texts import CountingEncoder, encode_texts

__all__ = ["CountingEncoder", "embed_store", "encode_texts"]
