"""Papers: source files to one table, by the rules of the modules beside this one."""

from hindsight_fast.papers.gathering import gather
from hindsight_fast.papers.options import MAX_BAD, Options
from hindsight_fast.papers.read import read_papers
from hindsight_fast.papers.schema import PAPER_SCHEMA, REJECT_SCHEMA, Gathered, PaperTable

__all__ = [
    "MAX_BAD",
    "PAPER_SCHEMA",
    "REJECT_SCHEMA",
    "Gathered",
    "Options",
    "PaperTable",
    "gather",
    "read_papers",
]
