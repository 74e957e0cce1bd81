"""The input and output of a plan's check: a snapshot of the cluster, and findings."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ktui.cluster.broker import (
    Broker,
    BrokerConfig,
    CoordinatedIds,
    CoordinatorKind,
    LogDir,
    TopicConfig,
    online_brokers,
)
from ktui.cluster.errors import ClusterError, Failure, NotAuthorized, Operation
from ktui.cluster.partition import PartitionState, Reassignment, Replica, TopicPartition
from ktui.cluster.ports import CanaryObstacles, Grant, Permissions, Setting
from ktui.planning.json_cursor import FilePosition
from ktui.planning.plan import Plan, join_all, join_some
from ktui.planning.throttle_rates import CANARY_PREFIX
from ktui.quantities import as_count


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the cluster before a plan starts, as read through the ports."""

    partitions: Mapping[TopicPartition, PartitionState]
    """All partitions of the plan's topics; of a missing topic, none."""
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
    topics: Collection[str] = ()  # names of the cluster's topics, where known, for suggestions
    failures: tuple[Failure, ...] = ()
    denied_by_brokers: frozenset[str] = frozenset()
    """Topics of the metadata that the broker which was asked for their settings does not know."""
    sizes: Mapping[Replica, int] = msgspec.field(default_factory=dict)
    """Bytes of the plan's partitions, at least at their leaders; unknown sizes are absent."""
    held_in: Mapping[Replica, str] = msgspec.field(default_factory=dict)
    log_dirs: Mapping[int, tuple[LogDir, ...]] = msgspec.field(default_factory=dict)
    """Log dirs of the brokers that have, gain or lose replicas, as far as they answered."""
    broker_configs: Mapping[int, BrokerConfig] = msgspec.field(default_factory=dict)
    inbound: Mapping[TopicPartition, int] = msgspec.field(default_factory=dict)
    """Bytes a second written to the partitions that gain replicas, where measured."""
    coordinated: Mapping[CoordinatorKind, CoordinatedIds] = msgspec.field(default_factory=dict)
    """What the moving leaders of internal partitions coordinate, where they answered."""
    rates: Mapping[int, Mapping[str, Setting]] = msgspec.field(default_factory=dict)
    """Throttles of the brokers concerned, under Kafka's names, with their sources."""

    @property
    def online(self) -> frozenset[int]:
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
    slow: bool = False  # under such a throttle, by the estimate, no copy ends

    def used_by(self, findings: Iterable[Finding]) -> Allowances:
        """Return those of them without which one of the findings would be a problem."""
        used = {finding.option for finding in findings}
        return Allowances(
            self.replication_factor_change and Option.REPLICATION_FACTOR_CHANGE in used,
            self.below_min_isr and Option.BELOW_MIN_ISR in used,
            self.slow and Option.SLOW in used,
        )


class Option(enum.StrEnum):
    """The option that turns a problem into a lesser finding."""

    REPLICATION_FACTOR_CHANGE = "--allow-replication-factor-change"
    BELOW_MIN_ISR = "--allow-below-min-isr"
    SLOW = "--allow-slow"


class Severity(enum.StrEnum):
    """The severity of a finding. Findings are sorted in the declared order."""

    PROBLEM = "problem"
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
    CORDONED_LEFT = "cordoned broker left"  # without the reserve that a gentle step keeps
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
    CANCEL_GATE_SHUT = "cancel gate shut"
    CANARY_REFUSED = "canary refused"
    NOT_PERMITTED = "not permitted"
    THROTTLE_NOT_PERMITTED = "throttle not permitted"  # nor, with an objective, its canary


class Finding(msgspec.Struct, frozen=True):
    """A finding about a plan on this cluster, with the partitions concerned."""

    severity: Severity
    kind: FindingKind
    partitions: tuple[TopicPartition, ...]
    sentence: str
    place: FilePosition | None = None  # of the first partition; None without a plan's file
    option: Option | None = None


_OF_A_THROTTLE = ("DescribeConfigs", "AlterConfigs")
_OF_A_CANARY = {"Create": "make it", "Write": "write to it", "Delete": "delete it at the end"}
"""The operations on the topic of a canary, and what each is for."""


class NeededPermission(msgspec.Struct, frozen=True, kw_only=True):
    """A planned action, with the severity of a permission that is missing for it."""

    subject: str
    moves: Severity | None  # the severity if partitions cannot be moved; None if none are to be
    moved: str = ""  # the action that the subject then cannot take: "be started"
    throttles: Severity | None  # the severity if a throttle cannot be set; None if none is
    unthrottled: str = ""  # how to do without the throttle
    canary: str = ""


TO_START = NeededPermission(
    subject="this plan",
    moves=Severity.PROBLEM,
    moved="be started",
    throttles=Severity.PROBLEM,
    unthrottled="run without a throttle: --throttle none",
)
TO_CHECK = msgspec.structs.replace(TO_START, moves=Severity.WARNING)
"""As before a start. Somebody who may not start a plan may still check it."""


def topics_of(plan: Plan) -> set[str]:
    """Return the topics of a plan."""
    return {partition.topic for partition in plan.partitions}


