"""What sort of document a record is, in few words: `KINDS`."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

KINDS: Final = (
    "article", "preprint", "survey", "report", "thesis", "book", "dataset", "editorial", "erratum",
    "other",
)  # fmt: skip
"""``article`` is any research paper, in a journal, proceedings or book; ``editorial`` is what is
written about research (letters and news too), ``erratum`` any notice that corrects or retracts."""

# Words of Semantic Scholar, OpenAlex, Crossref, BibTeX and arXiv, lower case, letters only.
_GROUPS: Final = {
    "article": (
        "article bookchapter bookpart booksection casereport chapter clinicaltrial conference "
        "conferencearticle conferencepaper inbook incollection inproceedings journal "
        "journalarticle journalpaper paper proceedingsarticle researcharticle study workshoppaper"
    ),
    "preprint": "postedcontent preprint unpublished workingpaper",
    "survey": "metaanalysis review reviewarticle survey systematicreview",
    "report": "manual report technicalreport techreport",
    "thesis": "bachelorsthesis dissertation mastersthesis mastersthesis phdthesis thesis",
    "book": "book booklet bookseries bookset collection editedbook monograph mvbook "
    "mvcollection mvproceedings proceedings referencebook",
    "dataset": "data database dataset datapaper",
    "editorial": "comment commentary editorial letter lettersandcomments news",
    "erratum": "corrigendum correction erratum retraction withdrawal",
    "other": (
        "component grant journalissue journalvolume libguides other paratext patent peerreview "
        "reference referenceentry software standard supplementarymaterials"
    ),
}
_KIND_OF: Final[Mapping[str, str]] = MappingProxyType(
    {word: kind for kind, words in _GROUPS.items() for word in words.split()}
)
# Of several words the more telling: a book that is also a conference paper is in a volume.
_TELLING: Final = (
    "erratum", "editorial", "dataset", "survey", "thesis", "preprint", "article", "report", "book",
    "other",
)  # fmt: skip
_NO_LETTERS: Final = re.compile("[^a-z]+")

_SIGN = r"(?i)review|survey"
# "a review of", ": Comprehensive Survey", "(survey)"; not "a code review", "survey responses".
_ADJECTIVES = (
    r"(?:(?:[a-z]+ly|and|bibliometric|brief|broad|compact|comparative|complete|comprehensive|"
    r"concise|contemporary|critical|current|deep|empirical|exhaustive|extended|extensive|focused|"
    r"full|general|gentle|historical|holistic|in-?depth|inclusive|integrative|interdisciplinary|"
    r"large-scale|literature|mapping|methodological|mini|modern|multidisciplinary|narrative|new|"
    r"practical|quick|rapid|recent|research|scoping|selective|short|state-of-the-art|structural|"
    r"structured|systematic|technical|theoretical|thorough|timely|topical|tutorial|umbrella|"
    r"unified|unifying|up-to-date|updated|wide)[\s,]+){0,5}"
)
_END = (
    r"\s*(?:$|[.:;,!?(\[–—]|-+\s|(?:about|across|and|at|beyond|by|for|from|in|into|of|on|over|paper|"
    r"through|to|towards?|using|via|with)\b)"
)
_START = r"(?:^|[.:;?!–—]\s*|-\s+)"
_SURVEY = "|".join(
    (
        rf"(?i)(?:\ban?\s+|{_START}){_ADJECTIVES}(?:review|survey){_END}",
        rf"(?i)\ban?\s+{_ADJECTIVES}[a-z-]+\s+survey{_END}",
        r"(?i)[(\[](?:an?\s+)?(?:review|survey)[)\]]$",
    )
)
_NO_SURVEY = (
    r"(?i)\b(?:cross-sectional|developer|expert|field|health|household|national|nationwide|online|"
    r"opinion|population|public|questionnaire|sky|student|telephone|user|web)\s+survey"
    rf"|(?i)\b(?:but|for|of)\s+an?\s+{_ADJECTIVES}(?:review|survey)"
)


def kind(given: pl.Series, titles: pl.Series) -> pl.Series:
    """Name the kind of each record.

    Parameters
    ----------
    given : polars.Series of String
        What the source calls it; several words separated by semicolons.
    titles : polars.Series of String

    Returns
    -------
    polars.Series of String
        One of `KINDS`, or null where nothing says it. A paper whose title calls it a survey or a
        review is a ``survey``, whatever its source calls it, unless that is more telling still.
    """
    kinds = _of_source(given)
    said = titles.str.contains(_SIGN)
    rows = said.fill_null(False).arg_true()
    if len(rows):
        short = titles.gather(rows)
        is_survey = short.str.contains(_SURVEY) & ~short.str.contains(_NO_SURVEY)
        is_survey &= kinds.gather(rows).is_in(_TELLING[:5]).fill_null(False).not_()
        kinds = kinds.clone().scatter(rows.filter(is_survey), "survey")
    return kinds.alias("kind")


def _of_source(given: pl.Series) -> pl.Series:
    """The words of sources are few, so each spelling is looked up once."""
    spellings = given.unique().drop_nulls()
    kinds = pl.Series([_look_up(one) for one in spellings], dtype=pl.String)
    return given.replace_strict(spellings, kinds, default=None, return_dtype=pl.String)


def _look_up(words: str) -> str | None:
    found = {_KIND_OF.get(_NO_LETTERS.sub("", word.lower())) for word in words.split(";")}
    return next((kind for kind in _TELLING if kind in found), None)
