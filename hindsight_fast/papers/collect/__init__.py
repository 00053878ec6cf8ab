"""Collecting papers from Semantic Scholar and OpenAlex over HTTP: raw answers, and a table of them.

A collection is a folder: `raw/` with each answer as it came (compressed), `pages.jsonl` that names
them, `papers.parquet` with their records, and a manifest. `build` takes it as a source.
"""

from collections.abc import Sequence
from pathlib import Path

from hindsight_fast.errors import ArtefactError
from hindsight_fast.papers.collect._client import Manners
from hindsight_fast.papers.collect._openalex import OPENALEX
from hindsight_fast.papers.collect._pages import KIND, RAW, collected_on, read_list
from hindsight_fast.papers.collect._run import collect
from hindsight_fast.papers.collect._s2 import S2
from hindsight_fast.papers.collect._service import Query, Service, Window, money
from hindsight_fast.papers.collect._watch import Plan, Progress, Watch
from hindsight_fast.papers.topics import Topic
from hindsight_fast.storage import verify_folder

__all__ = [
    "KIND",
    "OPENALEX",
    "RAW",
    "S2",
    "Manners",
    "Plan",
    "Progress",
    "Query",
    "Service",
    "Watch",
    "Window",
    "collect",
    "collected_on",
    "money",
    "queries_of",
    "verify_collection",
]


def queries_of(service: Service, topics: Sequence[Topic]) -> tuple[Query, ...]:
    """Make the queries that find the papers of topics."""
    return tuple(Query(topic.name, service.any_of(topic.phrases)) for topic in topics)


def verify_collection(path: Path) -> list[str]:
    """Check every byte of a collection.

    Returns
    -------
    list of str
        What was checked, a phrase each.

    Raises
    ------
    ArtefactError
        Naming the first file that is not as it was published.
    """
    manifest = verify_folder(path, KIND)
    pages = [*read_list(path)]
    for page in pages:
        if not page.is_whole(path / RAW):
            raise ArtefactError(
                f"{path / RAW}/{page.file} is not the answer that came; collect it anew"
            )
    return [f"{len(manifest.files)} files", f"{len(pages)} answers"]
