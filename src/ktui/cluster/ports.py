"""The two ports to a cluster. kafka/ and simulated/ implement them; nothing else may.

Every method is a coroutine that never blocks the event loop. Each of its requests is answered or
raises within the adapter's call timeout. Text from the cluster comes back cleaned (`text.clean`),
and topic ids are URL-safe base64. A call that fails as a whole raises a `ClusterError`. A failure
of one partition, topic or resource comes back beside the parts that succeeded.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ktui.cluster.broker import (
    Broker,
    BrokerConfig,
    CoordinatedIds,
    CoordinatorKind,
    LogDir,
    ReplicaDir,
    TopicConfig,
    online_brokers,
)
from ktui.cluster.errors import (
    ClusterError,
    Failure,
    KafkaError,
    NotAuthorized,
    describe_unreadable,
)
from ktui.cluster.partition import Brokers, PartitionState, Reassignment, TopicPartition


class ClusterDescription(msgspec.Struct, frozen=True):
    """The brokers of the cluster and its controller (DescribeCluster)."""

    cluster_id: str
    controller: int | None
    brokers: Mapping[int, Broker]
    waits_for_kept: bool = True
    """Whether a reassignment completes only once the replicas that it keeps are in sync too.

    True before Kafka 4.3, and where the cluster does not report its version.
    """
    reports_fenced: bool = True
    """Whether fenced brokers are among `brokers`. False before Kafka 4.1."""
    refuses_cordoned: bool | None = None
    """Whether a target that names a broker is refused while its log dirs are all cordoned.

    The active controller decides, and does so from Kafka 4.4 on. True where a broker has that
    version or the finalized metadata.version is that of 4.4; None if it is unknown.
    """

    @property
    def online(self) -> frozenset[int]:
        """The brokers that are registered and not fenced."""
        return online_brokers(self.brokers)

    def unregistered(self, assigned: Iterable[int]) -> frozenset[int]:
        """Return the ids of replica lists that are no brokers any more.

        A list keeps the id of a broker that was unregistered. Kafka refuses every target that names
        it (INVALID_REPLICA_ASSIGNMENT). Before 4.0 such an id may be a broker that is down.
        """
        return frozenset(assigned) - self.brokers.keys() if self.reports_fenced else frozenset()


class TopicsAnswer(msgspec.Struct, frozen=True):
    """Partitions of topics. `adding` and `removing` are empty: metadata does not have them."""

    partitions: Mapping[TopicPartition, PartitionState]
    absent: frozenset[str] = frozenset()  # topics that do not exist, according to the cluster
    failures: tuple[Failure, ...] = ()


class OffsetsAnswer(msgspec.Struct, frozen=True):
    """Log offsets of one broker's replicas, in messages."""

    ends: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    errors: Mapping[TopicPartition, str] = msgspec.field(default_factory=dict)
    """Kafka's error name for each partition that this broker refused to answer for."""


class LogDirsAnswer(msgspec.Struct, frozen=True):
    """One broker's log dirs, and its replicas of the requested partitions."""

    log_dirs: tuple[LogDir, ...]
    replicas: Mapping[TopicPartition, ReplicaDir]  # the replicas that are in working log dirs

    @property
    def sizes(self) -> dict[TopicPartition, int]:
        return {tp: replica.size for tp, replica in self.replicas.items()}


class TopicConfigsAnswer(msgspec.Struct, frozen=True):
    """Settings of topics."""

    configs: Mapping[str, TopicConfig]
    failures: tuple[Failure, ...] = ()
    absent: tuple[str, ...] = ()
    """Topics that do not exist, according to the broker that was asked; among the failures, too."""


class ConfigScope(enum.StrEnum):
    """The kind of resource that a setting belongs to."""

    TOPIC = "topic"
    BROKER = "broker"


class ConfigResource(msgspec.Struct, frozen=True, order=True):
    """A topic by name, or a broker by id."""

    scope: ConfigScope
    name: str


class ConfigSource(enum.StrEnum):
    """The source of a setting's value; the first source that has a value wins."""

    OWN = "own"  # set dynamically on the topic or broker itself
    EVERY_BROKER = "every broker"  # set dynamically for all brokers
    FILE = "file"  # set in the broker's properties file
    DEFAULT = "default"


