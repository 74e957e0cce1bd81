"""All partitions by what they were doing: the shape of the whole run."""

from __future__ import annotations

from ktui.pipeline.report.figure import JSON, Figure, Missing, axis, layout, rows, time_axis
from ktui.pipeline.report.palette import ENDED, STATES
from ktui.pipeline.report.records import Facts
from ktui.pipeline.report.times import Counter, as_time, grid, thinned
from ktui.quantities import as_count

ID, TITLE = "states", "All partitions: how many were in which state"
_ENDED = "ended"
_MOST_ROWS = 40


def states_figure(facts: Facts) -> Figure | Missing:
    """Draw how many partitions were in each state, the states one on another."""
    if not facts.intervals:
        return Missing(ID, TITLE, "No partition was seen in any state.")
    moments = grid(facts.span)
    counters = {
        state: Counter((i.began, i.ended) for i in facts.intervals if i.state == state)
        for state in STATES
    }
    counters[_ENDED] = Counter((m.ended, None) for m in facts.moves if m.ended is not None)
    counts = {
        state: [counter.at(t) for t in moments]
        for state, counter in counters.items()
        if counter.most()
    }
    points = thinned(range(len(moments)), _MOST_ROWS)
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(counters),
        caption=(
            "The states one on another. Catching up is where copies flow; a broad band of queued"
            " shows that the limits, not the copying, took the time."
        ),
        traces=[_trace(state, moments, found) for state, found in counts.items()],
        layout=layout(time_axis(facts.span), axis("partitions"), hovermode="x unified"),
        table=rows(
            ("time (UTC)", *counts),
            ((as_time(moments[p]), *(str(found[p]) for found in counts.values())) for p in points),
        ),
    )


def _trace(state: str, moments: list[int], counts: list[int]) -> JSON:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": state,
        "stackgroup": "states",
        "x": moments,
        "y": counts,
        "line": {"shape": "hv", "width": 0.5, "color": STATES.get(state, ENDED)},
        "fillcolor": STATES.get(state, ENDED),
    }


def _says(counters: dict[str, Counter]) -> str:
    most = {state: counter.most() for state, counter in counters.items()}
    told = [
        f"{most[state]:,} {state}"
        for state in ("queued", "catching up", "stalled")
        if most.get(state)
    ]
    ended = as_count(most[_ENDED], "move has", "moves have")
    at_most = f"At most {', '.join(told)} at a time. " if told else ""
    return f"{at_most}In the end {ended} ended."
