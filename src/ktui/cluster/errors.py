"""What can go wrong with a cluster, typed: what was attempted, on what, and what to do."""

from __future__ import annotations

import enum

import msgspec

from ktui.cluster.text import clean


class ClusterError(Exception):
    """A call to a cluster failed.

    Attributes:
        attempted: what ktui was doing, as a phrase: "listing reassignments".
        where: the address, broker or resource it was done to.
        answer: the cluster's or the network's own words, cleaned of control characters.
        fix: what the operator can do about it.
    """

    def __init__(self, attempted: str, *, where: str = "", answer: str = "", fix: str = "") -> None:
        self.attempted = attempted
        self.where = where
        self.answer = answer
        self.fix = fix
        super().__init__(attempted)

    summary = "failed"

    def __str__(self) -> str:
        """One line: what was attempted, where, why, and the fix."""
        place = f" ({self.where})" if self.where else ""
        answer = f": {self.answer}" if self.answer else ""
        fix = f". {self.fix}" if self.fix else ""
        return f"{self.attempted}{place}: {self.summary}{answer}{fix}"


class Unreachable(ClusterError):
    """Nothing answers at the address: wrong host or port, a firewall, or a cluster that is down."""

    summary = "no answer"


class NotKafka(ClusterError):
    """Something answers, but not in Kafka's protocol (or TLS where plain was expected)."""

    summary = "it does not speak Kafka's protocol as configured"


class AuthenticationFailed(ClusterError):
    """The user name, password, certificate or SASL mechanism was refused."""

    summary = "authentication failed"


class NotAuthorized(ClusterError):
    """The principal may not do this; `fix` names the operation to grant.

    Attributes:
        needs: the missing permission, in Kafka's words: "Alter on the cluster". Empty if unknown.
    """

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
    """The cluster understood and said no; `code` is Kafka's name for the error."""

    summary = "refused"

    def __init__(
        self, attempted: str, *, code: str, where: str = "", answer: str = "", fix: str = ""
    ) -> None:
        super().__init__(attempted, where=where, answer=answer, fix=fix)
        self.code = code


def unreadable(error: Exception, answer: str = "an answer") -> str:
    """Describe an answer that no adapter can read: of a broker that is newer, broken or hostile."""
    return clean(f"{answer} cannot be read: {type(error).__name__}: {error}")


class Operation(enum.StrEnum):
    """The parts of an observation, as an operator would name them."""

    LIST = "reassignments"
    METADATA = "metadata"
    LOG_ENDS = "log ends"
    CENSUS = "all partitions"
    LOG_DIRS = "log dirs"
    TOPIC_CONFIGS = "topic settings"
    BROKER_CONFIGS = "broker settings"


class Failure(msgspec.Struct, frozen=True):
    """One part of an answer that is missing, while the rest stands."""

    operation: Operation
    answer: str
    """Why, in one line, with the cluster's words."""
    broker: int | None = None
    topic: str | None = None
    denied: bool = False
    """The principal lacks the permission: asking again will not help."""

    @property
    def sentence(self) -> str:
        """One line that names who and what: "broker 3: log ends: no answer for 2.1 s"."""
        who = [f"broker {self.broker}"] if self.broker is not None else []
        who += [f"topic {self.topic}"] if self.topic is not None else []
        return ": ".join((*who, self.operation.value, self.answer))
