"""The logs of a simulated cluster, and the replicas that are not in step with them.

Positions are bytes from the beginning of a log. Where time is an argument it is `tide_s`: seconds
of average traffic since the first moment (`Tides.integral`).
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.simulated.controller.registration import Registration
from ktui.simulated.data.throttles import NOWHERE, ThrottledReplicas
from ktui.simulated.layout import TopicSpec

ChannelKey = tuple[int, int, bool, bool]
"""Source, destination, whether the follower's and whether the leader's throttle binds."""


class Carrier(Protocol):
    """What a flow asks of the channel that it copies through."""

    key: ChannelKey
    rate: float
    """Bytes a second, of each flow."""

    def served_at(self, now_s: float) -> float:
        """Return the bytes that a flow has got which was there from the beginning."""
        ...


class TopicLogs:
    """What the partitions of one topic have in common. A recreated topic is another one."""

    def __init__(self, spec: TopicSpec, topic_id: str) -> None:
        self.spec = spec
        self.id = topic_id
        self.inbound = spec.inbound
        """Bytes a second that producers write to each partition, on average."""
        keep = int(spec.configs.get("retention.bytes", -1))
        self.retention: int | None = None if keep < 0 else keep
        """Bytes that each partition keeps; None keeps all."""
        self.leaders_listed: ThrottledReplicas = NOWHERE
        self.followers_listed: ThrottledReplicas = NOWHERE
        self.logs: dict[int, Log] = {}

    def set_inbound(self, rate: float) -> None:
        """Let producers write so many bytes a second to each partition, on average."""
        self.inbound = rate

    def set_retention(self, keep: int | None) -> None:
        """Let each partition keep so many bytes; None keeps all."""
        self.retention = keep

    def list_throttled(self, followers: ThrottledReplicas, leaders: ThrottledReplicas) -> None:
        """Set the lists of throttled replicas."""
        self.followers_listed, self.leaders_listed = followers, leaders


class Log(msgspec.Struct, gc=False, eq=False):
    """One partition's log at its leader. Followers that are in step have the same."""

    topic: TopicLogs
    partition: int
    record: Registration
    end: float
    """Where it ended at `at`, in bytes."""
    at: float = 0.0
    start: float = 0.0
    """Where it began at `at`."""
    writing: bool = False
    """Whether producers write to it: it has a leader, and that is up."""
    growth: float = 0.0
    """Bytes by which it grows with the tide, as it stands in the ledger."""
    apart: dict[int, Flow] | None = None
    """The replicas that are not in step, by broker."""

    @property
    def tp(self) -> TopicPartition:
        """Which partition it is."""
        return TopicPartition(self.topic.spec.name, self.partition)

    @property
    def inbound(self) -> float:
        """Bytes a second that are written to it, on average."""
        return self.topic.inbound if self.writing else 0.0

    def end_at(self, tide_s: float) -> float:
        """Give where it ends, in bytes."""
        return self.end + self.topic.inbound * (tide_s - self.at) if self.writing else self.end

    def start_at(self, tide_s: float) -> float:
        """Give where it begins: what retention.bytes has no room for is gone."""
        retention = self.topic.retention
        if retention is None:
            return self.start
        return max(self.start, self.end_at(tide_s) - retention)

    def settle(self, tide_s: float) -> None:
        """Take down how it stands, before something about it changes."""
        start = self.start_at(tide_s)
        self.end = self.end_at(tide_s)
        self.start = start
        self.at = tide_s

    def append(self, size: int) -> None:
        """Let it grow by `size` bytes at once; it has just been settled."""
        self.end += size

    def full_at(self) -> float | None:
        """Give when it holds what it may, from where on it grows no more; None if never."""
        retention, inbound = self.topic.retention, self.inbound
        if retention is None or not inbound:
            return None
        return self.at + (retention - (self.end - self.start)) / inbound

    def in_step(self) -> list[int]:
        """Name the followers that are in step with the leader."""
        apart, leader = self.apart or (), self.record.leader
        return [b for b in self.record.replicas if b != leader and b not in apart]


class Flow(msgspec.Struct, eq=False):
    """A replica that is not in step: it copies through a channel, or stands still without one."""

    log: Log
    broker: int
    position: float
    """Where it ended when its channel had served `base` bytes to each of its flows."""
    behind_since_s: float
    channel: Carrier | None = None
    base: float = 0.0
    entry: int = -1
    """The number under which its channel has it in its queue."""

    def position_at(self, now_s: float) -> float:
        """Give where it ends, in bytes."""
        if self.channel is None:
            return self.position
        return self.position + self.channel.served_at(now_s) - self.base

    def end_at(self, now_s: float, tide_s: float) -> float:
        """Give where it ends, in bytes; while it copies it leaves out what its leader deletes."""
        position = self.position_at(now_s)
        copies = self.channel is not None and self.channel.rate > 0
        return max(position, self.log.start_at(tide_s)) if copies else position

    def size_at(self, now_s: float, tide_s: float) -> float:
        """Give the bytes that it holds."""
        return max(0.0, self.position_at(now_s) - self.log.start_at(tide_s))
