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
_EDGES = {UNSEEN: "var(--dim)", _ENDED: "var(--dim)"}
_HATCHED = {"shape": "/", "fgcolor": "var(--dim)", "solidity": 0.25, "size": 6}
_MOST_ROWS = 40


def states_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw the number of partitions in each state, stacked."""
    if not facts.intervals:
        return Missing(ID, TITLE, "No partition was seen in any state.")
    moments = grid(facts.span, facts.idle)
    counters = {
        state: Counter((i.began, i.ended) for i in facts.intervals if i.state == state)
        for state in STATES
    }
    of = _by_partition(facts)
    counters[UNSEEN] = Counter(
        gap for move in facts.moves for gap in _gaps(move, of, facts.span[1])
    )
    counters[_ENDED] = Counter(ended_spans(facts))
    counts = {
        state: [counter.at(t) for t in moments]
        for state, counter in counters.items()
        if counter.most()
    }
    points = thinned(range(len(moments)), _MOST_ROWS)
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(counters, facts),
        caption=(
            "The states one on another. Catching up is where copies flow; a broad band of queued"
            " shows that the limits, not the copying, took the time."
        ),
        traces=[_trace(state, moments, found) for state, found in counts.items()],
        layout=layout(time_axis(facts), axis("partitions"), hovermode="x unified"),
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
        "line": {"shape": "hv", "width": 0.5, "color": _EDGES.get(state, _COLOURS[state])},
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


def ended_spans(facts: ReportFacts) -> Iterator[tuple[int, int | None]]:
    """Yield when nothing was left to do for a partition, until it was to move again, if ever."""
    of: defaultdict[Partition, list[tuple[int, int | None]]] = defaultdict(list)
    for move in facts.moves:
        of[move.key].append((move.began, move.ended))
    moved = set(of)
    for one in facts.intervals:
        waits = one.open and one.key not in moved
        of[one.key].append((one.began, None if waits else one.ended))
    for spans in of.values():
        yield from _after_each(sorted(spans, key=lambda span: span[0]))


def _after_each(spans: Sequence[tuple[int, int | None]]) -> Iterator[tuple[int, int | None]]:
    known: int | None = None
    for began, ended in spans:
        if known is not None and known < began:
            yield known, began
        if ended is None:
            return
        known = ended if known is None else max(known, ended)
    if known is not None:
        yield known, None


def _says(counters: Mapping[str, Counter], facts: ReportFacts) -> str:
    most = {state: counter.most() for state, counter in counters.items()}
    peaks = [
        f"{most[state]:,} {state}"
        for state in ("queued", "catching up", "stalled")
        if most.get(state)
    ]
    at_most = f"At most {', '.join(peaks)} at a time. " if peaks else ""
    partitions = len({row.key for row in (*facts.moves, *facts.intervals)})
    ended = f"{counters[_ENDED].at(facts.span[1]):,} of {as_count(partitions, 'partition')}"
    over = sum(move.ended is not None for move in facts.moves)
    moves = "" if over == partitions else f", after {as_count(over, 'move')} in all"
    return f"{at_most}In the end {ended} had ended{moves}."
