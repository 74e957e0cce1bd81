"""The two ways into a cluster. kafka/ and simulated/ implement them; nothing else may.

Shared by every method: it is a coroutine that never blocks the event loop; each request it takes
is answered or raises within the adapter's call timeout; text from the cluster comes back cleaned
(`text.clean`); topic ids are URL-safe base64. Whole-call trouble raises a `ClusterError`; trouble
with one partition, topic or resource comes back beside the parts that succeeded.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig, online
from ktui.cluster.errors import Failure
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition


class ClusterDescription(msgspec.Struct, frozen=True):
    """Who is in the cluster (DescribeCluster)."""

    cluster_id: str
    controller: int | None
    brokers: Mapping[int, Broker]
    waits_for_kept: bool = True
    """Whether a reassignment completes only when each replica that it keeps is in sync, too:
    before Kafka 4.3, and where the cluster does not tell."""

    @property
    def online(self) -> frozenset[int]:
        """The brokers that are registered and not fenced."""
        return online(self.brokers)


class TopicsAnswer(msgspec.Struct, frozen=True):
    """Partitions of topics; `adding` and `removing` are empty, for metadata does not know them."""

    partitions: Mapping[TopicPartition, PartitionState]
    absent: frozenset[str] = frozenset()
    """Topics that the cluster says do not exist."""
    failures: tuple[Failure, ...] = ()


class OffsetsAnswer(msgspec.Struct, frozen=True):
    """Log offsets at one broker, in messages."""

    ends: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    errors: Mapping[TopicPartition, str] = msgspec.field(default_factory=dict)
    """Kafka's error name for each partition that this broker would not answer for."""


class LogDirsAnswer(msgspec.Struct, frozen=True):
    """One broker's log dirs and the bytes of the partitions asked for that it holds."""

    log_dirs: tuple[LogDir, ...]
    sizes: Mapping[TopicPartition, int]


class TopicConfigsAnswer(msgspec.Struct, frozen=True):
    """Settings of topics."""

    configs: Mapping[str, TopicConfig]
    failures: tuple[Failure, ...] = ()


class ConfigScope(enum.StrEnum):
    """Whose setting."""

    TOPIC = "topic"
    BROKER = "broker"


class ConfigResource(msgspec.Struct, frozen=True, order=True):
    """A topic by name, or a broker by its id."""

    scope: ConfigScope
    name: str


class ConfigSource(enum.StrEnum):
    """Where the value of a setting comes from; the first that has one wins."""

    OWN = "own"
    """Set dynamically on this very topic or broker."""
    EVERY_BROKER = "every broker"
    """Set dynamically for all brokers."""
    FILE = "file"
    """In the broker's properties file."""
    DEFAULT = "default"


class Setting(msgspec.Struct, frozen=True):
    """A setting as it holds, in Kafka's own text."""

    value: str
    source: ConfigSource

    @property
    def own(self) -> str | None:
        """The value that was set on the resource itself; None where none was."""
        return self.value if self.source is ConfigSource.OWN else None


class SettingsAnswer(msgspec.Struct, frozen=True):
    """Settings by name, of each resource that was there and could be asked."""

    settings: Mapping[ConfigResource, Mapping[str, Setting]]
    failures: Mapping[ConfigResource, str] = msgspec.field(default_factory=dict)
    """Why a resource is missing, in one line."""


