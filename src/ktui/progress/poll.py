"""One observation next to the fold so far, as every partition's fold needs it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress.flows import GULP_S
from ktui.progress.memory import Meter, PollMemory
from ktui.progress.throttle import Throttles
from ktui.progress.timeline import Progress

LEAST_GAP_S = 15.0  # a shorter pause is a slow poll, not a lost cluster
RESTART_S = 60.0  # after a longer pause, rates start over
_USUAL_POLLS = 3.0
_SMOOTHING = 0.2


class Poll:
    """One observation, and how it follows the previous one.

    Attributes:
        first: whether nothing was folded before.
        now_s: its monotonic second; never before that of an earlier observation.
        later: whether time has passed since the last one.
        passed_s: observed seconds since the last one; 0 after a gap without polls.
        gap: whether the cluster was out of sight in between.
        lost_s: the second of the last poll before the latest gap.
        restart_s: readings farther apart than this many seconds give no rate.
    """

    def __init__(self, progress: Progress, observation: Observation) -> None:
        memory = progress.memory
        self.observation = observation
        self.first = memory is None
        self._before = progress
        self._typical_s = None if memory is None else memory.typical_s
        last_s = observation.monotonic_s if memory is None else memory.now_s
        self.now_s = max(last_s, observation.monotonic_s)
        passed_s = self.now_s - last_s
        self.later = passed_s > 0.0
        usual_s = _USUAL_POLLS * (self._typical_s if self._typical_s is not None else passed_s)
        self._gap_s = max(LEAST_GAP_S, usual_s)
        self.restart_s = max(RESTART_S, usual_s)
        self.gap = passed_s > self._gap_s
        self.passed_s = 0.0 if self.gap else passed_s
        self.lost_s = last_s if self.gap else self.memory.lost_s
        self._all_passed_s = passed_s
        self._wall_times: dict[float, datetime] = {}
        self.throttles = Throttles(observation, progress.timelines.values(), self.now_s)
        self.alive = observation.online
        self.down = observation.down

    @property
    def typical_s(self) -> float | None:
        """Seconds between polls, smoothed; a gap counts as at most the longest usual pause."""
        passed_s = min(self._all_passed_s, self._gap_s)
        if self._typical_s is None:
            return passed_s or None
        return self._typical_s + _SMOOTHING * (passed_s - self._typical_s)

    @property
    def memory(self) -> PollMemory:
        return self._before.memory or PollMemory(self.now_s)

    @cached_property
    def failed_dirs(self) -> Mapping[int, str]:
        dirs = (one for of_broker in self.observation.log_dirs.values() for one in of_broker)
        return {one.broker: one.path for one in dirs if one.error is not None}

    def config(self, tp: TopicPartition) -> TopicConfig | None:
        return self.observation.topic_configs.get(tp.topic)

    def shares_anew(self, state: PartitionState, broker: int) -> bool:
        sides = [(True, broker), (False, state.leader)]
        return any(self._copies[side] != self._copies_before[side] for side in sides)

    @cached_property
    def _copies(self) -> Counter[tuple[bool, int | None]]:
        return _copies(self.observation)

    @cached_property
    def _copies_before(self) -> Counter[tuple[bool, int | None]]:
        last = self._before.last
        return Counter() if last is None else _copies(last)

    def absent(self, state: PartitionState) -> bool:
        if state.tp in self.observation.absent:
            return True
        now = self._topic_ids.get(state.tp.topic)
        return None not in (now, state.topic_id) and now != state.topic_id

    @cached_property
    def _topic_ids(self) -> Mapping[str, str | None]:
        return {tp.topic: state.topic_id for tp, state in self.observation.partitions.items()}

    def wall_time(self, at_s: float) -> datetime:
        known = self._wall_times.get(at_s)
        if known is None:
            age_s = max(0.0, self.observation.monotonic_s - at_s)
            known = self._wall_times[at_s] = self.observation.at - timedelta(seconds=age_s)
        return known


def _copies(observation: Observation) -> Counter[tuple[bool, int | None]]:
    copies: Counter[tuple[bool, int | None]] = Counter()
    for state in observation.partitions.values():
        for broker in state.adding if state.reassigning else ():
            if broker not in state.isr:
                copies[True, broker] += 1
                copies[False, state.leader] += 1
    return copies


SMOOTHING_S = 20.0
"""Kafka's throttle works in windows of some 11 s and lets copies through in gulps.

The average must span two windows, and still follow a changed throttle within half a minute.
"""


_SEEN_A_GULP = 1.0 - math.exp(-GULP_S / SMOOTHING_S)  # covers one pause at least

MIN_INTERVAL_S = 0.05  # readings closer together than this say nothing about a rate


def advance(meter: Meter | None, reading: Reading | None, poll: Poll) -> Meter | None:
    """Fold one reading into a meter.

    A count that went backwards, or was not read for `restart_s`, starts over. An interval out of
    sight has the weight of a usual poll: when the count grew in it is unknown.
    """
    if reading is None or (meter is not None and reading.at_s < meter.at_s + MIN_INTERVAL_S):
        return meter
    if meter is None:
        return Meter(reading.value, reading.at_s)
    passed_s = reading.at_s - meter.at_s
    if meter.interrupted or passed_s > poll.restart_s or reading.value < meter.value:
        return Meter(reading.value, reading.at_s)
    if meter.at_s <= poll.lost_s:
        return _weighed(meter, reading, passed_s, min(passed_s, poll.memory.typical_s or passed_s))
    quiet_s = meter.quiet_s + passed_s if reading.value == meter.value else 0.0
    if 0.0 < quiet_s < GULP_S and meter.weight >= _SEEN_A_GULP:
        return Meter(meter.value, reading.at_s, meter.rate, meter.weight, quiet_s)
    if meter.quiet_s < GULP_S:
        passed_s += meter.quiet_s
    quiet_s = quiet_s if quiet_s >= GULP_S else 0.0
    return _weighed(meter, reading, passed_s, passed_s, quiet_s)


def _weighed(
    meter: Meter, reading: Reading, passed_s: float, weight_s: float, quiet_s: float = 0.0
) -> Meter:
    """Add an interval of `passed_s` to the average as if it had lasted `weight_s`."""
    kept = math.exp(-weight_s / SMOOTHING_S)
    weight = meter.weight * kept + 1.0 - kept
    interval = (reading.value - meter.value) / passed_s
    total = (meter.rate or 0.0) * meter.weight * kept + interval * (1.0 - kept)
    return Meter(reading.value, reading.at_s, total / weight, weight, quiet_s)


def restart_rate(meter: Meter | None) -> Meter | None:
    """Make the next reading start a new rate: counting was impossible in between."""
    return None if meter is None else Meter(meter.value, meter.at_s, interrupted=True)


_DOUBTED = 0.05  # the part of a rate's weight that stays once other copies share it


def discount_rate(meter: Meter | None) -> Meter | None:
    """Weigh a rate less than the next intervals: from now on other copies share it."""
    if meter is None:
        return None
    return msgspec.structs.replace(meter, weight=meter.weight * _DOUBTED)


def rate(meter: Meter | None, now_s: float, restart_s: float) -> float | None:
    """Return the rate per second; None while unknown, or when the last reading is too old."""
    if meter is None or now_s - meter.at_s > restart_s:
        return None
    return meter.rate
