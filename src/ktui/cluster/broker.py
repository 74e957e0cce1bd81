"""Brokers, their disks, the settings that matter to a move, and what brokers coordinate."""

from __future__ import annotations

import enum
import struct
from collections.abc import Collection, Iterable, Mapping

import msgspec

from ktui.cluster.errors import Operation


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


GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_GROUPS_TOPIC = "__share_group_state"

INTERNAL_TOPICS = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC, SHARE_GROUPS_TOPIC})


TRANSACTIONS_NEED = 'Describe on the transactional ids "*"'
"""The permission that shows every transactional id, in Kafka's words."""
SHARE = "share"
STREAMS = "streams"
_SMALLEST_INT = -(2**31)


class CoordinatorKind(enum.StrEnum):
    """What a broker coordinates."""

    GROUP = "group"
    TRANSACTION = "transactional id"
    SHARE_GROUP = "share group"  # the state of a share group's deliveries

    @property
    def topic(self) -> str:
        return _KEPT[self][0]

    @property
    def operation(self) -> Operation:
        return _KEPT[self][1]


_KEPT = {
    CoordinatorKind.GROUP: (GROUPS_TOPIC, Operation.GROUPS),
    CoordinatorKind.TRANSACTION: (TRANSACTIONS_TOPIC, Operation.TRANSACTIONS),
    CoordinatorKind.SHARE_GROUP: (SHARE_GROUPS_TOPIC, Operation.SHARE_GROUPS),
}


class CoordinatedId(msgspec.Struct, frozen=True, gc=False):
    """A group, a transactional id, or a share group with one partition that it reads."""

    name: str  # cleaned for the terminal; so the hash cannot be computed from it
    hash: int  # the hash that finds its partition: `java_hash` of the id, or of `share_state_key`
    type: str = ""  # in lower case, as Kafka has it: `classic`, `consumer`, `share`, `streams`


class CoordinatedIds(msgspec.Struct, frozen=True):
    """The groups or transactional ids that one broker coordinates."""

    ids: tuple[CoordinatedId, ...]
    lacks: str = ""
    """The permission without which brokers may leave some out, in Kafka's words; empty if the
    principal has it."""


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode` of a text, which is over its UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for (unit,) in struct.iter_unpack(">H", units):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed


def share_state_key(group: str, topic_id: str, partition: int) -> str:
    """Return the key of a share group's state of one partition; `topic_id` in URL-safe base64."""
    return f"{group}:{topic_id}:{partition}"


def coordinating_partition(of: CoordinatedId, partitions: int) -> int:
    """Return the partition of the internal topic that keeps an id, by Kafka's `Utils.abs`."""
    return 0 if of.hash == _SMALLEST_INT else abs(of.hash) % partitions
