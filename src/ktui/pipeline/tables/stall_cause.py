"""The stalls of moves, and the causes that samples show. No Spark: a report judges stalls too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktui.cluster.settings import FETCH_BYTES
from ktui.pipeline.lake.records import Interval, Sample
from ktui.progress.memory import STALLED_AFTER_S
from ktui.progress.timeline import Cause

STALLED, IN_SYNC = "stalled", "in sync"
HELD_AFTER_MS = int(STALLED_AFTER_S * 1000)
"""A move is expected to end within this time once all replicas that it adds are in sync."""
LOOKED_AT_MS = 60_000
"""The cause of a stall is sought in the samples from its first so many milliseconds."""

MOST_TELLING = (
    Cause.TARGET_DOWN,
    Cause.LOG_DIR_OFFLINE,
    Cause.KEPT_OUT_OF_SYNC,
    Cause.NO_LEADER,
    Cause.THROTTLED,
    Cause.NOT_FETCHING,
    Cause.UNKNOWN,
)
"""All causes, the most telling one first."""


def stalls(intervals: Iterable[Interval]) -> Iterator[Interval]:
    """Yield the spans in which moves stood still: `stalled`, or `in sync` for over 30 seconds."""
    for one in intervals:
        is_held = one.state == IN_SYNC and one.ended - one.began > HELD_AFTER_MS
        if one.state == STALLED or is_held:
            yield one


def cause_window(stall: Interval) -> tuple[int, int]:
    """Return the span whose samples show the cause: ms since 1970, the end exclusive."""
    return stall.began, max(min(stall.ended, stall.began + LOOKED_AT_MS), stall.began + 1)


def cause_of(samples: Iterable[Sample]) -> tuple[Cause, str]:
    """Return the most telling cause in samples of a stall's `cause_window`, and its words."""
    return min(map(cause_in, samples), key=_priority, default=(Cause.UNKNOWN, ""))


def cause_in(sample: Sample) -> tuple[Cause, str]:
    """Return the cause that one sample of a stalled partition shows, and that cause in words.

    A sample does not show whether its topic's throttled replica list lets a throttle bind. So a
    copy counts as not fetched only where no rate that could bind it is set.
    """
    down = [broker for broker in sample.missing if broker in sample.down]
    if down:
        return Cause.TARGET_DOWN, f"broker {down[0]} was down"
    offline = [broker for broker in sample.missing if broker in sample.offline]
    if offline:
        return Cause.LOG_DIR_OFFLINE, f"a log dir of broker {offline[0]} was offline"
    if not sample.described:
        return Cause.UNKNOWN, ""
    if not sample.missing:
        return _cause_of_held(sample)
    if sample.leader is None:
        return Cause.NO_LEADER, "there was no leader to copy from"
    return _cause_of_copies(sample, sample.leader)


def _priority(judged: tuple[Cause, str]) -> tuple[int, bool]:
    cause, words = judged
    return MOST_TELLING.index(cause), not words


def _cause_of_held(sample: Sample) -> tuple[Cause, str]:
    if not sample.out_of_sync:
        return Cause.UNKNOWN, "all in sync, yet not completed"
    broker = sample.out_of_sync[0]
    down = " and down" if broker in sample.down else ""
    return Cause.KEPT_OUT_OF_SYNC, f"broker {broker} was out of the ISR{down}"


def _cause_of_copies(sample: Sample, leader: int) -> tuple[Cause, str]:
    ends = {reading.broker: reading.end for reading in sample.ends}
    known = [broker for broker in sample.missing if broker in ends and leader in ends]
    behind = [broker for broker in known if ends[broker] < ends[leader]]
    if known == list(sample.missing) and not behind:
        return Cause.KEPT_OUT_OF_SYNC, f"broker {known[0]} had all, and was not in the ISR"
    rates = _rates(sample, leader)
    for broker, rate in rates:
        # one fetch at this rate takes longer than the time after which a copy counts as stalled
        if rate * STALLED_AFTER_S < FETCH_BYTES:
            return Cause.THROTTLED, f"the throttle of broker {broker} was {rate:,} B/s"
    if behind and not rates:
        return Cause.NOT_FETCHING, f"broker {behind[0]} did not fetch from {leader}"
    return Cause.UNKNOWN, ""


def _rates(sample: Sample, leader: int) -> list[tuple[int, int]]:
    found = [(r.broker, r.follower) for r in sample.rates if r.broker in sample.missing]
    found += [(r.broker, r.leader) for r in sample.rates if r.broker == leader]
    return [(broker, rate) for broker, rate in found if rate is not None]
