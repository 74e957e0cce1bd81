"""When moves stood still, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ktui.pipeline.report.figure import Figure, Missing, rows
from ktui.pipeline.report.lanes import Bar, Kind, Lane, lanes_height, lanes_layout, traces
from ktui.pipeline.report.names import full, short
from ktui.pipeline.report.records import Facts, Interval, Partition, Sample
from ktui.pipeline.report.stall_cause import cause_of
from ktui.pipeline.report.times import as_time
from ktui.progress.timeline import Cause
from ktui.quantities import as_count, as_duration

ID, TITLE = "stalls", "When moves stood still, and why"
STALLED = "stalled"
MOST = 30
"""As many stalls are drawn, and their causes looked for."""

_KINDS = (
    Kind(Cause.TARGET_DOWN, "var(--line-1)"),
    Kind(Cause.LOG_DIR_OFFLINE, "var(--line-4)", "/"),
    Kind(Cause.NO_LEADER, "var(--line-6)", "."),
    Kind(Cause.THROTTLED, "var(--line-3)", "\\"),
    Kind(Cause.UNKNOWN, "var(--stalled)", "x"),
)


def stalls_figure(facts: Facts) -> Figure | Missing:
    """Draw the stalls that lasted longest, each with its cause."""
    stalls = longest_stalls(facts.intervals)
    if not stalls:
        return Missing(ID, TITLE, "No move stood still for 30 seconds.")
    all_ = [one for one in facts.intervals if one.state == STALLED]
    samples = _by_partition(facts.stalled)
    lanes_of = {key: place for place, key in enumerate(dict.fromkeys(s.key for s in stalls))}
    names = {stall.key: short(stall) for stall in stalls}
    lanes = [Lane(names[key]) for key in lanes_of]
    causes = [cause_of(_within(samples, stall)) for stall in stalls]
    bars = [
        _bar(lanes_of[stall.key], stall, cause) for stall, cause in zip(stalls, causes, strict=True)
    ]
    return Figure(
        id=ID,
        title=TITLE,
        says=_says(all_, bars),
        caption=(
            "A move stands still when no replica that it waits for has copied anything for 30"
            " seconds. The cause is the most telling one that the recording shows; unknown where it"
            " shows none." + _rest(len(all_) - len(stalls))
        ),
        traces=traces(bars, _KINDS),
        layout=lanes_layout(lanes, facts.span, ""),
        height=lanes_height(lanes),
        table=rows(
            ("partition", "from (UTC)", "lasted", "cause"),
            (
                (full(stall), as_time(stall.began), bar.lasted, detail or cause.value)
                for stall, bar, (cause, detail) in zip(stalls, bars, causes, strict=True)
            ),
        ),
    )


def longest_stalls(intervals: Sequence[Interval]) -> list[Interval]:
    """Give the stalls that lasted longest, the longest first."""
    stalls = [one for one in intervals if one.state == STALLED]
    return sorted(stalls, key=lambda one: (one.began - one.ended, one.began, one.key))[:MOST]


def _by_partition(samples: Sequence[Sample]) -> Mapping[Partition, list[Sample]]:
    of: defaultdict[Partition, list[Sample]] = defaultdict(list)
    for sample in samples:
        of[sample.key].append(sample)
    return of


def _within(of: Mapping[Partition, list[Sample]], stall: Interval) -> list[Sample]:
    return [s for s in of.get(stall.key, ()) if stall.began <= s.t <= stall.ended]


def _bar(lane: int, stall: Interval, cause: tuple[Cause, str]) -> Bar:
    took = as_duration((stall.ended - stall.began) / 1000)
    why = cause[1] or "cause unknown"
    says = f"{full(stall)}: stalled {took}, from {as_time(stall.began)}: {why}"
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