def missing_permissions(
    permitted: Permissions | None, obstacles: CanaryObstacles | None, need: NeededPermission
) -> tuple[Finding, ...]:
    """Return missing permissions; none where Kafka has to refuse the request itself."""
    lacking = () if permitted is None else _lacking(permitted, need)
    canary = _against_canary(obstacles, need) if obstacles is not None and need.canary else ()
    return (*lacking, *canary)


def _against_canary(obstacles: CanaryObstacles, need: NeededPermission) -> Iterator[Finding]:
    severity = need.moves or Severity.PROBLEM
    topic, unmeasured = f"topic {need.canary}", f"{need.subject} cannot be measured by --canary"
    if denied := obstacles.denied:
        are = "is" if len(denied) == 1 else "are"
        options = " ".join(f"--operation {operation}" for operation in denied)
        sentence = (
            f"{join_all(denied)} on {topic} {are} not granted to this principal, so its canary "
            f"cannot {join_all(_OF_A_CANARY[each] for each in denied)}: {unmeasured}. Grant it "
            f"with kafka-acls --add {options} --topic {CANARY_PREFIX} --resource-pattern-type "
            "prefixed"
        )
        yield Finding(severity, FindingKind.THROTTLE_NOT_PERMITTED, (), sentence)
    elif obstacles.refusal:
        sentence = (
            f"{topic} cannot be used: {obstacles.refusal}: {unmeasured}. Allow such a topic, or "
            "start a run with --sli-command or --sli-prometheus"
        )
        yield Finding(severity, FindingKind.CANARY_REFUSED, (), sentence)


def _lacking(permitted: Permissions, need: NeededPermission) -> Iterator[Finding]:
    for grant, topics in permitted.missing().items():
        advice = grant_command(grant)
        if need.throttles is not None and grant.operation in _OF_A_THROTTLE:
            advice = f"{advice}, or {need.unthrottled}" if need.unthrottled else advice
            sentence = _sentence(grant, topics, f"{need.subject} cannot be throttled", advice)
            yield Finding(need.throttles, FindingKind.THROTTLE_NOT_PERMITTED, (), sentence)
        elif need.moves is not None and grant.operation == "Alter":
            sentence = _sentence(grant, topics, f"{need.subject} cannot {need.moved}", advice)
            yield Finding(need.moves, FindingKind.NOT_PERMITTED, (), sentence)


def _sentence(grant: Grant, topics: tuple[str, ...], what: str, advice: str) -> str:
    where = join_some([f"topic {topic}" for topic in topics])
    if not topics:
        where = "the cluster" if grant.resource == "cluster" else "any topic"
    return (
        f"{grant.operation} on {where} is not granted to this principal, which cannot "
        f"{grant.purpose}: {what}. {advice}"
    )


def grant_command(grant: Grant) -> str:
    """Return the advice with the command that grants a permission."""
    to = "--cluster" if grant.resource == "cluster" else "--topic NAME"
    return f"Grant it with kafka-acls --add --operation {grant.operation} {to}"


A = TypeVar("A")


async def call_each_broker(
    operation: Operation, calls: Mapping[int, Coroutine[Any, Any, A]]
) -> tuple[Mapping[int, A], Sequence[Failure]]:
    """Call brokers, all at once: a slow one costs at most the adapter's call timeout."""
    answers: dict[int, A] = {}
    failures: dict[int, Failure] = {}

    async def one(broker: int, call: Coroutine[Any, Any, A]) -> None:
        try:
            answers[broker] = await call
        except ClusterError as error:
            denied = isinstance(error, NotAuthorized)
            failures[broker] = Failure(operation, str(error), broker, denied=denied)

    await asyncio.gather(*(one(broker, call) for broker, call in calls.items()))
    return answers, [failures[broker] for broker in sorted(failures)]


LOW = 0.1  # the share of a disk below which free room counts as low


class Disk(msgspec.Struct, frozen=True):
    """The total bytes of a broker's log dirs that can take new replicas; None if not reported."""

    total: int | None = None
    room: int | None = None


def disk_of(log_dirs: Iterable[LogDir]) -> Disk:
    """Add up a broker's log dirs."""
    usable = [each for each in log_dirs if each.error is None and not each.cordoned]
    return Disk(_sum(d.total_bytes for d in usable), _sum(d.usable_bytes for d in usable))


def log_dir_warnings(
    gains: Mapping[int, int], log_dirs: Mapping[int, tuple[LogDir, ...]]
) -> Iterator[Finding]:
    """Warn of brokers that gain replicas but have log dirs that have failed."""
    for broker in sorted(gains):
        held = log_dirs.get(broker, ())
        replicas = as_count(gains[broker], "replica")
        if failed := [each for each in held if each.error is not None]:
            paths = ", ".join(f"{each.path} ({each.error})" for each in failed)
            text = f"broker {broker} gets {replicas}, and a log dir is offline: {paths}"
            yield warning(FindingKind.LOG_DIR_OFFLINE, text)


def warning(kind: FindingKind, sentence: str) -> Finding:
    """Return a warning about no partition in particular."""
    return Finding(Severity.WARNING, kind, (), sentence)


def _sum(values: Iterable[int | None]) -> int | None:
    total: int | None = None
    for value in values:
        if value is None:
            return None
        total = (total or 0) + value
    return total
