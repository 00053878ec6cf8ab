"""What an index is made with, what is told of it, and how its files are named."""

import dataclasses
import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from hindsight_fast.codes import CODES_VERSION, ToCode
from hindsight_fast.config import fingerprint
from hindsight_fast.errors import UsageError

GRAPH: Final = "index.usearch"
ROWS: Final = "index-rows.npy"
MEAN: Final = "index-mean.npy"
AXES: Final = "index-axes.npy"
COPIES: Final = "index-copies.npy"
STRAYS: Final = "index-strays.npy"
PART: Final = "index-part-"
"""What the names of files begin with that are there only while an index is built."""

FILES: Final = (GRAPH, ROWS, MEAN, AXES, COPIES, STRAYS)


def files_among(names: Collection[str]) -> tuple[str, ...]:
    """The files of an index that an artefact names; older ones have neither rows nor strays."""
    return FILES if ROWS in names else (GRAPH, MEAN, AXES, COPIES)


METRIC: Final = "l2sq"
DTYPE: Final = "i8"


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """How the graph is built and searched.

    Attributes
    ----------
    connectivity
        Links per paper (M).
    expansion_add, expansion_search
        Candidates held while building (efConstruction) and while searching (ef).
    variance
        Least share of the vectors' variance around their mean that codes keep.
    deterministic
        Build on one thread: the same bytes each time, where several threads give another graph.
    """

    connectivity: int = 16
    expansion_add: int = 128
    expansion_search: int = 512
    variance: float = 0.95
    deterministic: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.connectivity <= 512:
            raise UsageError(f"connectivity = {self.connectivity}: expected 2 to 512 links")
        for name in ("expansion_add", "expansion_search"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} = {getattr(self, name)}: at least 1 is needed")
        if not 0 < self.variance <= 1:
            raise UsageError(f"variance = {self.variance}: a share above 0, at most 1")

    def fingerprint(self) -> str:
        """Hash of these settings and of how vectors become codes."""
        return fingerprint([dataclasses.asdict(self), METRIC, DTYPE, CODES_VERSION])

    def builds_like(self, other: "IndexConfig") -> bool:
        """Tell whether the same graph is built; searching it may be another matter."""
        return dataclasses.replace(self, expansion_search=1) == dataclasses.replace(
            other, expansion_search=1
        )


def index_fingerprint(config: IndexConfig, to_code: ToCode) -> str:
    """Hash of settings, of how vectors become codes, and of their mean and axes."""
    digest = hashlib.blake2b(to_code.mean.tobytes() + to_code.axes.tobytes(), digest_size=16)
    return fingerprint([config.fingerprint(), digest.hexdigest()])


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What was built, for the manifest."""

    fingerprint: str
    """See `index_fingerprint`."""
    n_papers: int
    """Papers that can be found."""
    n_copies: int
    """Of these, papers not in the graph, since another has the same code."""
    n_taken: int
    """Papers in the graph that another index had already."""
    not_taken: str
    """Why there are none, where another index was there to take them from."""
    n_unreachable: int
    """Papers in the graph to which no link leads; each search looks at them one by one."""
    dim: int
    n_axes: int
    variance: float
    """Share of the variance that the axes keep."""
    dtype: str
    metric: str
    n_bytes: int
    threads: int
    usearch: str
