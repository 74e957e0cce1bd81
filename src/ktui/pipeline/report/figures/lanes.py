"""Lanes: one row per partition, with bars for its states over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from ktui.pipeline.lake.records import Interval, JudgedStall, MoveRecord, Partition, ReportFacts
from ktui.pipeline.report.figures.figure import (
    JSON,
    PATTERNS,
    STATES,
    UNSEEN,
    Figure,
    Missing,
    as_time,
    axis,
    layout,
    partition_name,
    rows,
    short_partition_name,
    time_axis,
    without_markup,
)
from ktui.progress.timeline import Cause
from ktui.quantities import as_count, as_duration

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


MOST_LANES = 40
ID, TITLE = "lanes", "Each partition's move: where its time went"
_OF_RUN = (
    "One lane a partition, by batch, shown by the number before its name and the ground under"
    " the lane. Between steps a partition waits for its next one, or to be cut with others."
)
_OF_CLUSTER = "One lane a partition, by when it began to move."
_SEVERAL = " A partition that moved several times has all its moves in one lane."
_KINDS = [
    BarKind(UNSEEN, "var(--dim)", "-"),
    *(BarKind(s, c, PATTERNS.get(s, "")) for s, c in STATES.items()),
]


def moves_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw the partitions whose moves took longest, by batch."""
    if not facts.moves:
        return Missing(ID, TITLE, "No partition has moved.")
    end = facts.span[1]
    of: defaultdict[Partition, list[MoveRecord]] = defaultdict(list)
    for move in facts.moves:
        of[move.key].append(move)
    slowest = {key: max(moves, key=lambda move: length(move, end)) for key, moves in of.items()}
    longest = sorted(of, key=lambda key: (-length(slowest[key], end), key))
    batched = facts.of_run
    shown = sorted(longest[:MOST_LANES], key=lambda key: _place(of[key][0], batched=batched))
    lanes = [_lane(of[key][0], batched=batched) for key in shown]
    bars = [
        *_moving(shown, of, end),
        *_bars({key: lane for lane, key in enumerate(shown)}, facts.intervals),
    ]
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(slowest[longest[0]], end, len(of), len(lanes)),
        caption=(
            (_OF_RUN if batched else _OF_CLUSTER)
            + (_SEVERAL if len(facts.moves) > len(of) else "")
            + _rest(len(of) - len(lanes))
        ),
        traces=traces(bars, _KINDS),
        layout=lanes_layout(lanes, facts),
        height=lanes_height(lanes),
        table=rows(
            ("partition", "state", "from (UTC)", "lasted"),
            ((full_lane(shown, of, bar), bar.kind, as_time(bar.began), bar.lasted) for bar in bars),
        ),
    )


def full_lane(
    shown: Sequence[Partition], of: Mapping[Partition, list[MoveRecord]], bar: Bar
) -> str:
    """Name the partition of a bar."""
    return partition_name(of[shown[bar.lane]][0])


def length(move: MoveRecord, end: int) -> int:
    """Return how long a move took, in milliseconds; an open move counts up to `end`."""
    return max(0, (end if move.ended is None else move.ended) - move.began)


def outcome(move: MoveRecord) -> str:
    """Return the outcome of a move, as text."""
    if move.ended is None and move.outcome == "unknown":
        return "still moving"
    return move.outcome.replace("_", " ")


def _place(move: MoveRecord, *, batched: bool) -> tuple[int, int, str, int]:
    return (move.batch or 0 if batched else 0, move.began, move.topic, move.partition)


def _lane(move: MoveRecord, *, batched: bool) -> FigureLane:
    if not batched or move.batch is None:
        return FigureLane(short_partition_name(move))
    return FigureLane(f"{move.batch} · {short_partition_name(move)}", move.batch)


def _moving(
    shown: Sequence[Partition], of: Mapping[Partition, list[MoveRecord]], end: int
) -> list[Bar]:
    return [
        _bar(lane, UNSEEN, move, (move.began, move.began + length(move, end)))
        for lane, key in enumerate(shown)
        for move in of[key]
    ]


def _bars(lane_of: Mapping[Partition, int], intervals: Sequence[Interval]) -> list[Bar]:
    return [
        _bar(lane_of[one.key], one.state, one, (one.began, one.ended))
        for one in intervals
        if one.key in lane_of
    ]


