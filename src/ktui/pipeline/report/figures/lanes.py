"""Figures with a lane for each partition, or one on another: states, stalls, what was under way."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ktui.pipeline.lake.records import (
    Interval,
    JudgedStall,
    MoveRecord,
    Partition,
    ReportFacts,
    Span,
    by_key,
    length,
)
from ktui.pipeline.report.figures import figure as fig
from ktui.pipeline.report.figures.figure import JSON, Figure, as_time, figure
from ktui.progress.timeline import Cause
from ktui.quantities import as_count

_LANE_PX = 20
_BAR = 0.75  # the share of a lane's height that a bar takes
_EDGES_PX = 130


class FigureLane(msgspec.Struct, frozen=True):
    """One row of the drawing."""

    label: str
    band: object = None  # adjacent lanes with the same band share a background


class Bar(msgspec.Struct, frozen=True):
    """A stretch of time in a lane."""

    lane: int
    kind: str
    began: int
    ended: int
    says: str


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
        "name": fig.without_markup(kind.name),
        "y": [bar.lane for bar in bars],
        "base": [bar.began for bar in bars],
        "x": [max(bar.ended - bar.began, 1) for bar in bars],
        "width": _BAR,
        "customdata": [fig.without_markup(bar.says) for bar in bars],
        "hovertemplate": fig.SAYS,
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
    y = fig.axis(
        "",
        tickvals=list(range(len(lanes))),
        ticktext=[fig.without_markup(lane.label) for lane in lanes],
        range=[len(lanes) - 0.5, -0.5],
        tickfont={"size": 11},
        showgrid=False,
        zeroline=False,
        fixedrange=True,
    )
    return fig.layout(fig.time_axis(facts), y, barmode="overlay", shapes=_bands(lanes))


def lanes_height(lanes: Sequence[FigureLane]) -> int:
    """Return the height of a drawing of lanes, in pixels."""
    return len(lanes) * _LANE_PX + _EDGES_PX


def _bands(lanes: Sequence[FigureLane]) -> list[JSON]:
    edges = [n for n, lane in enumerate(lanes) if n == 0 or lane.band != lanes[n - 1].band]
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


MOST_LANES = 40
_OF_RUN = (
    "One lane a partition, by batch, shown by the number before its name and the ground under"
    " the lane. Between steps a partition waits for its next one, or to be cut with others."
)
_OF_CLUSTER = "One lane a partition, by when it began to move."
_SEVERAL = " A partition that moved several times has all its moves in one lane."
_KINDS = [
    BarKind(fig.UNSEEN, "var(--dim)", "-"),
    *(BarKind(s, c, fig.PATTERNS.get(s, "")) for s, c in fig.STATES.items()),
]


@figure("lanes", "Each partition's move: where its time went")
def moves_figure(facts: ReportFacts) -> Figure | str:
    """Draw the partitions whose moves took longest, by batch."""
    if not facts.moves:
        return "No partition has moved."
    end = facts.span[1]
    of = by_key(facts.moves, lambda move: move.key)
    slowest = {key: max(moves, key=lambda move: length(move, end)) for key, moves in of.items()}
    longest = sorted(of, key=lambda key: (-length(slowest[key], end), key))
    batched = facts.of_run
    first = {key: of[key][0] for key in longest[:MOST_LANES]}
    shown = sorted(first, key=lambda key: _place(first[key], batched=batched))
    lanes = [_lane(first[key], batched=batched) for key in shown]
    lane_of = {key: lane for lane, key in enumerate(shown)}
    moving = [
        _bar(lane_of[key], fig.UNSEEN, move, (move.began, move.began + length(move, end)))
        for key in shown
        for move in of[key]
    ]
    known = (one for one in facts.intervals if one.key in lane_of)
    bars = [
        *moving,
        *(_bar(lane_of[one.key], one.state, one, (one.began, one.ended)) for one in known),
    ]
    faster = len(of) - len(lanes)
    rest = as_count(faster, "faster one is", "faster ones are")
    return Figure(
        says=_says(slowest[longest[0]], end, len(of), len(lanes)),
        caption=(
            (_OF_RUN if batched else _OF_CLUSTER)
            + (_SEVERAL if len(facts.moves) > len(of) else "")
            + (f" {rest} in the next figure only." if faster else "")
        ),
        traces=traces(bars, _KINDS),
        layout=lanes_layout(lanes, facts),
        height=lanes_height(lanes),
        table=fig.rows(
            ("partition", "state", "from (UTC)", "lasted"),
            (
                (
                    fig.partition_name(first[shown[bar.lane]]),
                    bar.kind,
                    as_time(bar.began),
                    fig.lasted(bar.ended - bar.began),
                )
                for bar in bars
            ),
        ),
    )


def outcome(move: MoveRecord) -> str:
    """Return the outcome of a move, as text."""
    if move.ended is None and move.outcome == "unknown":
        return "still moving"
    return move.outcome.replace("_", " ")


def _place(move: MoveRecord, *, batched: bool) -> tuple[int, int, str, int]:
    return (move.batch or 0 if batched else 0, move.began, move.topic, move.partition)


def _lane(move: MoveRecord, *, batched: bool) -> FigureLane:
    if not batched or move.batch is None:
        return FigureLane(fig.short_partition_name(move))
    return FigureLane(f"{move.batch} · {fig.short_partition_name(move)}", move.batch)


def _bar(lane: int, kind: str, row: MoveRecord | Interval, when: tuple[int, int]) -> Bar:
    took = fig.lasted(when[1] - when[0])
    return Bar(
        lane, kind, *when, f"{fig.partition_name(row)}: {kind} {took}, from {as_time(when[0])}"
    )


def _says(slowest: MoveRecord, end: int, partitions: int, lanes: int) -> str:
    those = f"The {lanes:,} slowest of {as_count(partitions, 'partition')}"
    if lanes == partitions:
        those = as_count(partitions, "partition")
    took = fig.lasted(length(slowest, end))
    stalls = f", {as_count(slowest.stalls, 'stall')} in it" if slowest.stalls else ""
    return f"{those}. The longest move was that of {fig.partition_name(slowest)}: {took}{stalls}."


MOST = 30
_SUMMED = "are in the sums and the table"

_STALLS_KINDS = (
    BarKind(Cause.TARGET_DOWN, "var(--line-1)"),
    BarKind(Cause.LOG_DIR_OFFLINE, "var(--line-4)", "/"),
    BarKind(Cause.KEPT_OUT_OF_SYNC, "var(--line-2)", "-"),
    BarKind(Cause.NO_LEADER, "var(--line-6)", "."),
    BarKind(Cause.THROTTLED, "var(--line-3)", "\\"),
    BarKind(Cause.NOT_FETCHING, "var(--line-5)", "|"),
    BarKind(Cause.UNKNOWN, "var(--stalled)", "x"),
)


@figure("stalls", "When moves stood still, and why")
def stalls_figure(facts: ReportFacts) -> Figure | str:
    """Draw the stalls that lasted longest, each with its cause."""
    longest = facts.stalls[:MOST]
    if not longest:
        return "No move stood still for 30 seconds."
    names = {one.stall.key: fig.short_partition_name(one.stall) for one in longest}
    lanes = [FigureLane(name) for name in names.values()]
    bars = [_stalls_bar([*names].index(one.stall.key), one) for one in longest]
    others = len(facts.stalls) - len(longest)
    return Figure(
        says=_stalls_says(facts.stalls),
        caption=(
            "A move stands still when no replica that it waits for has copied anything for 30"
            " seconds, or when it has not ended 30 seconds after the last one was in sync. It is"
            " drawn from where progress ended. The cause is the most telling one that the recording"
            " of its first minute shows; unknown where that shows none."
            + (f" The {MOST} longest are drawn; the other {others:,} {_SUMMED}." if others else "")
        ),
        traces=traces(bars, _STALLS_KINDS),
        layout=lanes_layout(lanes, facts),
        height=lanes_height(lanes),
        table=fig.rows(
            ("partition", "from (UTC)", "lasted", "cause"),
            (
                (
                    fig.partition_name(one.stall),
                    as_time(one.stall.began),
                    _sum([one]),
                    one.words or one.cause.value,
                )
                for one in facts.stalls
            ),
        ),
    )


def _stalls_bar(lane: int, one: JudgedStall) -> Bar:
    stall, why = one.stall, one.words or "cause unknown"
    says = f"{fig.partition_name(stall)}: stalled {_sum([one])}, from {as_time(stall.began)}: {why}"
    return Bar(lane, one.cause, stall.began, stall.ended, says)


def _stalls_says(all_: Sequence[JudgedStall]) -> str:
    of = by_key(all_, lambda one: one.cause)
    by_cause = sorted(of.items(), key=lambda item: (-_ms(item[1]), item[0]))
    causes = ", ".join(f"{cause} {_sum(some)} ({len(some):,})" for cause, some in by_cause)
    return f"{as_count(len(all_), 'stall')}, {_sum(all_)} in all. By cause: {causes}."


def _sum(some: Sequence[JudgedStall]) -> str:
    return fig.lasted(_ms(some))


def _ms(some: Sequence[JudgedStall]) -> int:
    return sum(one.stall.ended - one.stall.began for one in some)


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
    moments = fig.grid(facts.span, facts.idle)
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
        state: [counter.at(t) for t in moments]
        for state, counter in counters.items()
        if counter.most()
    }
    points = fig.thinned(range(len(moments)), _MOST_ROWS)
    return Figure(
        says=_states_say(counters, facts),
        caption=(
            "The states one on another. Catching up is where copies flow; a broad band of queued"
            " shows that the limits, not the copying, took the time."
        ),
        traces=[
            fig.line(
                state,
                zip(moments, found, strict=True),
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
            ((as_time(moments[p]), *(str(found[p]) for found in counts.values())) for p in points),
        ),
    )


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
