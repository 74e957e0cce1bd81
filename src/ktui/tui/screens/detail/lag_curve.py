"""The lag of a partition's adding replicas over time, as an area of block characters."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

import msgspec
from textual.content import Content

from ktui.tui.draw import format as figures
from ktui.tui.screens.detail.time_axis import TimeAxis

_BLOCKS = " ▁▂▃▄▅▆▇█"
_STEPS = 8
_SMALL = 10
_NICE = (10, 12, 16, 20, 30, 40, 50, 60, 80, 100, 120)
SCALE_WIDTH = 12

LagPoints = Sequence[tuple[float, int]]
"""(monotonic second, messages), oldest first."""


class LagCurve(msgspec.Struct, frozen=True):
    """Heights in eighths of a row, one per cell, and the messages at full height."""

    levels: tuple[int, ...]
    top: int


def draw(points: LagPoints, axis: TimeAxis, height: int) -> LagCurve:
    """Compute the worst lag in each cell of time, interpolating linearly between two readings."""
    values = [_worst(points, axis, cell) for cell in range(axis.cells)]
    top = nice_ceiling(max((value for value in values if value is not None), default=0))
    return LagCurve(
        tuple(0 if value is None else _level(value, top, height) for value in values), top
    )


def lag_curve(points: LagPoints, axis: TimeAxis, height: int) -> list[Content]:
    """Draw the curve as lines, each with the scale in its first `SCALE_WIDTH` cells."""
    curve = draw(points, axis, height)
    scale = {0: curve.top, height // 2: curve.top // 2}
    lines = [
        Content.assemble(
            *_scale(scale.get(row)), (_curve_row(curve.levels, height - 1 - row), "$moving dim")
        )
        for row in range(height)
    ]
    return [
        *lines,
        Content.assemble((f"{'0 └':>{SCALE_WIDTH}}", "$dim"), ("─" * axis.cells, "$rule")),
    ]


def _curve_row(levels: Sequence[int], row: int) -> str:
    return "".join(_BLOCKS[min(_STEPS, max(0, level - _STEPS * row))] for level in levels)


def _scale(value: int | None) -> list[tuple[str, str]]:
    if value is None:
        return [(f"{'│':>{SCALE_WIDTH}}", "$rule")]
    return [(f"{figures.as_messages(value):>{SCALE_WIDTH - 2}} ┤", "$dim")]


def nice_ceiling(value: int) -> int:
    """Return a round number that is at least `value`, and whose half is round too."""
    if value <= _SMALL:
        return max(2, value + value % 2)
    power: int = 10 ** (int(math.log10(value)) - 1)
    return next(step * power for step in _NICE if step * power >= value)


def _level(value: int, top: int, height: int) -> int:
    """Return eighths of a row above the axis; a lag above zero is never drawn as zero."""
    return max(value > 0, round(value / top * height * _STEPS))


def _worst(points: LagPoints, axis: TimeAxis, cell: int) -> int | None:
    """Return the highest value within a cell; None before the first and after the last reading."""
    begin = axis.start_s + cell * axis.cell_s
    end = begin + axis.cell_s
    first, after = (bisect.bisect_left(points, at, key=_second) for at in (begin, end))
    if first < after:
        return max(messages for _, messages in points[first:after])
    if first in (0, len(points)):
        return None
    (at, messages), (later, more) = points[first - 1 : first + 1]
    middle = (begin + end) / 2
    return round(messages + (more - messages) * (middle - at) / (later - at))


def _second(point: tuple[float, int]) -> float:
    return point[0]
