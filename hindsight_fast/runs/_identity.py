"""What the tables of a run depend on, by names that a person understands."""

from collections.abc import Mapping
from typing import Any

from hindsight_fast.config import fingerprint
from hindsight_fast.idea_text import IDEA_TEXT_VERSION
from hindsight_fast.runs._targets import Targets
from hindsight_fast.scoring import Scorer
from hindsight_fast.version import __version__


def identity(
    scorer: Scorer,
    ideas_hash: str,
    *,
    limit: int | None,
    recall: float | None,
    targets: Targets,
    batch: int,
) -> dict[str, Any]:
    """All that the tables depend on."""
    pool, encoder = scorer.pool, scorer.encoder
    by_index, is_open = scorer.search == "index", scorer.config.search == "auto"
    return {
        "ideas": ideas_hash,
        "limit": limit,
        "pool": pool.pool_hash,
        "recipe": pool.recipe,
        "dates, venues and citations": pool.store.facts_id,
        "vectors of papers": pool.vectors_hash,
        "taken over": list(pool.taken),
        "citations as of": pool.citations_as_of,
        "encoder": f"{pool.encoder}@{pool.encoder_fingerprint}",
        "device": None if encoder is None else encoder.device.partition(":")[0],
        "precision of ideas": None if encoder is None else encoder.precision,
        "precision of papers": pool.precision,
        "text rule": IDEA_TEXT_VERSION,
        "K": scorer.config.k,
        "theta": scorer.config.theta,
        # A run may find that the exact scan is as fast as what the recall takes.
        "search": "index or exact" if by_index and is_open else scorer.search,
        "index": pool.index.mark if by_index and pool.index is not None else None,
        "recall": recall if by_index and scorer.candidates is None else None,
        "candidates": _searching(scorer) if by_index else None,
        "matches": "matches" in targets,
        "ideas in a part": batch,
        "version": __version__,
    }


def _searching(scorer: Scorer) -> str:
    """How the index is searched unless that is chosen: candidates and ef, as the signature has."""
    return scorer.signature.partition(" search=index:")[2].split(" ")[0]


def mark_of(scorer: Scorer, made_from: Mapping[str, Any]) -> str:
    """Fingerprint of it all."""
    config, precision = scorer.config, made_from["precision of ideas"]
    line = scorer.pool.signature(config.k, config.theta, scorer.search, str(precision))
    return fingerprint({**made_from, "signature": line})
