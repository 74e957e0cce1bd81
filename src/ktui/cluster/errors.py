"""Typed errors of cluster calls: what was attempted, where, and what to do about it.

And Kafka's own errors, one table: the name, the number, and what each means for what was asked.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Self

import msgspec

from ktui.cluster.text import clean


class ClusterError(Exception):
    """A call to a cluster failed. Its texts are cleaned, for much of them is a server's."""

    def __init__(self, attempted: str, *, where: str = "", answer: str = "", fix: str = "") -> None:
        self.attempted = attempted
        self.where = clean(where)
        self.answer = clean(answer)
        self.fix = clean(fix)
        super().__init__(attempted)

    summary = "failed"

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        answer = f": {self.answer}" if self.answer else ""
        fix = f". {self.fix}" if self.fix else ""
        return f"{self.attempted}{place}: {self.summary}{answer}{fix}"


class Unreachable(ClusterError):
    """Nothing answers at the address: wrong host or port, a firewall, or a cluster that is down."""

    summary = "no answer"


class NotKafka(ClusterError):
    """Something answers, but not in Kafka's protocol (or with TLS where plain was expected)."""

    summary = "it does not speak Kafka's protocol as configured"


class WrongCluster(ClusterError):
    """Another cluster than the one that the context names answers; nothing else was sent to it."""

    summary = "another cluster answers"


class AuthenticationFailed(ClusterError):
    """The user name, password, certificate or SASL mechanism was refused."""

    summary = "authentication failed"


class NotAuthorized(ClusterError):
    """The principal may not do this; `needs` is the missing permission, empty if unknown."""

    summary = "not authorized"

    def __init__(
        self, attempted: str, *, where: str = "", answer: str = "", fix: str = "", needs: str = ""
    ) -> None:
        super().__init__(attempted, where=where, answer=answer, fix=fix)
        self.needs = needs


class Unsupported(ClusterError):
    """The brokers are too old for the call."""

    summary = "not supported by this cluster"


class TimedOut(ClusterError):
    """No answer within the call's limit; a write may or may not have happened."""

    summary = "no answer in time"


class Refused(ClusterError):
    """The cluster understood the request and refused it; `code` is Kafka's error name."""

    summary = "refused"

    def __init__(
        self, attempted: str, *, code: str, where: str = "", answer: str = "", fix: str = ""
    ) -> None:
        super().__init__(attempted, where=where, answer=answer, fix=fix)
        self.code = code


def describe_unreadable(error: Exception, answer: str = "an answer") -> str:
    """Describe an answer that no adapter can parse: its broker is newer, broken or hostile."""
    return clean(f"{answer} cannot be read: {type(error).__name__}: {error}")


class Operation(enum.StrEnum):
    """The reads that make up an observation, named as an operator would."""

    LIST = "reassignments"
    METADATA = "metadata"
    LOG_ENDS = "log ends"
    CENSUS = "all partitions"
    LOG_DIRS = "log dirs"
    TOPIC_CONFIGS = "topic settings"
    BROKER_CONFIGS = "broker settings"
    GROUPS = "groups"
    TRANSACTIONS = "transactional ids"
    SHARE_GROUPS = "share groups"

    @property
    def needs(self) -> tuple[str, str]:
        return _NEEDS[self]


_NEEDS = {
    Operation.LIST: ("Describe", "Cluster"),
    Operation.METADATA: ("Describe", "Topic"),
    Operation.LOG_ENDS: ("Describe", "Topic"),
    Operation.CENSUS: ("Describe", "Topic"),
    Operation.LOG_DIRS: ("Describe", "Cluster"),
    Operation.TOPIC_CONFIGS: ("DescribeConfigs", "Topic"),
    Operation.BROKER_CONFIGS: ("DescribeConfigs", "Cluster"),
    Operation.GROUPS: ("Describe", "Cluster"),
    Operation.TRANSACTIONS: ("Describe", "TransactionalId"),
    Operation.SHARE_GROUPS: ("Describe", "Group"),
}


