"""When a paper was first public: reading dates, and choosing among several.

A date is an interval (a day, a month or a year), with a kind that says what it bounds and an
origin that says where it comes from (`ORIGINS`):

``first_public``
    the paper itself was public then: the month of an arXiv id, the day of a first version, or an
    explicit date of a record that has an arXiv id or names no venue (a preprint, a repository's
    announcement day);
``venue``
    an explicit date of a record that names a venue, or the month in which its venue was held. The
    work may have been public before, so it is an upper bound only;
``year``
    nothing but a year, of publication (or the year in the venue's name where nothing else is
    there). An upper bound too.

Of several, the earliest start wins; at the same start the better kind, then the finer. Inside an
interval that contains it a finer one then replaces it, unless its kind is worse: a conference
day inside the month of an arXiv id says less, not more. Hence an announcement day of 2025 loses
to an arXiv id of 1812, and one inside the id's month refines it.

The month of a venue is used for a record that has a bare year and nothing better, so a paper of
NeurIPS 2023 known by its year alone is of December 2023, where the year alone would be 1 January
2023. It is then in a window that begins in July 2023, although its preprint may be older: what
rests on such dates is told by the kind, and better evidence (``--dates``) moves it.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

PRECISIONS: Final = ("day", "month", "year")
"""From the finest to the coarsest."""

KINDS: Final = ("first_public", "venue", "year")
"""From the strongest to the weakest."""

WEAK: Final = ("venue", "year")
"""Kinds that only say when a paper was public at the latest."""

ORIGINS: Final = (
    "first_version",  # the day of an arXiv paper's first version
    "arxiv_id",  # the month in its arXiv id
    "publication_date",  # of a record that names no venue, or has an arXiv id
    "venue_date",  # of a record that names a venue
    "venue_month",  # when the venue was held that year (data/venues.toml)
    "year",
    "venue_year",  # in the venue's name
)
"""Which evidence a date is; of equal ones the first here is named."""

EARLIEST: Final = date(1800, 1, 1)
FUTURE: Final = timedelta(days=400)
"""Dates before `EARLIEST` or more than `FUTURE` after today are not believed."""

EVIDENCE_SCHEMA: Final[dict[str, pl.DataType]] = {
    "group": pl.Int64(),
    "start": pl.Date(),
    "precision": pl.String(),
    "kind": pl.String(),
    "origin": pl.String(),
}


class Evidence(NamedTuple):
    """One column of dates, of which each row belongs to one paper; nulls are no evidence."""

    start: pl.Series
    precision: pl.Series | str
    kind: pl.Series | str
    origin: pl.Series | str


_MONTH = (
    r"(?P<n>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    r"(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?\.?"
)
_OTHER_MONTH = _MONTH.replace("?P<n>", "?:")
_DAY = r"(?P<d>[0-9]{1,2})(?:st|nd|rd|th)?"
_OTHER_DAY = r"[0-9]{1,2}(?:st|nd|rd|th)?"
_YEAR = r"(?P<y>[0-9]{4})"
_OTHER_YEAR = r"[0-9]{4}"
_TO = r"\s*(?:-{1,3}|–|—|/|to)\s*"
_TIME = r"(?:[t ]\s*[0-9]{1,2}:[0-9]{2}.{0,24})?"
_PATTERNS = tuple(
    f"^{pattern}$"
    for pattern in (
        _YEAR,
        rf"{_YEAR}[-/.](?P<m>[0-9]{{1,2}})",
        rf"{_YEAR}[-/.](?P<m>[0-9]{{1,2}})[-/.](?P<d>[0-9]{{1,2}}){_TIME}",
        rf"{_YEAR}(?P<m>[0-9]{{2}})(?P<d>[0-9]{{2}})",
        rf"(?P<m>[0-9]{{1,2}})[-/. ]{_YEAR}",
        rf"{_MONTH}(?:{_TO}{_OTHER_MONTH})?[-, ]+{_YEAR}",
        rf"(?:[a-z]{{3,9}},? )?{_DAY}(?:{_TO}{_OTHER_DAY})?[- ]+{_MONTH}[-, ]+{_YEAR}{_TIME}",
        rf"{_DAY} {_MONTH}{_TO}{_OTHER_DAY} {_OTHER_MONTH},? {_YEAR}",
        rf"{_MONTH} {_DAY}(?:{_TO}(?:{_OTHER_MONTH} )?{_OTHER_DAY})?,? {_YEAR}{_TIME}",
        rf"{_YEAR}[- ]{_MONTH}(?:[- ]{_DAY})?",
        rf"{_YEAR}-(?P<m>[0-9]{{2}})-(?P<d>[0-9]{{2}})/{_OTHER_YEAR}-[0-9]{{2}}-[0-9]{{2}}",
    )
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

# Of these two common shapes the time is cut off first, so that few distinct dates are left.
_CLOCK = "[0-9]{2}:[0-9]{2}:[0-9]{2}"
_ISO_TIME = (
    rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}(?:\.[0-9]{{1,9}})?(?:Z|[+-][0-9:]{{2,5}})?$"
)
_MAIL_TIME = rf"^[A-Z][a-z]{{2}}, [0-9]{{1,2}} [A-Z][a-z]{{2}} [0-9]{{4}} {_CLOCK} (?:GMT|UTC)$"


def parse(texts: pl.Series, today: date) -> pl.DataFrame:
    """Read dates as people write them.

    ``2023``, ``2023-06``, ``2023-06-01T12:00:00Z``, ``20230601``, ``8 2022``, ``dec 2023``,
    ``28--30 Mar 2022`` (its first day), ``Mon, 2 Apr 2007 19:18:42 GMT``. Day or month ``00``
    means not known. A date as written: its time zone is not considered.

    Parameters
    ----------
    texts : polars.Series of String
    today : datetime.date

    Returns
    -------
    polars.DataFrame
        ``start`` (Date, first day of the interval), ``precision`` (day, month or year) and
        ``malformed`` (Boolean: neither empty nor a date from 1800 to 400 days after `today`).
        ``start`` and ``precision`` are null where there is no date.
    """
    if texts.null_count() == len(texts):
        nothing = pl.DataFrame({"start": texts.cast(pl.Date), "precision": texts})
        return nothing.with_columns(malformed=pl.lit(False))
    days = _without_time(texts)
    parts = _parts(days.unique().drop_nulls())
    iso = pl.format(
        "{}-{}-{}",
        "year",
        pl.col("month").fill_null(1).cast(pl.String).str.zfill(2),
        pl.col("day").fill_null(1).cast(pl.String).str.zfill(2),
    )
    precision = (
        pl.when(pl.col("day").is_not_null())
        .then(pl.lit("day"))
        .when(pl.col("month").is_not_null())
        .then(pl.lit("month"))
        .otherwise(pl.lit("year"))
    )
    written = iso.str.to_date("%Y-%m-%d", strict=False)
    believed = pl.col("start").is_between(EARLIEST, today + FUTURE)
    known = (
        parts.select("text", "words", precision=precision, start=written)
        .with_columns(start=pl.when(believed).then("start"))
        .select(
            "text",
            "start",
            precision=pl.when(pl.col("start").is_not_null()).then("precision"),
            malformed=pl.col("start").is_null() & (pl.col("words") != ""),
        )
    )
    joined = pl.DataFrame({"text": days}).join(known, on="text", how="left", maintain_order="left")
    return joined.select("start", "precision", pl.col("malformed").fill_null(False))


def _without_time(texts: pl.Series) -> pl.Series:
    """Cut the time of day off the two shapes that machines write."""
    text = pl.col("text")
    return (
        pl.DataFrame({"text": texts})
        .select(
            pl.when(text.str.contains(_ISO_TIME))
            .then(text.str.head(10))
            .when(text.str.contains(_MAIL_TIME))
            .then(text.str.head(-13))
            .otherwise(text)
        )
        .to_series()
    )


def _parts(texts: pl.Series) -> pl.DataFrame:
    """Year (String), month and day (Int32) that the first fitting pattern finds in each text."""
    words = pl.col("text").str.strip_chars().str.replace_all(r"\s+", " ").str.to_lowercase()
    left = pl.DataFrame({"text": texts}).with_columns(words=words)
    found: list[pl.DataFrame] = []
    for pattern in _PATTERNS:
        fits = left["words"].str.contains(pattern)
        found.append(_read(left.filter(fits), pattern))
        left = left.filter(~fits)
    nothing = left.select("text", "words", **{name: pl.lit(None, t) for name, t in _PARTS.items()})
    return pl.concat([*found, nothing])


_PARTS: Final = {"year": pl.String(), "month": pl.Int32(), "day": pl.Int32()}


def _read(fitting: pl.DataFrame, pattern: str) -> pl.DataFrame:
    def part(name: str) -> pl.Expr:
        if f"(?P<{name}>" not in pattern:
            return pl.lit(None, pl.String())
        return pl.col("words").str.extract_groups(pattern).struct.field(name)

    number = part("n").replace_strict(_MONTHS, range(1, 13), default=None, return_dtype=pl.Int32)
    month = pl.coalesce(part("m").cast(pl.Int32), number).replace(0, None)
    day = pl.when(month.is_not_null()).then(part("d").cast(pl.Int32).replace(0, None))
    return fitting.select("text", "words", year=part("y"), month=month, day=day)


def end(start: pl.Expr, precision: pl.Expr) -> pl.Expr:
    """Last day of the interval that a date stands for."""
    return (
        pl.when(precision == "day")
        .then(start)
        .when(precision == "month")
        .then(start.dt.month_end())
        .otherwise(start.dt.offset_by("1y").dt.offset_by("-1d"))
    )


def arxiv_month(ids: pl.Series) -> pl.Series:
    """First day of the month in which an arXiv id was given.

    Parameters
    ----------
    ids : polars.Series of String
        As `identifiers.arxiv` leaves them: ``2405.14012`` or ``cs/0601001``.

    Returns
    -------
    polars.Series of Date
    """
    text = pl.col("id")
    new = text.str.slice(4, 1) == "."
    digits = pl.when(new).then(text.str.head(4)).otherwise(text.str.tail(7).str.head(4))
    year, month = digits.str.head(2).cast(pl.Int32), digits.str.tail(2).cast(pl.Int32)
    century = pl.when(~new & (year > 90)).then(1900).otherwise(2000)  # arXiv began in 1991
    months = pl.DataFrame({"id": ids}).select(pl.date(century + year, month, 1))
    return months.to_series().alias(ids.name)


def choose(evidence: pl.DataFrame) -> pl.DataFrame:
    """Choose one date per group by the rule above.

    Parameters
    ----------
    evidence : polars.DataFrame
        Columns of `EVIDENCE_SCHEMA`, one row per known date; only the origin may be null.

    Returns
    -------
    polars.DataFrame
        The same columns, one row per group, ordered by group.
    """
    ordered = evidence.sort("group")
    groups = ordered["group"].rle().struct.unnest()
    lengths = groups["len"].to_numpy().astype(np.int64)
    codes = _codes(Evidence(*ordered.select(Evidence._fields)))
    chosen = _decoded(_smallest(codes, lengths))
    return chosen.insert_column(0, groups["value"].alias("group"))


def choose_each(evidence: Sequence[Evidence]) -> pl.DataFrame:
    """Choose one date per row by the rule above.

    Parameters
    ----------
    evidence : sequence of Evidence
        Of equal length.

    Returns
    -------
    polars.DataFrame
        ``start``, ``precision``, ``kind`` and ``origin`` of each row; null where it has no date.
    """
    codes = np.stack([_codes(each) for each in evidence], axis=1)
    return _decoded(_smallest(codes.ravel(), np.full(len(codes), codes.shape[1])))


# A date as one number, so that the smallest is the one to choose: the digits yyyymmdd of its
# start, then 4 bits each of kind, precision and origin.
_NO_DATE: Final = np.iinfo(np.int64).max
_RANKED: Final = {"kind": KINDS, "precision": PRECISIONS, "origin": ORIGINS}
_BITS: Final = 4
_UNKNOWN: Final = 2**_BITS - 1
_UNTOLD: Final = np.array([1, 100, 10_000])  # digits of yyyymmdd that a month, a year leave open


def _codes(evidence: Evidence) -> NDArray[np.int64]:
    start = pl.col("start")
    code = (
        start.dt.year().cast(pl.Int64) * 10_000
        + start.dt.month().cast(pl.Int64) * 100
        + start.dt.day()
    )
    for name, ranking in _RANKED.items():
        rank = pl.col(name).cast(pl.Enum(ranking)).to_physical().cast(pl.Int64)
        code = code * 2**_BITS + rank.fill_null(_UNKNOWN)
    frame = pl.DataFrame({"start": evidence.start}).with_columns(
        pl.lit(value).alias(name) for name, value in evidence._asdict().items() if name != "start"
    )
    return frame.select(code.fill_null(_NO_DATE)).to_series().to_numpy()


def _smallest(codes: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The code that stands for each group of so many codes."""
    if not len(codes):
        return np.empty(0, np.int64)
    first = np.cumsum(lengths) - lengths
    best = np.minimum.reduceat(codes, first)
    for _ in PRECISIONS[1:]:  # a year can hold a month, which can hold a day
        outer = np.repeat(best, lengths)
        untold = _UNTOLD[np.minimum(_part(outer, "precision"), len(_UNTOLD) - 1)]
        inside = (
            (_digits(codes) // untold == _digits(outer) // untold)
            & (_part(codes, "precision") < _part(outer, "precision"))
            & (_part(codes, "kind") <= _part(outer, "kind"))
        )
        finer = np.minimum.reduceat(np.where(inside, codes, _NO_DATE), first)
        best = np.where(finer < _NO_DATE, finer, best)
    return best


def _digits(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    return codes >> (_BITS * len(_RANKED))


def _part(codes: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    place = len(_RANKED) - 1 - list(_RANKED).index(name)
    return (codes >> (_BITS * place)) & _UNKNOWN


def _decoded(codes: NDArray[np.int64]) -> pl.DataFrame:
    digits = pl.Series(_digits(codes)).set(pl.Series(codes == _NO_DATE), None)
    parts = pl.DataFrame(
        {"y": digits // 10_000, "m": digits // 100 % 100, "d": digits % 100}
    ).select(start=pl.date("y", "m", "d"))
    for name in ("precision", "kind", "origin"):
        rank = pl.Series(_part(codes, name))
        rank = rank.set(rank == _UNKNOWN, None)
        values = pl.Series(_RANKED[name])
        parts = parts.with_columns(values.gather(rank).alias(name))
    return parts
