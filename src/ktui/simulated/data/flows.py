"""Logs, replicas out of step with their throttles, and the channels in which these copy."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterator

import msgspec

from ktui.cluster.partition import Replica, TopicPartition
from ktui.planning.throttle_rates import WINDOW_S
from ktui.simulated.controller.records import Registration
from ktui.simulated.layout import Tide, TopicSpec


class ThrottledReplicas(frozenset[tuple[int, int]]):
    """A topic's list of throttled replicas, leaders or followers: pairs of partition and broker."""

    everywhere = False


class _Everywhere(ThrottledReplicas):
    """A list of "*": every partition on every broker."""

    everywhere = True

    def __contains__(self, _: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


NOWHERE = ThrottledReplicas()
EVERYWHERE = _Everywhere()


class _Excess(msgspec.Struct, frozen=True):
    """The flow when a throttle was lowered below it; the window's average starts from there."""

    rate: float
    at_s: float

    def average(self, now_s: float) -> float:
        return self.rate * max(0.0, 1 - (now_s - self.at_s) / WINDOW_S)


class ReplicationThrottle:
    """One broker's leader.replication.throttled.rate or the follower's, in bytes per second."""

    def __init__(self) -> None:
        self.rate = math.inf
        self.opens_s = 0.0  # until then nothing flows: the window's average exceeds the rate
        self._excess = _Excess(0.0, 0.0)

    def set_rate(self, rate: float | None, flowing: float, now_s: float) -> None:
        """Change the rate; None lifts the throttle. `flowing` is the rate of traffic until now."""
        new = math.inf if rate is None else rate
        if new == self.rate:
            return
        self.rate = new
        if flowing > self._excess.average(now_s):
            self._excess = _Excess(flowing, now_s)
        self.opens_s = now_s
        if self._excess.average(now_s) > self.rate:
            excess = self._excess
            self.opens_s = excess.at_s + WINDOW_S * (1 - self.rate / excess.rate)

    def room(self, steady: float, now_s: float) -> float:
        """Return the rate left to flows beside `steady`, the in-sync traffic of listed replicas."""
        return max(0.0, self.rate - steady) if now_s >= self.opens_s else 0.0


ChannelKey = tuple[int, int, bool, bool]
"""Source, destination (the same from dir to dir), and whether follower's and leader's bind."""


class TopicLogs:
    """The state that the partitions of one topic share. A recreated topic is a different one."""

    def __init__(self, spec: TopicSpec, topic_id: str) -> None:
        self.spec = spec
        self.id = topic_id
        self.inbound = spec.inbound  # average bytes a second, to each partition that is added
        keep = int(spec.configs.get("retention.bytes", -1))
        self.retention: int | None = None if keep < 0 else keep
        self.leaders_listed: ThrottledReplicas = NOWHERE
        self.followers_listed: ThrottledReplicas = NOWHERE
        self.logs: dict[int, Log] = {}

    def set_inbound(self, rate: float) -> None:
        self.inbound = rate
        for log in self.logs.values():
            log.rate = rate

    def add(self, partition: int, record: Registration) -> Log:
        spec, began = self.spec, partition < len(self.spec.replicas)
        log = Log(self, partition, record, float(spec.size(partition)) if began else 0.0)
        log.rate = spec.inbounds[partition] if began and spec.inbounds else self.inbound
        self.logs[partition] = log
        return log

    def set_retention(self, keep: int | None) -> None:
        self.retention = keep

    def list_throttled(self, followers: ThrottledReplicas, leaders: ThrottledReplicas) -> None:
        self.followers_listed, self.leaders_listed = followers, leaders


class Log(msgspec.Struct, gc=False, eq=False):
    """One partition's log at its leader. Followers that are in step have the same data."""

    topic: TopicLogs
    partition: int
    record: Registration
    end: float  # end position at `at`, in bytes
    at: float = 0.0
    start: float = 0.0
    rate: float = 0.0  # average bytes a second that producers write while a leader is up
    writing: bool = False
    growth: float = 0.0  # average bytes a second by which the log grows, as the ledger counts it
    apart: dict[int, Flow] | None = None  # the replicas that are not in step, by broker
    futures: dict[int, Flow] | None = None  # copies of replicas that move to another log dir

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic.spec.name, self.partition)

    @property
    def inbound(self) -> float:
        return self.rate if self.writing else 0.0

    def end_at(self, tide_s: float) -> float:
        return self.end + self.rate * (tide_s - self.at) if self.writing else self.end

    def start_at(self, tide_s: float) -> float:
        retention = self.topic.retention
        if retention is None:
            return self.start
        return max(self.start, self.end_at(tide_s) - retention)

    def flows(self) -> list[Flow]:
        return [*(self.apart or {}).values(), *(self.futures or {}).values()]

    def settle(self, tide_s: float) -> None:
        start = self.start_at(tide_s)
        self.end = self.end_at(tide_s)
        self.start = start
        self.at = tide_s

    def append(self, size: int) -> None:
        self.end += size

    def begun_at(self, broker: int, tide_s: float) -> float:
        held = self.topic.spec.start.held.get(Replica(self.tp, broker), 0)
        return min(self.end, self.start_at(tide_s) + held)

    def full_at(self) -> float | None:
        retention, inbound = self.topic.retention, self.inbound
        if retention is None or not inbound:
            return None
        return self.at + (retention - (self.end - self.start)) / inbound

    def in_step(self) -> list[int]:
        apart, leader = self.apart or (), self.record.leader
        return [b for b in self.record.replicas if b != leader and b not in apart]


