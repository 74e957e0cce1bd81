"""The figure of what happened meanwhile: pauses, changes, brokers that were down, and gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ktui.pipeline.lake.records import Mark, ReportFacts
from ktui.pipeline.report.data import marks
from ktui.pipeline.report.figures.figure import JSON, Figure, Missing, rows
from ktui.pipeline.report.figures.lanes import (
    Bar,
    BarKind,
    FigureLane,
    lanes_height,
    lanes_layout,
    traces,
)
from ktui.pipeline.report.figures.palette import MARKS, UNRECORDED
from ktui.pipeline.report.figures.text import as_time, hover_text
from ktui.quantities import as_count, as_duration

ID, TITLE = "events", "What happened meanwhile"


_NO_LEGEND = {"l": 56, "r": 12, "t": 12, "b": 54}
MOST_SIGNS = 100
"""The most signs in each other figure over time."""
_WEIGHT = (marks.BROKER, marks.PAUSE, marks.LIMITS, marks.THROTTLE, marks.OTHER)
"""The kinds of signs, those first that other figures leave out last."""


class _Kind(NamedTuple):
    lane: str
    noun: str


_KINDS = {
    marks.PAUSE: _Kind("pauses", "pause"),
    marks.LIMITS: _Kind("limits", "change of limits|changes of limits"),
    marks.THROTTLE: _Kind("throttles", "change of throttles|changes of throttles"),
    marks.BROKER: _Kind("brokers", "broker that was down|times that a broker was down"),
    marks.OTHER: _Kind("the run", "other event"),
    UNRECORDED: _Kind(UNRECORDED, "gap in the recording|gaps in the recording"),
}


def events_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw what happened, a lane for each kind."""
    found = all_marks(facts)
    if not found:
        return Missing(
            ID, TITLE, "Nothing was changed, no broker was down, and the recording has no gap."
        )
    kinds = [kind for kind in _KINDS if any(mark.kind == kind for mark in found)]
    lanes = {kind: place for place, kind in enumerate(kinds)}
    lasting = [
        Bar(lanes[mark.kind], mark.kind, mark.t, mark.until, mark_text(mark))
        for mark in found
        if mark.until is not None
    ]
    labels = [FigureLane(_KINDS[kind].lane) for kind in kinds]
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(found),
        caption=(
            "The same signs stand at the top of every figure over time, with a line down from each;"
            " point at a sign to read what it was. Rates that --by or --slo chose are in the figure"
            " of the rates instead. Where no poll was recorded, figures are grey."
            + _left_out(len(facts.marks) - MOST_SIGNS)
        ),
        traces=[
            *(
                {**trace, "showlegend": False}
                for trace in traces(lasting, [BarKind(kind, _colour(kind)) for kind in kinds])
            ),
            *(_signs(kind, lanes[kind], found) for kind in kinds if kind in MARKS),
        ],
        layout={**lanes_layout(labels, facts), "margin": _NO_LEGEND},
        height=lanes_height(labels),
        table=rows(
            ("time (UTC)", "of", "what", "lasted"),
            ((as_time(mark.t), _KINDS[mark.kind].lane, mark.says, _lasted(mark)) for mark in found),
        ),
    )


def weightiest(marks_: Sequence[Mark]) -> Sequence[Mark]:
    """Return the signs that other figures over time have, in order of time.

    Beyond `MOST_SIGNS`, brokers go before pauses, limits, throttles and the rest, and what lasted
    longer before what was shorter.
    """
    if len(marks_) <= MOST_SIGNS:
        return marks_
    ranked = sorted(
        marks_, key=lambda mark: (_WEIGHT.index(mark.kind), mark.t - (mark.until or mark.t))
    )
    return sorted(ranked[:MOST_SIGNS], key=lambda mark: (mark.t, mark.kind, mark.says))


def all_marks(facts: ReportFacts) -> Sequence[Mark]:
    """Return what happened and the gaps of the recording, in order of time."""
    gaps = [Mark(began, UNRECORDED, UNRECORDED, ended) for began, ended in facts.gaps]
    return sorted([*facts.marks, *gaps], key=lambda mark: (mark.t, mark.kind, mark.says))


def mark_text(mark: Mark) -> str:
    """Describe a mark in one line, with its time."""
    lasted = "" if mark.until is None else f" ({_lasted(mark)})"
    return f"{as_time(mark.t)} {mark.says}{lasted}"


def _lasted(mark: Mark) -> str:
    return "" if mark.until is None else as_duration((mark.until - mark.t) / 1000)


def _left_out(count: int) -> str:
    if count <= 0:
        return ""
    return (
        f" Other figures have {MOST_SIGNS} signs: of brokers first, then of pauses, limits and"
        f" throttles; {as_count(count, 'sign is', 'signs are')} here only."
    )


def _colour(kind: str) -> str:
    return MARKS[kind][1] if kind in MARKS else "var(--dim)"


def _signs(kind: str, lane: int, found: Sequence[Mark]) -> JSON:
    symbol, colour = MARKS[kind]
    own = [mark for mark in found if mark.kind == kind]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": _KINDS[kind].lane,
        "showlegend": False,
        "x": [mark.t for mark in own],
        "y": [lane] * len(own),
        "customdata": [hover_text(mark_text(mark)) for mark in own],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "symbol": symbol,
            "color": colour,
            "size": 12,
            "line": {"width": 1.5, "color": "var(--paper)"},
        },
    }


def _says(found: Sequence[Mark]) -> str:
    counts = Counter(
        mark.kind
        for mark in found
        if mark.until is not None or mark.kind not in (marks.PAUSE, marks.BROKER)
    )
    words = [
        as_count(counts[kind], *of.noun.split("|")) for kind, of in _KINDS.items() if counts[kind]
    ]
    return f"{', '.join(words) or 'Parts of the run were paused'}."
