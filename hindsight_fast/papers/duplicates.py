"""Which records are one paper, and what the one paper says.

Two records are the same paper where they share

- a DOI or an arXiv id (a number that more than `LARGEST` records share, or a DOI of records whose
  titles all differ and whose known first authors do too, is no paper's own but a volume's);
- a normalised title and an abstract, whatever the years;
- an id and a normalised title;
- a normalised title, with years at most 1 apart, 2 if one of them is a preprint (has an arXiv id
  or stands on a preprint server). Years are
  compared with the earliest of the group, so that a title that returns every year does not chain.
  Generic titles ("Preface"), titles that more than `LARGEST` records share, and those whose known
  first authors differ never merge by title alone. A record without any year merges by title only
  where the abstract is the same too. Generic titles of one id need the same abstract as well.

The group's date is chosen by `dates.choose`; its citations are the largest count of one record,
with that record's source and day, never a sum; its venue is the one that says most
(`venues.rank`); its abstract the longest; all else comes from the best record (DOI,
venue, arXiv id, citations, then the smaller id), gaps filled from the next best. A retraction of
one record retracts all.
"""

from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.papers import dates, identifiers, text, venues
from hindsight_fast.papers.schema import PAPER_SCHEMA

LARGEST: Final = 20
"""More records than this with one title, DOI or arXiv id are no copies of one paper."""

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


class Merged(NamedTuple):
    """Papers after merging.

    Attributes
    ----------
    papers : polars.DataFrame
        Columns of `PAPER_SCHEMA`, ordered by id; ids are unique.
    n_merged : int
        Records that became part of another.
    n_suffixed : int
        Papers whose id belonged to several and got a suffix.
    n_made : int
        Records without an id, which got one.
    n_too_many : int
        Records of a title, DOI or arXiv id that more than `LARGEST` share.
    """

    papers: pl.DataFrame
    n_merged: int
    n_suffixed: int
    n_made: int
    n_too_many: int


def merge(papers: pl.DataFrame) -> Merged:
    """Merge the records of each paper into one.

    Parameters
    ----------
    papers : polars.DataFrame
        Columns of `PAPER_SCHEMA`; ids may be null or repeat. The order of rows does not matter.

    Returns
    -------
    Merged
    """
    papers, n_made = identifiers.fill_missing(papers)
    keys = text.title_key(papers["title"])
    identity = keys.fill_null(papers["title"])
    generic = keys.str.contains(_GENERIC).fill_null(True)
    identity = identity.zip_with(~generic, identity + "\n" + papers["abstract"].fill_null(""))
    keyed = papers.with_columns(key=keys, identity=identity)
    keyed, n_suffixed = identifiers.tell_apart(keyed, "identity")
    edges, n_too_many = _edges(keyed)
    groups = components(keyed.height, edges)
    size = pl.Series(np.bincount(groups, minlength=keyed.height)[groups])
    plain = keyed.select(list(PAPER_SCHEMA))
    together = plain.with_columns(group=pl.Series(groups)).filter(size > 1)
    merged = pl.concat([plain.filter(size == 1), _one_each(together)]).sort("id")
    return Merged(merged, papers.height - merged.height, n_suffixed, n_made, n_too_many)


def _edges(papers: pl.DataFrame) -> tuple[NDArray[np.int64], int]:
    """Pairs of row numbers that are the same paper, and how many rows shared too much."""
    rows = papers.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    pairs: list[NDArray[np.int64]] = []
    too_many = 0
    for name in ("doi", "arxiv_id"):
        having = rows.drop_nulls(name).select("row", name, "key", "authors")
        if name == "doi":
            of_volume = _of_volume(having)
            too_many += int(of_volume.sum())
            having = having.filter(~of_volume)
        shared = having.filter(pl.len().over(name).is_between(2, LARGEST))
        too_many += having.filter(pl.len().over(name) > LARGEST).height
        pairs.append(_stars(shared, [name]))
    pairs.append(_stars(rows.select("row", "id", "identity"), ["id", "identity"]))
    titled = _by_title(rows)
    too_many += titled.filter(pl.len().over("key") > LARGEST).height
    titled = titled.filter(pl.len().over("key") <= LARGEST)
    pairs.append(_by_year(titled.drop_nulls("year")))
    pairs.append(_stars(titled.drop_nulls("abstract"), ["key", "abstract"]))
    return np.concatenate(pairs), too_many


def _of_volume(having: pl.DataFrame) -> pl.Series:
    """Tell which DOIs are a volume's: every title is another, and so are known first authors."""
    of_doi = having.with_columns(surname=_surname(having["authors"]))
    n_titles = pl.col("key").n_unique().over("doi")
    n_authors = pl.col("surname").drop_nulls().n_unique().over("doi")
    volume = (pl.len().over("doi") > 1) & (n_titles == pl.len().over("doi")) & (n_authors > 1)
    return of_doi.select(volume.alias("volume"))["volume"]


def _stars(rows: pl.DataFrame, by: list[str]) -> NDArray[np.int64]:
    """Pair each row with the first of its group."""
    pairs = rows.select("row", first=pl.col("row").first().over(by))
    return pairs.filter(pl.col("row") != pl.col("first")).to_numpy()


