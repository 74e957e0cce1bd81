"""The controller's answers, word for word, and the rules that differ between Kafka versions."""

from __future__ import annotations

import msgspec

from ktui.cluster.kafka_error import KafkaError
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from ktui.simulated.layout import VERSIONS


def refused(code: str, message: str) -> WriteResult:
    """Return a refusal, with Kafka's name for the error."""
    return WriteResult(Verdict.REFUSED, code, message)


DONE = WriteResult(Verdict.ACCEPTED)

TOO_MANY = WriteResult(Verdict.UNKNOWN, KafkaError.UNKNOWN_SERVER_ERROR)
"""The answer beyond the limit of records of one request; Kafka sends no message with it."""

NOTHING_TO_CANCEL = refused(KafkaError.NO_REASSIGNMENT_IN_PROGRESS, "")
"""Sent without a message, because every Kafka client has a standard message for this error."""

TOO_LARGE = refused(
    KafkaError.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
)

TOO_MANY_ADDED = refused(
    KafkaError.POLICY_VIOLATION, "Excessively large number of additional partitions per request."
)

NOT_NEEDED = WriteResult(
    Verdict.ACCEPTED,
    KafkaError.ELECTION_NOT_NEEDED,
    "Leader election not needed for topic partition.",
)

NOT_AVAILABLE = refused(
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
)

NO_SUCH_TOPIC = refused(
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)

NO_SUCH_TOPIC_TO_EXTEND = refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "")
"""Sent without a message, as every Kafka client has a standard one."""


def nothing_to_alter(tp: TopicPartition, *, topic_there: bool) -> WriteResult:
    """Refuse to alter a partition that does not exist."""
    words = f"Unable to find partition {tp.topic}:{tp.partition}."
    if not topic_there:
        words = f"Unable to find a topic named {tp.topic}."
    return refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, words)


def nothing_to_elect(tp: TopicPartition, *, topic_there: bool) -> WriteResult:
    """Refuse to elect a leader for a partition that does not exist."""
    words = f"No such partition as {tp}" if topic_there else f"No such topic as {tp.topic}"
    return refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, words)


def not_registered(broker: int) -> WriteResult:
    """Refuse to unregister a broker that is not registered."""
    return refused(
        KafkaError.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker} is not currently registered"
    )


def all_brokers_down(partition: int) -> WriteResult:
    """Refuse a new partition, because all its brokers are down."""
    words = (
        f"All brokers specified in the manual partition assignment for partition {partition} are "
        "fenced or in controlled shutdown."
    )
    return refused(KafkaError.INVALID_REPLICA_ASSIGNMENT, words)


class VersionRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one version, on a cluster that was formatted with that version."""

    completes_without_kept: bool
    """Whether a reassignment that does not shrink waits only for the replicas that it adds.

    Before 4.3 every reassignment waits for all replicas of its target to be in the ISR.
    """
    eligible_leader_replicas: bool
    """Whether there is an ELR (KIP-966): eligible.leader.replicas.version is 1 from 4.1."""
    starting_leaves_out: bool
    """Whether a broker that registers again is removed from the ISRs that it is still in.

    Other leaders are then elected (from 4.0).
    """
    guards_replication_factor: bool
    """Whether brokers respect allow_replication_factor_change (KIP-860, from 4.1)."""
    tells_fenced_brokers: bool
    """Whether DescribeCluster can list fenced brokers (KIP-1073, from 4.0)."""
    cordons_log_dirs: bool
    """Whether brokers know cordoned.log.dirs (KIP-1066, from 4.3)."""
    refuses_cordoned: bool
    """Whether an assignment may not name a broker whose log dirs are all cordoned (from 4.4)."""
    limits_added_partitions: bool
    """Whether more than 10,000 new partitions are refused by name (from 4.4), not in a fault."""


def rules_of(version: str) -> VersionRules:
    """Return the rules of one of `VERSIONS`."""
    since_4_0 = VERSIONS.index(version) >= VERSIONS.index("4.0")
    since_4_1 = VERSIONS.index(version) >= VERSIONS.index("4.1")
    since_4_3 = VERSIONS.index(version) >= VERSIONS.index("4.3")
    since_4_4 = VERSIONS.index(version) >= VERSIONS.index("4.4")
    return VersionRules(
        completes_without_kept=since_4_3,
        eligible_leader_replicas=since_4_1,
        starting_leaves_out=since_4_0,
        guards_replication_factor=since_4_1,
        tells_fenced_brokers=since_4_0,
        cordons_log_dirs=since_4_3,
        refuses_cordoned=since_4_4,
        limits_added_partitions=since_4_4,
    )
