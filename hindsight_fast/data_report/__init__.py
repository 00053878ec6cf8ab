"""What a store's papers are like: counts for a person, as data and as one page of HTML."""

from hindsight_fast.data_report._counts import DataReport, Tally, as_json, examine, lines
from hindsight_fast.data_report._page import page
from hindsight_fast.data_report._words import in_words

__all__ = ["DataReport", "Tally", "as_json", "examine", "in_words", "lines", "page"]
