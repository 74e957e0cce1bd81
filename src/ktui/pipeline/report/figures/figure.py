"""A figure of the report: what is drawn, what it says in words, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

JSON = Mapping[str, Any]

MOST_ROWS = 200
"""As many rows a figure's table has."""


class Rows(msgspec.Struct, frozen=True):
    """A table under a figure."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0
    """How many rows were left out."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn: traces and layout in plotly.js's own terms, colours as `var(--name)`."""

    id: str
    title: str
    says: str
    """What is to be seen, with its figures; also what a screen reader says of the drawing."""
    caption: str
    """How to read it, and what it leaves out."""
    traces: Sequence[JSON]
    layout: JSON
    table: Rows
    height: int = 380
    along_time: bool = True
    """Whether x is time: then keys move and zoom it."""


class Missing(msgspec.Struct, frozen=True):
    """A figure that cannot be drawn, and why."""

    id: str
    title: str
    why: str


def rows(columns: Sequence[str], all_rows: Iterable[Sequence[str]]) -> Rows:
    """Make a table of the first rows."""
    told = [tuple(row) for row in all_rows]
    return Rows(tuple(columns), tuple(told[:MOST_ROWS]), max(0, len(told) - MOST_ROWS))


def time_axis(span: tuple[int, int]) -> JSON:
    """Give an x axis of wall time, a little wider than what happened."""
    began, ended = span
    edge = max(1000, (ended - began) // 50)
    return {
        "type": "date",
        "range": [began - edge, ended + edge],
        "title": {"text": "time (UTC)"},
        "hoverformat": "%Y-%m-%d %H:%M:%S",
        **_LINES,
    }


def axis(title: str, **more: Any) -> JSON:
    """Give an axis of figures that begin at nothing."""
    return {"title": {"text": title}, "rangemode": "tozero", "automargin": True, **_LINES, **more}


def layout(x: JSON, y: JSON, **more: Any) -> JSON:
    """Give a layout: every figure of the page has the same."""
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
        "margin": {"l": 56, "r": 12, "t": 40, "b": 48},
        "dragmode": "zoom",
        **more,
    }


_LINES = {
    "gridcolor": "var(--rule)",
    "linecolor": "var(--rule)",
    "zerolinecolor": "var(--rule)",
}