def _bar(lane: int, kind: str, row: MoveRecord | Interval, when: tuple[int, int]) -> Bar:
    took = as_duration((when[1] - when[0]) / 1000)
    return Bar(lane, kind, *when, f"{partition_name(row)}: {kind} {took}, from {as_time(when[0])}")


def _says(slowest: MoveRecord, end: int, partitions: int, lanes: int) -> str:
    those = f"The {lanes:,} slowest of {as_count(partitions, 'partition')}"
    if lanes == partitions:
        those = as_count(partitions, "partition")
    took = as_duration(length(slowest, end) / 1000)
    stalls = f", {as_count(slowest.stalls, 'stall')} in it" if slowest.stalls else ""
    return f"{those}. The longest move was that of {partition_name(slowest)}: {took}{stalls}."


def _rest(left_out: int) -> str:
    if not left_out:
        return ""
    return f" {as_count(left_out, 'faster one is', 'faster ones are')} in the next figure only."


STALLS_ID, STALLS_TITLE = "stalls", "When moves stood still, and why"
MOST = 30
"""The most stalls to draw."""

_STALLS_KINDS = (
    BarKind(Cause.TARGET_DOWN, "var(--line-1)"),
    BarKind(Cause.LOG_DIR_OFFLINE, "var(--line-4)", "/"),
    BarKind(Cause.KEPT_OUT_OF_SYNC, "var(--line-2)", "-"),
    BarKind(Cause.NO_LEADER, "var(--line-6)", "."),
    BarKind(Cause.THROTTLED, "var(--line-3)", "\\"),
    BarKind(Cause.NOT_FETCHING, "var(--line-5)", "|"),
    BarKind(Cause.UNKNOWN, "var(--stalled)", "x"),
)


def stalls_figure(facts: ReportFacts) -> Figure | Missing:
    """Draw the stalls that lasted longest, each with its cause."""
    longest = facts.stalls[:MOST]
    if not longest:
        return Missing(STALLS_ID, STALLS_TITLE, "No move stood still for 30 seconds.")
    lanes_of = {
        key: place for place, key in enumerate(dict.fromkeys(one.stall.key for one in longest))
    }
    names = {one.stall.key: short_partition_name(one.stall) for one in longest}
    lanes = [FigureLane(names[key]) for key in lanes_of]
    bars = [_stalls_bar(lanes_of[one.stall.key], one) for one in longest]
    return Figure(
        id=STALLS_ID,
        title=STALLS_TITLE,
        says=_stalls_says(facts.stalls),
        caption=(
            "A move stands still when no replica that it waits for has copied anything for 30"
            " seconds, or when it has not ended 30 seconds after the last one was in sync. It is"
            " drawn from where progress ended. The cause is the most telling one that the recording"
            " of its first minute shows; unknown where that shows none."
            + _stalls_rest(len(facts.stalls) - len(longest))
        ),
        traces=traces(bars, _STALLS_KINDS),
        layout=lanes_layout(lanes, facts),
        height=lanes_height(lanes),
        table=rows(
            ("partition", "from (UTC)", "lasted", "cause"),
            (
                (
                    partition_name(one.stall),
                    as_time(one.stall.began),
                    _lasted([one]),
                    one.words or one.cause.value,
                )
                for one in facts.stalls
            ),
        ),
    )


def _stalls_bar(lane: int, one: JudgedStall) -> Bar:
    stall, why = one.stall, one.words or "cause unknown"
    says = f"{partition_name(stall)}: stalled {_lasted([one])}, from {as_time(stall.began)}: {why}"
    return Bar(lane, one.cause, stall.began, stall.ended, says)


def _stalls_says(all_: Sequence[JudgedStall]) -> str:
    of: defaultdict[str, list[JudgedStall]] = defaultdict(list)
    for one in all_:
        of[one.cause].append(one)
    by_cause = sorted(of.items(), key=lambda item: (-_ms(item[1]), item[0]))
    causes = ", ".join(f"{cause} {_lasted(some)} ({len(some):,})" for cause, some in by_cause)
    return f"{as_count(len(all_), 'stall')}, {_lasted(all_)} in all. By cause: {causes}."


def _lasted(some: Sequence[JudgedStall]) -> str:
    return as_duration(_ms(some) / 1000)


def _ms(some: Sequence[JudgedStall]) -> int:
    return sum(one.stall.ended - one.stall.began for one in some)


def _stalls_rest(left_out: int) -> str:
    if not left_out:
        return ""
    return f" The {MOST} longest are drawn; the other {left_out:,} are in the sums and the table."
