"""Observations: the result of one poll of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from ktui.cluster.broker import (
    Broker,
    BrokerConfig,
    LogDir,
    TopicConfig,
    cordoned_brokers,
    online_brokers,
)
from ktui.cluster.errors import Failure
from ktui.cluster.partition import PartitionState, Replica, TopicPartition


class Reading(msgspec.Struct, frozen=True, gc=False):
    """A figure and the monotonic second of its reading, which may be before its observation."""

    value: int
    at_s: float


class Census(msgspec.Struct, frozen=True):
    """Counts over all partitions; taken only for a view."""

    at: datetime
    monotonic_s: float
    took_s: float
    topics: int
    partitions: int
    leaders: Mapping[int, int]
    replicas: Mapping[int, int]
    unhealthy: tuple[TopicPartition, ...]  # worst first, moving ones too
    in_sync: tuple[int, ...] | None = None  # the ISR of each; None in older recordings


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one poll. Data that could not be read is absent and named in `failures`."""

    cluster_id: str
    controller: int | None  # a live broker that forwards, as metadata names it (KRaft)
    brokers: Mapping[int, Broker]  # all registered; before 4.1 perhaps not those down
    partitions: Mapping[TopicPartition, PartitionState]
    """Partitions being or recently reassigned, and those that the views are interested in."""
    absent: frozenset[TopicPartition] = frozenset()
    fresh: bool = False  # whether `partitions` and `absent` are proven to be no older than the list
    waits_for_kept: bool = True  # this and the next as in `ClusterDescription`
    refuses_cordoned: bool | None = None
    ends: Mapping[Replica, Reading] = msgspec.field(default_factory=dict)
    """Log end offsets of leaders and of replicas that are catching up."""
    starts: Mapping[TopicPartition, Reading] = msgspec.field(default_factory=dict)
    """The first offsets on the leaders' disks; on tiered topics later than the log start."""
    sizes: Mapping[Replica, Reading] = msgspec.field(default_factory=dict)
    log_dirs: Mapping[int, tuple[LogDir, ...]] = msgspec.field(default_factory=dict)
    topic_configs: Mapping[str, TopicConfig] = msgspec.field(default_factory=dict)
    broker_configs: Mapping[int, BrokerConfig] = msgspec.field(default_factory=dict)
    census: Census | None = None
    at: datetime
    monotonic_s: float
    took_s: float
    failures: tuple[Failure, ...] = ()

    @property
    def asked_s(self) -> float:
        """The monotonic second just before the list was requested: the list is no older."""
        return self.monotonic_s - self.took_s

    @property
    def online(self) -> frozenset[int]:
        return online_brokers(self.brokers)

    @property
    def reassigning(self) -> dict[TopicPartition, PartitionState]:
        return {tp: state for tp, state in self.partitions.items() if state.reassigning}

    @property
    def cordoned(self) -> frozenset[int]:
        return cordoned_brokers(self.log_dirs)

    @property
    def closed(self) -> frozenset[int]:
        """The brokers that no target may name, for the cluster refuses it."""
        return self.cordoned if self.refuses_cordoned else frozenset()

    @property
    def down(self) -> frozenset[int]:
        return frozenset(self.brokers.keys() - self.online)

    def alive(self, broker: int) -> bool:
        known = self.brokers.get(broker)
        return known is not None and known.alive

    def wall_time(self, reading: Reading) -> datetime:
        return self.at - timedelta(seconds=max(0.0, self.monotonic_s - reading.at_s))
