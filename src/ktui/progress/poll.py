"""One observation next to the fold so far: rates of copies, and the throttles that bind them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.settings import FETCH_BYTES, list_includes
from ktui.progress.flows import GULP_S
from ktui.progress.memory import STALLED_AFTER_S, Meter, PollMemory, stalled
from ktui.progress.timeline import Lane, Phase, Progress, Role, Timeline

_NO_TOPIC = TopicConfig()
_NO_BROKER = BrokerConfig()
ROOM = 0.95  # a starving copy stays reported until this share of its rate would suffice


_CLOSE = 0.85  # figures stay as they are shown while the real ones are at least this share of them


def steady(value: float, shown: float | None) -> float:
    """Return the figure to show: the one shown before while that is enough, and close."""
    return shown if shown is not None and _CLOSE * shown <= value <= shown else value


class BindingThrottle(msgspec.Struct, frozen=True):
    """A rate that limits a replica, and the demand on that rate. Bytes a second."""

    rate: int
    demand: float  # written to all partitions under the rate; only more lets all catch up
    on_leader: bool
    sharing: int
    in_use: bool

    @property
    def slower_than_a_fetch(self) -> bool:
        return self.rate * STALLED_AFTER_S < FETCH_BYTES

    @property
    def detail(self) -> str:
        shared = f", {self.sharing} replicas" if self.sharing > 1 else ""
        return f"{self._rate}{shared}"

    @property
    def too_low(self) -> str:
        enough = format_rate(_up(max(self.demand, self.rate)))
        written = format_rate(_up(self.demand))
        return f"{self._rate}, {written} in; needs more than {enough}"

    def steadied(self, shown: float | None) -> BindingThrottle:
        return msgspec.structs.replace(self, demand=steady(self.demand, shown))

    @property
    def _rate(self) -> str:
        return f"{format_rate(self.rate)} {'leader ' if self.on_leader else ''}throttle"


class Throttles:
    """The throttles of one observation, against the copies under way as of the previous one."""

    def __init__(
        self, observation: Observation, timelines: Iterable[Timeline], now_s: float
    ) -> None:
        self._observation = observation
        self._timelines = timelines
        self._now_s = now_s

    def binding(self, state: PartitionState, broker: int) -> BindingThrottle | None:
        return _tightest([one for _, one in self._all(state, broker)])

    def in_use(self, state: PartitionState, broker: int) -> BindingThrottle | None:
        """Find the tightest throttle under which other copies make headway."""
        return _tightest([one for _, one in self._all(state, broker) if one.in_use])

    def starving(
        self, state: PartitionState, broker: int, *, already: bool
    ) -> BindingThrottle | None:
        """Find the throttle under which a copy onto a broker never catches up."""
        room = ROOM if already else 1.0
        all_ = self._all(state, broker)
        return _tightest([one for load, one in all_ if load.starves(state.tp, one.rate * room)])

    def _all(self, state: PartitionState, broker: int) -> list[tuple[_Load, BindingThrottle]]:
        if not self._rated:
            return []
        return [one for one in (self._follower(state, broker), self._leader(state)) if one]

    @cached_property
    def _rated(self) -> bool:
        """Whether any broker has a rate: most polls ask for each of thousands of replicas."""
        configs = self._observation.broker_configs.values()
        return any(
            (x.follower_throttle_rate, x.leader_throttle_rate) != (None, None) for x in configs
        )

    def _follower(self, state: PartitionState, broker: int) -> tuple[_Load, BindingThrottle] | None:
        rate = self._settings(broker).follower_throttle_rate
        if rate is None or not self._follower_listed(state, broker):
            return None
        load = self._onto[broker]
        return load, load.under(rate, state.tp, on_leader=False)

    def _leader(self, state: PartitionState) -> tuple[_Load, BindingThrottle] | None:
        """The leader's rate limits copies out of sync, but in-sync fetches count against it too."""
        if state.leader is None or not self._leader_listed(state):
            return None
        rate = self._settings(state.leader).leader_throttle_rate
        if rate is None:
            return None
        load = self._from[state.leader]
        return load, load.under(rate, state.tp, on_leader=True)

    @cached_property
    def _onto(self) -> defaultdict[int, _Load]:
        loads: defaultdict[int, _Load] = defaultdict(_Load)
        for timeline in self._copied:
            for lane in timeline.lanes.values():
                adding = lane.role is Role.ADDING
                if adding and self._follower_listed(timeline.state, lane.broker):
                    inbound = timeline.inbound_bytes_s or 0.0
                    loads[lane.broker].add(timeline.tp, inbound, [_makes_headway(lane)])
        for timeline in self._timelines:
            # Small replicas are copied between two polls; their list entries may be gone already.
            if _done_recently(timeline, self._now_s):
                for broker in timeline.target:
                    if broker not in timeline.original:
                        loads[broker].movers.add(timeline.tp)
        return loads

    @cached_property
    def _from(self) -> defaultdict[int, _Load]:
        loads: defaultdict[int, _Load] = defaultdict(_Load)
        for timeline in self._copied:
            state = timeline.state
            if state.leader is not None and self._leader_listed(state):
                inbound = timeline.inbound_bytes_s or 0.0
                copies = [_makes_headway(lane) for lane in timeline.catching_up]
                in_sync = len(state.replicas) - 1 - len(copies)
                loads[state.leader].add(timeline.tp, inbound, copies, in_sync)
        return loads

    @cached_property
    def _copied(self) -> tuple[Timeline, ...]:
        return tuple(t for t in self._timelines if t.state.adding and not t.phase.ended)

    def _settings(self, broker: int) -> BrokerConfig:
        return self._observation.broker_configs.get(broker, _NO_BROKER)

    def _follower_listed(self, state: PartitionState, broker: int) -> bool:
        config = self._observation.topic_configs.get(state.tp.topic, _NO_TOPIC)
        return list_includes(config.follower_throttled_replicas, state.tp.partition, broker)

    def _leader_listed(self, state: PartitionState) -> bool:
        config = self._observation.topic_configs.get(state.tp.topic, _NO_TOPIC)
        listed = config.leader_throttled_replicas
        return state.leader is not None and list_includes(listed, state.tp.partition, state.leader)


