"""The figure of the moves as lanes: the states and waits of each partition, by batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ktui.pipeline.lake.records import Interval, MoveRecord, Partition, ReportFacts
from ktui.pipeline.report.figures.figure import Figure, Missing, rows
from ktui.pipeline.report.figures.lanes import (
    Bar,
    BarKind,
    FigureLane,
    lanes_height,
    lanes_layout,
    traces,
)
from ktui.pipeline.report.figures.palette import PATTERNS, STATES, UNSEEN
from ktui.pipeline.report.figures.text import as_time, partition_name, short_partition_name
from ktui.quantities import as_count, as_duration

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
