"""Which records are one paper.

Two records are the same paper where they share

- a DOI, an arXiv id or a corpus id (a number that more than `LARGEST` records share is no paper's
  own, nor is a DOI of several titles whose known first authors differ too: it is a volume's);
- a normalised title and an abstract, whatever the years;
- an id (less the suffix that tells papers apart) and a normalised title;
- a normalised title, with years at most 1 apart, 2 if one of them is a preprint (has an arXiv id
  or stands on a preprint server). Years are compared with the earliest of the group, so that a
  title that returns every year does not chain;
- a normalised title of some length and a known first author, however far apart the years, where
  one is a preprint and the other is none: a paper put on arXiv years after its conference was known
  all the while. Not where the title has several preprints, or was published in several years, as
  a yearly report is; nor where DOIs differ.

Generic titles ("Preface"), titles that more than `LARGEST` records share, and those whose known
first authors differ never merge by title alone. A record without any year merges by title only
where the abstract is the same too. Generic titles of one id need the same abstract as well.

The rules look at keys (`keys_of`), never at texts, so that hashes of keys do as well: `find_groups`
asks only for equal and unequal.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers import identifiers, text, venues
from hindsight_fast.papers.venues import Table

LARGEST: Final = 20
"""More records than this with one title, DOI, arXiv id or corpus id are no copies of one paper."""

LONG_BYTES: Final = 30
"""Titles of fewer letters and digits ("Large language models") come to many minds. Of 8,627 titles
that lists of AI papers had more than once, 1.9% are that short."""

NUMBERS: Final = ("doi", "arxiv_id", "corpus_id")

KEYS: Final[dict[str, pl.DataType]] = {
    "id": pl.String(),  # less our suffix
    "identity": pl.String(),  # with the id: the same paper (title; abstract too where generic)
    "title": pl.String(),  # normalised
    "abstract": pl.String(),
    "surname": pl.String(),  # of the first author
    "initial": pl.String(),  # of the first author's given name
    "doi": pl.String(),
    "arxiv_id": pl.String(),
    "corpus_id": pl.Int64(),
    "year": pl.Int32(),
    "preprint": pl.Boolean(),
    "generic": pl.Boolean(),  # a title that many papers have
    "long": pl.Boolean(),  # a title that tells a paper of its author, whatever the years
}

SHARED: Final[dict[str, pl.DataType]] = {
    "kind": pl.String(),  # of `conflicts.KINDS`
    "what": pl.String(),  # doi | arxiv_id | corpus_id | title
    "label": pl.Int64(),  # a row of those that share it
    "row": pl.Int64(),
    "detail": pl.String(),
}

_OF_TITLE: Final = (
    "generic", "long", "abstract", "surname", "initial", "year", "preprint", "arxiv_id", "doi",
)  # fmt: skip

Take = Callable[[str, Sequence[str]], Iterator[pl.DataFrame]]
"""``take(key, others)`` yields frames with the columns ``row`` (Int64), `key` and `others`: all
rows whose `key` is not null and that some other row has too, equal keys in one frame."""

_GENERIC = (
    r"^(?:abstracts?|acknowledge?ments?|announcements?|appendix|authorindex|background|"
    r"backmatter|bookreviews?|callforpapers|comment(?:s|ary)?|conclusions?|contents|copyright|"
    r"correct(?:ion|ions)|corrigendum|cover|discussion|editor(?:ial|ialboard|sintroduction|snote)|"
    r"errata|erratum|foreword.{0,20}|frontmatter|generalintroduction|"
    r"guesteditor(?:ial|sintroduction)|index|inmemoriam|introduction|introductionto"
    r"(?:the|this)?specialissue|invitedtalks?|issue|keynote(?:s|speech|talk)?|letters?|"
    r"lettertotheeditor|listof(?:authors|reviewers)|masthead|messagefrom.{0,40}chairs?|news|"
    r"notes?|notitle|obituary|(?:organizing|program|programme)committee|overview|panel|"
    r"paperwithdrawn|posters?|.{0,60}preface|prefaces|prefaceto.*|proceedingsof.*|references|"
    r"reply|response|retracted|retraction|reviewers?|reviews?|specialissue|subjectindex|summary|"
    r"supplementarymaterial|tableofcontents|titlepage|tutorials?|untitled|welcome|"
    r"welcomemessage|withdrawn|workshops?)$"
)


SUFFIX = rf"~[0-9a-f]{{{identifiers.ID_DIGITS}}}$"


class Groups(NamedTuple):
    """Which rows are one paper.

    Attributes
    ----------
    rows : ndarray of int64
        Row numbers, ascending, of those that are one paper with another.
    labels : ndarray of int64
        For each of them the smallest row of its group.
    shared : polars.DataFrame
        Columns of `SHARED`: what rows have in common that may nevertheless be several papers.
    n_too_many : int
        Rows that share a title, DOI, arXiv id or corpus id with more than `LARGEST`, or the DOI
        of a volume.
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    shared: pl.DataFrame
    n_too_many: int

    def of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the label of each row's group; a row in none is its own."""
        if not len(self.rows):
            return rows
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[places] == rows, self.labels[places], rows)


