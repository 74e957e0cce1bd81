"""Figures of counts over time: partitions in each state, and what was under way and allowed."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ktui.pipeline.lake.records import (
    Interval,
    MoveRecord,
    Partition,
    ReportFacts,
    Span,
    by_key,
)
from ktui.pipeline.report.figures import figure as fig
from ktui.pipeline.report.figures.figure import JSON, Figure, as_time, figure
from ktui.quantities import as_count

_ENDED = "ended"
_COLOURS = {**fig.STATES, fig.UNSEEN: "var(--rule)", _ENDED: fig.ENDED}
_EDGES = {fig.UNSEEN: "var(--dim)", _ENDED: "var(--dim)"}
_HATCHED = {"shape": "/", "fgcolor": "var(--dim)", "solidity": 0.25, "size": 6}
_MOST_ROWS = 40


@figure("states", "All partitions: how many were in which state")
def states_figure(facts: ReportFacts) -> Figure | str:
    """Draw the number of partitions in each state, stacked."""
    if not facts.intervals:
        return "No partition was seen in any state."
    moments = sorted({*fig.grid(facts.span, facts.idle), *(t for gap in facts.gaps for t in gap)})
    counters = {
        state: fig.Counter((i.began, i.ended) for i in facts.intervals if i.state == state)
        for state in fig.STATES
    }
    of = by_key(sorted(facts.intervals, key=lambda one: one.began), lambda one: one.key)
    counters[fig.UNSEEN] = fig.Counter(
        gap for move in facts.moves for gap in _gaps(move, of, facts.span[1])
    )
    counters[_ENDED] = fig.Counter(ended_spans(facts))
    counts = {
        state: [None if _within(t, facts.gaps) else counter.at(t) for t in moments]
        for state, counter in counters.items()
        if counter.most()
    }
    points = fig.thinned(range(len(moments)), _MOST_ROWS)
    return Figure(
        says=_states_say(counters, facts),
        caption=(
            "The states one on another. Catching up is where copies flow; a broad band of queued"
            " shows that the limits, not the copying, took the time. Where nothing was recorded,"
            " nothing is drawn."
        ),
        traces=[
            fig.line(
                state,
                zip(moments, (count or 0 for count in found), strict=True),
                {"shape": "hv", "width": 0.5, "color": _EDGES.get(state, _COLOURS[state])},
                stackgroup="states",
                fillcolor=_COLOURS[state],
                fillpattern=_HATCHED if state == fig.UNSEEN else {"shape": ""},
            )
            for state, found in counts.items()
        ],
        layout=fig.layout(fig.time_axis(facts), fig.axis("partitions"), hovermode="x unified"),
        table=fig.rows(
            ("time (UTC)", *counts),
            (
                (as_time(moments[p]), *(_shown(found[p]) for found in counts.values()))
                for p in points
            ),
        ),
    )


def _within(t: int, gaps: Sequence[Span]) -> bool:
    return any(began <= t < ended for began, ended in gaps)


def _gaps(
    move: MoveRecord, of: Mapping[Partition, Sequence[Interval]], end: int
) -> Iterator[tuple[int, int]]:
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


def _states_say(counters: Mapping[str, fig.Counter], facts: ReportFacts) -> str:
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


_PARTITIONS, _REPLICAS = "partitions", "replicas"


@figure("concurrency", "How much was under way, and how much was allowed")
def concurrency_figure(facts: ReportFacts) -> Figure | str:
    """Draw the partitions and replicas in flight over time, and their limits."""
    if not any(seen.partitions for seen in facts.in_flight):
        return "No poll saw a partition move."
    gaps = facts.gaps
    moments = sorted({*fig.grid(facts.span, facts.idle), *(t for gap in gaps for t in gap)})
    seen = [one.t for one in facts.in_flight]
    partitions = peaks(seen, [one.partitions for one in facts.in_flight], moments, gaps)
    replicas = peaks(seen, [one.replicas for one in facts.in_flight], moments, gaps)
    points = fig.thinned(range(len(moments)), _MOST_ROWS)
    return Figure(
        says=_concurrency_says(facts),
        caption=(
            "Above: partitions being reassigned, against the limit of partitions, under which those"
            " that are only being cut hold no place. Below: replicas being added, against the limit"
            " of replica movements. The most that a poll saw: where none was recorded, nothing is"
            " drawn. A limit that is not set is not drawn either."
        ),
        traces=[
            _count(_PARTITIONS, moments, partitions, "y", "var(--line-1)"),
            *_limit([(li.t, li.partitions) for li in facts.limits], facts, _PARTITIONS, "y"),
            _count(_REPLICAS, moments, replicas, "y2", "var(--line-2)"),
            *_limit([(li.t, li.replica_movements) for li in facts.limits], facts, _REPLICAS, "y2"),
        ],
        layout=fig.layout(
            {**fig.time_axis(facts), "anchor": "y2"},
            fig.axis(_PARTITIONS, domain=[0.56, 1]),
            yaxis2=fig.axis(_REPLICAS, domain=[0, 0.44]),
            hovermode="x unified",
        ),
        height=460,
        table=fig.rows(
            ("time (UTC)", "partitions being reassigned", "replicas being added"),
            ((as_time(moments[p]), _shown(partitions[p]), _shown(replicas[p])) for p in points),
        ),
    )


def _shown(count: int | None) -> str:
    return "-" if count is None else str(count)


def peaks(
    times: Sequence[int], counts: Sequence[int], moments: Sequence[int], gaps: Sequence[Span]
) -> list[int | None]:
    """Return the highest count from each moment to the next; None within a gap, all in order."""
    polled = set(times)
    closed = {
        moment
        for moment in moments
        for began, ended in gaps
        if began <= moment <= ended and (moment < ended or ended not in polled)
    }
    found: list[int | None] = []
    for moment, after in zip(moments, [*moments[1:], moments[-1] + 1], strict=True):
        begin, end = bisect_right(times, moment), bisect_right(times, after - 1)
        since = max(0, begin - 1)  # the last poll by then holds on until the next one
        found.append(None if moment in closed else max(counts[since:end], default=None))
    return found


def _count(
    name: str, moments: Sequence[int], counts: Sequence[int | None], y: str, colour: str
) -> JSON:
    return fig.line(
        name, zip(moments, counts, strict=True), {"shape": "hv", "color": colour}, yaxis=y
    )


def _limit(
    changes: Sequence[tuple[int, int | None]], facts: ReportFacts, name: str, y: str
) -> list[JSON]:
    if all(limit is None for _, limit in changes):
        return []
    spans = fig.until_next([t for t, _ in changes], facts.span[1])
    allowed = [limit for _, limit in changes]
    points = fig.held(zip(spans, allowed, strict=True), facts.gaps)
    return [fig.line(f"limit of {name}", points, fig.LIMIT, yaxis=y)]


def _concurrency_says(facts: ReportFacts) -> str:
    partitions = max(seen.partitions for seen in facts.in_flight)
    replicas = max(seen.replicas for seen in facts.in_flight)
    most = f"At most {as_count(partitions, 'partition')} and {as_count(replicas, 'replica')}"
    return f"{most} were under way at a time{_changes(facts)}."


def _changes(facts: ReportFacts) -> str:
    if not facts.of_run:
        return ""
    if not facts.limits:
        return "; no limits of the run were recorded"
    changes = len(facts.limits) - 1
    return f"; the limits were changed {as_count(changes, 'time')}" if changes else ""
