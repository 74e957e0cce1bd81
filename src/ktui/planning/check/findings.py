"""The input and output of a plan's check: a snapshot of the cluster, and findings."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping

import msgspec

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig, online_brokers
from ktui.cluster.coordination import CoordinatedIds, CoordinatorKind
from ktui.cluster.errors import Failure
from ktui.cluster.partition import PartitionState, Reassignment, Replica, TopicPartition
from ktui.cluster.ports import Setting
from ktui.planning.read.problems import FilePosition


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the cluster before a plan starts, as read through the ports."""

    partitions: Mapping[TopicPartition, PartitionState]
    """All partitions of the plan's topics.

    A topic without partitions here does not exist, unless `failures` names it.
    """
    brokers: Mapping[int, Broker]
    cluster_id: str = ""
    unregistered: frozenset[int] = frozenset()
    """The ids in lists of replicas that are certainly no brokers any more."""
    refuses_cordoned: bool | None = None
    """Whether a target that names a fully cordoned broker is refused; None if not known."""
    configs: Mapping[str, TopicConfig] = msgspec.field(default_factory=dict)
    """Topic settings. A missing topic could not be read, and is not checked by its settings."""
    listed: Mapping[TopicPartition, Reassignment] = msgspec.field(default_factory=dict)
    """Every ongoing reassignment; all are someone else's, since ours has not begun."""
    movers: Mapping[TopicPartition, str] = msgspec.field(default_factory=dict)
    """The run of this state directory that reassigns a partition, where one does."""
    topics: Collection[str] = ()
    """Names of the cluster's topics, where known, for suggestions."""
    failures: tuple[Failure, ...] = ()
    denied_by_brokers: frozenset[str] = frozenset()
    """Topics of the metadata that the broker which was asked for their settings does not know."""
    sizes: Mapping[Replica, int] = msgspec.field(default_factory=dict)
    """Bytes of the plan's partitions, at least at their leaders; unknown sizes are absent."""
    held_in: Mapping[Replica, str] = msgspec.field(default_factory=dict)
    """The log dirs of replicas for which the plan names one."""
    log_dirs: Mapping[int, tuple[LogDir, ...]] = msgspec.field(default_factory=dict)
    """Log dirs of the brokers that have, gain or lose replicas, as far as they answered."""
    broker_configs: Mapping[int, BrokerConfig] = msgspec.field(default_factory=dict)
    """Settings of the same brokers."""
    inbound: Mapping[TopicPartition, int] = msgspec.field(default_factory=dict)
    """Bytes a second written to the partitions that gain replicas, where measured."""
    coordinated: Mapping[CoordinatorKind, CoordinatedIds] = msgspec.field(default_factory=dict)
    """What the leaders of internal partitions coordinate that get another leader.

    A kind of which a leader did not answer is missing, and one whose topic the plan leaves alone.
    """
    rates: Mapping[int, Mapping[str, Setting]] = msgspec.field(default_factory=dict)
    """Throttles of the brokers concerned, under Kafka's names, with their sources."""

    @property
    def online(self) -> frozenset[int]:
        """The brokers that are registered and not fenced."""
        return online_brokers(self.brokers)

    def size(self, tp: TopicPartition) -> int | None:
        """Return a partition's size in bytes at its leader; None where not known."""
        state = self.partitions.get(tp)
        if state is None or state.leader is None:
            return None
        return self.sizes.get(Replica(tp, state.leader))


class Allowances(msgspec.Struct, frozen=True):
    """The operator's explicit permissions."""

    replication_factor_change: bool = False
    below_min_isr: bool = False
    slow: bool = False
    """A throttle under which, by the estimate, no copy ends."""


class Option(enum.StrEnum):
    """The option that turns a problem into a lesser finding."""

    REPLICATION_FACTOR_CHANGE = "--allow-replication-factor-change"
    BELOW_MIN_ISR = "--allow-below-min-isr"
    SLOW = "--allow-slow"


class Severity(enum.StrEnum):
    """The severity of a finding. Findings are sorted in the declared order."""

    PROBLEM = "problem"
    """The plan is not started."""
    WARNING = "warning"
    NOTE = "note"


class FindingKind(enum.StrEnum):
    """The kind of a finding."""

    TOPIC_UNKNOWN = "topic unknown"
    TOPIC_UNREADABLE = "topic unreadable"
    TOPIC_OUT_OF_REACH = "topic out of reach"
    PARTITION_UNKNOWN = "partition unknown"
    BROKER_UNKNOWN = "broker unknown"
    TOO_MANY_REPLICAS = "more replicas than brokers"
    REPLICATION_FACTOR_CHANGE = "replication factor change"
    BELOW_MIN_ISR = "below min ISR"
    BELOW_MIN_ISR_ALREADY = "below min ISR already"
    """The plan leaves it so, and makes nothing worse."""
    BROKER_DOWN = "broker down"
    OFFLINE = "offline"
    UNDER_REPLICATED = "under-replicated"
    FOREIGN_REASSIGNMENT = "foreign reassignment"
    CANARY_TOPIC = "topic of a canary"
    TIERED = "tiered"
    ORIGINAL_DIFFERS = "original replicas differ"
    RACKS = "racks"
    SETTINGS_UNREADABLE = "topic settings unreadable"
    OWNER = "owner of the cluster"
    NOTHING_TO_DO = "nothing to do"
    AT_TARGET = "at target"
    COORDINATORS_MOVE = "coordinators move"
    INTERNAL_LEFT_OUT = "internal topics left out"
    DISKS_UNREADABLE = "disks unreadable"
    DISK_FULL = "disk full"
    DISK_LOW = "disk low"
    LOG_DIR_NOT_CHOSEN = "log dir not chosen"
    LOG_DIR_OFFLINE = "log dir offline"
    CORDONED = "cordoned"
    CORDONED_LEFT = "cordoned broker left"
    """Its replicas leave without the reserve that a gentle step keeps during the copy."""
    NEVER_FITS = "never fits"
    NEVER_ENDS = "throttle under the inbound rate"
    SLOWER_THAN_A_FETCH = "throttle slower than a fetch"
    INBOUND_UNKNOWN = "inbound rate unknown"
    LEADERS_THROTTLED = "leaders throttled"
    LIST_TOO_LONG = "throttled list too long"
    THROTTLE_REPLACED = "throttle replaced"
    OTHERS_THROTTLED = "others throttled, too"
    ONE_THROTTLE = "another run has a throttle"
    OTHER_RUN = "another run"
    PROMISE = "promised time"
    """Whether --until or --by can be kept."""
    CANCEL_GATE_SHUT = "cancel gate shut"
    CANARY_REFUSED = "canary refused"
    NOT_PERMITTED = "not permitted"
    THROTTLE_NOT_PERMITTED = "throttle not permitted"
    """Nor, with an objective, its canary."""


class Finding(msgspec.Struct, frozen=True):
    """A finding about a plan on this cluster, with the partitions concerned."""

    severity: Severity
    kind: FindingKind
    partitions: tuple[TopicPartition, ...]
    """In the plan's order."""
    sentence: str
    place: FilePosition | None = None
    """The first partition's position in the file; None if the plan was not read from a file."""
    option: Option | None = None
    """The option that allows, or has allowed, this finding."""
