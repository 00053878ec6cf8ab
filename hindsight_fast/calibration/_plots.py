"""Charts of lines as SVG, drawn by hand: no library, no font, no script."""

import html
import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

_WIDTH: Final = 460
_HEIGHT: Final = 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 18, 36
_NAME: Final = 15  # height of a line's name
_COLOURS: Final = ("#2f6f9f", "#c2571a", "#4d8b3a", "#7b4fa3")
_DASHES: Final = ("", "6 3", "2 3", "8 3 2 3")


class Line(NamedTuple):
    """A line by its points, left to right."""

    name: str
    points: Sequence[tuple[float, float]]


def chart(
    what: str, lines: Sequence[Line], across: str, *, mark: float | None = None, dots: bool = False
) -> str:
    """Draw lines over one pair of axes; the vertical one begins at 0.

    Parameters
    ----------
    what
        What is drawn, above the vertical axis.
    across
        The same of the horizontal one.
    mark
        Where on it an upright line stands.
    dots
        Mark the points, with their values.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        return ""
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    if mark is not None:
        low, high = min(low, mark), max(high, mark)
    high = high if high > low else low + 1
    top = max(y for _, y in points) or 1.0
    roof = _TOP + _NAME * (len(lines) if len(lines) > 1 else 0)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)
        return _LEFT + across, roof + (1 - y / top) * (_HEIGHT - roof - _BOTTOM)

    drawn = [*_axes(place, low, high, top), _text(4, 10, what)]
    drawn.append(_text(_WIDTH - _RIGHT, _HEIGHT - 4, across, "end"))
    if mark is not None:
        x, y = place(mark, 0)
        drawn.append(f'<path d="M{x:.1f} {roof}V{y:.1f}" stroke="#1c2733" stroke-dasharray="3 3"/>')
        drawn.append(_text(x + 3, roof + 10, f"{mark:g}"))
    for number, line in enumerate(lines):
        colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)]
        at = [place(x, y) for x, y in line.points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
        drawn.append(
            f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6" '
            f'stroke-dasharray="{dash}"/>'
        )
        if dots:
            drawn += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}">'
                f"<title>{across} {value[0]:g}: {value[1]:.4g}</title></circle>"
                for (x, y), value in zip(at, line.points, strict=True)
            ]
        if len(lines) > 1:
            y = _TOP + 8 + _NAME * number
            drawn.append(f'<path d="M{_LEFT + 8} {y - 4}h22" stroke="{colour}" stroke-width="1.6" '
                         f'stroke-dasharray="{dash}"/>')  # fmt: skip
            drawn.append(_text(_LEFT + 35, y, line.name))
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" '
        f'aria-label="{html.escape(f"{what} by {across}")}">{"".join(drawn)}</svg>'
    )


def _axes(
    place: Callable[[float, float], tuple[float, float]], low: float, high: float, top: float
) -> list[str]:
    drawn = list[str]()
    for y in ticks(0, top):
        left, height = place(low, y)
        drawn.append(
            f'<path d="M{left:.1f} {height:.1f}H{_WIDTH - _RIGHT}" stroke="#e3e8ec"/>'
            + _text(left - 4, height + 4, f"{y:g}", "end")
        )
    for x in ticks(low, high):
        at, base = place(x, 0)
        drawn.append(_text(at, base + 15, f"{x:g}", "middle"))
    return drawn


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, about five."""
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(m for m in (1, 2, 2.5, 5, 10) if (high - low) / (step * m) <= 6)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 10) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'