class Failure(msgspec.Struct, frozen=True):
    """A part of an answer that is missing while the rest is valid."""

    operation: Operation
    answer: str
    broker: int | None = None
    topic: str | None = None
    denied: bool = False

    @property
    def sentence(self) -> str:
        subject = [f"broker {self.broker}"] if self.broker is not None else []
        subject += [f"topic {self.topic}"] if self.topic is not None else []
        return ": ".join((*subject, self.operation.value, self.answer))


class Means(enum.Flag):
    """What follows from an error."""

    DENIED = enum.auto()  # a permission is missing: no partition's own fault
    ABSENT = enum.auto()  # what was asked about does not exist; a setting of it is gone with it
    ELSEWHERE = enum.auto()  # a read may succeed on another broker, or on this one a moment later
    UNCHANGED = enum.auto()  # a change had no effect for certain, so that it may be sent again
    UNDECIDED = enum.auto()  # a change may have taken effect: a forwarding broker gave up
    IN_FORCE = enum.auto()  # what was asked for is so already: an election, or a cancel
    NOT_IN_SYNC = enum.auto()  # the winner of an election is not in sync: a moment later it may be
    NOT_YET = enum.auto()  # a broker has not heard of it yet: ask again before it counts
    NO_COORDINATOR = enum.auto()  # ask again, later or on another broker: nothing was done
    FINAL = enum.auto()  # the same request would be refused again: its step fails at once
    NOT_MEMBER = enum.auto()  # not in the group, or the membership has changed since


_NOTHING = Means(0)
_NO_WORDS: Mapping[str, str] = MappingProxyType({})
ADDING = "add"  # partitions to a topic; other kinds of request are those of a run: alter, elect


