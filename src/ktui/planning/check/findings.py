"""What a check of a plan against its cluster takes and gives."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping

import msgspec

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig, online
from ktui.cluster.errors import Failure
from ktui.cluster.partition import PartitionState, Reassignment, Replica, TopicPartition
from ktui.cluster.ports import Setting
from ktui.planning.read.problems import FilePosition


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the cluster before a plan starts, as the ports answer it."""

    partitions: Mapping[TopicPartition, PartitionState]
    """All partitions of the plan's topics. A topic that is not here does not exist, but for those
    that `failures` names."""
    brokers: Mapping[int, Broker]
    configs: Mapping[str, TopicConfig] = msgspec.field(default_factory=dict)
    """A topic that is missing here could not be read, and is not judged by its settings."""
    listed: Mapping[TopicPartition, Reassignment] = msgspec.field(default_factory=dict)
    """Every ongoing reassignment; all of them are someone else's, for ours has not begun."""
    topics: Collection[str] = ()
    """Names of the cluster's topics, where they are known: one may have been meant."""
    failures: tuple[Failure, ...] = ()
    sizes: Mapping[Replica, int] = msgspec.field(default_factory=dict)
    """Bytes of the plan's partitions, each at its leader; one that is missing is not known."""
    log_dirs: Mapping[int, tuple[LogDir, ...]] = msgspec.field(default_factory=dict)
    """By broker: of those that have, gain or lose replicas, as far as they answered."""
    broker_configs: Mapping[int, BrokerConfig] = msgspec.field(default_factory=dict)
    """By broker, of the same brokers."""
    inbound: Mapping[TopicPartition, int] = msgspec.field(default_factory=dict)
    """Bytes a second written to the partitions that get replicas, as far as they were measured."""
    rates: Mapping[int, Mapping[str, Setting]] = msgspec.field(default_factory=dict)
    """The throttles of the brokers concerned, by Kafka's names, with where each comes from."""

    @property
    def online(self) -> frozenset[int]:
        """The brokers that are registered and not fenced."""
        return online(self.brokers)

    def size(self, tp: TopicPartition) -> int | None:
        """Give a partition's bytes, which are those of its leader; None where not known."""
        state = self.partitions.get(tp)
        if state is None or state.leader is None:
            return None
        return self.sizes.get(Replica(tp, state.leader))


class Allowances(msgspec.Struct, frozen=True):
    """What the operator has explicitly allowed."""

    replication_factor_change: bool = False
    below_min_isr: bool = False


class Option(enum.StrEnum):
    """The option that allows what is otherwise a problem."""

    REPLICATION_FACTOR_CHANGE = "--allow-replication-factor-change"
    BELOW_MIN_ISR = "--allow-below-min-isr"


class Severity(enum.StrEnum):
    """How much a finding matters. The declared order is that of the findings."""

    PROBLEM = "problem"
    """The plan is not started."""
    WARNING = "warning"
    NOTE = "note"


class FindingKind(enum.StrEnum):
    """What was found."""

    TOPIC_UNKNOWN = "topic unknown"
    TOPIC_UNREADABLE = "topic unreadable"
    PARTITION_UNKNOWN = "partition unknown"
    BROKER_UNKNOWN = "broker unknown"
    TOO_MANY_REPLICAS = "more replicas than brokers"
    REPLICATION_FACTOR_CHANGE = "replication factor change"
    BELOW_MIN_ISR = "below min ISR"
    BROKER_DOWN = "broker down"
    OFFLINE = "offline"
    UNDER_REPLICATED = "under-replicated"
    FOREIGN_REASSIGNMENT = "foreign reassignment"
    ORIGINAL_DIFFERS = "original replicas differ"
    RACKS = "racks"
    SETTINGS_UNREADABLE = "topic settings unreadable"
    OWNER = "owner of the cluster"
    NOTHING_TO_DO = "nothing to do"
    AT_TARGET = "at target"
    DISKS_UNREADABLE = "disks unreadable"
    DISK_FULL = "disk full"
    DISK_LOW = "disk low"
    LOG_DIR_OFFLINE = "log dir offline"
    CORDONED = "cordoned"
    NEVER_FITS = "never fits"
    NEVER_ENDS = "throttle under the inbound rate"
    SLOWER_THAN_A_FETCH = "throttle slower than a fetch"
    INBOUND_UNKNOWN = "inbound rate unknown"
    LEADERS_THROTTLED = "leaders throttled"
    LIST_TOO_LONG = "throttled list too long"
    THROTTLE_REPLACED = "throttle replaced"
    OTHERS_THROTTLED = "others throttled, too"
    CANCEL_GATE_SHUT = "cancel gate shut"
    NOT_PERMITTED = "not permitted"


class Finding(msgspec.Struct, frozen=True):
    """One thing to say of a plan on this cluster, and the partitions that it is about."""

    severity: Severity
    kind: FindingKind
    partitions: tuple[TopicPartition, ...]
    """In the plan's order."""
    sentence: str
    place: FilePosition | None = None
    """Where the first of them stands in the file; None for a plan that was not read from one."""
    option: Option | None = None
    """What allows it, or has allowed it."""
