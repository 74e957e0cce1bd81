"""Brokers, their disks, and the settings of brokers and topics that matter to a move."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec


class Broker(msgspec.Struct, frozen=True):
    """A broker. If not `alive`, it is fenced or known only from a replica list."""

    id: int
    host: str = ""
    port: int = -1
    rack: str | None = None
    alive: bool = True


def racks_of(brokers: Iterable[Broker]) -> dict[int, str]:
    """Return the racks of brokers, by id; those without a rack are left out."""
    return {broker.id: broker.rack for broker in brokers if broker.rack is not None}


def online_brokers(brokers: Mapping[int, Broker]) -> frozenset[int]:
    """Return the brokers that are registered and not fenced."""
    return frozenset(broker.id for broker in brokers.values() if broker.alive)


class LogDir(msgspec.Struct, frozen=True):
    """One log dir of a broker (DescribeLogDirs). Bytes; None where the broker is too old."""

    broker: int
    path: str
    error: str | None = None
    total_bytes: int | None = None
    usable_bytes: int | None = None
    cordoned: bool = False


def all_cordoned(log_dirs: Collection[LogDir]) -> bool:
    """Return whether a broker's working log dirs are all cordoned, so that it takes no replica."""
    working = [log_dir for log_dir in log_dirs if log_dir.error is None]
    return bool(working) and all(log_dir.cordoned for log_dir in working)


def cordoned_brokers(log_dirs: Mapping[int, Collection[LogDir]]) -> frozenset[int]:
    """Return the brokers whose working log dirs are all cordoned."""
    return frozenset(broker for broker, dirs in log_dirs.items() if all_cordoned(dirs))


class FutureReplica(msgspec.Struct, frozen=True):
    """The copy of a replica that a move to another log dir fills (KIP-113)."""

    path: str
    size: int
    offset_lag: int | None  # messages left to copy; None while the broker does not know


class ReplicaDir(msgspec.Struct, frozen=True):
    """The log dir that holds a replica, and the one that the replica is moving to."""

    path: str
    size: int  # bytes of the replica, without those of its future replica
    future: FutureReplica | None = None

    @property
    def total_size(self) -> int:
        return self.size + (0 if self.future is None else self.future.size)


class TopicConfig(msgspec.Struct, frozen=True):
    """The settings of a topic that decide how its moves are measured and judged."""

    min_insync_replicas: int = 1
    compacted: bool = False
    tiered: bool = False
    leader_throttled_replicas: str = ""
    follower_throttled_replicas: str = ""

    @property
    def offsets_measure_size(self) -> bool:
        return not self.compacted


class BrokerConfig(msgspec.Struct, frozen=True):
    """The settings of a broker that matter to a move; None where unset or unreadable."""

    leader_throttle_rate: int | None = None
    follower_throttle_rate: int | None = None
    log_dir_throttle_rate: int | None = None  # replica.alter.log.dirs.io.max.bytes.per.second
    auto_leader_rebalance: bool | None = None
    leader_imbalance_check_interval_s: int | None = None
    fetch_backoff_ms: int | None = None
    min_insync_replicas: int | None = None
    unclean_leader_election: bool | None = None
    replica_lag_time_max_ms: int | None = None
