"""A part of a calibration in words, and how its numbers are written."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Section:
    """A part of what was found.

    Attributes
    ----------
    name
        For whoever adds a chart to it.
    title : str
    notes : list of str
        Sentences that say what the numbers mean.
    columns, rows
        A table; no columns where there is none.
    right, long : tuple of int
        Columns of numbers, and of titles.
    """

    name: str
    title: str
    notes: list[str]
    columns: list[str] = field(default_factory=list[str])
    rows: list[list[str]] = field(default_factory=list[list[str]])
    right: tuple[int, ...] = ()
    long: tuple[int, ...] = ()


def percent(share: float | None, digits: int = 1) -> str:
    """In hundredths; a dash where there is none."""
    return "-" if share is None else f"{100 * share:.{digits}f}%"


def number(value: float | None, digits: int = 4) -> str:
    """A dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def interval(low: float | None, high: float | None) -> str:
    """A dash without a lower end; without an upper one, only the lower."""
    if low is None:
        return "-"
    return f"{low:.4f} or more" if high is None else f"{low:.4f} to {high:.4f}"


def marked(text: str, is_own: bool) -> str:
    """With a star where it is in use."""
    return f"{text} *" if is_own else text
