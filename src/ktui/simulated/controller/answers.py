"""The controller's answers, word for word as Kafka sends them."""

from __future__ import annotations

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict, WriteResult


def refused(code: str, message: str) -> WriteResult:
    """Return a refusal, with Kafka's name for the error."""
    return WriteResult(Verdict.REFUSED, code, message)


DONE = WriteResult(Verdict.ACCEPTED)

TOO_MANY = WriteResult(Verdict.UNKNOWN, "UNKNOWN_SERVER_ERROR")
"""The answer beyond the limit of records of one request; Kafka sends no message with it."""

NOTHING_TO_CANCEL = refused("NO_REASSIGNMENT_IN_PROGRESS", "")
"""Sent without a message, because every Kafka client has a standard message for this error."""

TOO_LARGE = refused("POLICY_VIOLATION", "Unable to perform excessively large batch operation.")

TOO_MANY_ADDED = refused(
    "POLICY_VIOLATION", "Excessively large number of additional partitions per request."
)

NOT_NEEDED = WriteResult(
    Verdict.ACCEPTED, "ELECTION_NOT_NEEDED", "Leader election not needed for topic partition."
)

NOT_AVAILABLE = refused("PREFERRED_LEADER_NOT_AVAILABLE", "The preferred leader was not available.")

NO_SUCH_TOPIC = refused(
    "UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."
)

NO_SUCH_TOPIC_TO_EXTEND = refused("UNKNOWN_TOPIC_OR_PARTITION", "")
"""Sent without a message, as every Kafka client has a standard one."""


def nothing_to_alter(tp: TopicPartition, *, topic_there: bool) -> WriteResult:
    """Refuse to alter a partition that does not exist."""
    words = f"Unable to find partition {tp.topic}:{tp.partition}."
    if not topic_there:
        words = f"Unable to find a topic named {tp.topic}."
    return refused("UNKNOWN_TOPIC_OR_PARTITION", words)


def nothing_to_elect(tp: TopicPartition, *, topic_there: bool) -> WriteResult:
    """Refuse to elect a leader for a partition that does not exist."""
    words = f"No such partition as {tp}" if topic_there else f"No such topic as {tp.topic}"
    return refused("UNKNOWN_TOPIC_OR_PARTITION", words)


def not_registered(broker: int) -> WriteResult:
    """Refuse to unregister a broker that is not registered."""
    return refused("BROKER_ID_NOT_REGISTERED", f"Broker ID {broker} is not currently registered")


def all_brokers_down(partition: int) -> WriteResult:
    """Refuse a new partition, because all its brokers are down."""
    words = (
        f"All brokers specified in the manual partition assignment for partition {partition} are "
        "fenced or in controlled shutdown."
    )
    return refused("INVALID_REPLICA_ASSIGNMENT", words)
