"""Papers: source files to one table, by the rules of the modules beside this one."""

from hindsight_fast.papers.read import MAX_BAD, read_papers
from hindsight_fast.papers.schema import PAPER_SCHEMA, REJECT_SCHEMA, PaperTable

__all__ = ["MAX_BAD", "PAPER_SCHEMA", "REJECT_SCHEMA", "PaperTable", "read_papers"]
