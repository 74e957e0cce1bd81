"""A figure of the report: a drawing, its meaning in words, and its data as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ktui.pipeline.lake.records import ReportFacts

JSON = Mapping[str, Any]

MOST_ROWS = 200
"""The most rows of a figure's table."""


_LOG_FROM = 10
_MOST_TICKS = 7
_EDGE = 0.05
"""The share of an axis that stays free at its ends."""


_APART_PX = 5
"""Keeps the first labels of the two axes of a drawing apart."""


class Rows(msgspec.Struct, frozen=True):
    """A table under a figure."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0
    """The number of rows that were left out."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A drawing: traces and layout in plotly.js's own format, with colours as `var(--name)`."""

    id: str
    title: str
    says: str
    """The meaning of the drawing in words and figures; also its text for screen readers."""
    caption: str
    """How to read the drawing, and the data that it leaves out."""
    traces: Sequence[JSON]
    layout: JSON
    table: Rows
    next_step: str = ""
    """What to do to learn more, before the commands; empty where nothing is to be done."""
    commands: tuple[str, ...] = ()
    """The commands of the next step, in order."""
    height: int = 380
    along_time: bool = True
    """Whether x is time; if so, keys move and zoom the drawing."""


class Missing(msgspec.Struct, frozen=True):
    """A figure that cannot be drawn, and why."""

    id: str
    title: str
    why: str


def rows(columns: Sequence[str], all_rows: Iterable[Sequence[str]]) -> Rows:
    """Make a table of the first `MOST_ROWS` rows."""
    texts = [tuple(row) for row in all_rows]
    return Rows(tuple(columns), tuple(texts[:MOST_ROWS]), max(0, len(texts) - MOST_ROWS))


def time_axis(facts: ReportFacts) -> JSON:
    """Return the x axis of wall time that all figures over time share."""
    began, ended = facts.span
    edge = max(1000, facts.active_ms // 50)
    return {
        "type": "date",
        "range": [began - edge, ended + edge],
        "title": {"text": "time (UTC)"},
        "tickangle": 0,
        "ticklabelstandoff": _APART_PX,
        "hoverformat": "%Y-%m-%d %H:%M:%S",
        **_LINES,
    }


def axis(title: str, **more: Any) -> JSON:
    """Return an axis of numbers that begins at zero."""
    return {
        "title": {"text": title, "standoff": 10},
        "rangemode": "tozero",
        "automargin": True,
        **_LINES,
        **more,
    }


def scale_axis(
    title: str, values: Sequence[float], steps: Sequence[float], text: Callable[[float], str]
) -> JSON:
    """Return an axis of positive numbers: logarithmic where they differ by a factor of ten.

    Args:
        title: the axis' title.
        values: the numbers to draw.
        steps: round numbers in order, which ticks may stand at, or at multiples of.
        text: formats a tick.
    """
    low, high = min(values), max(values)
    log = low > 0 and high >= _LOG_FROM * low
    if log:
        near = [step for step in steps if low / 2 <= step <= high * 2]
        ticks = near[:: -(-len(near) // _MOST_TICKS)]
        edge = math.log10(high / low) * _EDGE
        span = [math.log10(low) - edge, math.log10(high) + edge]
    else:
        step = next((step for step in steps if high / step < _MOST_TICKS), steps[-1])
        ticks = [step * n for n in range(int(high / step) + 1)]
        span = [0, high * (1 + 2 * _EDGE)]
    return {
        "title": {"text": title},
        "type": "log" if log else "linear",
        "range": span,
        "tickvals": ticks,
        "ticktext": [text(tick) for tick in ticks],
        "ticklabelstandoff": _APART_PX,
        "automargin": True,
        **_LINES,
    }


def layout(x: JSON, y: JSON, **more: Any) -> JSON:
    """Return the layout that all figures of the page share, with these axes."""
    return {
        "xaxis": x,
        "yaxis": y,
        "paper_bgcolor": "var(--paper)",
        "plot_bgcolor": "var(--paper)",
        "font": {"color": "var(--ink)", "family": "system-ui, sans-serif", "size": 12},
        "hoverlabel": {
            "bgcolor": "var(--panel)",
            "bordercolor": "var(--rule)",
            "font": {"color": "var(--ink)"},
        },
        "legend": {"orientation": "h", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"},
        "margin": {"l": 56, "r": 12, "t": 40, "b": 54},
        "dragmode": "zoom",
        **more,
    }


_LINES = {
    "gridcolor": "var(--rule)",
    "linecolor": "var(--rule)",
    "zerolinecolor": "var(--rule)",
}
