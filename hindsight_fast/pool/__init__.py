"""The papers of a window with their impact: what ideas are scored against.

A pool is a folder with `manifest.json`, `impact.npy` (a number for each row of one contiguous
slice of a store, -1 where the paper doesn't take part), what the exact scan looks at first
(`scan-*.npy`, see `projection`; not in small pools) and, if wanted, an index. Papers and vectors
stay in the store, which the manifest names by its place relative to the pool and by its
identities; a pool whose store has changed is refused.
"""

from hindsight_fast.pool._build import build_pool
from hindsight_fast.pool._inspect import describe, verify_artefact
from hindsight_fast.pool._read import Pool, damage
from hindsight_fast.pool._window import WindowConfig

__all__ = ["Pool", "WindowConfig", "build_pool", "damage", "describe", "verify_artefact"]
