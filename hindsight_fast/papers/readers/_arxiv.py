"""What arXiv's free words say: where a paper appeared, and that it was withdrawn.

Authors write "Accepted to NeurIPS 2023" as well as "NeurIPS 2023 Workshop" or "submitted to". So
a comment names a venue only where it says that the paper appeared there, or where the venue stands
alone, and only one that the table knows; and where it speaks of a workshop, of Findings or
another side event, the venue is marked with that, even one of a journal reference: a lost venue
does less harm than a wrong one.
"""

import polars as pl

from hindsight_fast.papers import venues
from hindsight_fast.papers.venues import Table

_SIDE = (
    r"(?i)\b(workshops?|findings|(?:system )?demonstrations?|demo (?:track|papers?|session)|"
    r"tutorials?|(?:student|extended) abstracts?|doctoral consortium|tiny papers?|companion|"
    r"late[- ]breaking|industry track|datasets? (?:and|&) benchmarks?|competition|challenge)\b"
)
_NOT_YET = (
    r"(?i)\b(?:submi(?:tted|ssion)|(?:under|in) (?:double[- ]blind )?review|under consideration|"
    r"rejected|withdrawn|(?:extended|full|long|longer|short|preliminary|earlier|abridged|journal) "
    r"version|technical report|part of this)\b"
)
_APPEARED = (
    r"(?i)\b(?:(?:accepted|published|presented|appear(?:s|ed|ing)?|camera[- ]ready(?: version)?)"
    r"(?: (?:as|for) (?:an? |the )?(?:[a-z-]+ ){0,3}?"
    r"(?:papers?|publication|presentation|article|poster|oral|spotlight|talk))?"
    r"(?: (?:at|to|in|by|for|on))+|in (?:the )?proceedings of) (.+)$"
)
_TO_END = r"^((?:\b[A-Z][a-z]{0,6}\. |[^.;]|\.[^ ])+)"  # "J. Fluid Mech." goes on
_ALONE = (
    r"(?:^|[.;,] )([A-Z][A-Za-z]*[A-Z][A-Za-z]*(?:[-/][A-Za-z]+)?(?: ?20[0-9]{2}| ?['’][0-9]{2})"
    r"(?: \(?(?i:(?:main|conference|long|short|papers?|oral|spotlight|poster|highlight|track|"
    r"findings|workshop|camera[- ]ready)\b[ ,]{0,2})+\)?)?)(?:$|[.;,])"
)
_AFTER = (
    r"(?i)[\s,(:–-]+(?:[0-9]+ ?(?:pages?|pp|figures?|figs?|tables?)|https?://|"
    r"(?:the |our |source )?code|camera[- ]ready|project|website|doi|arxiv|supplement\w*|appendix|"
    r"contains?|includ(?:es|ing)|with|first|this|we|please|see)\b.*$"
)
# What a comment that names a venue has; few do.
_HINT = (
    r"[Aa]ccepted|[Pp]ublished|[Pp]resented|[Aa]ppear|[Cc]amera|roceedings of|20[0-9]{2}|"
    r"['’][0-9]{2}"
)

# "volume 3, pages 1-9 (2007)" and the like, of a journal reference.
_VOLUME = r"(?i)[\s,;:(]+(?:vol(?:ume)?|no|pp?|pages?|issues?)\b[\s.:]*[0-9].*$"
_NUMBERS = r"[\s,;:.]*(?:(?:\([0-9/\s–-]*\)|e?[0-9]+)[\s,;:.–-]*)+$"

_WITHDRAWN = (
    r"(?i)(?:^|[.;:(\[])\W*(?:(?:this|the) )?(?:arxiv )?"
    r"(?:(?:paper|article|submission|manuscript|work|preprint|version) )?"
    r"(?:(?:has|have|had) been |was |is |is being )?(?:temporarily )?withdrawn"
    r"(?:\W*$|\s*[.,;:)\]]|\s+(?:by|due|because|as|since|for|pending|from (?:the )?arxiv|and|until|"
    r"in order|owing|to)\b)"
)


def venue(journal_refs: pl.Series, comments: pl.Series, table: Table) -> pl.Series:
    """Name where each paper appeared: by its journal reference, else by its comment, else arXiv.

    Parameters
    ----------
    journal_refs, comments : polars.Series of String
        As arXiv has them; null or empty where there is none.
    table : Table

    Returns
    -------
    polars.Series of String
    """
    journals = _spaced(journal_refs).str.replace(_VOLUME, "").str.replace(_NUMBERS, "")
    journals = journals.set(journals == "", None)
    asked = (comments.str.contains(_HINT) & journals.is_null()).fill_null(False)
    named = _scattered(journals, asked, _in_comments(comments.filter(asked), table))
    side = comments.str.extract(_SIDE, 1)
    marked = side.is_not_null() & named.is_not_null() & ~named.str.contains(_SIDE).fill_null(True)
    with_side = named.filter(marked) + " (" + side.filter(marked) + ")"
    return _scattered(named, marked, with_side).fill_null("arXiv").alias("venue")


def _in_comments(comments: pl.Series, table: Table) -> pl.Series:
    """Known venue that each comment names, or null."""
    comments = _spaced(comments)
    appeared = comments.str.extract(_APPEARED, 1).str.extract(_TO_END, 1)
    names = appeared.zip_with(appeared.is_not_null(), comments.str.extract(_ALONE, 1))
    names = names.str.replace(_AFTER, "").str.strip_chars(" ,:(")
    known = venues.is_known(venues.resolve(names, table), table)
    return names.set(~known | comments.str.contains(_NOT_YET), None)


def _spaced(texts: pl.Series) -> pl.Series:
    return texts.str.replace_all(r"\s+", " ").str.strip_chars()


def _scattered(column: pl.Series, mask: pl.Series, values: pl.Series) -> pl.Series:
    rows = mask.arg_true()
    return column.clone().scatter(rows, values) if len(rows) else column


def withdrawn(comments: pl.Series) -> pl.Series:
    """Tell which comments say that arXiv has the paper no more; False for null.

    "Withdrawn from ICML 2020" says something else.
    """
    rows = comments.str.contains("[Ww]ithdrawn|WITHDRAWN").fill_null(False)
    return _scattered(rows, rows, _spaced(comments.filter(rows)).str.contains(_WITHDRAWN))