def _by_title(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that may merge by title: row, key (with the first author where they differ), year."""
    key = pl.col("key")
    preprint = venues.is_preprint(rows["venue"], venues.table()) | (
        rows["kind"] == "preprint"
    ).fill_null(False)
    preprint |= rows["arxiv_id"].is_not_null()
    titled = rows.select(
        "row",
        "key",
        "abstract",
        year=pl.coalesce(pl.col("date").dt.year(), "year"),
        preprint=preprint,
        surname=_surname(rows["authors"]),
    ).filter(key.is_not_null() & ~key.str.contains(_GENERIC))
    titled = titled.filter(pl.len().over("key") > 1)
    disputed = pl.col("surname").drop_nulls().n_unique().over("key") > 1
    return titled.with_columns(
        key=pl.when(disputed).then(pl.format("{} {}", "key", "surname")).otherwise("key")
    ).drop_nulls("key")


def _surname(authors: pl.Series) -> pl.Series:
    """Family name of the first author: ``Ada Bee``, ``Bee, A.`` and ``Bee A`` are all Bee."""
    first = authors.list.first()
    name = first.str.replace(r",.*$", "").str.replace(r"(?i)\s+(?:et al\.?|jr\.?|sr\.?)$", "")
    initials = name.str.contains(r"\s(?:[A-Z]\.?-?){1,3}$").fill_null(False)
    word = name.str.extract(r"^(\S+)", 1).zip_with(initials, name.str.extract(r"(\S+)$", 1))
    return text.title_key(word)


def _by_year(titled: pl.DataFrame) -> NDArray[np.int64]:
    """Pair rows of one title whose years agree."""
    preprints_first = pl.col("preprint").not_()
    titled = titled.sort("key", "year", preprints_first)  # so that the order of rows is no matter
    span = pl.col("year").max().over("key") - pl.col("year").min().over("key")
    close = titled.filter(span <= 1)
    pairs = [_stars(close, ["key"])]
    anchor: tuple[str, int, bool, int] | None = None
    found: list[tuple[int, int]] = []
    for key, year, preprint, row in (
        titled.filter(span > 1).select("key", "year", "preprint", "row").iter_rows()
    ):  # few: titles that come back over the years
        limit = 2 if preprint or (anchor is not None and anchor[2]) else 1
        if anchor is None or anchor[0] != key or year - anchor[1] > limit:
            anchor = (key, year, preprint, row)
        else:
            found.append((row, anchor[3]))
    pairs.append(np.array(found, dtype=np.int64).reshape(-1, 2))
    return np.concatenate(pairs)


def components(n: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the smallest row number of each row's connected component, by label propagation."""
    labels = np.arange(n, dtype=np.int64)
    left, right = edges[:, 0], edges[:, 1]
    while True:
        before = labels.copy()
        lower = np.minimum(labels[left], labels[right])
        np.minimum.at(labels, left, lower)
        np.minimum.at(labels, right, lower)
        labels = labels[labels]
        if np.array_equal(labels, before):
            return labels


def _one_each(papers: pl.DataFrame) -> pl.DataFrame:
    """Merge each group (column ``group``) of several records into one row of `PAPER_SCHEMA`."""
    ranked = _best_first(papers)
    group = ranked.group_by("group", maintain_order=True)
    cited = _top_of(ranked, pl.col("citations"), pl.col("citations_as_of"))
    placed = _top_of(ranked, pl.col("place"))
    longest = _top_of(ranked, pl.col("abstract").str.len_bytes())
    dated = _dates(ranked)
    taken = {
        "citations": cited, "citations_source": cited, "citations_as_of": cited,
        "venue": placed, "abstract": longest,
        "date": dated, "date_precision": dated, "date_kind": dated, "date_origin": dated,
        "n_records": group.agg(pl.col("n_records").sum()),
        "status": group.agg(_status()),
    }  # fmt: skip
    out = group.agg(pl.all().drop_nulls().first()).drop(taken)
    for name, frame in taken.items():
        out = out.join(frame.select("group", name), on="group", how="left", maintain_order="left")
    return out.select(pl.col(name).cast(dtype) for name, dtype in PAPER_SCHEMA.items())


def _best_first(papers: pl.DataFrame) -> pl.DataFrame:
    """Order the records of each group from the best; all columns decide, never the rows' order."""
    return papers.with_columns(place=venues.rank(papers["venue"], venues.table())).sort(
        pl.col("group"),
        pl.col("doi").is_not_null(),
        "place",
        pl.col("arxiv_id").is_not_null(),
        pl.col("citations").is_not_null(),
        pl.col("id"),
        *(pl.col(name) for name in PAPER_SCHEMA if name not in ("id", "authors", "topics")),
        pl.col("authors").list.join("\n"),
        pl.col("topics").list.join("\n"),
        descending=[False, True, True, True, True, False] + [False] * (len(PAPER_SCHEMA) - 1),
        nulls_last=True,
    )


def _dates(ranked: pl.DataFrame) -> pl.DataFrame:
    evidence = ranked.drop_nulls("date").select(
        pl.col("group").cast(pl.Int64),
        start="date",
        precision="date_precision",
        kind="date_kind",
        origin="date_origin",
    )
    names = {"start": "date"} | {name: f"date_{name}" for name in ("precision", "kind", "origin")}
    return dates.choose(evidence).rename(names)


def _status() -> pl.Expr:
    """One retraction or withdrawal is enough; one abstract is, too."""
    status = pl.col("status")
    decisive = [
        pl.when((status == value).any()).then(pl.lit(value))
        for value in ("retracted", "withdrawn", "ok")
    ]
    return pl.coalesce(*decisive, pl.lit("title_only")).alias("status")


def _top_of(ranked: pl.DataFrame, *by: pl.Expr) -> pl.DataFrame:
    """Row of each group with the largest `by`; ties go to the better record."""
    order = ranked.sort(*by, descending=True, nulls_last=True, maintain_order=True)
    return order.unique("group", keep="first", maintain_order=True)
