"""What all figures over time have in common: signs of what happened, gaps, and hours left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ktui.pipeline.lake.records import Mark, ReportFacts, Span
from ktui.pipeline.report.data.marks import PAUSE
from ktui.pipeline.report.figures import events
from ktui.pipeline.report.figures.figure import JSON, Figure, Missing
from ktui.pipeline.report.figures.palette import MARKS, UNRECORDED
from ktui.pipeline.report.figures.text import as_time, hover_text, outside
from ktui.quantities import as_duration

_MARGINS_PX, _STRIP_PX, _GAP_PX = 94, 14, 4
_NEAR = 100
"""Signs closer than this part of the axis are described together."""
_MOST_NEAR = 6
_UPRIGHT, _LEVEL = 0.05, 0.3
"""The least shares of the axis at which a label within a gap fits upright, and level."""
_LABEL_PX = 90
_LABEL_FONT = {"size": 11, "color": "var(--ink)"}
_STRIP = "y99"


def with_overlay(figure: Figure | Missing, facts: ReportFacts) -> Figure | Missing:
    """Add to a figure over time what happened, the gaps, and the axis without idle hours."""
    if isinstance(figure, Missing) or not figure.along_time:
        return figure
    cuts = [_cut_mark(cut) for cut in facts.idle]
    own = figure.id == events.ID  # it has a lane for each kind of sign, and for the gaps
    signs, gaps = ((), ()) if own else (events.weightiest(facts.marks), facts.gaps)
    strip = sorted([*signs, *cuts], key=lambda mark: mark.t)
    plot_px = figure.height - _MARGINS_PX
    top = 1.0 if not strip else 1 - (_STRIP_PX + _GAP_PX) / plot_px
    axes = {**_squeezed(figure.layout, top)}
    if strip:
        axes["yaxis99"] = _strip_axis(plot_px)
    if facts.idle:
        axes["xaxis"] = {**axes["xaxis"], "rangebreaks": [_break(cut) for cut in facts.idle]}
    fits_upright = plot_px * top >= _LABEL_PX
    shapes = [
        *figure.layout.get("shapes", ()),
        *(_pause(mark, top) for mark in signs if mark.kind == PAUSE and mark.until is not None),
        *(_gap(gap, facts, top, upright=fits_upright) for gap in outside(gaps, facts.idle)),
        *(_line(mark, upright=fits_upright) for mark in strip),
    ]
    return msgspec.structs.replace(
        figure,
        traces=[*figure.traces, *_strip_traces(strip, facts)],
        layout={**axes, "shapes": shapes},
    )


def _squeezed(layout: JSON, top: float) -> dict[str, Any]:
    """Return a layout whose y axes leave the part above `top` free."""
    squeezed = dict(layout)
    for name, axis in layout.items():
        if name.startswith("yaxis"):
            domain = [round(end * top, 4) for end in axis.get("domain", (0, 1))]
            squeezed[name] = {**axis, "domain": domain}
    return squeezed


def _strip_axis(plot_px: int) -> JSON:
    return {
        "domain": [round(1 - _STRIP_PX / plot_px, 4), 1],
        "range": [0, 1],
        "visible": False,
        "fixedrange": True,
    }


def _strip_traces(strip: Sequence[Mark], facts: ReportFacts) -> Iterator[JSON]:
    near = facts.active_ms / _NEAR
    for kind in dict.fromkeys(mark.kind for mark in strip):
        own = [mark for mark in strip if mark.kind == kind]
        symbol, colour = MARKS.get(kind, _CUT_LOOK)
        yield {
            "type": "scatter",
            "mode": "markers",
            "name": kind,
            "showlegend": False,
            "yaxis": _STRIP,
            "x": [mark.t for mark in own],
            "y": [0.5] * len(own),
            "cliponaxis": False,
            "customdata": [_hover(mark, strip, near) for mark in own],
            "hovertemplate": "%{customdata}<extra></extra>",
            "marker": {"symbol": symbol, "color": colour, "size": 10},
        }


_CUT = "left out"
_CUT_LOOK = ("line-ns-open", "var(--ink)")


def _cut_mark(cut: Span) -> Mark:
    since, to = cut
    lasted = as_duration((to - since) / 1000)
    return Mark(since, _CUT, f"{lasted} left out: no move is known until {as_time(to)}")


def _hover(mark: Mark, strip: Sequence[Mark], near: float) -> str:
    """Describe a sign, and those so close that they cannot be pointed at."""
    close = [other for other in strip if abs(other.t - mark.t) <= near]
    place = close.index(mark)
    first = max(0, min(place - _MOST_NEAR // 2, len(close) - _MOST_NEAR))
    shown = close[first : first + _MOST_NEAR]
    lines = [hover_text(events.mark_text(other)) for other in shown]
    rest = len(close) - len(shown)
    return "<br>".join([*lines, f"and {rest} more"] if rest else lines)


def _line(mark: Mark, *, upright: bool) -> JSON:
    _, colour = MARKS.get(mark.kind, _CUT_LOOK)
    line = {
        "type": "line",
        "x0": mark.t,
        "x1": mark.t,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": colour, "width": 1, "dash": "dot"},
    }
    if mark.kind != _CUT or not upright:
        return line
    text = mark.says.split(":")[0]
    label = {"text": text, "textangle": -90, "yanchor": "bottom", "font": _LABEL_FONT}
    return {**line, "label": label}


def _band(span: Span, top: float, colour: str) -> dict[str, Any]:
    return {
        "type": "rect",
        "x0": span[0],
        "x1": span[1],
        "yref": "paper",
        "y0": 0,
        "y1": round(top, 4),
        "line": {"width": 0},
        "fillcolor": colour,
    }


def _pause(mark: Mark, top: float) -> JSON:
    return _band((mark.t, mark.until or mark.t), top, "var(--pause)")


def _gap(gap: Span, facts: ReportFacts, top: float, *, upright: bool) -> JSON:
    band = _band(gap, top, "var(--gap)")
    share = (gap[1] - gap[0]) / facts.active_ms
    if share >= _LEVEL or (upright and share >= _UPRIGHT):
        angle = 0 if share >= _LEVEL else -90
        band["label"] = {"text": UNRECORDED, "textangle": angle, "font": _LABEL_FONT}
    return band


def _break(cut: Span) -> Mapping[str, Sequence[str]]:
    return {"bounds": [_exact(t) for t in cut]}


def _exact(t: int) -> str:
    """Format ms since 1970 as plotly.js reads a date."""
    return datetime.fromtimestamp(t / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
