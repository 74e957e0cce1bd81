"""What one poll of a cluster saw."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig, online
from ktui.cluster.errors import Failure
from ktui.cluster.partition import PartitionState, Replica, TopicPartition


class Reading(msgspec.Struct, frozen=True):
    """A figure and the monotonic second at which it was read.

    A slow broker's figures may be older than the observation they stand in.
    """

    value: int
    at_s: float


class Census(msgspec.Struct, frozen=True):
    """What a pass over all partitions found; made only while a view asks for it."""

    at: datetime
    monotonic_s: float
    took_s: float
    topics: int
    partitions: int
    leaders: Mapping[int, int]
    """Partitions led, per broker."""
    replicas: Mapping[int, int]
    """Replicas assigned, per broker."""
    unhealthy: tuple[TopicPartition, ...]
    """Partitions that are offline or have a replica out of the ISR: those without a leader first,
    then those with the fewest in sync. Metadata does not tell adding replicas, so moving partitions
    are among them."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One poll. What could not be read is absent and named in `failures`."""

    cluster_id: str
    controller: int | None
    """Metadata names a random live broker that forwards to the controller (KRaft)."""
    brokers: Mapping[int, Broker]
    """Every registered broker by id; one that is down may be missing before Kafka 4.1."""
    partitions: Mapping[TopicPartition, PartitionState]
    """Those reassigning, those that were until lately, and those of the views' interest."""
    absent: frozenset[TopicPartition] = frozenset()
    """Asked for, and the cluster says there is no such partition (deleted)."""
    fresh: bool = False
    """Whether `partitions` and `absent` are known to be true as of the list or later: nothing
    that was answered before the poll is missing."""
    waits_for_kept: bool = True
    """Whether a reassignment completes only when each replica that it keeps is in sync, too:
    before Kafka 4.3, and where the cluster does not tell."""
    ends: Mapping[Replica, Reading] = msgspec.field(default_factory=dict)
    """Log end offsets: of the leaders and of the replicas catching up."""
    starts: Mapping[TopicPartition, Reading] = msgspec.field(default_factory=dict)
    """Log start offsets, at the leader."""
    sizes: Mapping[Replica, Reading] = msgspec.field(default_factory=dict)
    """Bytes on disk (DescribeLogDirs partition_size)."""
    log_dirs: Mapping[int, tuple[LogDir, ...]] = msgspec.field(default_factory=dict)
    topic_configs: Mapping[str, TopicConfig] = msgspec.field(default_factory=dict)
    broker_configs: Mapping[int, BrokerConfig] = msgspec.field(default_factory=dict)
    census: Census | None = None
    at: datetime
    """Wall time, UTC, when the poll was answered."""
    monotonic_s: float
    took_s: float
    failures: tuple[Failure, ...] = ()

    @property
    def asked_s(self) -> float:
        """The monotonic second just before the list was asked for: nothing in it is older."""
        return self.monotonic_s - self.took_s

    @property
    def online(self) -> frozenset[int]:
        """The brokers that are registered and not fenced."""
        return online(self.brokers)

    @property
    def reassigning(self) -> dict[TopicPartition, PartitionState]:
        """The partitions that the controller lists as being reassigned."""
        return {tp: state for tp, state in self.partitions.items() if state.reassigning}

    def alive(self, broker: int) -> bool:
        """Whether the broker is registered and not fenced."""
        known = self.brokers.get(broker)
        return known is not None and known.alive

    def wall_time(self, reading: Reading) -> datetime:
        """When a reading was taken, as wall time."""
        return self.at - timedelta(seconds=max(0.0, self.monotonic_s - reading.at_s))
