"""What a pool is made from: as a hash, and in words."""

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hindsight_fast import impact as recipes
from hindsight_fast.config import ScoreConfig, fingerprint
from hindsight_fast.papers.choosing import Where
from hindsight_fast.pool._window import WindowConfig
from hindsight_fast.store import Store, Vectors, columns_hash
from hindsight_fast.version import __version__

if TYPE_CHECKING:
    from hindsight_fast.index import IndexConfig


@dataclass(frozen=True, slots=True)
class Settings:
    """What `build_pool` was asked for."""

    window: WindowConfig
    recipe: str
    where: Where
    index: "IndexConfig | None"
    defaults: ScoreConfig
    threads: int | None

    def identity(self, store: Store, vectors: Vectors) -> str:
        """Hash of all that a pool depends on; K and theta are only its defaults."""
        window, where, index = self.window, self.where, self.index
        made_from = [store.content_id, store.facts_id, vectors.encoder, vectors.encoder_fingerprint]
        if vectors.precision != "float32":
            made_from.append(vectors.precision)
        if vectors.taken:
            made_from.append(fingerprint(vectors.taken))
        if where:
            made_from.append(fingerprint([where.conditions, where.topics]))
        looked_at = [*where.columns, *recipes.find(self.recipe).columns]
        if where or self.recipe != "paper":  # these columns may say more than facts_id holds
            papers = store.papers(sorted(set(looked_at)), *store.window(window.start, window.until))
            made_from.append(columns_hash(papers, papers.columns, "looked at"))
        built = None if index is None else index.fingerprint()
        settings = [window.fingerprint(), self.recipe, built]
        return fingerprint([made_from, settings, sorted(store.venues.top)])

    def in_words(self, store: Store, vectors: Vectors) -> dict[str, Any]:
        """What a pool is made from, for a person who is told of unfinished work."""
        window = self.window
        words: dict[str, Any] = {
            "papers": store.content_id,
            "dates, venues and citations": store.facts_id,
            "encoder": f"{vectors.encoder}@{vectors.encoder_fingerprint} in {vectors.precision}",
            "vectors": vectors.content_hash,
            "window": f"{window.start} to {window.until}, ideas before {window.cutoff}",
            "first public dates only": window.require_first_public,
            "impact": self.recipe,
            "where": [*self.where.conditions, *self.where.topics],
            "index": None if self.index is None else dataclasses.asdict(self.index),
            "K": self.defaults.k,
            "theta": self.defaults.theta,
        }
        if self.index is not None:  # another version would go on with another graph
            from hindsight_fast.index import USEARCH_VERSION

            words |= {"hindsight-fast": __version__, "usearch": USEARCH_VERSION}
        return words


def pool_hash(
    content_id: str,
    low: int,
    high: int,
    window: WindowConfig,
    recipe: str,
    impact: NDArray[np.float32],
) -> str:
    """Return the hash of what scores depend on, vectors aside: papers, window and impact."""
    bits = hashlib.blake2b(impact.tobytes(), digest_size=16).hexdigest()
    return fingerprint([content_id, low, high, window.fingerprint(), recipe, bits])
