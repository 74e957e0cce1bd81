"""What all figures over time have in common: signs of what happened, gaps, and hours left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ktui.pipeline.lake.records import (
    BROKER,
    LIMITS,
    OTHER,
    PAUSE,
    THROTTLE,
    Mark,
    ReportFacts,
    Span,
)
from ktui.pipeline.report.figures import figure as fig
from ktui.pipeline.report.figures.figure import JSON, Figure, Missing, as_time, figure, signs
from ktui.pipeline.report.figures.lanes import (
    Bar,
    BarKind,
    FigureLane,
    lanes_height,
    lanes_layout,
    traces,
)
from ktui.quantities import as_count

_ID = "events"
_NO_LEGEND = {"l": 56, "r": 12, "t": 12, "b": 54}
MOST_SIGNS = 100  # the most signs in each other figure over time
_WEIGHED = (
    f" Other figures have {MOST_SIGNS} signs: of brokers first, then of pauses, limits and"
    " throttles; {} here only."
)
_WEIGHT = (BROKER, PAUSE, LIMITS, THROTTLE, OTHER)
"""The kinds of signs, those first that other figures leave out last."""

_KINDS = {
    PAUSE: ("pauses", "pause"),
    LIMITS: ("limits", "change of limits", "changes of limits"),
    THROTTLE: ("throttles", "change of throttles", "changes of throttles"),
    BROKER: ("brokers", "broker that was down", "times that a broker was down"),
    OTHER: ("the run", "other event"),
    fig.UNRECORDED: (fig.UNRECORDED, "gap in the recording", "gaps in the recording"),
}
"""The name of each kind's lane, and its noun, in the singular and the plural."""


@figure(_ID, "What happened meanwhile")
def events_figure(facts: ReportFacts) -> Figure | str:
    """Draw what happened, a lane for each kind."""
    found = all_marks(facts)
    if not found:
        return "Nothing was changed, no broker was down, and the recording has no gap."
    kinds = [kind for kind in _KINDS if any(mark.kind == kind for mark in found)]
    lanes = {kind: place for place, kind in enumerate(kinds)}
    looks = [
        BarKind(kind, fig.MARKS[kind][1] if kind in fig.MARKS else "var(--dim)") for kind in kinds
    ]
    lasting = [
        Bar(lanes[mark.kind], mark.kind, mark.t, mark.until, mark_text(mark))
        for mark in found
        if mark.until is not None
    ]
    labels = [FigureLane(_KINDS[kind][0]) for kind in kinds]
    more = len(facts.marks) - MOST_SIGNS
    return Figure(
        says=_says(found),
        caption=(
            "The same signs stand at the top of every figure over time, with a line down from each;"
            " point at a sign to read what it was. Rates that --by or --slo chose are in the figure"
            " of the rates instead. Where no poll was recorded, figures are grey."
            + (_WEIGHED.format(as_count(more, "sign is", "signs are")) if more > 0 else "")
        ),
        traces=[
            *({**trace, "showlegend": False} for trace in traces(lasting, looks)),
            *(_signs(kind, lanes[kind], found) for kind in kinds if kind in fig.MARKS),
        ],
        layout={**lanes_layout(labels, facts), "margin": _NO_LEGEND},
        height=lanes_height(labels),
        table=fig.rows(
            ("time (UTC)", "of", "what", "lasted"),
            ((as_time(mark.t), _KINDS[mark.kind][0], mark.says, _lasted(mark)) for mark in found),
        ),
    )


def weightiest(marks_: Sequence[Mark]) -> Sequence[Mark]:
    """Return at most `MOST_SIGNS` signs by time: weighty kinds go first, then long ones."""
    if len(marks_) <= MOST_SIGNS:
        return marks_
    ranked = sorted(
        marks_, key=lambda mark: (_WEIGHT.index(mark.kind), mark.t - (mark.until or mark.t))
    )
    return sorted(ranked[:MOST_SIGNS], key=lambda mark: (mark.t, mark.kind, mark.says))


def all_marks(facts: ReportFacts) -> Sequence[Mark]:
    """Return what happened and the gaps of the recording, in order of time."""
    gaps = [Mark(began, fig.UNRECORDED, fig.UNRECORDED, ended) for began, ended in facts.gaps]
    return sorted([*facts.marks, *gaps], key=lambda mark: (mark.t, mark.kind, mark.says))


def mark_text(mark: Mark) -> str:
    """Describe a mark in one line, with its time."""
    how_long = "" if mark.until is None else f" ({_lasted(mark)})"
    return f"{as_time(mark.t)} {mark.says}{how_long}"


def _lasted(mark: Mark) -> str:
    return "" if mark.until is None else fig.lasted(mark.until - mark.t)


def _signs(kind: str, lane: int, found: Sequence[Mark]) -> JSON:
    symbol, colour = fig.MARKS[kind]
    own = [mark for mark in found if mark.kind == kind]
    points = ((mark.t, lane, fig.hover_text(mark_text(mark))) for mark in own)
    edge = {**fig.OUTLINED, "width": 1.5}
    marker = {"symbol": symbol, "color": colour, "size": 12, "line": edge}
    return signs(_KINDS[kind][0], points, marker, showlegend=False)


