"""Typed errors of cluster calls: what was attempted, where, and what to do about it."""

from __future__ import annotations

import enum

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