def keys_of(papers: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Take from each record what the rules compare.

    Parameters
    ----------
    papers : polars.DataFrame
        n rows, columns of `PAPER_SCHEMA`; ids are not null.
    table : Table
        Tells preprint servers.

    Returns
    -------
    polars.DataFrame
        n rows, columns of `KEYS`.
    """
    titles = text.title_key(papers["title"])
    generic = titles.str.contains(_GENERIC).fill_null(True)
    identity = titles.fill_null(papers["title"])
    with_abstract = (
        identity.filter(generic) + "\n" + papers["abstract"].filter(generic).fill_null("")
    )
    preprint = venues.is_preprint(papers["venue"], table)
    preprint |= (papers["kind"] == "preprint").fill_null(False) | papers["arxiv_id"].is_not_null()
    return papers.select(
        pl.col("id").str.replace(SUFFIX, ""),
        identity.scatter(generic.arg_true(), with_abstract).alias("identity"),
        titles.alias("title"),
        "abstract",
        *_first_author(papers["authors"]),
        *NUMBERS,
        pl.coalesce(pl.col("date").dt.year(), "year").alias("year"),
        preprint.alias("preprint"),
        generic.alias("generic"),
        (titles.str.len_bytes() >= LONG_BYTES).fill_null(False).alias("long"),
    )


def find_groups(take: Take) -> Groups:
    """Find the rows that are one paper.

    Parameters
    ----------
    take : callable
        Gives the keys (`KEYS`), or hashes of them, see `Take`.

    Returns
    -------
    Groups
    """
    pairs: list[NDArray[np.int64]] = []
    shared: list[pl.DataFrame] = []
    for name in NUMBERS:
        for rows in take(name, ["title", "surname"] if name == "doi" else []):
            if name == "doi":
                volume = _of_volume(rows)
                shared.append(_shared("volume_doi", name, rows.filter(volume), [name]))
                rows = rows.filter(~volume)
            few, many = _split(rows, [name])
            shared.append(_shared("too_many_alike", name, many, [name]))
            pairs.append(_stars(few, [name]))
    for rows in take("identity", ["id"]):
        pairs.append(_stars(rows, ["identity", "id"]))
    titled: list[pl.DataFrame] = []
    for rows in take("title", _OF_TITLE):
        generic = rows.filter("generic")
        shared.append(_shared("generic_title", "title", generic, ["title"]))
        few, many = _split(_with_author(rows.filter(~pl.col("generic"))), ["title", "who"])
        shared.append(_shared("too_many_alike", "title", many, ["title", "who"]))
        pairs += _by_year(few.drop_nulls("year"))
        pairs.append(_stars(few.drop_nulls("abstract"), ["title", "who", "abstract"]))
        titled.append(few.select("row", "disputed", label=pl.col("row").first().over("title")))
    found = components(_stacked(pairs))
    alike = pl.concat([pl.DataFrame(schema=SHARED), *shared])
    n_too_many = alike.filter(pl.col("kind") != "generic_title").height
    groups = Groups(*found, alike, n_too_many)
    return groups._replace(shared=pl.concat([alike, *(_apart(few, groups) for few in titled)]))


def _stacked(pairs: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty((0, 2), dtype=np.int64), *pairs])


def _split(rows: pl.DataFrame, by: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows whose key at most `LARGEST` have, and the others."""
    many = rows.select(pl.len().over(by) > LARGEST).to_series()
    return rows.filter(~many), rows.filter(many)


def _shared(kind: str, what: str, rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return rows.select(
        kind=pl.lit(kind),
        what=pl.lit(what),
        label=pl.col("row").first().over(by),
        row="row",
        detail=pl.lit(None, dtype=pl.String),
    )


def _of_volume(rows: pl.DataFrame) -> pl.Series:
    """Tell which DOIs are a volume's: several titles, each of which has first authors of its own.

    Where every record has another title, it is enough that not all first authors are the same.
    """
    n_titles = pl.col("title").n_unique().over("doi")
    n_authors = pl.col("surname").drop_nulls().n_unique().over("doi")
    counted = rows.with_columns(
        one_of_many=n_titles == pl.len().over("doi"),
        several=(n_titles > 1) & (n_authors > 1),
        meant=pl.col("title").n_unique().over("doi", "surname"),
    )
    own = pl.when(pl.col("surname").is_not_null()).then("meant").max().over("doi") == 1
    return counted.select(volume=pl.col("several") & (pl.col("one_of_many") | own))["volume"]


def _stars(rows: pl.DataFrame, by: list[str]) -> NDArray[np.int64]:
    """Pair each row with the first of its group."""
    pairs = rows.select("row", first=pl.col("row").first().over(by))
    return pairs.filter(pl.col("row") != pl.col("first")).to_numpy()


def _with_author(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``who``, the first author where those of a title differ, and drop who is unknown then."""
    disputed = pl.col("surname").drop_nulls().n_unique().over("title") > 1
    rows = rows.with_columns(disputed=disputed).filter(
        ~pl.col("disputed") | pl.col("surname").is_not_null()
    )
    return rows.with_columns(who=pl.when("disputed").then("surname"))


def _by_year(rows: pl.DataFrame) -> list[NDArray[np.int64]]:
    """Pair rows of one title (and author) whose years agree."""
    by = ["title", "who"]
    rows = rows.with_columns(span=_span(pl.col("year")).over(by))
    pairs = [_stars(rows.filter(pl.col("span") <= 1), by), _far_apart(rows)]
    # Titles that come back over the years, few. In each round the earliest row takes those near
    # it. Of one year preprints come first, so that what is near stands together.
    left = rows.filter(pl.col("span") > 1).sort("year", pl.col("preprint").not_())
    while left.height:
        first = pl.col("row", "year", "preprint").first().over(by).name.suffix("_first")
        limit = pl.when(pl.col("preprint") | pl.col("preprint_first")).then(2).otherwise(1)
        near = pl.col("year") - pl.col("year_first") <= limit
        left = left.select("row", *by, "year", "preprint", first).with_columns(near=near)
        found = left.filter(pl.col("near") & (pl.col("row") != pl.col("row_first")))
        pairs.append(found.select("row", "row_first").to_numpy())
        left = left.filter(~pl.col("near")).select("row", *by, "year", "preprint")
    return pairs


def _far_apart(rows: pl.DataFrame) -> NDArray[np.int64]:
    """Pair rows of one long title and first author that are one preprint and one publication."""
    preprint, by = pl.col("preprint"), ["title", "surname"]
    one = (
        (_span(pl.col("year").filter(preprint)) <= 2)
        & (_span(pl.col("year").filter(~preprint)) <= 1)
        & pl.all_horizontal(pl.col("arxiv_id", "doi", "initial").drop_nulls().n_unique() <= 1)
    )
    rows = rows.filter("long", pl.col("surname").is_not_null(), pl.col("span") > 1)
    return _stars(rows.filter(one.fill_null(False).over(by)), by)


def _span(years: pl.Expr) -> pl.Expr:
    """From the first to the last of some years; null where there are none."""
    return years.max() - years.min()


def _apart(titled: pl.DataFrame, groups: Groups) -> pl.DataFrame:
    """Rows of `SHARED`: titles that are several papers, though none of the other reasons holds."""
    group = pl.Series("group", groups.of(titled["row"].to_numpy()))
    apart = titled.with_columns(group).filter(pl.col("group").n_unique().over("label") > 1)
    reason = pl.when("disputed").then(pl.lit("first authors differ"))
    return apart.select(
        kind=pl.lit("same_title"),
        what=pl.lit("title"),
        label="label",
        row="row",
        detail=reason.otherwise(pl.lit("years apart or unknown")),
    )


def _first_author(authors: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Family name and initial of the first author.

    ``Ada Bee``, ``Bee, A.`` and ``Bee A`` are all Bee, and A.
    """
    first = authors.list.first()
    name = first.str.replace(r",.*$", "").str.replace(r"(?i)\s+(?:et al\.?|jr\.?|sr\.?)$", "")
    initials = name.str.contains(r"\s(?:[A-Z]\.?-?){1,3}$").fill_null(False)
    word = name.str.extract(r"^(\S+)", 1).zip_with(initials, name.str.extract(r"(\S+)$", 1))
    after = name.str.extract(r"\s([A-Z])\.?-?(?:[A-Z]\.?-?){0,2}$", 1)
    before = name.str.extract(r"^(\p{L})\S*\s", 1)
    given = first.str.extract(r",\s*(\p{L})", 1)
    given = given.zip_with(given.is_not_null(), after.zip_with(initials, before))
    return text.title_key(word).alias("surname"), text.title_key(given).alias("initial")


def components(pairs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find connected components.

    Parameters
    ----------
    pairs : ndarray of shape (m, 2), int64
        Row numbers that belong together.

    Returns
    -------
    rows : ndarray of int64
        Those that occur, ascending.
    labels : ndarray of int64
        For each of them the smallest row of its component.
    """
    rows, places = np.unique(pairs, return_inverse=True)
    left, right = places.reshape(-1, 2).T
    root = np.arange(len(rows))
    # Each root takes hold of the smallest root beside it; of a connected lot at most half are
    # left after two rounds, whatever its shape.
    while True:
        left, right = root[left], root[right]
        apart = left != right
        if not apart.any():
            return rows, rows[root]
        left, right = left[apart], right[apart]
        np.minimum.at(root, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(root, above := root[root]):
            root = above
