"""Score research ideas by the impact of the later papers that they anticipated.

HindSight (arXiv 2603.15164) as a batch engine: ``Pool`` is a window of published papers with
their impact, ``Scorer`` matches ideas against it, exactly.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hindsight_fast.encoders import load_encoder
    from hindsight_fast.errors import HindsightError
    from hindsight_fast.ideas import Idea
    from hindsight_fast.pool import Pool
    from hindsight_fast.scoring import Scorer
    from hindsight_fast.store import Store

from hindsight_fast.version import __version__

__all__ = ["HindsightError", "Idea", "Pool", "Scorer", "Store", "__version__", "load_encoder"]

# Imported on first use: `import hindsight_fast` must cost nothing.
_HOMES = {
    "HindsightError": "errors",
    "Idea": "ideas",
    "Pool": "pool",
    "Scorer": "scoring",
    "Store": "store",
    "load_encoder": "encoders",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hindsight_fast' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hindsight_fast.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