class Setting(msgspec.Struct, frozen=True):
    """The value in force of a setting, as Kafka's own text."""

    value: str
    source: ConfigSource

    @property
    def own(self) -> str | None:
        """The value set on the resource itself; None if none is."""
        return self.value if self.source is ConfigSource.OWN else None


class SettingsAnswer(msgspec.Struct, frozen=True):
    """Settings by name, for each resource that exists and could be read."""

    settings: Mapping[ConfigResource, Mapping[str, Setting]]
    failures: Mapping[ConfigResource, str] = msgspec.field(default_factory=dict)
    """The reason why a resource is missing, in one line."""
    errors: Mapping[ConfigResource, KafkaError] = msgspec.field(default_factory=dict)
    """Kafka's error for each of them, where it is in the table."""

    @classmethod
    def failed(cls, resources: Iterable[ConfigResource], error: ClusterError) -> SettingsAnswer:
        """Return the answer where the request as a whole has failed."""
        failures = dict.fromkeys(resources, str(error))
        denied = failures if isinstance(error, NotAuthorized) else ()
        return cls({}, failures, dict.fromkeys(denied, KafkaError.CLUSTER_AUTHORIZATION_FAILED))


class Grant(NamedTuple):
    """A permission that ktui uses, in Kafka's words, and its purpose."""

    resource: str
    operation: str
    purpose: str  # the actions that need the permission, as words that follow "cannot"
    writes: bool = False
    vital: bool = False


GRANTS = (
    Grant(
        "cluster",
        "Describe",
        "list reassignments, see sizes on disk, or tell whether metadata is fresh",
        vital=True,
    ),
    Grant("cluster", "DescribeConfigs", "read broker settings: throttles, rebalancing"),
    Grant("cluster", "Alter", "start and cancel reassignments, elect leaders", writes=True),
    Grant("cluster", "AlterConfigs", "set the brokers' throttle rates", writes=True),
    Grant("topic", "Describe", "see replicas, in-sync replicas and replica lag"),
    Grant("topic", "DescribeConfigs", "read min.insync.replicas and throttled replicas"),
    Grant("topic", "AlterConfigs", "set the topics' throttled replicas", writes=True),
)


class Permissions(msgspec.Struct, frozen=True):
    """The operations that this principal may do (KIP-430); all of them without an authorizer.

    Without Describe on the cluster, Kafka reports no other operation on the cluster either.
    """

    cluster: frozenset[str]
    topics: Mapping[str, frozenset[str]]  # the others look as if they did not exist

    @property
    def none(self) -> bool:
        return not self.cluster and not self.topics

    def missing(self) -> dict[Grant, tuple[str, ...]]:
        """Return the missing grants with the topics they lack, none for the whole cluster."""
        found: dict[Grant, tuple[str, ...]] = {}
        for grant in GRANTS:
            if grant.resource == "cluster" or self.none:
                if grant.operation not in self.cluster:
                    found[grant] = ()
            elif lacking := [t for t, may in self.topics.items() if grant.operation not in may]:
                found[grant] = tuple(sorted(lacking))
        return found


class CanaryObstacles(msgspec.Struct, frozen=True):
    """What keeps a canary from measuring; empty for nothing."""

    denied: tuple[str, ...] = ()
    refusal: str = ""