class KafkaError(enum.StrEnum):
    """An error of Kafka (Errors.java) that ktui judges; a member is its name, as in journals."""

    number: int
    means: Means
    helps: Mapping[str, str]  # what to do about it, by the kind of request

    def __new__(
        cls, name: str, number: int, means: Means = _NOTHING, helps: Mapping[str, str] = _NO_WORDS
    ) -> Self:
        error = str.__new__(cls, name)
        error._value_ = name
        error.number, error.means, error.helps = number, means, helps
        return error

    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR", -1, Means.UNDECIDED
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION", 3, Means.ABSENT | Means.NOT_YET
    LEADER_NOT_AVAILABLE = "LEADER_NOT_AVAILABLE", 5, Means.ELSEWHERE
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER", 6, Means.ELSEWHERE | Means.NOT_YET
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT", 7, Means.ELSEWHERE | Means.UNDECIDED
    BROKER_NOT_AVAILABLE = "BROKER_NOT_AVAILABLE", 8, Means.ELSEWHERE
    REPLICA_NOT_AVAILABLE = "REPLICA_NOT_AVAILABLE", 9, Means.NOT_YET
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE", 10
    NETWORK_EXCEPTION = "NETWORK_EXCEPTION", 13, Means.ELSEWHERE | Means.UNDECIDED
    COORDINATOR_LOAD_IN_PROGRESS = "COORDINATOR_LOAD_IN_PROGRESS", 14, Means.NO_COORDINATOR
    COORDINATOR_NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE", 15, Means.NO_COORDINATOR
    NOT_COORDINATOR = "NOT_COORDINATOR", 16, Means.NO_COORDINATOR
    INVALID_TOPIC_EXCEPTION = "INVALID_TOPIC_EXCEPTION", 17
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION", 22, Means.NOT_MEMBER
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID", 25, Means.NOT_MEMBER
    INVALID_SESSION_TIMEOUT = "INVALID_SESSION_TIMEOUT", 26
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS", 27
    TOPIC_AUTHORIZATION_FAILED = "TOPIC_AUTHORIZATION_FAILED", 29, Means.DENIED
    GROUP_AUTHORIZATION_FAILED = "GROUP_AUTHORIZATION_FAILED", 30, Means.DENIED
    CLUSTER_AUTHORIZATION_FAILED = "CLUSTER_AUTHORIZATION_FAILED", 31, Means.DENIED
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION", 35
    TOPIC_ALREADY_EXISTS = "TOPIC_ALREADY_EXISTS", 36
    INVALID_PARTITIONS = "INVALID_PARTITIONS", 37
    INVALID_REPLICATION_FACTOR = "INVALID_REPLICATION_FACTOR", 38
    INVALID_REPLICA_ASSIGNMENT = "INVALID_REPLICA_ASSIGNMENT", 39
    INVALID_CONFIG = "INVALID_CONFIG", 40
    NOT_CONTROLLER = "NOT_CONTROLLER", 41, Means.ELSEWHERE | Means.UNCHANGED
    INVALID_REQUEST = "INVALID_REQUEST", 42
    POLICY_VIOLATION = (
        "POLICY_VIOLATION", 44, _NOTHING,
        {ADDING: "Kafka adds at most 10,000 in one request, and a cluster may allow fewer: repeat "
                 "the command with a lower --partitions"},
    )  # fmt: skip
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", 53, Means.DENIED
    )  # fmt: skip
    KAFKA_STORAGE_ERROR = "KAFKA_STORAGE_ERROR", 56
    LOG_DIR_NOT_FOUND = "LOG_DIR_NOT_FOUND", 57
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH", 74, Means.ELSEWHERE
    UNKNOWN_LEADER_EPOCH = "UNKNOWN_LEADER_EPOCH", 75, Means.ELSEWHERE
    PREFERRED_LEADER_NOT_AVAILABLE = "PREFERRED_LEADER_NOT_AVAILABLE", 80, Means.NOT_IN_SYNC
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID", 82, Means.NOT_MEMBER
    ELIGIBLE_LEADERS_NOT_AVAILABLE = "ELIGIBLE_LEADERS_NOT_AVAILABLE", 83, Means.NOT_IN_SYNC
    ELECTION_NOT_NEEDED = "ELECTION_NOT_NEEDED", 84, Means.IN_FORCE
    NO_REASSIGNMENT_IN_PROGRESS = "NO_REASSIGNMENT_IN_PROGRESS", 85, Means.IN_FORCE
    THROTTLING_QUOTA_EXCEEDED = (
        "THROTTLING_QUOTA_EXCEEDED", 89, _NOTHING, {ADDING: "Then repeat the command"}
    )  # fmt: skip
    UNKNOWN_TOPIC_ID = "UNKNOWN_TOPIC_ID", 100, Means.ABSENT
    BROKER_ID_NOT_REGISTERED = "BROKER_ID_NOT_REGISTERED", 102, Means.ABSENT
    INELIGIBLE_REPLICA = "INELIGIBLE_REPLICA", 107
    NEW_LEADER_ELECTED = "NEW_LEADER_ELECTED", 108


_BY_NUMBER = MappingProxyType({error.number: error for error in KafkaError})
_BY_NAME = MappingProxyType({error.value: error for error in KafkaError})


def error_of(code: int | str | None) -> KafkaError | None:
    """Return the error with this number or name; None for success, and for one not in the table."""
    if isinstance(code, int):
        return _BY_NUMBER.get(code)
    return None if code is None else _BY_NAME.get(code)


def means(code: int | str | None, *what: Means) -> bool:
    """Whether one of these follows from an error, by its number or name."""
    error = error_of(code)
    return error is not None and any(each in error.means for each in what)


def what_helps(code: int | str | None, request: str) -> str:
    """Return what to do about an error of a kind of request, as a sentence to add; or nothing."""
    error = error_of(code)
    helps = "" if error is None else error.helps.get(request, "")
    return f". {helps}" if helps else ""
