"""Exact nearest papers and their impact: numba kernels, arrays in, arrays out.

`match` decides among candidates. `scan` and `pruned_scan` nominate them by matrix products with a
proven error bound, along all axes or along few; `exact` is a scan and a match. `grid` scores lists
of nearest papers at many settings at once. All may be called from several threads at once and after
a fork.
"""

from hindsight_kernels.exact import exact
from hindsight_kernels.grid import Grid, grid
from hindsight_kernels.match import Matches, match
from hindsight_kernels.projected import Limits, Projected, project
from hindsight_kernels.pruned import pruned_scan
from hindsight_kernels.scan import scan

__all__ = [
    "Grid",
    "Limits",
    "Matches",
    "Projected",
    "exact",
    "grid",
    "match",
    "project",
    "pruned_scan",
    "scan",
]