class ClusterReader(Protocol):
    """Reads from a cluster. Every method is idempotent and may be called concurrently."""

    async def describe_cluster(self) -> ClusterDescription:
        """Return the cluster id, the controller and the brokers.

        Fenced brokers are included where the cluster reports them.
        """
        ...

    async def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """Return every ongoing reassignment of the cluster (KIP-455); empty when nothing moves.

        The controller itself answers, so no acknowledged alter is ever missing.

        Raises:
            NotAuthorized: Describe on the cluster is not granted.
        """
        ...

    async def describe_topics(self, names: Collection[str], *, fresh: bool = False) -> TopicsAnswer:
        """Return all partitions of the named topics, from one broker's metadata.

        Metadata may be about 100 ms behind the controller. A `fresh` answer is no older than the
        call, and reflects every change or list answered before. A topic that is not authorised, or
        fails for another reason, is a `Failure` of the answer.

        Raises:
            Unsupported: `fresh` is set, and this cluster does not report the age of metadata.
            TimedOut: `fresh` is set, and no broker has caught up within a few seconds.
        """
        ...

    def scan_topics(self, *, fresh: bool = False) -> AsyncIterator[TopicsAnswer]:
        """Page through every partition that the principal may describe, about 2,000 per page.

        With `fresh`, all pages are no older than the call, as of `describe_topics`.

        Raises:
            Unsupported, TimedOut: as `describe_topics`, where `fresh` is set.
        """
        ...

    async def log_offsets(
        self,
        broker: int,
        *,
        ends: Collection[TopicPartition],
        starts: Collection[TopicPartition] = (),
    ) -> OffsetsAnswer:
        """Return where the logs of one broker's own replicas end, and where they start on its disk.

        Sends ListOffsets with replica_id -2, which followers answer too. A follower reports its own
        log end; a leader reports its log end rather than its high watermark. Needs Describe on the
        topics.

        Raises:
            Unreachable, TimedOut: this broker did not answer; other brokers may be fine.
        """
        ...

    async def log_dirs(
        self, broker: int, partitions: Collection[TopicPartition] | None
    ) -> LogDirsAnswer:
        """Return one broker's log dirs, and its replicas of the named partitions.

        With empty `partitions`, only the log dirs are returned; with None, every replica too.

        Raises:
            NotAuthorized: Describe on the cluster is not granted.
        """
        ...

    async def topic_configs(self, names: Collection[str]) -> TopicConfigsAnswer:
        """Return the settings of topics; unauthorised ones are failures. Needs DescribeConfigs."""
        ...

    async def broker_config(self, broker: int) -> BrokerConfig:
        """Return the settings of one broker, read from that broker itself.

        Raises:
            NotAuthorized: DescribeConfigs on the cluster is not granted.
        """
        ...

    async def coordinated_ids(self, broker: int, kind: CoordinatorKind) -> CoordinatedIds:
        """Return the groups, of any type, or the transactional ids that one broker coordinates.

        `SHARE_GROUP` gives the broker's share groups, once for each partition of which they have
        state. That state may be kept by any broker, so ask every one of them.

        Brokers leave out what the principal may not describe. Of groups, Describe on the cluster
        shows all. Of transactional ids, the answer says whether some may be missing. Of share
        groups' partitions, those of topics without Describe are missing.

        Raises:
            Unreachable, TimedOut: this broker did not answer; other brokers may be fine.
            Unsupported: brokers before Kafka 3.0 do not list transactional ids, nor those before
                4.1 what share groups have state of.
            NotAuthorized: Describe is not granted on one of the broker's share groups.
        """
        ...

    async def settings(
        self, resources: Collection[ConfigResource], names: Collection[str] = ()
    ) -> SettingsAnswer:
        """Return settings exactly as they are in force, and the source of each value.

        The answer is no older than the call, where the cluster can prove that. A broker's settings
        are read from that broker. Without `names`, every setting made on the resource itself is
        returned. Values that Kafka keeps secret are left out, and lists come without blanks. Never
        raises for one resource.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection and thread. Idempotent; calls in flight raise."""
        ...


class Verdict(enum.StrEnum):
    """The fate of one write."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """The request was sent and no answer came, so the write may have taken effect."""


class WriteResult(msgspec.Struct, frozen=True):
    """The outcome for one partition or resource, in the broker's words.

    `code` is Kafka's error name, also for an ACCEPTED write without effect (ELECTION_NOT_NEEDED).
    """

    verdict: Verdict
    code: str | None = None
    message: str = ""
    node: int | None = None
    """The broker that received the request, for UNKNOWN; None where not known."""
    needs: str = ""
    """The missing permission, in Kafka's words: "Alter on the cluster". Empty if none is missing
    or the permission is not known."""


def unread_answer(error: Exception) -> WriteResult:
    """Return the outcome of a request whose answer `error` makes unreadable: it was sent."""
    return WriteResult(Verdict.UNKNOWN, message=describe_unreadable(error, "its answer"))


class ConfigOp(enum.StrEnum):
    """An operation on a setting (KIP-339). APPEND and SUBTRACT work on comma-separated lists."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"


class ConfigChange(msgspec.Struct, frozen=True):
    """A change of one setting of one resource; `value` is None for DELETE."""

    resource: ConfigResource
    key: str
    op: ConfigOp
    value: str | None = None


