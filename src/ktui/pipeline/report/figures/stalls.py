"""The figure of when moves stood still, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ktui.pipeline.lake.records import JudgedStall, ReportFacts
from ktui.pipeline.report.figures.figure import Figure, Missing, rows
from ktui.pipeline.report.figures.lanes import (
    Bar,
    BarKind,
    FigureLane,
    lanes_height,
    lanes_layout,
    traces,
)
from ktui.pipeline.report.figures.text import as_time, partition_name, short_partition_name
from ktui.progress.timeline import Cause
from ktui.quantities import as_count, as_duration

ID, TITLE = "stalls", "When moves stood still, and why"
MOST = 30
"""The most stalls to draw."""

_KINDS = (
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
        return Missing(ID, TITLE, "No move stood still for 30 seconds.")
    lanes_of = {
        key: place for place, key in enumerate(dict.fromkeys(one.stall.key for one in longest))
    }
    names = {one.stall.key: short_partition_name(one.stall) for one in longest}
    lanes = [FigureLane(names[key]) for key in lanes_of]
    bars = [_bar(lanes_of[one.stall.key], one) for one in longest]
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(facts.stalls),
        caption=(
            "A move stands still when no replica that it waits for has copied anything for 30"
            " seconds, or when it has not ended 30 seconds after the last one was in sync. It is"
            " drawn from where progress ended. The cause is the most telling one that the recording"
            " of its first minute shows; unknown where that shows none."
            + _rest(len(facts.stalls) - len(longest))
        ),
        traces=traces(bars, _KINDS),
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


def _bar(lane: int, one: JudgedStall) -> Bar:
    stall, why = one.stall, one.words or "cause unknown"
    says = f"{partition_name(stall)}: stalled {_lasted([one])}, from {as_time(stall.began)}: {why}"
    return Bar(lane, one.cause, stall.began, stall.ended, says)


def _says(all_: Sequence[JudgedStall]) -> str:
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


def _rest(left_out: int) -> str:
    if not left_out:
        return ""
    return f" The {MOST} longest are drawn; the other {left_out:,} are in the sums and the table."