class Flow(msgspec.Struct, eq=False):
    """A replica that is not in step, or its copy in another log dir; still without a channel."""

    log: Log
    broker: int
    position: float  # end, in bytes, when the channel had served `base` bytes to each flow
    behind_since_s: float
    path: str | None = None  # the log dir of a copy; None for a replica that copies from its leader
    channel: Channel | None = None
    base: float = 0.0
    starts_s: float = 0.0
    entry: int = -1

    def position_at(self, now_s: float) -> float:
        if self.channel is None:
            return self.position
        return self.position + self.channel.served_at(now_s) - self.base

    def end_at(self, now_s: float, tide_s: float) -> float:
        """Return the end position, in bytes. A copying flow skips data that its leader deletes."""
        position = self.position_at(now_s)
        copies = self.channel is not None and self.channel.rate > 0
        return max(position, self.log.start_at(tide_s)) if copies else position

    def size_at(self, now_s: float, tide_s: float) -> float:
        return max(0.0, self.position_at(now_s) - self.log.start_at(tide_s))


SLOT_S = 30.0  # seconds for which traffic stays constant before it changes


class TideFactors:
    """The factor on inbound rates, constant over 30 s, and its integral: idle logs cost nothing."""

    def __init__(self, tide: Tide, *, seed: int) -> None:
        self._tide = tide
        self._random = random.Random(seed)  # noqa: S311 - a simulation's dice
        self._factors: list[float] = []
        self._integrals = [0.0]
        self.turns = bool(tide.swing or tide.noise)
        self.peak = 1.0 + abs(tide.swing) + abs(tide.noise)

    def factor(self, at_s: float) -> float:
        return self._factors[self._reach(at_s)] if self.turns else 1.0

    def integral(self, at_s: float) -> float:
        if not self.turns:
            return at_s
        slot = self._reach(at_s)
        return self._integrals[slot] + self._factors[slot] * (at_s - slot * SLOT_S)

    def next_turn_s(self, at_s: float) -> float:
        return (at_s // SLOT_S + 1) * SLOT_S if self.turns else math.inf

    def _reach(self, at_s: float) -> int:
        slot = int(at_s // SLOT_S)
        while len(self._factors) <= slot:
            middle_s = (len(self._factors) + 0.5) * SLOT_S
            wave = self._tide.swing * math.sin(2 * math.pi * middle_s / self._tide.period_s)
            factor = max(0.0, 1 + wave + self._tide.noise * self._random.uniform(-1, 1))
            self._factors.append(factor)
            self._integrals.append(self._integrals[-1] + factor * SLOT_S)
        return slot


class TrafficMoment:
    """The current time of the simulation, and the tide at that time."""

    def __init__(self, tides: TideFactors) -> None:
        self._tides = tides
        self.move_to(0.0)

    def move_to(self, now_s: float) -> None:
        self.now_s = now_s
        self.tide_s = self._tides.integral(now_s)  # of average traffic since the first moment
        self.factor = self._tides.factor(now_s)


NOTHING = 0.5  # bytes. A smaller lag is a lag of 0 with rounding errors

_Entry = tuple[float, int, Flow]


class Channel:
    """Flows that use the same resources with the same weight, so that each gets the same rate.

    Let `inbound` be the rate of writes to a flow's log. A flow that began `n` bytes behind has
    caught up when `served - inbound * tide` has risen by `n`. So one queue per inbound rate, in
    that order, yields the next flow to finish whatever the rate becomes.
    """

    def __init__(self, key: ChannelKey, weight: int, resources: tuple[int, ...]) -> None:
        self.key, self.weight = key, weight
        self.resources = resources
        self.rate = 0.0  # bytes per second of each flow
        self.count = 0
        self.queues: dict[float, list[_Entry]] = {}
        self._losing: set[float] = set()  # the inbound rates that no flow here gains on
        self.finish_s = math.inf
        self._factor = 1.0
        self._altered = True
        self._served = 0.0
        self._since_s = 0.0

    def served_at(self, now_s: float) -> float:
        """Return the bytes served so far to a flow present from the beginning."""
        return self._served + self.rate * (now_s - self._since_s)

    def set_rate(self, rate: float, moment: TrafficMoment) -> None:
        if rate == self.rate and moment.factor == self._factor and not self._altered:
            return
        self._served = self.served_at(moment.now_s)
        self._since_s = moment.now_s
        stops, self.rate = self.rate > 0 and not rate, rate
        for inbound, queue in self.queues.items():
            if rate <= inbound * moment.factor:
                self._losing.add(inbound)
                if stops:
                    self._skip_deleted(queue, moment)
            elif inbound in self._losing:
                self._losing.discard(inbound)
                self._skip_deleted(queue, moment)
        self.finish_s = self._next_finish_s(moment)
        self._factor, self._altered = moment.factor, False

    def join(self, flow: Flow, entry: int, moment: TrafficMoment) -> None:
        """Start a flow that stood still. It skips data that its leader no longer has."""
        flow.entry = entry
        queue = self.queues.setdefault(flow.log.inbound, [])
        heapq.heappush(queue, self._entry(flow, moment))
        self.count += 1
        self._altered = True

    def leave(self, flow: Flow, moment: TrafficMoment) -> None:
        flow.position = flow.end_at(moment.now_s, moment.tide_s)
        flow.channel, flow.entry = None, -1
        self.count -= 1
        self._altered = True

    def finished(self, moment: TrafficMoment) -> Iterator[Flow]:
        self._altered = True
        served = self.served_at(moment.now_s)
        for inbound, queue in self.queues.items():
            if self.rate <= inbound * moment.factor:
                continue
            caught_up = served - inbound * moment.tide_s + NOTHING
            while _drop_stale(queue) and queue[0][0] <= caught_up:
                yield heapq.heappop(queue)[2]

    def _next_finish_s(self, moment: TrafficMoment) -> float:
        served, soonest = self.served_at(moment.now_s), math.inf
        for inbound, queue in self.queues.items():
            gain = self.rate - inbound * moment.factor
            if gain > 0 and _drop_stale(queue):
                lag = queue[0][0] - served + inbound * moment.tide_s
                soonest = min(soonest, max(0.0, lag) / gain)
        return moment.now_s + soonest

    def _entry(self, flow: Flow, moment: TrafficMoment) -> _Entry:
        """Return the queue entry of a flow that goes on from its position, or the log's start."""
        log, served = flow.log, self.served_at(moment.now_s)
        flow.position = max(flow.position_at(moment.now_s), log.start_at(moment.tide_s))
        flow.channel, flow.base = self, served
        lag = log.end_at(moment.tide_s) - flow.position
        return lag + served - log.inbound * moment.tide_s, flow.entry, flow

    def _skip_deleted(self, queue: list[_Entry], moment: TrafficMoment) -> None:
        """Move flows that lost ground past the data that retention has deleted ahead of them."""
        queue[:] = [self._entry(flow, moment) for _, entry, flow in queue if flow.entry == entry]
        heapq.heapify(queue)


def _drop_stale(queue: list[_Entry]) -> bool:
    while queue and queue[0][2].entry != queue[0][1]:
        heapq.heappop(queue)
    return bool(queue)


class Channels:
    """All channels with a flow that copies."""

    def __init__(self, resources: Callable[[ChannelKey], tuple[int, ...]]) -> None:
        self._resources = resources
        self._number = itertools.count()
        self._channels: dict[tuple[ChannelKey, int], Channel] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._channels.values())

    def start(self, flow: Flow, key: ChannelKey, moment: TrafficMoment) -> None:
        weight = flow.log.topic.spec.weight(flow.log.partition)
        channel = self._channels.get((key, weight))
        if channel is None:
            channel = Channel(key, weight, self._resources(key))
            self._channels[key, weight] = channel
        channel.join(flow, next(self._number), moment)

    def stop(self, flow: Flow, moment: TrafficMoment) -> None:
        if flow.channel is not None:
            channel = flow.channel
            channel.leave(flow, moment)
            if not channel.count:
                del self._channels[channel.key, channel.weight]
