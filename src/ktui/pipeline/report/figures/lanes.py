"""Lanes: one row per partition, with bars for its states over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ktui.pipeline.lake.records import ReportFacts
from ktui.pipeline.report.figures.figure import JSON, axis, layout, time_axis
from ktui.pipeline.report.figures.text import without_markup
from ktui.quantities import as_duration

_LANE_PX = 20
_BAR = 0.75
"""The share of a lane's height that a bar takes."""
_EDGES_PX = 130


class FigureLane(msgspec.Struct, frozen=True):
    """One row of the drawing."""

    label: str
    band: object = None
    """Adjacent lanes with the same band share a background."""


class Bar(msgspec.Struct, frozen=True):
    """A stretch of time in a lane."""

    lane: int
    kind: str
    began: int
    ended: int
    says: str

    @property
    def lasted(self) -> str:
        """The length of the bar's time, as text."""
        return as_duration((self.ended - self.began) / 1000)


class BarKind(msgspec.Struct, frozen=True):
    """A kind of bars, with its look."""

    name: str
    colour: str
    pattern: str = ""


def traces(bars: Sequence[Bar], kinds: Iterable[BarKind]) -> list[JSON]:
    """Return one trace for each kind that occurs, in the order of the kinds."""
    return [
        _trace(kind, [bar for bar in bars if bar.kind == kind.name])
        for kind in kinds
        if any(bar.kind == kind.name for bar in bars)
    ]


def _trace(kind: BarKind, bars: Sequence[Bar]) -> JSON:
    return {
        "type": "bar",
        "orientation": "h",
        "name": without_markup(kind.name),
        "y": [bar.lane for bar in bars],
        "base": [bar.began for bar in bars],
        "x": [max(bar.ended - bar.began, 1) for bar in bars],
        "width": _BAR,
        "customdata": [without_markup(bar.says) for bar in bars],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "color": kind.colour,
            "line": {"width": 0},
            "pattern": {
                "shape": kind.pattern,
                "fillmode": "replace",
                "fgcolor": kind.colour,
                "bgcolor": "var(--paper)",
                "solidity": 0.55,
                "size": 6,
            }
            if kind.pattern
            else {"shape": ""},
        },
    }


def lanes_layout(lanes: Sequence[FigureLane], facts: ReportFacts) -> JSON:
    """Return the layout of lanes, the first one on top."""
    y = axis(
        "",
        tickvals=list(range(len(lanes))),
        ticktext=[without_markup(lane.label) for lane in lanes],
        range=[len(lanes) - 0.5, -0.5],
        tickfont={"size": 11},
        showgrid=False,
        zeroline=False,
        fixedrange=True,
    )
    return layout(time_axis(facts), y, barmode="overlay", shapes=_bands(lanes, lambda a: a.band))


def lanes_height(lanes: Sequence[FigureLane]) -> int:
    """Return the height of a drawing of lanes, in pixels."""
    return len(lanes) * _LANE_PX + _EDGES_PX


def _bands(lanes: Sequence[FigureLane], band: Callable[[FigureLane], object]) -> list[JSON]:
    """Return the backgrounds of every other band."""
    edges = [place for place in range(len(lanes)) if place == 0 or _differ(lanes, place, band)]
    ends = [*edges[1:], len(lanes)]
    return [
        {
            "type": "rect",
            "layer": "below",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": begin - 0.5,
            "y1": end - 0.5,
            "line": {"width": 0},
            "fillcolor": "var(--panel)",
        }
        for begin, end in list(zip(edges, ends, strict=True))[1::2]
    ]


def _differ(lanes: Sequence[FigureLane], place: int, band: Callable[[FigureLane], object]) -> bool:
    return band(lanes[place]) != band(lanes[place - 1])
