"""The figure of all partitions by state: the shape of the whole run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ktui.pipeline.lake.records import Interval, MoveRecord, Partition, ReportFacts
from ktui.pipeline.report.figures.figure import (
    JSON,
    Figure,
    Missing,
    axis,
    layout,
    rows,
    time_axis,
)
from ktui.pipeline.report.figures.palette import ENDED, STATES, UNSEEN
from ktui.pipeline.report.figures.text import Counter, as_time, grid, thinned
from ktui.quantities import as_count

ID, TITLE = "states", "All partitions: how many were in which state"
_ENDED = "ended"
_COLOURS = {**STATES, UNSEEN: "var(--rule)", _ENDED: ENDED}
_HATCHED = {"shape": "/", "fgcolor": "var(--dim)", "solidity": 0.25, "size": 6}
_MOST_ROWS = 40


def states_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw the number of partitions in each state, stacked."""
    if not facts.intervals:
        return Missing(ID, TITLE, "No partition was seen in any state.")
    moments = grid(facts.span)
    counters = {
        state: Counter((i.began, i.ended) for i in facts.intervals if i.state == state)
        for state in STATES
    }
    of = _by_partition(facts)
    counters[UNSEEN] = Counter(
        gap for move in facts.moves for gap in _gaps(move, of, facts.span[1])
    )
    counters[_ENDED] = Counter((t, None) for t in _ends(facts, of))
    counts = {
        state: [counter.at(t) for t in moments]
        for state, counter in counters.items()
        if counter.most()
    }
    points = thinned(range(len(moments)), _MOST_ROWS)
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(counters, len([move for move in facts.moves if move.ended is not None])),
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
        "line": {"shape": "hv", "width": 0.5, "color": _COLOURS[state]},
        "fillcolor": _COLOURS[state],
        "fillpattern": _HATCHED if state == UNSEEN else {"shape": ""},
    }


def _by_partition(facts: ReportFacts) -> Mapping[Partition, Sequence[Interval]]:
    of: defaultdict[Partition, list[Interval]] = defaultdict(list)
    for interval in sorted(facts.intervals, key=lambda one: one.began):
        of[interval.key].append(interval)
    return of


def _gaps(
    move: MoveRecord, of: Mapping[Partition, Sequence[Interval]], end: int
) -> Iterator[tuple[int, int]]:
    """Yield the spans within a move in which no poll shows its state: it has not vanished."""
    known, ended = move.began, end if move.ended is None else move.ended
    for interval in of.get(move.key, ()):
        if known < min(interval.began, ended):
            yield known, min(interval.began, ended)
        known = max(known, interval.ended)
    if known < ended:
        yield known, ended


def _ends(facts: ReportFacts, of: Mapping[Partition, Sequence[Interval]]) -> Iterator[int]:
    """Yield when each move ended, and when each partition that never moved stopped waiting."""
    yield from (move.ended for move in facts.moves if move.ended is not None)
    moved = {move.key for move in facts.moves}
    for key, intervals in of.items():
        if key not in moved and not intervals[-1].open:
            yield intervals[-1].ended


def _says(counters: Mapping[str, Counter], moves_ended: int) -> str:
    most = {state: counter.most() for state, counter in counters.items()}
    peaks = [
        f"{most[state]:,} {state}"
        for state in ("queued", "catching up", "stalled")
        if most.get(state)
    ]
    ended = as_count(moves_ended, "move has", "moves have")
    at_most = f"At most {', '.join(peaks)} at a time. " if peaks else ""
    return f"{at_most}In the end {ended} ended."
