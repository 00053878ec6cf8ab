"""arXiv ids and DOIs as people write them, and ids for records that have none of their own."""

from hashlib import blake2b
from typing import Final
from urllib.parse import unquote

import polars as pl

from hindsight_fast.papers._rows import on_each

_ARCHIVES = (
    "acc-phys|adap-org|alg-geom|ao-sci|astro-ph|atom-ph|bayes-an|chao-dyn|chem-ph|cmp-lg|comp-gas|"
    "cond-mat|cs|dg-ga|econ|eess|funct-an|gr-qc|hep-ex|hep-lat|hep-ph|hep-th|math|math-ph|"
    "mtrl-th|nlin|nucl-ex|nucl-th|patt-sol|physics|plasm-ph|q-alg|q-bio|q-fin|quant-ph|solv-int|"
    "stat|supr-con"
)
_NEW = r"[0-9]{2}(?:0[1-9]|1[0-2])\.[0-9]{4,5}"
_OLD = rf"(?:{_ARCHIVES})(?:\.[a-z]{{2}})?/(?:9[1-9]|0[0-7])(?:0[1-9]|1[0-2])[0-9]{{3}}"
_ARXIV = (
    rf"^(?:(?:oai:)?arxiv(?:\.org)?[:.\s]\s*)?({_NEW}|{_OLD})(?:v[0-9]{{1,3}})?"
    r"(?:\s*\[[a-z.-]+\](?:\s.*)?)?$"
)
_ARXIV_URL = rf"^(?:https?://)?(?:(?:www|export)\.)?arxiv\.org/(?:abs|pdf|html|ps|format|e-print)/({_NEW}|{_OLD})(?:v[0-9]{{1,3}})?\b"
_RESOLVER = r"(?:https?://)?(?:(?:dx|www)\.)?doi\.org/"
_PREFIX = rf"^(?:(?:info:)?doi[:/\s]\s*|{_RESOLVER})?"
_ARXIV_DOI = rf"{_PREFIX}10\.48550/arxiv\.({_NEW}|{_OLD})(?:v[0-9]{{1,3}})?\b"
_DOI = rf"{_PREFIX}(10\.[0-9]{{4,9}}/\S+?)[.,;]?$"
_DOI_URL = rf"^{_RESOLVER}(10\.[0-9]{{4,9}}/[^\s?#]+)"
_ENCODED = r"doi\.org/\S*%[0-9a-f]{2}"

ID_DIGITS: Final = 12
"""Hexadecimal digits of a suffix that tells apart papers of one id."""


def arxiv(texts: pl.Series) -> pl.Series:
    """Read arXiv ids, without version, lower case, or null.

    ``2405.14012v2``, ``arXiv:2405.14012``, ``cs.CL/0601001`` (the subject class is dropped), the
    stamp on a page, ``oai:arXiv.org:...``, addresses at arxiv.org and DOIs 10.48550/arXiv.X. An id
    of an impossible month is none.
    """
    low = _lower(texts)
    found = pl.DataFrame({"text": low}).select(
        pl.coalesce(pl.col("text").str.extract(p, 1) for p in (_ARXIV, _ARXIV_URL, _ARXIV_DOI))
        .str.replace(r"^([a-z-]+)\.[a-z]{2}/", "$1/")
        .alias(texts.name)
    )
    ids = found.to_series()
    # New-style numbers began in April 2007 and have five digits since 2015.
    new = ids.str.extract(r"^([0-9]{4})\.", 1).cast(pl.Int32)
    length = ids.str.len_chars()
    wrong = (new < 704) | ((new < 1501) & (length != 9)) | ((new >= 1501) & (length != 10))
    return ids.set(wrong.fill_null(False), None)


def doi(texts: pl.Series) -> pl.Series:
    """Read DOIs, lower case and without resolver, or null; an arXiv DOI is an arXiv id instead."""
    low = _lower(texts)
    found = pl.DataFrame({"text": low}).select(
        pl.coalesce(pl.col("text").str.extract(pattern, 1) for pattern in (_DOI_URL, _DOI))
        .str.strip_chars_end(".,;")
        .alias(texts.name)
    )
    ids = found.to_series()
    return ids.set(ids.str.contains(_ARXIV_DOI).fill_null(False), None)


def doi_in_url(urls: pl.Series) -> pl.Series:
    """DOI of a doi.org address, or null."""
    return doi(_lower(urls).str.extract(_DOI_URL, 1))


def _lower(texts: pl.Series) -> pl.Series:
    """Lower case without space around, and without percent signs in an address of a DOI."""
    low = texts.str.strip_chars().str.to_lowercase()
    return on_each(low, _ENCODED, lambda text: unquote(text).lower())


def digest(parts: pl.DataFrame, digits: int) -> pl.Series:
    """Hash the rows of a table of strings: the same row gives the same digits anywhere."""
    hashes = [
        blake2b("\0".join(map(str, row)).encode(), digest_size=16).hexdigest()[:digits]
        for row in parts.iter_rows()
    ]
    return pl.Series(hashes, dtype=pl.String)


def fill_missing(papers: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Give records without an id one made of what they hold; also return how many."""
    without = papers["id"].is_null()
    count = int(without.sum())
    if not count:
        return papers, 0
    content = papers.filter(without).select(
        "title", "abstract", "venue", "year", "date", "doi", "arxiv_id", "url"
    )
    made = "content:" + digest(content, 16)
    return papers.with_columns(papers["id"].scatter(without.arg_true(), made)), count
