"""The figure of when moves stood still, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ktui.pipeline.lake.records import Interval, Partition, ReportFacts, Sample
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
from ktui.pipeline.tables.stall_cause import cause_of, cause_window, stalls
from ktui.progress.timeline import Cause
from ktui.quantities import as_count, as_duration

ID, TITLE = "stalls", "When moves stood still, and why"
MOST = 30
"""The most stalls to draw, and to find the cause of."""

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
    longest = longest_stalls(facts.intervals)
    if not longest:
        return Missing(ID, TITLE, "No move stood still for 30 seconds.")
    all_ = list(stalls(facts.intervals))
    samples = _by_partition(facts.stalled)
    lanes_of = {key: place for place, key in enumerate(dict.fromkeys(s.key for s in longest))}
    names = {stall.key: short_partition_name(stall) for stall in longest}
    lanes = [FigureLane(names[key]) for key in lanes_of]
    causes = [cause_of(_within(samples, stall)) for stall in longest]
    bars = [
        _bar(lanes_of[stall.key], stall, cause)
        for stall, cause in zip(longest, causes, strict=True)
    ]
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(all_, bars),
        caption=(
            "A move stands still when no replica that it waits for has copied anything for 30"
            " seconds, or when it has not ended 30 seconds after the last one was in sync. The"
            " cause is the most telling one that the recording of its first minute shows; unknown"
            " where that shows none." + _rest(len(all_) - len(longest))
        ),
        traces=traces(bars, _KINDS),
        layout=lanes_layout(lanes, facts.span, ""),
        height=lanes_height(lanes),
        table=rows(
            ("partition", "from (UTC)", "lasted", "cause"),
            (
                (partition_name(stall), as_time(stall.began), bar.lasted, detail or cause.value)
                for stall, bar, (cause, detail) in zip(longest, bars, causes, strict=True)
            ),
        ),
    )


def longest_stalls(intervals: Sequence[Interval]) -> list[Interval]:
    """Return the stalls that lasted longest, the longest first."""
    by_length = sorted(
        stalls(intervals), key=lambda one: (one.began - one.ended, one.began, one.key)
    )
    return by_length[:MOST]


def _by_partition(samples: Sequence[Sample]) -> Mapping[Partition, list[Sample]]:
    of: defaultdict[Partition, list[Sample]] = defaultdict(list)
    for sample in samples:
        of[sample.key].append(sample)
    return of


def _within(of: Mapping[Partition, list[Sample]], stall: Interval) -> list[Sample]:
    first, end = cause_window(stall)
    return [s for s in of.get(stall.key, ()) if first <= s.t < end]


def _bar(lane: int, stall: Interval, cause: tuple[Cause, str]) -> Bar:
    took = as_duration((stall.ended - stall.began) / 1000)
    why = cause[1] or "cause unknown"
    says = f"{partition_name(stall)}: stalled {took}, from {as_time(stall.began)}: {why}"
    return Bar(lane, cause[0], stall.began, stall.ended, says)


def _says(all_: Sequence[Interval], bars: Sequence[Bar]) -> str:
    lasted: defaultdict[str, int] = defaultdict(int)
    for bar in bars:
        lasted[bar.kind] += bar.ended - bar.began
    by_cause = sorted(lasted, key=lambda kind: -lasted[kind])
    causes = ", ".join(f"{kind} {as_duration(lasted[kind] / 1000)}" for kind in by_cause)
    total = as_duration(sum(one.ended - one.began for one in all_) / 1000)
    which = "By cause" if len(bars) == len(all_) else f"Of the {len(bars)} longest by cause"
    return f"{as_count(len(all_), 'stall')}, {total} in all. {which}: {causes}."


def _rest(left_out: int) -> str:
    return f" The {left_out:,} shorter ones are left out." if left_out else ""
