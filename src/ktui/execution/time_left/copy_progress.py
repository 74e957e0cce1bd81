"""The progress of the copies in flight, poll by poll, and the rates and sizes learned from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from statistics import median

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.run import Run
from ktui.execution.run.track import OpenStep, Track
from ktui.progress.timeline import Cause, Lane, Role, StallKind, Timeline
from ktui.speed.capacity import Capacity
from ktui.speed.copies import Pair, leader_or_first
from ktui.speed.simulate import POLL_S

_LONGEST_S = 30.0  # after a longer time without a poll, nothing is known of when brokers were busy
_AFTER_THROTTLE = timedelta(seconds=22)
"""For so long after rates were chosen for brokers, copies say nothing: Kafka's windows are 11 s.

Such rates change again and again, and what was learnt of such a time would choose the next ones.
"""
_MOST_SHARE = 0.98  # above this share, the share copied says little about the size
_GROWTH_SPAN_S = 120.0
_BLOCKING = (Cause.TARGET_DOWN, Cause.LOG_DIR_OFFLINE, Cause.NO_LEADER)
_STEPS = 20

Timelines = Mapping[TopicPartition, Timeline]


class _Copy(msgspec.Struct, frozen=True, gc=False):
    """One replica that is being added."""

    copied: float  # bytes
    left: float  # bytes
    leader: int
    blocked: bool = False  # nothing can be copied, as observed: no time of its broker counts

    @property
    def share(self) -> float:
        whole = self.copied + self.left
        return self.copied / whole if whole else 0.0


class CopyMemory(msgspec.Struct):
    """What was observed of a run's copies so far."""

    copies: dict[tuple[TopicPartition, int], _Copy] = {}
    looked_at: datetime | None = None
    over: set[TopicPartition] = set()  # their steps ended as intended since the last poll
    sizes: dict[TopicPartition, float] = {}  # bytes, as of the last poll that showed them
    growth: float = 0.0
    growth_weight: float = 0.0
    quiet_until: datetime | None = None
    whole_at: dict[TopicPartition, datetime] = {}  # when first seen to have everything of a step
    joining: tuple[float, ...] = ()
    other: tuple[float, ...] = ()


