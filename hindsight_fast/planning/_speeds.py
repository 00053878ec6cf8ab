"""How fast this machine is: measured in some ten seconds, or assumed."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Speeds:
    """Seconds and rates; what was not measured is the default, of two cores of an AMD EPYC (Zen 3).

    Attributes
    ----------
    records_per_s : float
        Read, cleaned, merged and written by `build`.
    gflops : float
        Of float32 matrix products, in 1e9 operations a second.
    tokens_per_s : float
        Encoded; 0 where the model could not be tried.
    tokenised_per_s : float
        Tokens made of texts, without encoding them: what a GPU can be fed with.
    project_s : float
        Of a paper's bytes for the exact scan.
    scan_s, pruned_s : float
        Of one idea and paper: the exact scan, in float32 and by bytes.
    rescore_s : float
        What an idea takes more by bytes, however many papers there are.
    index_n : int
        Papers of the index that the next two were measured on.
    index_add_s, index_search_s : float
        Of a paper added to it, and of an idea looked for.
    scan_axes, index_axes : int
        Of made-up vectors in SPECTER2's shape.
    table_s : float
        Of an idea's row in the score table.
    cached_s : float
        Of a vector that is read from a cache.
    write_bps, read_bps, hash_bps : float
        Bytes a second, of a disk and of a checksum.
    reads_per_s : float
        Single places read from the disk, one after the other.
    device, computed_in : str
        What the encoder ran on, and in which precision.
    measured : tuple of str
        Which of these were measured.
    seconds : float
        What that took.
    notes : tuple of str
        What could not be measured, and why.
    """

    records_per_s: float = 23_000.0
    gflops: float = 150.0
    tokens_per_s: float = 0.0
    tokenised_per_s: float = 280_000.0
    project_s: float = 2.1e-5
    scan_s: float = 1.12e-8
    pruned_s: float = 2.7e-9
    rescore_s: float = 2.0e-4
    index_n: int = 16_384
    index_add_s: float = 1.0e-4
    index_search_s: float = 3.0e-4
    scan_axes: int = 128
    index_axes: int = 128
    table_s: float = 2.0e-5
    cached_s: float = 5.0e-5
    write_bps: float = 5e8
    read_bps: float = 1e9
    hash_bps: float = 8e8
    reads_per_s: float = 5_000.0
    device: str = ""
    computed_in: str = ""
    measured: tuple[str, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())

    def facts(self) -> dict[str, Any]:
        """The same for JSON."""
        return dataclasses.asdict(self)


REFERENCE_DIM: Final = 768
"""Of the vectors that the defaults are of."""


def assumed(dim: int) -> Speeds:
    """What two cores of another machine reach with vectors of this dimension."""
    default, axes = Speeds(), axes_of(dim)
    share, along = dim / REFERENCE_DIM, axes / default.scan_axes
    return Speeds(
        project_s=default.project_s * share,
        scan_s=default.scan_s * share,
        pruned_s=default.pruned_s * along,
        rescore_s=default.rescore_s * share,
        index_add_s=default.index_add_s * along,
        index_search_s=default.index_search_s * along,
        scan_axes=axes,
        index_axes=axes,
        notes=("nothing was measured: figures are those of two cores of an AMD EPYC (Zen 3)",),
    )


def axes_of(dim: int) -> int:
    """Along how many axes made-up vectors in SPECTER2's shape are looked at."""
    return min(dim, max(16, round(dim / 6 / 32) * 32))
