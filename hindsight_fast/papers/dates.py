"""When a paper was first public: reading dates, and choosing among several.

A date is an interval (a day, a month or a year) with a kind that says what it bounds:

``first_public``
    the paper itself was public then: the month of an arXiv id, or an explicit date of a record
    that has an arXiv id or names no venue (a preprint, a repository's announcement day);
``venue``
    an explicit date of a record that names a venue and has no arXiv id. The work may have been
    public before, so it is an upper bound only;
``year``
    nothing but a year, of publication (or the year in the venue's name where nothing else is
    there). An upper bound too.

Of several, the earliest start wins; at the same start the better kind, then the finer. Inside an
interval that contains it a finer one then replaces it, unless its kind is worse: a conference
day inside the month of an arXiv id says less, not more. Hence an announcement day of 2025 loses
to an arXiv id of 1812, and one inside the id's month refines it.
"""

from datetime import date, timedelta
from typing import Final

import polars as pl

PRECISIONS: Final = ("day", "month", "year")
"""From the finest to the coarsest."""

KINDS: Final = ("first_public", "venue", "year")
"""From the strongest to the weakest."""

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

_MONTH = (
    r"(?P<n>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    r"(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?\.?"
)
_OTHER_MONTH = _MONTH.replace("?P<n>", "?:")
_DAY = r"(?P<d>[0-9]{1,2})(?:st|nd|rd|th)?"
_OTHER_DAY = r"[0-9]{1,2}(?:st|nd|rd|th)?"
_YEAR = r"(?P<y>[0-9]{4})"
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
    )
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


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
    parts = _parts(texts.unique().drop_nulls())
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
    joined = pl.DataFrame({"text": texts}).join(known, on="text", how="left", maintain_order="left")
    return joined.select("start", "precision", pl.col("malformed").fill_null(False))


def _parts(texts: pl.Series) -> pl.DataFrame:
    """Year (String), month and day (Int32) that the first fitting pattern finds in each text."""
    text = pl.col("text")
    words = text.str.strip_chars().str.replace_all(r"\s+", " ").str.to_lowercase()
    groups = [words.str.extract_groups(pattern) for pattern in _PATTERNS]

    def part(name: str) -> pl.Expr:
        having = [g for g, p in zip(groups, _PATTERNS, strict=True) if f"(?P<{name}>" in p]
        return pl.coalesce([group.struct.field(name) for group in having])

    number = part("n").replace_strict(_MONTHS, range(1, 13), default=None, return_dtype=pl.Int32)
    month = pl.coalesce(part("m").cast(pl.Int32), number)
    day = part("d").cast(pl.Int32).replace(0, None)
    parts = pl.DataFrame({"text": texts}).with_columns(
        words=words, year=part("y"), month=month.replace(0, None), day=day
    )
    return parts.with_columns(day=pl.when(pl.col("month").is_not_null()).then("day"))


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
    digits = ids.str.extract(r"([0-9]{4})(?:\.|[0-9]{3}$)", 1)
    old_century = ids.str.contains("/", literal=True) & digits.str.contains(r"^9")
    frame = pl.DataFrame({"digits": digits, "old": old_century})
    century = pl.when(pl.col("old")).then(pl.lit("19")).otherwise(pl.lit("20"))
    months = frame.select((century + pl.col("digits") + "01").str.to_date("%Y%m%d", strict=False))
    return months.to_series().alias(ids.name)


def choose(evidence: pl.DataFrame) -> pl.DataFrame:
    """Choose one date per group by the rule above.

    Parameters
    ----------
    evidence : polars.DataFrame
        Columns of `EVIDENCE_SCHEMA`, one row per known date; no nulls.

    Returns
    -------
    polars.DataFrame
        The same columns, one row per group, ordered by group.
    """
    start, kind, precision = pl.col("start"), pl.col("kind"), pl.col("precision")
    left = evidence.with_columns(
        end=end(start, precision),
        kind_rank=kind.replace_strict(KINDS, range(len(KINDS)), return_dtype=pl.Int8),
        width=precision.replace_strict(PRECISIONS, range(len(PRECISIONS)), return_dtype=pl.Int8),
    ).sort("group", "start", "kind_rank", "width", "origin")
    chosen = left.unique("group", keep="first", maintain_order=True)
    for _ in PRECISIONS[1:]:  # a year can hold a month, which can hold a day
        left = left.join(chosen, on="group", suffix="_outer", maintain_order="left").filter(
            (start >= pl.col("start_outer"))
            & (pl.col("end") <= pl.col("end_outer"))
            & (pl.col("width") < pl.col("width_outer"))
            & (pl.col("kind_rank") <= pl.col("kind_rank_outer"))
        )
        left = left.select(chosen.columns)
        finer = left.unique("group", keep="first", maintain_order=True)
        chosen = pl.concat([chosen.join(finer, on="group", how="anti"), finer])
    return chosen.sort("group").select(list(EVIDENCE_SCHEMA))
