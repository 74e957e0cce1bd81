"""The causes of stalls of producers, by the controller's log, the CPUs and the JVMs."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from bench.machine import Samples
from ktui.lab.layout import Lab
from support.kafka.metadata_log import PartitionRecord, dumped_with_times, partitions_among

LATE_S = 0.3
"""Seconds after which a missing acknowledgement counts as a stall of its partition."""
BEFORE_S = 1.5
"""A change counts as the cause of a wait that begins so many seconds after it, or sooner.

A follower that is told of its new leader too early asks again after replica.fetch.backoff.ms (1 s).
"""
_LONG_GC_S = 0.1
_NO_CPU = 0.05
_WAITS_FOR_DISK = 0.25
_STANDS_STILL = 0.5

Timed = Sequence[tuple[float, float, int]]
"""Each message's time of sending, seconds until it was acknowledged, and partition."""


class Cause(enum.StrEnum):
    """Why a partition did not acknowledge, by the first of these for which there is evidence."""

    LEADER = "leader epoch"
    """The partition's own leader epoch rose: a cut, an election, or the end of a reassignment."""
    JOINED = "joined ISR"
    """A replica had just joined its ISR."""
    LEFT = "left ISR"
    """A replica had just left its ISR: it had lagged for replica.lag.time.max.ms."""
    BEGAN = "began"
    """Replicas were just added to it."""
    GARBAGE = "GC"
    """A JVM stood still for a tenth of a second or more meanwhile, to collect garbage."""
    DISK = "disk"
    """Some process waited for a disk in a quarter of the time, or more."""
    CPU = "no CPU"
    """Less than 5 % of the CPUs' time was idle."""
    SHARE = "share used up"
    """Some broker stood still for half of the time, or more, at the limit of its share of CPU."""
    BESIDE = "beside"
    """The leader epoch of another partition had just risen."""
    UNKNOWN = "unexplained"


class Stall(msgspec.Struct, frozen=True):
    """A time in which some message to a partition was late, in seconds of `time.monotonic`."""

    partition: int
    sent_s: float
    """When the first of these messages was sent."""
    since_s: float
    until_s: float

    @property
    def lasts_s(self) -> float:
        return self.until_s - self.since_s


class Change(msgspec.Struct, frozen=True):
    """A change of a partition in the controller's log, in seconds of `time.monotonic`."""

    at_s: float
    partition: int
    cause: Cause


def stalls_of(timed: Timed) -> list[Stall]:
    """Return the stalls of each partition; those of one partition do not overlap."""
    late: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for sent_s, took_s, partition in timed:
        if took_s > LATE_S:
            late[partition].append((sent_s, sent_s + took_s))
    found: list[Stall] = []
    for partition, spans in late.items():
        for sent_s, until_s in sorted(spans):
            last = found[-1] if found else None
            if last is not None and last.partition == partition and sent_s + LATE_S <= last.until_s:
                longer = max(until_s, last.until_s)
                found[-1] = msgspec.structs.replace(last, until_s=longer)
            else:
                found.append(Stall(partition, sent_s, sent_s + LATE_S, until_s))
    return found


def changes_of(lab: Lab, topic: str, monotonic_s: float) -> list[Change]:
    """Return the changes of a topic's partitions by the controller's log.

    Args:
        lab: the lab.
        topic: the topic.
        monotonic_s: what has to be added to a time since the epoch, in seconds.
    """
    dumped = list(dumped_with_times(lab))
    times = {offset: at_ms / 1000 + monotonic_s for offset, at_ms, _ in dumped}
    records = partitions_among(((offset, record) for offset, _, record in dumped), topic)
    isr: dict[int, frozenset[int]] = {}
    found = []
    for record in records:
        number = record.tp.partition
        before = isr.get(number, frozenset())
        isr[number] = before if record.isr is None else frozenset(record.isr)
        cause = None if record.created else _cause(record, before, isr[number])
        if cause is not None:
            found.append(Change(times[record.offset], number, cause))
    return found


def _cause(record: PartitionRecord, before: frozenset[int], now: frozenset[int]) -> Cause | None:
    if record.leader is not None or (record.replicas is not None and not record.adding):
        return Cause.LEADER
    if now - before:
        return Cause.JOINED
    if before - now:
        return Cause.LEFT
    return Cause.BEGAN if record.adding else None


class Judged(NamedTuple):
    """A stall and what caused it."""

    stall: Stall
    cause: Cause


def judged(
    stalls: Iterable[Stall], changes: Sequence[Change], machine: Samples
) -> Sequence[Judged]:
    """Return each stall with its cause."""
    return [Judged(stall, _cause_of(stall, changes, machine)) for stall in stalls]


def _cause_of(stall: Stall, changes: Sequence[Change], machine: Samples) -> Cause:
    near = [c for c in changes if stall.sent_s - BEFORE_S <= c.at_s <= stall.until_s]
    own = {change.cause for change in near if change.partition == stall.partition}
    for cause in (Cause.LEADER, Cause.JOINED, Cause.LEFT, Cause.BEGAN):
        if cause in own:
            return cause
    if machine.gc_s(stall.sent_s, stall.until_s) >= _LONG_GC_S:
        return Cause.GARBAGE
    if machine.disk(stall.sent_s, stall.until_s) >= _WAITS_FOR_DISK:
        return Cause.DISK
    if machine.idle(stall.sent_s, stall.until_s) < _NO_CPU:
        return Cause.CPU
    if machine.held(stall.sent_s, stall.until_s) >= _STANDS_STILL:
        return Cause.SHARE
    beside = any(change.cause is Cause.LEADER for change in near)
    return Cause.BESIDE if beside else Cause.UNKNOWN


def seconds_by_cause(stalls: Iterable[Judged]) -> Mapping[Cause, float]:
    """Sum the partition-seconds of stalls by their cause."""
    seconds: defaultdict[Cause, float] = defaultdict(float)
    for stall, cause in stalls:
        seconds[cause] += stall.lasts_s
    return seconds


def causes_text(stalls: Iterable[Judged]) -> str:
    """Return the partition-seconds by cause: "leader epoch 3.1, joined ISR 0.4"."""
    seconds = seconds_by_cause(stalls)
    named = [f"{cause} {seconds[cause]:.1f}" for cause in Cause if seconds.get(cause, 0) >= 0.05]  # noqa: PLR2004 - shown as 0.0
    return ", ".join(named) or "none"
