"""What stood still, and why: what reports and insights tell of it, in the live view's words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ktui.cluster.throttle_settings import FETCH_BYTES
from ktui.pipeline.lake.records import Interval, Sample
from ktui.progress.stalls import STALLED_AFTER_S
from ktui.progress.timeline import Cause

STALLED, IN_SYNC = "stalled", "in sync"
HELD_AFTER_MS = int(STALLED_AFTER_S * 1000)
"""So long is a move expected to end once all that it adds is in sync."""
LOOKED_AT_MS = 60_000
"""The cause of a stall is looked for in the samples of so much of it."""

MOST_TELLING = (
    Cause.TARGET_DOWN,
    Cause.LOG_DIR_OFFLINE,
    Cause.KEPT_OUT_OF_SYNC,
    Cause.NO_LEADER,
    Cause.THROTTLED,
    Cause.NOT_FETCHING,
    Cause.UNKNOWN,
)


def stalls(intervals: Iterable[Interval]) -> Iterator[Interval]:
    """Give the times in which moves stood still.

    That is each `stalled` interval, and what is beyond 30 seconds of each `in sync` one: all that
    is added is in sync, and yet the move has not ended.
    """
    for one in intervals:
        if one.state == STALLED:
            yield one
        elif one.state == IN_SYNC and one.ended - one.began > HELD_AFTER_MS:
            yield msgspec.structs.replace(one, began=one.began + HELD_AFTER_MS)


def looked_at(stall: Interval) -> tuple[int, int]:
    """Give from when to before when the samples tell the cause, in ms since 1970."""
    return stall.began, max(min(stall.ended, stall.began + LOOKED_AT_MS), stall.began + 1)


def cause_of(samples: Iterable[Sample]) -> tuple[Cause, str]:
    """Name the cause of a stall, and give it in words: the most telling that a sample shows.

    Args:
        samples: of the partition, of the times that `looked_at` gives.
    """
    return min(map(cause_in, samples), key=_place, default=(Cause.UNKNOWN, ""))


def cause_in(sample: Sample) -> tuple[Cause, str]:
    """Name the cause that one sample of a partition that stands still shows, and give it in words.

    A sample does not tell whether its topic's list lets a throttle bind. So a copy is said not to
    be fetched where no rate is set that could bind it; under one that lets it go on, it is unknown.
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
        return _of_held(sample)
    if sample.leader is None:
        return Cause.NO_LEADER, "there was no leader to copy from"
    return _of_copies(sample, sample.leader)


def _place(judged: tuple[Cause, str]) -> tuple[int, bool]:
    cause, words = judged
    return MOST_TELLING.index(cause), not words


def _of_held(sample: Sample) -> tuple[Cause, str]:
    """Judge a move that has not ended though all that is added is in sync."""
    if not sample.out_of_sync:
        return Cause.UNKNOWN, "all in sync, yet not completed"
    broker = sample.out_of_sync[0]
    down = " and down" if broker in sample.down else ""
    return Cause.KEPT_OUT_OF_SYNC, f"broker {broker} was out of the ISR{down}"


def _of_copies(sample: Sample, leader: int) -> tuple[Cause, str]:
    ends = {reading.broker: reading.end for reading in sample.ends}
    known = [broker for broker in sample.missing if broker in ends and leader in ends]
    behind = [broker for broker in known if ends[broker] < ends[leader]]
    if known == list(sample.missing) and not behind:
        return Cause.KEPT_OUT_OF_SYNC, f"broker {known[0]} had all, and was not in the ISR"
    rates = _rates(sample, leader)
    for broker, rate in rates:
        # one fetch under it takes longer than it takes to be called stalled
        if rate * STALLED_AFTER_S < FETCH_BYTES:
            return Cause.THROTTLED, f"the throttle of broker {broker} was {rate:,} B/s"
    if behind and not rates:
        return Cause.NOT_FETCHING, f"broker {behind[0]} did not fetch from {leader}"
    return Cause.UNKNOWN, ""


def _rates(sample: Sample, leader: int) -> list[tuple[int, int]]:
    """Give the rates that may bind the copies, each with its broker."""
    found = [(r.broker, r.follower) for r in sample.rates if r.broker in sample.missing]
    found += [(r.broker, r.leader) for r in sample.rates if r.broker == leader]
    return [(broker, rate) for broker, rate in found if rate is not None]