class _Load:
    def __init__(self) -> None:
        self.movers: set[TopicPartition] = set()
        self._demand = 0.0
        self._sharing = 0
        self._in_sync = 0.0
        self._copies: dict[TopicPartition, tuple[float, int]] = {}
        """Of each partition: bytes written to it a second, and the number of copies."""
        self._least: dict[float, float] = {}

    def add(
        self, tp: TopicPartition, inbound: float, copies: Sequence[bool], in_sync: int = 0
    ) -> None:
        """Count a partition: bytes a second, which copies make headway, and followers in sync."""
        self._copies[tp] = inbound, len(copies)
        self._in_sync += inbound * in_sync
        self._demand += inbound * (in_sync + len(copies))
        self._sharing += 1
        if any(copies):
            self.movers.add(tp)

    def under(self, rate: int, tp: TopicPartition, *, on_leader: bool) -> BindingThrottle:
        in_use = len(self.movers) > (tp in self.movers)
        return BindingThrottle(rate, self._demand, on_leader, self._sharing, in_use)

    def starves(self, tp: TopicPartition, rate: float) -> bool:
        if tp not in self._copies:
            return False
        if rate not in self._least:
            each = [inbound for inbound, count in self._copies.values() for _ in range(count)]
            self._least[rate] = starvation_threshold(each, rate - self._in_sync)
        return self._copies[tp][0] >= self._least[rate]


def starvation_threshold(inbound: Iterable[float], rate: float) -> float:
    """Return the least inbound rate with which a copy never catches up under a shared rate.

    Copies share the rate equally, and a copy that has caught up leaves its share to the others. So
    copies with the lowest inbound rate catch up first. Once one cannot, no copy with as high an
    inbound rate can.
    """
    rising = sorted(inbound)
    never = (each for n, each in enumerate(rising) if each * (len(rising) - n) >= rate)
    return next(never, math.inf)


def _makes_headway(lane: Lane) -> bool:
    still = lane.memory.still if lane.memory is not None else None
    return still is not None and still.moved and not stalled(still)


def _done_recently(timeline: Timeline, now_s: float) -> bool:
    ended_s = timeline.memory.ended_s if timeline.memory is not None else None
    done = timeline.phase is Phase.DONE and ended_s is not None
    return done and now_s - (ended_s or 0.0) < STALLED_AFTER_S


def _tightest(found: list[BindingThrottle]) -> BindingThrottle | None:
    return max(found, key=lambda one: one.demand / max(1, one.rate), default=None)


def _up(bytes_s: float) -> float:
    """Round up to the precision of `format_rate`, so that exceeding the shown rate is enough."""
    step = 10.0 ** max(0, min(5, math.floor(math.log10(max(1.0, bytes_s))) - 1))
    return math.ceil(round(bytes_s / step, 2)) * step


def format_rate(bytes_s: float) -> str:
    """Format a rate as throttles are set: "2.0 MB/s", or in kB/s or B/s where that would be 0.0."""
    if bytes_s < 100:  # noqa: PLR2004  # below 0.1 kB/s
        return f"{bytes_s:.0f} B/s"
    if bytes_s < 100_000:  # noqa: PLR2004  # below 0.1 MB/s
        return f"{bytes_s / 1e3:.1f} kB/s"
    return f"{bytes_s / 1e6:.1f} MB/s"


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
        now, before = self._copies, self._copies_before
        onto, off = (True, broker), (False, state.leader)
        return now[onto] != before[onto] or now[off] != before[off]

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