def _says(found: Sequence[Mark]) -> str:
    counts = Counter(
        mark.kind for mark in found if mark.until is not None or mark.kind not in (PAUSE, BROKER)
    )
    words = [as_count(counts[kind], *nouns) for kind, (_, *nouns) in _KINDS.items() if counts[kind]]
    return f"{', '.join(words) or 'Parts of the run were paused'}."


_MARGINS_PX, _STRIP_PX, _GAP_PX = 94, 14, 4
_NEAR = 100  # signs closer than this part of the axis are described together
_MOST_NEAR = 6
_UPRIGHT, _LEVEL = 0.05, 0.3
"""The least shares of the axis at which a label within a gap fits upright, and level."""
_LABEL_PX = 90
_LABEL_FONT = {"size": 11, "color": "var(--ink)"}
_STRIP = "y99"


def with_overlay(drawn: Figure | Missing, facts: ReportFacts) -> Figure | Missing:
    """Add to a figure over time what happened, the gaps, and the axis without idle hours."""
    if isinstance(drawn, Missing) or not drawn.along_time:
        return drawn
    cuts = [_cut_mark(cut) for cut in facts.idle]
    own = drawn.id == _ID  # it has a lane for each kind of sign, and for the gaps
    signs, gaps = ((), ()) if own else (weightiest(facts.marks), facts.gaps)
    strip = sorted([*signs, *cuts], key=lambda mark: mark.t)
    plot_px = drawn.height - _MARGINS_PX
    top = 1.0 if not strip else 1 - (_STRIP_PX + _GAP_PX) / plot_px
    axes = {**_squeezed(drawn.layout, top)}
    if strip:
        domain = [round(1 - _STRIP_PX / plot_px, 4), 1]
        axes["yaxis99"] = {"domain": domain, "range": [0, 1], "visible": False, "fixedrange": True}
    if facts.idle:
        breaks = [{"bounds": [f"{as_time(t)}.{t % 1000:03}" for t in cut]} for cut in facts.idle]
        axes["xaxis"] = {**axes["xaxis"], "rangebreaks": breaks}
    fits_upright = plot_px * top >= _LABEL_PX
    shapes = [
        *drawn.layout.get("shapes", ()),
        *(
            _band((mark.t, mark.until), top, "var(--pause)")
            for mark in signs
            if mark.kind == PAUSE and mark.until is not None
        ),
        *(_gap(gap, facts, top, upright=fits_upright) for gap in fig.outside(gaps, facts.idle)),
        *(_line(mark, upright=fits_upright) for mark in strip),
    ]
    return msgspec.structs.replace(
        drawn,
        traces=[*drawn.traces, *_strip_traces(strip, facts)],
        layout={**axes, "shapes": shapes},
    )


def _squeezed(layout: JSON, top: float) -> dict[str, Any]:
    squeezed = dict(layout)
    for name, axis in layout.items():
        if name.startswith("yaxis"):
            domain = [round(end * top, 4) for end in axis.get("domain", (0, 1))]
            squeezed[name] = {**axis, "domain": domain}
    return squeezed


def _strip_traces(strip: Sequence[Mark], facts: ReportFacts) -> Iterator[JSON]:
    near = facts.active_ms / _NEAR
    for kind in dict.fromkeys(mark.kind for mark in strip):
        own = [mark for mark in strip if mark.kind == kind]
        symbol, colour = fig.MARKS.get(kind, _CUT_LOOK)
        points = ((mark.t, 0.5, _hover(mark, strip, near)) for mark in own)
        marker = {"symbol": symbol, "color": colour, "size": 10}
        more = {"showlegend": False, "yaxis": _STRIP, "cliponaxis": False}
        yield signs(kind, points, marker, **more)


_CUT = "left out"
_CUT_LOOK = ("line-ns-open", "var(--ink)")


def _cut_mark(cut: Span) -> Mark:
    since, to = cut
    return Mark(
        since, _CUT, f"{fig.lasted(to - since)} left out: no move is known until {as_time(to)}"
    )


def _hover(mark: Mark, strip: Sequence[Mark], near: float) -> str:
    close = [other for other in strip if abs(other.t - mark.t) <= near]
    place = close.index(mark)
    first = max(0, min(place - _MOST_NEAR // 2, len(close) - _MOST_NEAR))
    shown = close[first : first + _MOST_NEAR]
    lines = [fig.hover_text(mark_text(other)) for other in shown]
    rest = len(close) - len(shown)
    return "<br>".join([*lines, f"and {rest} more"] if rest else lines)


def _line(mark: Mark, *, upright: bool) -> JSON:
    _, colour = fig.MARKS.get(mark.kind, _CUT_LOOK)
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


def _gap(gap: Span, facts: ReportFacts, top: float, *, upright: bool) -> JSON:
    band = _band(gap, top, "var(--gap)")
    share = (gap[1] - gap[0]) / facts.active_ms
    if share >= _LEVEL or (upright and share >= _UPRIGHT):
        angle = 0 if share >= _LEVEL else -90
        band["label"] = {"text": fig.UNRECORDED, "textangle": angle, "font": _LABEL_FONT}
    return band
