"""The logs of a simulated cluster, the replicas out of step, and the throttles that bind those."""

from __future__ import annotations

import math
from typing import Protocol

import msgspec

from ktui.cluster.partition import Replica, TopicPartition
from ktui.planning.throttle_rates import WINDOW_S
from ktui.simulated.controller.records import Registration
from ktui.simulated.layout import TopicSpec


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


class FlowChannel(Protocol):
    """The channel that a flow copies through, as the flow sees it."""

    key: ChannelKey
    rate: float

    def served_at(self, now_s: float) -> float: ...


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
    channel: FlowChannel | None = None
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