class CopyProgress:
    """Follow the copies in flight of a run; `capacity` learns from them."""

    def __init__(self, run: Run, capacity: Capacity, memory: CopyMemory | None = None) -> None:
        self._run = run
        self._capacity = capacity
        self._memory = CopyMemory() if memory is None else memory

    def throttled(self, at: datetime) -> None:
        self._memory.quiet_until = at + _AFTER_THROTTLE

    def over(self, tp: TopicPartition, step: OpenStep, at: datetime) -> None:
        self._memory.sizes.pop(tp, None)
        self._memory.over.add(tp)
        if not step.begun.adding:
            self._memory.other = _latest(self._memory.other, (at - step.at).total_seconds())
        whole_at = self._memory.whole_at.pop(tp, None)
        if whole_at is not None:
            self._memory.joining = _latest(self._memory.joining, (at - whole_at).total_seconds())

    def follow(self, run: Run) -> None:
        self._run = run

    @property
    def looked(self) -> bool:
        return self._memory.looked_at is not None

    @property
    def joining_s(self) -> int | None:
        """Of a step that adds, besides copying, in whole polls; None while unknown."""
        return (
            max(0, round(median(self._memory.joining) - POLL_S / 2))
            if self._memory.joining
            else None
        )

    @property
    def other_s(self) -> int:
        """Of a step that adds nothing, in whole polls; at least one."""
        return (
            max(POLL_S, round(median(self._memory.other) - POLL_S / 2))
            if self._memory.other
            else POLL_S
        )

    def left(self, tp: TopicPartition, step: OpenStep) -> dict[int, float]:
        """The bytes that the replicas of a step still lack, by broker."""
        copies = {broker: self._memory.copies.get((tp, broker)) for broker in step.begun.adding}
        return {b: copy.left for b, copy in copies.items() if copy is not None and copy.left > 0}

    def done(self, track: Track) -> float:
        """The bytes copied by a step in flight, by sizes as of the run's start."""
        adding = () if track.step is None else track.step.begun.adding
        copies = (self._memory.copies.get((track.tp, broker)) for broker in adding)
        return sum(copy.share * track.planned.size for copy in copies if copy is not None)

    def grown(self, passed_s: float) -> float:
        return max(0.1, 1 + self._memory.growth * passed_s)

    def update(self, now: datetime, seen: Timelines, expected: Callable[[Pair], float]) -> None:
        """`expected` returns the rate of a copy that is not observed, in bytes a second."""
        before, self._memory.copies = self._memory.copies, {}
        for track in self._run.tracks_in_flight.values():
            step = track.step
            if step is None or not step.begun.adding or step.cancelled_by_operator:
                continue
            timeline = seen.get(track.tp)
            if timeline is None:
                self._memory.copies |= _unseen(track, step, now, expected)
            else:
                self._memory.copies |= self._of(track, step, timeline)
                if not self.left(track.tp, step):
                    self._memory.whole_at.setdefault(track.tp, now)
        if seen:
            self._learn(now, before)

    def _of(
        self, track: Track, step: OpenStep, timeline: Timeline
    ) -> Iterator[tuple[tuple[TopicPartition, int], _Copy]]:
        """Yield the copies of a step.

        Lag and share are not of the same instant, and the lag alone would make an error of the size
        many times as large near the end. So a known size counts with the part that is copied.
        """
        for broker in step.begun.adding:
            lane = timeline.lanes.get(broker)
            share = _share(lane)
            if lane is not None and lane.lag_bytes and 0 < share < _MOST_SHARE:
                known = self._memory.sizes.get(track.tp, lane.lag_bytes / (1 - share))
                self._memory.sizes[track.tp] = share * known + lane.lag_bytes
            size = self._memory.sizes.get(track.tp, track.planned.size)
            yield (
                (track.tp, broker),
                _Copy(share * size, (1 - share) * size, leader_of(step), _is_blocked(lane)),
            )

    def _learn(self, now: datetime, before: Mapping[tuple[TopicPartition, int], _Copy]) -> None:
        looked_at, self._memory.looked_at = self._memory.looked_at, now
        over, self._memory.over = self._memory.over, set()
        passed_s = 0.0 if looked_at is None else (now - looked_at).total_seconds()
        if not 0 < passed_s <= _LONGEST_S:
            return
        if self._memory.quiet_until is None or now >= self._memory.quiet_until:
            self._learn_rates(before, over, passed_s)
        self._learn_growth(now, passed_s)

    def _learn_rates(
        self,
        before: Mapping[tuple[TopicPartition, int], _Copy],
        over: set[TopicPartition],
        passed_s: float,
    ) -> None:
        """A copy whose step is over has received the rest."""
        copied: list[tuple[Pair, float]] = []
        for (tp, broker), was in before.items():
            now = self._memory.copies.get((tp, broker))
            gone = now is None and tp not in over
            if was.left <= 0 or was.blocked or gone or (now is not None and now.blocked):
                continue
            size = was.left if now is None else now.copied - was.copied
            copied.append(((was.leader, broker), size))
        self._capacity.learn(copied, passed_s, self._run.throttled.in_force)

    def _learn_growth(self, now: datetime, passed_s: float) -> None:
        """Learn how fast partitions grow together, as a share of their size at the start."""
        sizes = self._memory.sizes
        copying = [tp for (tp, _), copy in self._memory.copies.items() if copy.left > 0]
        known = [tp for tp in dict.fromkeys(copying) if tp in sizes]
        planned = sum(self._run.tracks[tp].planned.size for tp in known)
        began = self._run.started_at
        if not planned or began is None or now <= began:
            return
        growth = sum(sizes[tp] for tp in known) / planned - 1
        weight = 1 - math.exp(-passed_s / _GROWTH_SPAN_S)
        self._memory.growth_weight += weight * (1 - self._memory.growth_weight)
        share = weight / self._memory.growth_weight if self._memory.growth_weight else 0.0
        self._memory.growth += share * (
            growth / (now - began).total_seconds() - self._memory.growth
        )


def _latest(known: tuple[float, ...], new: float) -> tuple[float, ...]:
    return (*known, new)[-_STEPS:]


def _unseen(
    track: Track, step: OpenStep, now: datetime, expected: Callable[[Pair], float]
) -> Iterator[tuple[tuple[TopicPartition, int], _Copy]]:
    size, passed_s, leader = track.planned.size, (now - step.at).total_seconds(), leader_of(step)
    for broker in step.begun.adding:
        copied = max(0.0, min(size, passed_s * expected((leader, broker))))
        yield (track.tp, broker), _Copy(copied, size - copied, leader)


def leader_of(step: OpenStep) -> int:
    """Return whom the copies of a step come from."""
    return leader_or_first(step.begun.leader, step.begun.before)


def _is_blocked(lane: Lane | None) -> bool:
    stall = None if lane is None else lane.stall
    return stall is not None and (stall.kind is StallKind.STALLED or stall.cause in _BLOCKING)


def _share(lane: Lane | None) -> float:
    if lane is None:
        return 0.0
    if lane.role in (Role.IN_SYNC, Role.LEADER):
        return 1.0
    return lane.share or 0.0 if lane.role is Role.ADDING else 0.0
