"""What the controller answers, word for word."""

from __future__ import annotations

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict, WriteResult


def refused(code: str, message: str) -> WriteResult:
    """Say no, with Kafka's name for the error."""
    return WriteResult(Verdict.REFUSED, code, message)


DONE = WriteResult(Verdict.ACCEPTED)

TOO_MANY = WriteResult(Verdict.UNKNOWN, "UNKNOWN_SERVER_ERROR")
"""Of a partition beyond those that one request may alter; Kafka says no more about it."""

NOTHING_TO_CANCEL = refused("NO_REASSIGNMENT_IN_PROGRESS", "")
"""Its words would be those that every Kafka client has for this error, so none are sent."""

TOO_LARGE = refused("POLICY_VIOLATION", "Unable to perform excessively large batch operation.")

NOT_NEEDED = WriteResult(
    Verdict.ACCEPTED, "ELECTION_NOT_NEEDED", "Leader election not needed for topic partition."
)

NOT_AVAILABLE = refused("PREFERRED_LEADER_NOT_AVAILABLE", "The preferred leader was not available.")

NO_SUCH_TOPIC = refused(
    "UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."
)


def nothing_to_alter(tp: TopicPartition, *, topic_there: bool) -> WriteResult:
    """Refuse to alter what is not there."""
    words = f"Unable to find partition {tp.topic}:{tp.partition}."
    if not topic_there:
        words = f"Unable to find a topic named {tp.topic}."
    return refused("UNKNOWN_TOPIC_OR_PARTITION", words)


def nothing_to_elect(tp: TopicPartition, *, topic_there: bool) -> WriteResult:
    """Refuse to elect a leader of what is not there."""
    words = f"No such partition as {tp}" if topic_there else f"No such topic as {tp.topic}"
    return refused("UNKNOWN_TOPIC_OR_PARTITION", words)


def nobody_up(partition: int) -> WriteResult:
    """Refuse a new topic, all of whose brokers for one partition are down."""
    words = (
        f"All brokers specified in the manual partition assignment for partition {partition} are "
        "fenced or in controlled shutdown."
    )
    return refused("INVALID_REPLICA_ASSIGNMENT", words)
