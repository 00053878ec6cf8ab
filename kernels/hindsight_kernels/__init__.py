"""Exact nearest papers and their impact: numba kernels, arrays in, arrays out.

`match` decides among candidates, `scan` nominates them by a matrix product with a proven error
bound, `exact` is both. All three may be called from several threads at once and after a fork.
"""

from hindsight_kernels.exact import exact
from hindsight_kernels.match import Matches, match
from hindsight_kernels.scan import scan

__all__ = ["Matches", "exact", "match", "scan"]
