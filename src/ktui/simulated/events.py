"""What happens to a simulated cluster from outside: machines fail, others use their tools."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange
from ktui.simulated.layout import TopicSpec


class Kill(msgspec.Struct, frozen=True):
    """A broker loses power: fenced when its session times out."""

    broker: int


class Shutdown(msgspec.Struct, frozen=True):
    """A broker is stopped properly: it leaves its leaders and ISRs to others, and then goes."""

    broker: int


class Start(msgspec.Struct, frozen=True):
    """A broker that was killed or stopped comes back with the data that it had.

    One that is still shutting down is started once it is gone.
    """

    broker: int


class Hang(msgspec.Struct, frozen=True):
    """A broker stops answering, as on SIGSTOP: fenced when its session times out."""

    broker: int


class Resume(msgspec.Struct, frozen=True):
    """A hanging broker goes on."""

    broker: int


class Slow(msgspec.Struct, frozen=True):
    """A broker's network and disk do only this share of what they can; 1 mends it."""

    broker: int
    share: float


class FillDisk(msgspec.Struct, frozen=True):
    """Something else takes a broker's disk but for `leave` bytes, or gives back what it took.

    A broker whose disk is full goes down.
    """

    broker: int
    leave: int


class ChangeController(msgspec.Struct, frozen=True):
    """Another controller takes over; what it decided before stands."""


class SetInbound(msgspec.Struct, frozen=True):
    """Producers write more or less to each partition of a topic. Bytes a second."""

    topic: str
    inbound: float


class Append(msgspec.Struct, frozen=True):
    """Producers write so many messages to a partition, all at once."""

    tp: TopicPartition
    messages: int


class CreateTopic(msgspec.Struct, frozen=True):
    """A topic is made; one deleted before under this name is another one."""

    topic: TopicSpec


class DeleteTopic(msgspec.Struct, frozen=True):
    """A topic is deleted, also in the middle of its moves."""

    topic: str


class Alter(msgspec.Struct, frozen=True):
    """Another tool starts or, with None, cancels reassignments; its refusals are nobody's."""

    targets: dict[TopicPartition, tuple[int, ...] | None]


class ElectLeaders(msgspec.Struct, frozen=True):
    """Another tool elects preferred leaders."""

    partitions: tuple[TopicPartition, ...]


class AlterConfigs(msgspec.Struct, frozen=True):
    """Another tool changes settings."""

    changes: tuple[ConfigChange, ...]


class LoseRequest(msgspec.Struct, frozen=True):
    """Our next change never arrives, and nobody answers it."""


class LoseAnswer(msgspec.Struct, frozen=True):
    """Our next change takes effect, and its answer is lost."""


class DelayRequest(msgspec.Struct, frozen=True):
    """Our next change is not answered in time, and takes effect `by_s` seconds later."""

    by_s: float


class Deny(msgspec.Struct, frozen=True):
    """The principal loses a permission, named as the port's method: "log_dirs".

    "describe_quorum" is the one without which nobody can tell how old metadata is.
    """

    call: str


class Allow(msgspec.Struct, frozen=True):
    """The principal has the permission again."""

    call: str


OutsideEvent = (
    Kill
    | Shutdown
    | Start
    | Hang
    | Resume
    | Slow
    | FillDisk
    | ChangeController
    | SetInbound
    | Append
    | CreateTopic
    | DeleteTopic
    | Alter
    | ElectLeaders
    | AlterConfigs
    | LoseRequest
    | LoseAnswer
    | DelayRequest
    | Deny
    | Allow
)


class ScheduledEvent(msgspec.Struct, frozen=True):
    """An act and when it happens, in seconds from the cluster's first moment."""

    at_s: float
    act: OutsideEvent