class ClusterReader(Protocol):
    """Reads a cluster. Every method is idempotent and may be called concurrently."""

    async def describe_cluster(self) -> ClusterDescription:
        """Give the cluster id, its controller and its brokers, fenced ones where it tells."""
        ...

    async def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """Give every ongoing reassignment of the cluster (KIP-455); empty when nothing moves.

        The controller's truth: it never misses an alter that was answered.

        Raises:
            NotAuthorized: Describe on the cluster is not granted.
        """
        ...

    async def describe_topics(self, names: Collection[str], *, fresh: bool = False) -> TopicsAnswer:
        """Give all partitions of the named topics, from one broker's metadata.

        That may be some 100 ms behind the controller; a `fresh` answer is no older than the call:
        whatever was answered before, a change or a list, is in it. A topic that is not
        authorised, or fails for another reason, is a `Failure` of the answer.

        Raises:
            Unsupported: `fresh`, and this cluster does not tell how old metadata is.
            TimedOut: `fresh`, and no broker has caught up within a few seconds.
        """
        ...

    def scan_topics(self) -> AsyncIterator[TopicsAnswer]:
        """Page through every partition that the principal may describe, some 2,000 a page."""
        ...

    async def log_offsets(
        self,
        broker: int,
        *,
        ends: Collection[TopicPartition],
        starts: Collection[TopicPartition] = (),
    ) -> OffsetsAnswer:
        """Ask one broker for its own replicas' log end and log start offsets.

        ListOffsets with replica_id -2, which followers answer too: a follower's own log end, a
        leader's log end rather than its high watermark. Needs Describe on the topics.

        Raises:
            Unreachable, TimedOut: this broker only; other brokers may be well.
        """
        ...

    async def log_dirs(self, broker: int, partitions: Collection[TopicPartition]) -> LogDirsAnswer:
        """Give one broker's log dirs, and the size in bytes of the named partitions there.

        An empty `partitions` gives the dirs alone.

        Raises:
            NotAuthorized: Describe on the cluster is not granted.
        """
        ...

    async def topic_configs(self, names: Collection[str]) -> TopicConfigsAnswer:
        """Give the settings of topics; those not authorised are failures. Needs DescribeConfigs."""
        ...

    async def broker_config(self, broker: int) -> BrokerConfig:
        """Give the settings of one broker, asked of that broker itself.

        Raises:
            NotAuthorized: DescribeConfigs on the cluster is not granted.
        """
        ...

    async def settings(
        self, resources: Collection[ConfigResource], names: Collection[str] = ()
    ) -> SettingsAnswer:
        """Give settings exactly as they stand, and where each value comes from.

        No older than the call, where the cluster can tell. A broker is asked itself. Without
        names, all that somebody has set on the resource itself. Values that Kafka keeps secret are
        left out, and lists told without the blanks they may hold. Never raises for one resource.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection and thread. Idempotent; calls in flight raise."""
        ...


class Verdict(enum.StrEnum):
    """What became of one write."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """The request may have taken effect: it was sent and its answer never came."""


class WriteResult(msgspec.Struct, frozen=True):
    """The outcome for one partition or resource, in the broker's words.

    `code` is Kafka's error name, also for an ACCEPTED that was not needed (ELECTION_NOT_NEEDED).
    """

    verdict: Verdict
    code: str | None = None
    message: str = ""
    node: int | None = None
    """The broker that the request was sent to, with UNKNOWN; None where that is not known."""
    needs: str = ""
    """The permission that is missing, in Kafka's words: "Alter on the cluster". Empty where none
    is, or where it is not known."""


class ConfigOp(enum.StrEnum):
    """What to do to a setting (KIP-339). APPEND and SUBTRACT work on comma-separated lists."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"


class ConfigChange(msgspec.Struct, frozen=True):
    """One setting of one resource; `value` is None for DELETE."""

    resource: ConfigResource
    key: str
    op: ConfigOp
    value: str | None = None


class ClusterWriter(Protocol):
    """Changes a cluster.

    No method raises once a request has left: a lost answer is `Verdict.UNKNOWN` for each part it
    was about, and the caller settles it by looking. Nothing is retried after it may have been
    received, but for NOT_CONTROLLER, which the broker answers before it does anything.

    What a request rests on grows old while a connection is made. With `leaves_within_s` it leaves
    within so many seconds of the call, or not at all.
    """

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        """Start reassignments, or with None cancel them (KIP-455), in requests brokers accept.

        Per partition, not all-or-nothing. Sending a target again is a no-op; cancelling where
        nothing moves is REFUSED with NO_REASSIGNMENT_IN_PROGRESS. Brokers before 4.1 have no
        replication factor guard: there the adapter refuses by itself, before anything is sent,
        if a target's length differs from the current one.
        """
        ...

    async def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition], *, leaves_within_s: float | None = None
    ) -> Mapping[TopicPartition, WriteResult]:
        """Elect the first replica of each (KIP-460). ELECTION_NOT_NEEDED counts as ACCEPTED."""
        ...

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, leaves_within_s: float | None = None
    ) -> Mapping[ConfigResource, WriteResult]:
        """Change settings incrementally, all of one resource together; one BROKER a request."""
        ...

    async def aclose(self) -> None:
        """Close every connection and thread. Idempotent."""
        ...


class ClusterPorts(NamedTuple):
    """The two ways into one cluster."""

    reader: ClusterReader
    writer: ClusterWriter
