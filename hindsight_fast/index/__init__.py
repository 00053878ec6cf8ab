"""An HNSW graph that nominates near papers: built in parts, kept as papers come and go, searched.

Nearest by cosine among unit vectors is nearest by L2, and L2 doesn't change when the mean vector
is subtracted from all and the axes are turned. Encoders' vectors share a large mean; what remains
is short, and most of its variance lies along few axes (its principal components). So the graph
holds one byte for each of those axes, and search reads a fraction of the memory:

    code = clip(rint((x - mean) @ axes), -127, 127),    metric: squared L2 over codes,

where the columns of `axes` are principal components times one common scale. What that leaves out
is made up by nominating more papers than are wanted; the similarity kernel decides among them.

usearch builds the graph and writes its file. Searches walk that file as it lies on disk, by a
kernel (`hindsight_kernels.walk`, twice as fast), and its slots are put in an order in which what is
near lies near.

HNSW breaks when many vectors are equal (they link to each other and to nothing else), so of
papers with equal codes only the first is in the graph; the others are listed beside it and come
along with it. Nor does every paper of a graph have a link that leads to it: those that have none
are added again, and what has none even then is compared with every idea. What the graph says is a
nomination: no distance leaves this package.

Files: index.usearch (the graph, of codes by key), index-rows.npy (int32: the row of each key, -1
where it has none), index-mean.npy (float32 (d,)), index-axes.npy (float32 (d, a)),
index-copies.npy (int32 (m, 2): row in the graph, row of equal code; sorted) and index-strays.npy
(int32: keys to which no link leads). Older indexes have no rows, since their keys are rows, and no
strays.
"""

from hindsight_fast.index._build import build_index
from hindsight_fast.index._config import (
    AXES,
    COPIES,
    FILES,
    GRAPH,
    MEAN,
    ROWS,
    STRAYS,
    IndexConfig,
    IndexFacts,
    files_among,
)
from hindsight_fast.index._graph import VERSION as USEARCH_VERSION
from hindsight_fast.index._search import Index
from hindsight_fast.index._taking import Old

__all__ = [
    "AXES",
    "COPIES",
    "FILES",
    "GRAPH",
    "MEAN",
    "ROWS",
    "STRAYS",
    "USEARCH_VERSION",
    "Index",
    "IndexConfig",
    "IndexFacts",
    "Old",
    "build_index",
    "files_among",
]
