"""Dates as a person gives them: a year, a month or a day."""

import re
from calendar import monthrange
from contextlib import suppress
from datetime import date


def first_day(text: str, option: str) -> date:
    """`2023`, `2023-06` or `2023-06-01` as its first day."""
    return _interval(text, option)[0]


def last_day(text: str, option: str) -> date:
    """`2023`, `2023-06` or `2023-06-01` as its last day."""
    return _interval(text, option)[1]


def _interval(text: str, option: str) -> tuple[date, date]:
    from hindsight_fast.errors import UsageError

    if match := re.fullmatch(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?", text):
        year, month, day = (None if part is None else int(part) for part in match.groups())
        with suppress(ValueError):
            first = date(year or 0, month or 1, day or 1)
            if day is not None:
                return first, first
            end_month = month or 12
            return first, date(year or 0, end_month, monthrange(year or 0, end_month)[1])
    raise UsageError(f"{option} {text}: 2023, 2023-06 or 2023-06-01 was expected")
