"""Papers in order of date, and their vectors.

A store is a folder: `papers.parquet` (all columns, in row order), `rejects.parquet`,
`merges.parquet` and `conflicts.parquet` (what became of which records), `dates.npy`,
`date-kinds.npy` and `citations.npy`, the two `lookup-*.npy` that name single papers without reading
a table, and `vectors/ENCODER/`, each an artefact of its own. What is taken over from another store
waits in `vectors/.ENCODER.carried/` for those of the other papers.

Rows are sorted by the start of the date's interval, then by id, undated last: the papers of a
window are a slice.

A store has two identities: `content_id` (ordered ids and texts; what vectors depend on) and
`facts_id` (dates, venues, citations, status and more; what windows and impact depend on).
"""

from hindsight_fast.store._build import build_store, is_store_there
from hindsight_fast.store._carrying import carry_vectors, remove_carried
from hindsight_fast.store._coverage import tally
from hindsight_fast.store._identity import columns_hash
from hindsight_fast.store._read import (
    UNDATED,
    VECTORS,
    Store,
    Vectors,
    carried_folder,
    days,
    is_encoder_name,
    topics_of,
)
from hindsight_fast.store._verify import UNIT_TOLERANCE, check_unit_rows, verify_store

__all__ = [
    "UNDATED",
    "UNIT_TOLERANCE",
    "VECTORS",
    "Store",
    "Vectors",
    "build_store",
    "carried_folder",
    "carry_vectors",
    "check_unit_rows",
    "columns_hash",
    "days",
    "is_encoder_name",
    "is_store_there",
    "remove_carried",
    "tally",
    "topics_of",
    "verify_store",
]