class ClusterWriter(Protocol):
    """Changes a cluster.

    No method raises once a request has left. A lost answer is `Verdict.UNKNOWN` for each part of
    the request; the caller then reads the cluster for the outcome. A request that may have been
    received is never retried, except on NOT_CONTROLLER: brokers answer that before acting.

    The facts behind a request age while a connection is made. With `leaves_within_s`, the request
    leaves within that many seconds of the call, or not at all.
    """

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        """Start reassignments, or cancel those with a None target (KIP-455).

        The call is split into requests of a size that brokers accept. It works per partition, not
        all-or-nothing. Sending a target again is a no-op. A cancel where nothing moves is REFUSED
        with NO_REASSIGNMENT_IN_PROGRESS. Brokers before 4.1 have no replication factor guard.
        For them the adapter itself refuses a target whose length differs from the current one,
        before anything is sent.
        """
        ...

    async def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition], *, leaves_within_s: float | None = None
    ) -> Mapping[TopicPartition, WriteResult]:
        """Elect each partition's first replica (KIP-460); ELECTION_NOT_NEEDED is ACCEPTED."""
        ...

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, leaves_within_s: float | None = None
    ) -> Mapping[ConfigResource, WriteResult]:
        """Change settings incrementally, all of a resource together; one BROKER per request."""
        ...

    async def alter_log_dirs(
        self,
        broker: int,
        paths: Mapping[TopicPartition, str],
        *,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        """Move one broker's replicas to other log dirs, by their absolute paths (KIP-113).

        ACCEPTED means that the move has begun, or that the replica is there already. The path of
        the present log dir ends a move. A broker without the replica refuses the move with
        REPLICA_NOT_AVAILABLE, or UNKNOWN_TOPIC_OR_PARTITION, but it remembers the path: the replica
        is created there if it comes. A path must be exactly as `log_dirs` reports it, otherwise it
        is LOG_DIR_NOT_FOUND. A failed log dir answers KAFKA_STORAGE_ERROR, and a cordoned one
        INVALID_REPLICA_ASSIGNMENT.
        """
        ...

    async def create_partitions(
        self,
        topic: str,
        count: int,
        assignment: Sequence[Brokers] | None = None,
        *,
        leaves_within_s: float | None = None,
    ) -> WriteResult:
        """Add partitions to a topic, so that it has `count` (KIP-195). Kafka removes none.

        A count that is no increase is REFUSED with INVALID_PARTITIONS. New partitions have as many
        replicas as one of the topic's partitions lists, also those that a reassignment is adding or
        removing. Which one that is depends on a hash table of the controller. An assignment of
        another number is REFUSED with INVALID_REPLICA_ASSIGNMENT. Where the quota
        controller_mutation_rate is used up, the request is REFUSED with THROTTLING_QUOTA_EXCEEDED,
        and `message` has the wait (KIP-599).

        Args:
            count: the number of partitions afterwards.
            assignment: the replicas of each new partition; None lets Kafka place them.
            leaves_within_s: as above.
        """
        ...

    async def unregister_broker(
        self, broker: int, *, leaves_within_s: float | None = None
    ) -> WriteResult:
        """Remove the registration of a broker that is down for good (UnregisterBroker).

        A broker that is not registered is REFUSED with BROKER_ID_NOT_REGISTERED. Kafka checks
        nothing else: it unregisters a live broker too, and one that partitions still name.
        """
        ...

    async def delete_broker_settings(
        self, broker: int, names: Collection[str], *, leaves_within_s: float | None = None
    ) -> WriteResult:
        """Delete settings of a broker that is down, through the active controller.

        Brokers take changes of their own settings only. Nobody can read those of a broker that is
        down, so this deletes blindly: ACCEPTED also where a setting was not there, and then none of
        them is (measured with 3.9.2, 4.2.2, 4.3.1 and 4.4.0). A controller refuses it for a broker
        that is not registered, with BROKER_ID_NOT_REGISTERED.

        Raises:
            ClusterError: no controller was reached; nothing was sent.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection and thread. Idempotent."""
        ...


class ClusterPorts(NamedTuple):
    """The two ports to one cluster."""

    reader: ClusterReader
    writer: ClusterWriter
