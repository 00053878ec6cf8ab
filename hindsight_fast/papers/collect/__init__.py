"""Collecting papers from Semantic Scholar and OpenAlex over HTTP: raw answers, and a table of them.

A collection (`answers`) is a source for `build`.
"""

from collections.abc import Sequence

from hindsight_fast.papers.collect._client import Manners
from hindsight_fast.papers.collect._openalex import OPENALEX
from hindsight_fast.papers.collect._run import collect
from hindsight_fast.papers.collect._s2 import S2
from hindsight_fast.papers.collect._service import Query, Service, Window, money
from hindsight_fast.papers.collect._watch import Plan, Progress, Watch
from hindsight_fast.papers.topics import Topic

__all__ = [
    "OPENALEX",
    "S2",
    "Manners",
    "Plan",
    "Progress",
    "Query",
    "Service",
    "Watch",
    "Window",
    "collect",
    "money",
    "queries_of",
]


def queries_of(service: Service, topics: Sequence[Topic]) -> tuple[Query, ...]:
    """Make the queries that find the papers of topics."""
    return tuple(Query(topic.name, service.any_of(topic.phrases)) for topic in topics)
