"""A scoring job from file to file: streaming, resumable, published whole, with a manifest."""

from hindsight_fast.runs._job import BATCH, score_file
from hindsight_fast.runs._manifest import describe, is_scores, manifest_path, verify
from hindsight_fast.runs._targets import check_targets

__all__ = [
    "BATCH",
    "check_targets",
    "describe",
    "is_scores",
    "manifest_path",
    "score_file",
    "verify",
]
