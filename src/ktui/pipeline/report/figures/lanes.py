"""Figures with a lane for each partition: the states of moves, and stalls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ktui.pipeline.lake.records import (
    Interval,
    JudgedStall,
    MoveRecord,
    ReportFacts,
    Span,
    by_key,
    length,
    took,
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


def _seen(bars: Iterable[Bar], gaps: Sequence[Span]) -> list[Bar]:
    """Leave out of bars what no poll saw."""
    return [
        msgspec.structs.replace(bar, began=began, ended=ended)
        for bar in bars
        for began, ended in fig.outside([(bar.began, bar.ended)], gaps)
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
    slowest = {key: max(moves, key=lambda move: took(move, end)) for key, moves in of.items()}
    longest = sorted(of, key=lambda key: (-took(slowest[key], end), key))
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
        traces=traces(_seen(bars, facts.gaps), _KINDS),
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
    lasted = fig.lasted(took(slowest, end))
    waited = f", besides {fig.lasted(slowest.waited_ms)} between steps" if slowest.waited_ms else ""
    stalls = f", {as_count(slowest.stalls, 'stall')} in it" if slowest.stalls else ""
    return (
        f"{those}. The longest move was that of {fig.partition_name(slowest)}: {lasted}"
        f"{stalls}{waited}."
    )


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
        traces=traces(_seen(bars, facts.gaps), _STALLS_KINDS),
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
