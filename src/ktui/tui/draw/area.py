"""A rate over time as an area of braille dots: two points of time a cell, four steps of height."""

from __future__ import annotations

from collections.abc import Sequence

_DOTS = 4
_BLANK = 0x2800
_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
"""The dots of a column filled from below, by how many."""


def area_heights(
    values: Sequence[float | None], points: int, height: int, top: float
) -> list[int | None]:
    """Return the height in dots at each point of time, the newest last; None where unknown.

    Args:
        values: the values at equal distances, oldest first.
        points: the points of time to draw: a point shows the highest of its values.
        height: the height in cells.
        top: the value at full height.
    """
    most = height * _DOTS
    return [_height(_highest(values, point, points), most, top) for point in range(points)]


def _highest(values: Sequence[float | None], point: int, points: int) -> float | None:
    first = point * len(values) // points
    last = max(first + 1, (point + 1) * len(values) // points)
    return max((value for value in values[first:last] if value is not None), default=None)


def _height(value: float | None, most: int, top: float) -> int | None:
    """Return a height; a value above zero is never drawn as zero."""
    if value is None:
        return None
    if value <= 0.0 or top <= 0.0:
        return 0
    return min(most, max(1, round(min(1.0, value / top) * most)))


def area_chart(values: Sequence[float | None], width: int, height: int, top: float) -> list[str]:
    """Draw the area in `height` lines of `width` cells; gaps stay blank, zero is a dot."""
    heights = area_heights(values, 2 * width, height, top)
    pairs = list(zip(heights[::2], heights[1::2], strict=True))
    return ["".join(_cell(pair, row) for pair in pairs) for row in reversed(range(height))]


def _cell(pair: tuple[int | None, int | None], row: int) -> str:
    left, right = (_dots(height, row) for height in pair)
    return chr(_BLANK + _LEFT[left] + _RIGHT[right]) if left or right else " "


def _dots(height: int | None, row: int) -> int:
    if height is None:
        return 0
    shown = max(1, height) if row == 0 else height
    return min(_DOTS, max(0, shown - row * _DOTS))
