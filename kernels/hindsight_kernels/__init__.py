"""Exact nearest papers and their impact: numba kernels, arrays in, arrays out.

`match` decides among candidates. `scan` and `pruned_scan` nominate them by matrix products with a
proven error bound, of float32 numbers or of bytes; `exact` is a scan and a match. `walk` follows
the links of a graph. `grid` scores lists of nearest papers at many settings at once. All may be
called from several threads at once and after a fork.
"""

from hindsight_kernels.exact import exact
from hindsight_kernels.grid import Grid, grid
from hindsight_kernels.match import Matches, match
from hindsight_kernels.projected import Limits, Projected, project
from hindsight_kernels.pruned import Multiply, pruned_scan
from hindsight_kernels.scan import scan
from hindsight_kernels.walk import FAR, Linked, Near, walk

__all__ = [
    "FAR",
    "Grid",
    "Limits",
    "Linked",
    "Matches",
    "Multiply",
    "Near",
    "Projected",
    "exact",
    "grid",
    "match",
    "project",
    "pruned_scan",
    "scan",
    "walk",
]
