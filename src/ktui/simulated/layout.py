"""What a simulated cluster is made of: its brokers, its topics and the pace of its traffic."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

MIB = 1024 * 1024
GIB = 1024 * MIB

VERSIONS = ("3.9", "4.0", "4.1", "4.2", "4.3")
"""The Kafka versions whose rules the simulated controller keeps."""


class BrokerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One broker and what its machine can do. Rates in bytes a second."""

    id: int
    rack: str | None = None
    net_in: float = 100.0 * MIB
    net_out: float = 100.0 * MIB
    disk_write: float = 200.0 * MIB
    disk_bytes: int = 1_000 * GIB
    """Room for logs, in its one log dir."""


class TopicSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One topic as it is at the start; `replicas` are each partition's, preferred leader first."""

    name: str
    replicas: tuple[tuple[int, ...], ...]
    bytes_each: int = 0
    """Bytes that each partition holds at the start, in sync everywhere."""
    message_bytes: int = 1_000
    inbound: float = 0.0
    """Bytes a second that producers write to each partition, on average."""
    configs: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Kafka's names: min.insync.replicas, unclean.leader.election.enable, retention.bytes, ..."""


class Tide(msgspec.Struct, frozen=True):
    """How all inbound rates rise and fall together: a wave with noise, around the average."""

    swing: float = 0.0
    """0.3 is from 70 % to 130 % of the average."""
    period_s: float = 3_600.0
    noise: float = 0.0
    """Share of the average by which each half minute differs at random."""


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A whole cluster, healthy, at its first moment. Defaults are Kafka's."""

    brokers: tuple[BrokerSpec, ...]
    topics: tuple[TopicSpec, ...] = ()
    version: str = "4.3"
    """One of `VERSIONS`: which completion rule, whether there is an ELR, which RF guard."""
    name: str = "simulated"
    """The cluster id."""
    tide: Tide = Tide()
    session_timeout_s: float = 9.0
    """broker.session.timeout.ms: from a broker's silence to its being fenced."""
    lag_time_max_s: float = 30.0
    """replica.lag.time.max.ms: how long a follower may lag and stay in the ISR."""
    startup_s: float = 5.0
    """From a broker's start to its being unfenced."""
    shutdown_s: float = 2.0
    """How long a broker that shuts down properly is alive, leads nothing and is in no ISR."""
    metadata_lag_s: float = 0.1
    """How far brokers' metadata is behind the controller; the list never is."""
    auto_leader_rebalance: bool = True
    rebalance_interval_s: float = 300.0
    """leader.imbalance.check.interval.seconds."""
    broker_configs: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Static settings of every broker, by Kafka's names."""
